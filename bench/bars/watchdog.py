"""The watchdog: how soon it watches, what it takes beside a long queue, how soon it frees what a dead controller holds.

Start and memory are measured with a queue that was generated, the release on a real Slurm, whose jobs a controller has
held that then died.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

from bench.measures import Limit, Result, spread
from relance.domain.advice import ActionKind, Advice, Effect
from relance.domain.deeds import SPOOL_FOLDER, DeedState, read_deed
from relance.domain.faults import Remedy
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.ledger_lines import line_of
from relance.domain.ledgers import VERSION, Began, Entry, Expected, Intended, Opened, Taken, Verb
from relance.domain.views import JobState
from relance.domain.watchdogs import MARK_FILE
from relance.ports.clocks import SystemClock
from relance.simulation.private_slurm import ClusterPlan, RunningCluster, start_cluster
from relance.slurm.parsing.watches import WATCH_COLUMNS

_CLUSTER = "private"
_JOBS, _ROUNDS = 2000, 6
_STARTS, _QUICK_STARTS = 9, 3
_HOLDS, _QUICK_HOLDS = 10, 3
_START_S, _MEMORY_MIB, _RELEASE_AFTER_S, _RELEASE_S = 0.5, 40.0, 5.0, 10.0
_WAIT_S = 120.0
_SCRIPT = "#!/bin/sh\nexit 3\n"
_QUEUE = """\
#!/bin/sh
mark=$(printf %s "$*" | sed 's/.*jobid:\\(~[0-9a-f]*~\\).*/\\1/')
exec sed "s/@/$mark/g" "$(dirname "$0")/queue"
"""
_CONFIG = """\
#!/bin/sh
cat <<'END'
Configuration data as of 2026-03-01T12:00:00
AccountingStorageType   = accounting_storage/slurmdbd
BOOT_TIME               = 1767225600
ClusterName             = private
MinJobAge               = 300 sec
SlurmUser               = slurm(64030)
SLURM_VERSION           = 22.05.8

