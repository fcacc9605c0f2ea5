"""An attempt is over: how long until the new one has run for 2 s, without and with the default settle time."""

from __future__ import annotations

from bench.measures import Limit, Result, spread
from bench.rigs import NO_STORM, Rig, Setup, rig, until
from relance.domain.limits import Limits
from relance.testing.clusters import Training

_RESTARTS, _QUICK_RESTARTS = 12, 3
_SETTLED, _QUICK_SETTLED = 6, 2
_MEDIAN_S = 4.0
_RUNS_FOR_S = 2.0
_BEFORE_STEP = 5


def measure(*, quick: bool) -> Result:
    """Kill ranks of trainings one after another and read the scheduler's accounting."""
    settle_s = Limits().settle_s
    at_once = spread(_delays(0.0, _QUICK_RESTARTS if quick else _RESTARTS))
    settled = spread(_delays(settle_s, _QUICK_SETTLED if quick else _SETTLED))
    return Result(
        name="restarts",
        measure="attempt over to new attempt running 2 s long",
        limits=(
            Limit(name="median, settle 0", value=at_once.median, most=_MEDIAN_S),
            Limit(name=f"median, settle {settle_s:g} s", value=settled.median, most=_MEDIAN_S + settle_s),
        ),
        figures={"settle_0": at_once.data, f"settle_{settle_s:g}": settled.data},
        conditions=(
            "one rank of a training of 2 nodes x 1 rank killed; from the end of the attempt to 2 s after the start of "
            "the next one, both from the scheduler's accounting; no storm and no metering here, because one job after "
            "another is broken; the scheduler holds a restart back for a second, as Slurm's does"
        ),
    )


def _delays(settle_s: float, number: int) -> list[float]:
    setup = Setup(
        cluster={"nodes": 4, "kill_wait_s": 1.0},
        site={"limits": {"settle_s": settle_s, "grace_after_boot_s": 0, "storms": NO_STORM}},
    )
    with rig(setup) as made:
        return [_delay(made, f"restarted-{each}", settle_s) for each in range(number)]


def _delay(made: Rig, name: str, settle_s: float) -> float:
    job = made.cluster.submit(Training(name=name, nodes=2, ranks_per_node=1, steps=2000))
    made.wait_for_step(job, _BEFORE_STEP)
    made.cluster.ask("kill_rank", job_id=job, rank=1)
    until(
        lambda: len(made.cluster.attempts(job)) > 1 and made.state(job) == "RUNNING",
        settle_s + 60.0,
        f"a second attempt of job {job}",
    )
    first, second = made.cluster.attempts(job)
    made.wait_for_step(job, 1)
    made.cluster.ask("cancel", job_id=job)
    until(lambda: made.state(job) == "CANCELLED", 30.0, f"the end of job {job}")
    return float(second["start_time"]) + _RUNS_FOR_S - float(first["end_time"])
