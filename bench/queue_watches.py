"""What the scheduler shows of all jobs, looked at by root the whole time: the truth that a benchmark judges by."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from relance.ports.clocks import SystemClock
from relance.simulation.private_slurm import PrivateSlurmError, RunningCluster

LOOK_EVERY_S = 1.5
_FIELD = re.compile(r"(?:^|\s)(\w+)=(\S*)")
_UTC = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A job as it was shown; times in seconds since 1970, None where there is none."""

    job: int
    state: str
    reason: str
    priority: int
    restarts: int
    excluded: str
    submit: float | None
    eligible: float | None
    start: float | None
    end: float | None

    @property
    def is_held(self) -> bool:
        """Whether somebody holds it, or it can never start."""
        return self.state == "PENDING" and (self.priority == 0 or self.reason.startswith("JobHeld"))


class QueueWatch:
    """Looks until it is stopped; keeps every change of every job, and when a job was missing."""

    def __init__(self, cluster: RunningCluster, jobs: Sequence[int]) -> None:
        self.rows: dict[int, list[Shown]] = {job: [] for job in jobs}
        self.strangers: set[int] = set()
        self.missing: set[int] = set()
        self.looks = 0
        self._cluster = cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queue watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; may be called twice."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def all_rows(self) -> Iterable[Shown]:
        """Every change of every job."""
        return (row for rows in self.rows.values() for row in tuple(rows))

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                shown = look(self._cluster)
            except PrivateSlurmError:
                shown = []
            self._take(shown)
            self._over.wait(LOOK_EVERY_S)

    def _take(self, shown: Sequence[Shown]) -> None:
        if not shown:
            return
        self.looks += 1
        by_id = {row.job: row for row in shown}
        self.strangers |= by_id.keys() - self.rows.keys()
        self.missing |= self.rows.keys() - by_id.keys()
        for job, rows in self.rows.items():
            row = by_id.get(job)
            if row is not None and (not rows or rows[-1] != row):
                rows.append(row)


def look(cluster: RunningCluster) -> list[Shown]:
    """All jobs that slurmctld knows. Raises PrivateSlurmError when it does not answer."""
    done = cluster.run_as("root", ["scontrol", "--oneliner", "show", "job"], env=_UTC)
    if done.returncode != 0:
        raise PrivateSlurmError(done.stderr.strip())
    return [_shown(dict(_FIELD.findall(line))) for line in done.stdout.splitlines() if line.startswith("JobId=")]


def now() -> float:
    """Now, in seconds since 1970."""
    return SystemClock().now().timestamp()


def _shown(fields: dict[str, str]) -> Shown:
    return Shown(
        job=int(fields["JobId"]),
        state=fields["JobState"],
        reason=fields.get("Reason", ""),
        priority=int(fields.get("Priority", "1")),
        restarts=int(fields.get("Restarts", "0")),
        excluded="" if fields.get("ExcNodeList") in (None, "(null)") else fields["ExcNodeList"],
        submit=_time(fields.get("SubmitTime")),
        eligible=_time(fields.get("EligibleTime")),
        start=_time(fields.get("StartTime")),
        end=_time(fields.get("EndTime")),
    )


def _time(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() and text != "0" else None