Slurmctld(primary) at host is UP
END
"""


def measure(*, quick: bool) -> Result:
    """Start it some times over a generated queue, then have it free jobs on a real Slurm."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        starts_s = [_started_s(folder / f"start-{run}") for run in range(_QUICK_STARTS if quick else _STARTS)]
        peak_mib = _peak_mib(folder / "long")
    released_s, wrong = _released(_QUICK_HOLDS if quick else _HOLDS)
    late_s = [seconds - _RELEASE_AFTER_S for seconds in released_s]
    return Result(
        name="watchdog",
        measure=f"the watchdog, without a server: its start to its first mark, its memory beside {_JOBS} jobs that are "
        "all taken, and on a real Slurm the time beyond its limit in which it frees what a dead controller holds",
        limits=(
            Limit(name="start to first mark, median", value=spread(starts_s).median, most=_START_S),
            Limit(name="peak memory", value=peak_mib, most=_MEMORY_MIB, unit="MiB"),
            Limit(name="release beyond its limit, max", value=spread(late_s).maximum, most=_RELEASE_S),
        ),
        figures={"start_s": spread(starts_s).data, "release_beyond_limit_s": spread(late_s).data},
        wrong=wrong,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watchdog:
    """A watchdog as a process of its own."""

    folder: Path
    process: subprocess.Popen[bytes]

    def until(self, told: Callable[[], object]) -> None:
        """Wait for something. Raises TimeoutError with what the watchdog said."""
        end = time.monotonic() + _WAIT_S
        while not told():
            if time.monotonic() > end:
                raise TimeoutError((self.folder / "stderr").read_text()[-2000:])
            time.sleep(0.01)

    def end(self) -> None:
        """Tell it to end."""
        self.process.terminate()
        self.process.wait(_WAIT_S)


def _watchdog(folder: Path, **settings: object) -> _Watchdog:
    file = folder / "settings.json"
    cluster = {"name": _CLUSTER, "folder": str(folder), "stage": "act", **settings}
    every_s: Any = cluster.pop("every_s", 0.5)
    file.write_text(json.dumps({"every_s": every_s, "clusters": [cluster]}))
    with (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen([sys.executable, "-m", "relance.watchdog", str(file)], stderr=errors)
    return _Watchdog(folder=folder, process=process)


# ---------------------------------------------------------------------------------------------------- start and memory


def _started_s(folder: Path) -> float:
    _generate(folder, 10)
    began_s = time.monotonic()
    watchdog = _watchdog(folder, bin_dir=str(folder / "bin"))
    try:
        watchdog.until((folder / MARK_FILE).exists)
        return time.monotonic() - began_s
    finally:
        watchdog.end()


def _peak_mib(folder: Path) -> float:
    """The most memory of a watchdog that has taken everything in a long queue, after some rounds."""
    _generate(folder, _JOBS)
    watchdog = _watchdog(folder, bin_dir=str(folder / "bin"), every_s=0.2)
    process = psutil.Process(watchdog.process.pid)
    peak = 0
    try:
        marks: set[str] = set()
        while len(marks) < _ROUNDS:
            peak = max(peak, process.memory_info().rss)
            if (folder / MARK_FILE).exists():
                marks.add((folder / MARK_FILE).read_text())
            time.sleep(0.01)
    finally:
        watchdog.end()
    return round(peak / (1 << 20), 1)


def _generate(folder: Path, count: int) -> None:
    """A queue of so many jobs, a hundredth of which has failed, and a ledger in which all are taken."""
    bin_dir = folder / "bin"
    bin_dir.mkdir(parents=True)
    for name, text in (("squeue", _QUEUE), ("scontrol", _CONFIG), ("sacct", "#!/bin/sh\nexit 1\n")):
        (bin_dir / name).write_text(text)
        (bin_dir / name).chmod(0o755)
    now = SystemClock().now().replace(microsecond=0)
    rows = ["@".join(("JOBID", *(column.upper() for column in WATCH_COLUMNS[1:]), ""))]
    rows += ["@".join((*_row(number, now), "")) for number in range(1, count + 1)]
    (bin_dir / "queue").write_text("\n".join(rows) + "\n")
    keys = [_key(str(number), now - timedelta(hours=2)) for number in range(1, count + 1)]
    _write(folder, Taken(attempts=tuple(map(str, keys)), at=now))


def _row(number: int, now: datetime) -> tuple[str, ...]:
    submitted, started = (int((now - timedelta(hours=hours)).timestamp()) for hours in (2, 1))
    failed = number % 100 == 0
    state, end = ("FAILED", int(now.timestamp()) - 5) if failed else ("RUNNING", int(now.timestamp()) + 86_400)
    return (
        str(number), str(number), "N/A", state, "0", str(submitted), str(started), str(end),
        "NonZeroExitCode" if failed else "None", "N/A", "1", "gpu", f"owner{number % 50}", str(1000 + number % 50),
        "4294901", "(null)", "256" if failed else "0", f"/lustre/projects/p{number % 50}/run-{number}",
        f"/lustre/projects/p{number % 50}/train.sh", f"train-{number}",
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- release


def _released(count: int) -> tuple[list[float], tuple[str, ...]]:
    """Seconds from each hold to its release, on a cluster of its own; and what went wrong."""
    cluster = start_cluster(ClusterPlan(node_count=2, cluster_name=_CLUSTER))
    try:
        found = [_release_s(cluster, run) for run in range(count)]
    finally:
        cluster.stop()
    wrong = tuple(f"job of run {run} was not released" for run, seconds in enumerate(found) if seconds is None)
    return [seconds for seconds in found if seconds is not None], wrong


def _release_s(cluster: RunningCluster, run: int) -> float | None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = str(cluster.submit("owner1", _SCRIPT, options=[f"--job-name=run-{run}"]))
        cluster.wait_for_state(job, {"FAILED"})
        now = SystemClock().now()
        _write(folder, _began(_key(job, now)), _intended(_key(job, now), now))
        watchdog = _watchdog(
            folder, conf=cluster.slurm_conf, prefix=cluster.argv_as("relance", []), release_after_s=_RELEASE_AFTER_S,
            every_s=5.0,
        )  # fmt: skip
        try:
            cluster.must("relance", ["scontrol", "requeuehold", job])
            held_s = time.monotonic()
            watchdog.until(lambda: _is_released(folder))
            took_s = time.monotonic() - held_s
        finally:
            watchdog.end()
        reason = cluster.must("root", ["squeue", "--noheader", f"--jobs={job}", "--format=%r"])
        cluster.must("root", ["scancel", job])
        return None if "held" in reason.lower() else took_s


def _is_released(folder: Path) -> bool:
    deeds = [read_deed(path.read_text()) for path in (folder / SPOOL_FOLDER).glob("*.json")]
    return any(deed is not None and deed.state is DeedState.DONE for deed in deeds)


def _write(folder: Path, *entries: Entry) -> None:
    opened = Opened(version=VERSION, cluster=_CLUSTER, at=SystemClock().now())
    (folder / "ledger.jsonl").write_bytes(b"".join([line_of(entry) for entry in (opened, *entries)]))


def _key(raw_id: str, at: datetime) -> AttemptKey:
    return AttemptKey(job=JobKey(cluster=_CLUSTER, raw_id=raw_id, submitted_at=at), restart_count=0)


def _began(attempt: AttemptKey) -> Began:
    at = attempt.job.submitted_at
    return Began(
        action_id="act-1",
        advice=Advice(
            id="adv-1", incident_id="inc-1", attempt=attempt, generation=1, action=Remedy.RESTART, reasons=(),
            guards=(), issued_at=at, expires_at=at + timedelta(minutes=4),
        ),
        kind=ActionKind.RESTART,
        effect=Effect(summary="requeue", commands=(), digest="d"),
        expected=Expected(raw_id=attempt.job.raw_id, restart_count=0, submitted_at=at, state=JobState.FAILED),
        holder="bench",
        at=at,
    )  # fmt: skip


def _intended(attempt: AttemptKey, at: datetime) -> Intended:
    return Intended(
        action_id="act-1", number=1, attempt=str(attempt), advice_id="adv-1", generation=1, verb=Verb.REQUEUE_HELD,
        argv=("scontrol", "requeuehold", attempt.job.raw_id), restart_count=1, at=at,
    )  # fmt: skip
