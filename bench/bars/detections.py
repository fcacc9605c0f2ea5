"""A rank is killed: how long until the finding is stored."""

from __future__ import annotations

from bench.measures import Limit, Result, spread
from bench.rigs import Rig, Setup, injected_at, rig, until
from relance.domain.stages import Stage
from relance.testing.clusters import Training

_INJECTIONS, _QUICK_INJECTIONS = 36, 6
_AT_A_TIME = 6
_MEDIAN_S, _MAX_S = 2.0, 4.0
_BEFORE_STEP = 5


def measure(*, quick: bool) -> Result:
    """Kill one rank of each of many trainings and read when the server stored the finding."""
    delays: list[float] = []
    setup = Setup(cluster={"nodes": 2 * _AT_A_TIME, "kill_wait_s": 1.0}, stage=Stage.OBSERVE)
    with rig(setup) as made:
        for first in range(0, _QUICK_INJECTIONS if quick else _INJECTIONS, _AT_A_TIME):
            delays += _round(made, first)
    found = spread(delays)
    return Result(
        name="detections",
        measure="rank killed to finding",
        limits=(
            Limit(name="median", value=found.median, most=_MEDIAN_S),
            Limit(name="max", value=found.maximum, most=_MAX_S),
        ),
        figures={"rank_killed": found.data},
        conditions=(
            f"{found.count} trainings of 2 nodes x 1 rank, {_AT_A_TIME} at a time, one rank killed after step "
            f"{_BEFORE_STEP}; from the kill, by the scheduler's clock, to the finding in the history; all limits as "
            "shipped; stage observe, so that nothing is started again between two kills"
        ),
    )


def _round(made: Rig, first: int) -> list[float]:
    jobs = [
        made.cluster.submit(Training(name=f"killed-{first + number}", nodes=2, ranks_per_node=1, steps=2000))
        for number in range(_AT_A_TIME)
    ]
    delays = [_delay(made, job) for job in jobs]
    until(lambda: all(made.state(job) == "FAILED" for job in jobs), 30.0, "the end of all jobs of a round")
    return delays


def _delay(made: Rig, job: int) -> float:
    made.wait_for_step(job, _BEFORE_STEP)
    killed_at = injected_at(made.cluster.ask("kill_rank", job_id=job, rank=1))
    incidents = until(lambda: made.incidents(job), 30.0, f"an incident of job {job}")
    stored = incidents[0].times.detect
    return (stored.at - killed_at).total_seconds() if stored is not None else float("inf")
