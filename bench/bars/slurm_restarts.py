"""On real Slurm: the scheduler says that an attempt has ended; how long until the new one has run for 2 s."""

from __future__ import annotations

from bench.measures import Limit, Result, spread
from bench.rigs import NO_STORM
from bench.sites import until
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite, slurm_site
from relance.domain.clocks import Milestones
from relance.domain.limits import Limits
from relance.testing.clusters import Training
from relance.testing.slurm_clusters import ClusterPlan

_RESTARTS, _QUICK_RESTARTS = 20, 3
_DEFAULTS, _QUICK_DEFAULTS = 6, 1
_MEDIAN_S, _MAX_S = 3.5, 6.0
_BEFORE_STEP = 5


def measure(*, quick: bool) -> Result:
    """Kill ranks of trainings one after another and read the history's clocks."""
    engine = _delays(
        SlurmSetup(
            scheduler=FAST_POLLS,
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
            "engine, accepted to running 2 s": spread([part for _, part in engine]).data,
            f"shipped (settle {Limits().settle_s:g} s, queue read every 10 s)": usual.data,
        },
        conditions=(
            "one rank of a training of 2 nodes x 1 rank killed on an idle private cluster; from the end time that "
            "Slurm gives (whole seconds, so up to 1 s early) to the moment at which the controller saw the new attempt run "
            "for 2 s; no storm and no metering here, because one job after another is broken"
        ),
    )


def _delays(setup: SlurmSetup, number: int) -> list[tuple[float, float]]:
    with slurm_site(ClusterPlan(), setup) as made:
        return [_delay(made, f"restarted-{each}") for each in range(number)]


def _delay(made: SlurmSite, name: str) -> tuple[float, float]:
    job = made.trainings.submit(Training(name=name, nodes=2, ranks_per_node=1, steps=2000))
    made.wait_for_step(job, _BEFORE_STEP)
    made.trainings.kill_rank(job, 1)
    until(lambda: _running(made, job), 90.0, f"a second attempt of job {job}")
    ended_at = made.trainings.attempts(job)[0]["end_time"]
    times: Milestones = made.incidents(job)[0].times
    made.trainings.cancel(job)
    until(lambda: made.state(job) == "CANCELLED", 30.0, f"the end of job {job}")
    if times.running is None or times.act is None or ended_at is None:
        return float("inf"), float("inf")
    ran_at = times.running.at
    return ran_at.timestamp() - float(ended_at), (ran_at - times.act.at).total_seconds()


def _running(made: SlurmSite, job: int) -> bool:
    return any(item.times.running is not None for item in made.incidents(job))
