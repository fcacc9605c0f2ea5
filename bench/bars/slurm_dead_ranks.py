"""On real Slurm: a rank of a RUNNING job is dead and its peers wait; how long until a new attempt runs."""

from __future__ import annotations

from bench.measures import Limit, Result, spread
from bench.rigs import NO_STORM
from bench.sites import until
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite, slurm_site
from relance.domain.limits import Limits
from relance.domain.stages import EndRunning
from relance.testing.clusters import Training
from relance.testing.slurm_clusters import ClusterPlan

_RUNS, _QUICK_RUNS = 6, 1
_MORE_S = 10.0
_BEFORE_STEP = 12


def measure(*, quick: bool) -> Result:
    """Kill a rank where srun and the other ranks wait on, with the consent to end such an attempt."""
    limits = Limits()
    setup = SlurmSetup(
        scheduler=FAST_POLLS,
        site={"limits": {"settle_s": 0, "grace_after_boot_s": 0, "storms": NO_STORM}},
        end_running=frozenset({EndRunning.DEAD_RANK}),
    )
    with slurm_site(ClusterPlan(), setup) as made:
        delays = [_delay(made, f"dead-{number}", limits) for number in range(_QUICK_RUNS if quick else _RUNS)]
    found = spread(delays)
    return Result(
        name="slurm_dead_ranks",
        measure="real Slurm: proven dead rank in a RUNNING job, consent given, to new attempt running",
        limits=(Limit(name="max", value=found.maximum, most=limits.dead_rank_min_s + _MORE_S),),
        figures={"rank_killed_to_running_2_s": found.data},
        conditions=(
            f"one rank of 2 nodes x 1 rank killed; `srun --no-kill --kill-on-bad-exit=0` and the other rank wait for "
            f"ever, so the job stays RUNNING; consent for dead_rank; its limit is the shipped one, "
            f"{limits.dead_rank_min_s:g} s without progress; settle 0 and fast polls; from the kill to the new attempt "
            "running 2 s long"
        ),
    )


def _delay(made: SlurmSite, name: str, limits: Limits) -> float:
    job = made.trainings.submit(
        Training(
            name=name,
            nodes=2,
            ranks_per_node=1,
            steps=5000,
            options=("--wait-for-lost-peers",),
            srun_options=("--kill-on-bad-exit=0", "--wait=0"),
        )
    )
    made.wait_for_step(job, _BEFORE_STEP)
    killed_at = made.trainings.kill_rank(job, 1)
    most_s = limits.dead_rank_min_s + 60.0
    until(lambda: any(item.times.running for item in made.incidents(job)), most_s, f"a second attempt of job {job}")
    ran = made.incidents(job)[0].times.running
    made.trainings.cancel(job)
    until(lambda: made.state(job) == "CANCELLED", 30.0, f"the end of job {job}")
    return (ran.at - killed_at).total_seconds() if ran is not None else float("inf")
