"""On real Slurm: the scheduler says that an attempt has ended; how long until the new one has run for 2 s."""

from __future__ import annotations

import re
import time
from datetime import datetime

from bench.measures import Limit, Result, spread
from bench.rigs import NO_STORM
from bench.sites import TooLateError, until
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite, slurm_site
from relance.domain.limits import Limits
from relance.ports.clocks import SystemClock
from relance.testing.clusters import Training
from relance.testing.slurm_clusters import ClusterPlan

_RESTARTS, _QUICK_RESTARTS = 20, 3
_DEFAULTS, _QUICK_DEFAULTS = 6, 1
_MEDIAN_S, _MAX_S = 3.5, 6.0
_BEFORE_STEP = 5
_RUNS_FOR_S = 2.0
_ENDS_WITHIN_S = 60.0
_SCHEDULING = "sched_interval=1,bf_interval=1,batch_sched_delay=0"
"""A site's cluster may take longer to schedule a job that may start; that is not ours to measure."""
_ENGINE_POLLS = {**FAST_POLLS, "jobs_s": 0.2}


def measure(*, quick: bool) -> Result:
    """Kill ranks of trainings one after another and read the history's clocks."""
    engine = _delays(
        SlurmSetup(
            scheduler=_ENGINE_POLLS,
            site={"limits": {"settle_s": 0, "grace_after_boot_s": 0, "storms": NO_STORM}},
        ),
        _QUICK_RESTARTS if quick else _RESTARTS,
    )
    shipped = _delays(
        SlurmSetup(site={"limits": {"grace_after_boot_s": 0, "storms": NO_STORM}}),
        _QUICK_DEFAULTS if quick else _DEFAULTS,
    )
    at_once, usual = spread([whole for whole, _ in engine]), spread([whole for whole, _ in shipped])
    return Result(
        name="slurm_restarts",
        measure="real Slurm: the scheduler says ended to new attempt running 2 s long",
        limits=(
            Limit(name="median, settle 0 and fast polls", value=at_once.median, most=_MEDIAN_S),
            Limit(name="max, settle 0 and fast polls", value=at_once.maximum, most=_MAX_S),
        ),
        figures={
            "engine": at_once.data,
            "engine, of which Slurm's own, from our update to its start": spread([part for _, part in engine]).data,
            f"shipped (settle {Limits().settle_s:g} s, queue read every 10 s)": usual.data,
        },
        conditions=(
            "one rank of a training of 2 nodes x 1 rank killed on an idle private cluster; from the first squeue "
            "(asked all the time) that shows it FAILED, and not COMPLETING, to 2 s after the line of slurmctld's log "
            "that starts it again; it ran so long; killed once accounting has a row of the running job, of which "
            "slurmctld tells it within some seconds; no storm and no metering here, because one job after another is "
            "broken; three seconds of it are fixed: the pause before StartTime=now that Slurm 22.05 to 24.11 needs, "
            "and the two of running; Slurm schedules with "
            f"{_SCHEDULING}; fast polls read the queue every {_ENGINE_POLLS['jobs_s']} s"
        ),
    )


def _delays(setup: SlurmSetup, number: int) -> list[tuple[float, float]]:
    with slurm_site(ClusterPlan(scheduler_parameters=_SCHEDULING), setup) as made:
        return [_delay(made, f"restarted-{each}") for each in range(number)]


def _delay(made: SlurmSite, name: str) -> tuple[float, float]:
    """From the end that Slurm shows to 2 s after the start in its log, and from our update to that start."""
    job = made.trainings.submit(Training(name=name, nodes=2, ranks_per_node=1, steps=2000))
    made.wait_for_step(job, _BEFORE_STEP)
    until(lambda: _is_accounted(made, job), 30.0, f"accounting to hear of the start of job {job}")
    made.trainings.kill_rank(job, 1)
    ended = _says_ended(made, job)
    until(lambda: _running(made, job), 90.0, f"a second attempt of job {job}")
    log = made.cluster.layout.log("slurmctld").read_text(encoding="utf-8")
    made.trainings.cancel(job)
    until(lambda: made.state(job) == "CANCELLED", 30.0, f"the end of job {job}")
    updated = _moments(log, rf"_update_job: setting begin to .* for JobId={job}\b")[-1]
    started = _moments(log, rf"(?:_start_job: Started|sched: Allocate) JobId={job}\b")[-1]
    return (started - ended).total_seconds() + _RUNS_FOR_S, (started - updated).total_seconds()


def _is_accounted(made: SlurmSite, job: int) -> bool:
    return any(attempt["state"] == "RUNNING" for attempt in made.trainings.attempts(job))


def _says_ended(made: SlurmSite, job: int) -> datetime:
    """When Slurm first shows the job as FAILED: no longer RUNNING, and no longer COMPLETING. Asked without a pause."""
    shows = ["squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}"]
    end = time.monotonic() + _ENDS_WITHIN_S
    while (state := made.cluster.must("root", shows).strip()) != "FAILED":
        if state == "PENDING" or time.monotonic() > end:
            raise TooLateError(f"the end of job {job} was not seen: it is {state}")
    return SystemClock().now().replace(tzinfo=None)


def _moments(log: str, pattern: str) -> list[datetime]:
    return [datetime.fromisoformat(found[1]) for found in re.finditer(rf"\[([^\]]+)\] [^\n]*{pattern}", log)]


def _running(made: SlurmSite, job: int) -> bool:
    return any(item.times.running is not None for item in made.incidents(job))
