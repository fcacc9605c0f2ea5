"""On real Slurm: a rank is killed; how long until the finding is stored."""

from __future__ import annotations

from bench.measures import Limit, Result, spread
from bench.sites import until
from bench.slurm_sites import SlurmSetup, SlurmSite, slurm_site
from relance.domain.stages import Stage
from relance.testing.clusters import Training
from relance.testing.slurm_clusters import ClusterPlan

_INJECTIONS, _QUICK_INJECTIONS = 30, 4
_AT_A_TIME = 3
_MEDIAN_S, _MAX_S = 2.0, 4.0
_BEFORE_STEP = 5


def measure(*, quick: bool) -> Result:
    """Kill one rank of each of many trainings and read when the server stored the finding."""
    delays: list[float] = []
    with slurm_site(ClusterPlan(), SlurmSetup(stage=Stage.OBSERVE)) as made:
        for first in range(0, _QUICK_INJECTIONS if quick else _INJECTIONS, _AT_A_TIME):
            delays += _round(made, first)
    found = spread(delays)
    return Result(
        name="slurm_detections",
        measure="real Slurm: rank killed to finding",
        limits=(
            Limit(name="median", value=found.median, most=_MEDIAN_S),
            Limit(name="max", value=found.maximum, most=_MAX_S),
        ),
        figures={"rank_killed": found.data},
        conditions=(
            f"{found.count} trainings of 2 nodes x 1 rank on a private Slurm cluster, {_AT_A_TIME} at a time, one rank "
            f"killed after step {_BEFORE_STEP}; from the kill to the finding in the history; every interval and limit "
            "as shipped; stage observe, so that nothing is started again between two kills"
        ),
    )


def _round(made: SlurmSite, first: int) -> list[float]:
    jobs = [
        made.trainings.submit(Training(name=f"killed-{first + number}", nodes=2, ranks_per_node=1, steps=2000))
        for number in range(_AT_A_TIME)
    ]
    delays = [_delay(made, job) for job in jobs]
    until(lambda: all(made.state(job) == "FAILED" for job in jobs), 30.0, "the end of all jobs of a round")
    return delays


def _delay(made: SlurmSite, job: int) -> float:
    made.wait_for_step(job, _BEFORE_STEP)
    killed_at = made.trainings.kill_rank(job, 1)
    incidents = until(lambda: made.incidents(job), 30.0, f"an incident of job {job}")
    stored = incidents[0].times.detect
    return (stored.at - killed_at).total_seconds() if stored is not None else float("inf")
