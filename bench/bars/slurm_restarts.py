"""On real Slurm, reached in each way: an attempt has ended; how long until the new one runs, and has run for 2 s."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bench.measures import Limit, Result, spread
from bench.rigs import NO_STORM
from bench.sites import TooLateError, until
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite
from bench.slurm_ways import Way, reached
from relance.domain.limits import Limits
from relance.ports.clocks import SystemClock
from relance.testing.clusters import Training
from relance.testing.slurm_clusters import ClusterPlan

_RESTARTS, _QUICK_RESTARTS = 20, 3
_OTHERS, _QUICK_OTHERS = 12, 3
_AGAIN_S = {Way.LOCAL: 3.0, Way.SSH: 4.0, Way.CONTAINER: 5.0}
"""Median from the finding of the end in the history to the start of the new attempt, by way."""
_DEFAULTS, _QUICK_DEFAULTS = 6, 1
_MEDIAN_S, _MAX_S = 3.5, 6.0
_BEFORE_STEP = 5
_RUNS_FOR_S = 2.0
_ENDS_WITHIN_S = 60.0
_SCHEDULING = "sched_interval=1,bf_interval=1,batch_sched_delay=0"
"""A site's cluster may take longer to schedule a job that may start; that is not ours to measure."""
_ENGINE_POLLS = {**FAST_POLLS, "jobs_s": 0.2}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Delay:
    """One restart, in seconds.

    Attributes:
        whole_s: From the end that Slurm shows to 2 s after the start in its log.
        again_s: From the finding of the end in the history to that start.
        slurms_s: From our update to that start.
    """

    whole_s: float
    again_s: float
    slurms_s: float


def measure(*, quick: bool) -> Result:
    """Kill ranks of trainings one after another and read the history's clocks."""
    engine = SlurmSetup(
        scheduler=_ENGINE_POLLS,
        site={"limits": {"settle_s": 0, "grace_after_boot_s": 0, "storms": NO_STORM}},
    )
    numbers = dict.fromkeys(Way, _QUICK_OTHERS if quick else _OTHERS)
    numbers[Way.LOCAL] = _QUICK_RESTARTS if quick else _RESTARTS
    delays = {way: _delays(way, engine, numbers[way]) for way in Way}
    shipped = _delays(
        Way.LOCAL,
        SlurmSetup(site={"limits": {"grace_after_boot_s": 0, "storms": NO_STORM}}),
        _QUICK_DEFAULTS if quick else _DEFAULTS,
    )
    local = delays[Way.LOCAL]
    at_once, usual = spread([each.whole_s for each in local]), spread([each.whole_s for each in shipped])
    again = {way: spread([each.again_s for each in found]) for way, found in delays.items()}
    return Result(
        name="slurm_restarts",
        measure="real Slurm: the scheduler says ended to new attempt running 2 s long",
        limits=(
            Limit(name="median, settle 0 and fast polls", value=at_once.median, most=_MEDIAN_S),
            Limit(name="max, settle 0 and fast polls", value=at_once.maximum, most=_MAX_S),
            *(
                Limit(name=f"detected to running again, {way.value}: median", value=again[way].median, most=most)
                for way, most in _AGAIN_S.items()
            ),
        ),
        figures={
            "engine": at_once.data,
            **{f"detected to running again, {way.value}": again[way].data for way in Way},
            **{f"ended to running 2 s long, {way.value}": _whole(delays[way]) for way in Way if way is not Way.LOCAL},
            "engine, of which Slurm's own, from our update to its start": spread(
                [each.slurms_s for each in local]
            ).data,
            f"shipped (settle {Limits().settle_s:g} s, queue read every 10 s)": usual.data,
        },
        conditions=(
            "one rank of a training of 2 nodes x 1 rank killed on an idle private cluster; from the first squeue "
            "(asked all the time) that shows it FAILED, and not COMPLETING, to 2 s after the line of slurmctld's log "
            "that starts it again; it ran so long; killed once accounting has a row of the running job, of which "
            "slurmctld tells it within some seconds; no storm and no metering here, because one job after another is "
            "broken; three seconds of it are fixed: the pause before StartTime=now that Slurm 22.05 to 24.11 needs, "
            "and the two of running; Slurm schedules with "
            f"{_SCHEDULING}; fast polls read the queue every {_ENGINE_POLLS['jobs_s']} s. Detected: when the server "
            "has the finding; running again: the line of slurmctld's log. SSH by a real sshd on loopback and a kept "
            "connection; the container is a mount namespace that each command enters anew"
        ),
    )


def _whole(delays: Sequence[_Delay]) -> dict[str, float | int | None]:
    return spread([each.whole_s for each in delays]).data


def _delays(way: Way, setup: SlurmSetup, number: int) -> list[_Delay]:
    with reached(way, ClusterPlan(scheduler_parameters=_SCHEDULING), setup) as made:
        return [_delay(made, f"restarted-{each}") for each in range(number)]


def _delay(made: SlurmSite, name: str) -> _Delay:
    """Break a training, and see when it runs again."""
    job = made.trainings.submit(Training(name=name, nodes=2, ranks_per_node=1, steps=2000))
    made.wait_for_step(job, _BEFORE_STEP)
    until(lambda: _is_accounted(made, job), 30.0, f"accounting to hear of the start of job {job}")
    made.trainings.kill_rank(job, 1)
    ended = _says_ended(made, job)
    until(lambda: _running(made, job), 90.0, f"a second attempt of job {job}")
    log = made.cluster.layout.log("slurmctld").read_text(encoding="utf-8")
    detected = _detected(made, job)
    made.trainings.cancel(job)
    until(lambda: made.state(job) == "CANCELLED", 30.0, f"the end of job {job}")
    updated = _moments(log, rf"_update_job: setting begin to .* for JobId={job}\b")[-1]
    started = _moments(log, rf"(?:_start_job: Started|sched: Allocate) JobId={job}\b")[-1]
    return _Delay(
        whole_s=(started - ended).total_seconds() + _RUNS_FOR_S,
        again_s=(started - detected).total_seconds(),
        slurms_s=(started - updated).total_seconds(),
    )


def _detected(made: SlurmSite, job: int) -> datetime:
    """When the server had the finding of the end."""
    found = [item.times.detect for item in made.incidents(job) if item.times.detect is not None]
    return found[0].at.replace(tzinfo=None)


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
