"""Two thousand jobs in the queue of a real Slurm, looked at every three seconds: what it costs Slurm, and us."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.command_counts import CommandCounts
from bench.machines import resident_mib
from bench.measures import Limit, Result, spread
from bench.queue_watches import look
from bench.sites import until
from bench.slurm_sites import SlurmSetup, SlurmSite
from relance.domain.stages import Stage
from relance.simulation.private_slurm import ClusterPlan, RunningCluster, start_cluster
from relance.testing.other_users import user_of
from relance.testing.slurm_queues import SlurmQueue

_INTERVAL_S = 3.0
_JOBS, _QUICK_JOBS = 2000, 500
_RUNNING, _ENDED = 10, 12
_RUN_S, _QUICK_RUN_S = 240.0, 60.0
_CHANGE_EVERY_S = 10.0
_CALM_S = 30.0
_KNOWN_S = 180.0
_ASKED = 50
"""So many jobs, evenly spread, are asked for at the server to see that it knows them all."""
_CORE_PERCENT = 10.0
_RESIDENT_MIB = 150.0
_OWNERS = 6
_BY_USER = re.compile(r"^\s+(\w+)\s+\(\s*\d+\) count:(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one process and the commands that it ran have used so far."""

    own_s: float
    commands_s: float
    calls: Counter[str]
    messages: int
    """Messages to slurmctld, as slurmctld counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Memory, once a second."""

    resident_mib: list[float]
    proportional_mib: list[float]
    changes: int


def measure(*, quick: bool) -> Result:
    """Fill the queue, wait until all of it is known, and look at what the looks cost."""
    jobs, run_s = (_QUICK_JOBS, _QUICK_RUN_S) if quick else (_JOBS, _RUN_S)
    owners = tuple(f"owner{number}" for number in range(1, _OWNERS + 1))
    cluster = start_cluster(ClusterPlan(owners=owners, min_job_age_s=300))
    try:
        queue = SlurmQueue(cluster)
        queue.fill(jobs, running=_RUNNING, ended=_ENDED)
        folder = Path(cluster.folder) / "queue"
        counts = CommandCounts(folder / "counts", user_of(cluster.plan.operator), cluster.env["PATH"])
        setup = SlurmSetup(
            scheduler={"jobs_s": _INTERVAL_S},
            site={"poll_s": _INTERVAL_S},
            environment={"PATH": f"{counts.folder}:{cluster.env['PATH']}"},
            stage=Stage.OBSERVE,
        )
        site = SlurmSite(cluster, folder / "site", setup)
        try:
            site.start()
            return _measured(site, queue, counts, jobs, run_s)
        finally:
            site.stop()
    finally:
        cluster.stop()


def _measured(site: SlurmSite, queue: SlurmQueue, counts: CommandCounts, jobs: int, run_s: float) -> Result:
    started = time.monotonic()
    shown = sorted(row.job for row in look(site.cluster))
    wanted = [*shown[:: max(1, len(shown) // _ASKED)], shown[-1]]
    until(lambda: all(site.story(job) is not None for job in wanted), _KNOWN_S, "that all jobs are known")
    known_s = time.monotonic() - started
    time.sleep(_CALM_S)
    process = psutil.Process(site.relance.pids["up"])
    begun, before = time.monotonic(), _cost(site.cluster, process, counts)
    samples = _watched(process, queue, run_s)
    took_s, after = time.monotonic() - begun, _cost(site.cluster, process, counts)
    records = len(look(site.cluster))
    calls = after.calls - before.calls
    most = max(calls.values(), default=0)
    own, commands = (after.own_s - before.own_s) / took_s, (after.commands_s - before.commands_s) / took_s
    return Result(
        name="slurm_queue",
        measure=f"{jobs} jobs in the queue of a real Slurm, looked at every {_INTERVAL_S:g} s",
        limits=(
            Limit(name="queries of one kind per interval", value=_per_interval(most, took_s), most=1.0, unit=""),
            Limit(name="processor, Relance itself", value=round(100 * own, 2), most=_CORE_PERCENT, unit="% of a core"),
            Limit(
                name="resident, max", value=round(max(samples.resident_mib), 1), most=_RESIDENT_MIB, unit="MiB"
            ),
        ),
        figures={
            "records_at_the_end": records,
            "looked_for_s": round(took_s, 1),
            "known_after_s": round(known_s, 1),
            "changes_of_the_queue": samples.changes,
            "queries": dict(calls.most_common()),
            "queries_per_interval": {kind: _per_interval(count, took_s) for kind, count in calls.most_common()},
            "messages_to_slurmctld": after.messages - before.messages,
            "own_percent_of_a_core": round(100 * own, 2),
            "commands_percent_of_a_core": round(100 * commands, 2),
            "together_percent_of_a_core": round(100 * (own + commands), 2),
            "resident_mib": spread(samples.resident_mib).data,
            "proportional_mib": spread(samples.proportional_mib).data,
        },
        conditions=_conditions(jobs),
    )  # fmt: skip


def _conditions(jobs: int) -> str:
    return (
        f"a private Slurm cluster on the same machine; {jobs} waiting records of {_OWNERS} owners (held, with a begin "
        f"time, with a dependency, array), {_RUNNING} jobs that run, {_ENDED} that ended before, half of them badly; "
        f"every {_CHANGE_EVERY_S:g} s one job more; `relance up` at observe with the queue read every "
        f"{_INTERVAL_S:g} s (half as often while an answer takes longer than 0.3 s) and all else as shipped; its "
        "processor time from the kernel, and apart from it that of Slurm's commands, with the shell script before each "
        "that counts the calls; on 22.05 squeue answers the question about one changed job with the whole queue as "
        "JSON, 0.25 to 0.45 s of processor time each; memory once a second"
    )


def _watched(process: psutil.Process, queue: SlurmQueue, run_s: float) -> Samples:
    begun = changed = time.monotonic()
    resident: list[float] = []
    proportional: list[float] = []
    changes = 0
    while time.monotonic() - begun < run_s:
        if time.monotonic() - changed >= _CHANGE_EVERY_S:
            changed = time.monotonic()
            queue.change()
            changes += 1
        resident.append(resident_mib(process.pid))
        proportional.append(process.memory_full_info().pss / 2**20)
        time.sleep(1.0)
    return Samples(resident_mib=resident, proportional_mib=proportional, changes=changes)


def _cost(cluster: RunningCluster, process: psutil.Process, counts: CommandCounts) -> Cost:
    times: Any = process.cpu_times()
    told = dict(_BY_USER.findall(cluster.must("root", ["sdiag"])))
    return Cost(
        own_s=times.user + times.system,
        commands_s=times.children_user + times.children_system,
        calls=counts.counts(),
        messages=int(told.get(cluster.plan.operator, "0")),
    )


def _per_interval(count: int, took_s: float) -> float:
    # The looks at both ends of the time may both lie within it.
    return round(max(0, count - 1) / (took_s / _INTERVAL_S), 3)
