"""On real Slurm: a node is lost and Slurm gives it up; how long until the job runs again."""

from __future__ import annotations

from bench.measures import Limit, Result, spread
from bench.rigs import NO_STORM
from bench.sites import until
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite, slurm_site
from relance.testing.clusters import Training
from relance.testing.slurm_clusters import ClusterPlan

_RUNS, _QUICK_RUNS = 6, 2
_MOST_S = 5.0
_BEFORE_STEP = 12
_SLURMD_TIMEOUT_S = 10
_PATIENCE_S = 150.0


def measure(*, quick: bool) -> Result:
    """Kill a node's daemon with all that runs there, and read when the job runs elsewhere."""
    setup = SlurmSetup(
        scheduler=FAST_POLLS,
        site={"limits": {"settle_s": 0, "grace_after_boot_s": 0, "storms": NO_STORM}},
    )
    wrong: list[str] = []
    with slurm_site(ClusterPlan(slurmd_timeout_s=_SLURMD_TIMEOUT_S), setup) as made:
        runs = range(_QUICK_RUNS if quick else _RUNS)
        # By turns the node that the batch script runs on, of which Slurm shows other things afterwards.
        found = [_delays(made, f"lost-{number}", number % 2, wrong) for number in runs]
    delays, whole = spread([ours for ours, _ in found]), spread([both for _, both in found])
    return Result(
        name="slurm_lost_nodes",
        measure="real Slurm: Slurm has given a lost node up and requeued its job, to running again",
        limits=(Limit(name="max", value=delays.maximum, most=_MOST_S),),
        figures={"requeued_to_running": delays.data, "end_of_the_attempt_to_running": whole.data},
        wrong=tuple(wrong),
        conditions=(
            "the slurmd of one of 2 nodes, by turns the batch host and the other, killed with everything that runs "
            "there; from Slurm's own requeue (the submit time of the new attempt, whole seconds; SlurmdTimeout "
            f"{_SLURMD_TIMEOUT_S} s) to its start; Relance adds the exclusion and ends the two-minute wait. Where the "
            "batch host is lost Slurm ends the attempt as NODE_FAIL some 11 s before it requeues the job, and shows it "
            "as COMPLETING meanwhile: beside the bar it is counted from that end too"
        ),
    )


def _delays(made: SlurmSite, name: str, place: int, wrong: list[str]) -> tuple[float, float]:
    """Seconds to the start of the next attempt: from Slurm's requeue, and from the end of the attempt before."""
    job = made.trainings.submit(Training(name=name, nodes=2, ranks_per_node=1, steps=5000))
    made.wait_for_step(job, _BEFORE_STEP)
    node = made.trainings.job(job)["node_list"][place]
    made.cluster.stop_node(node)
    until(lambda: _runs_again(made, job), _PATIENCE_S, f"a second attempt of job {job}")
    attempts = made.trainings.attempts(job)
    if len(attempts) != 2 or attempts[0]["state"] != "NODE_FAIL":
        wrong.append(f"{name}: the attempts are {[each['state'] for each in attempts]}")
    if node in attempts[-1]["nodes"]:
        wrong.append(f"{name}: it runs on {node} again")
    made.wait_for_step(job, 1)
    made.trainings.cancel(job)
    until(lambda: made.state(job) == "CANCELLED", 30.0, f"the end of job {job}")
    made.cluster.start_node(node)
    ended, queued, began = attempts[0]["end_time"], attempts[-1]["submit_time"], attempts[-1]["start_time"]
    if began is None or ended is None or queued is None:
        return float("inf"), float("inf")
    return float(began) - float(queued), float(began) - float(ended)


def _runs_again(made: SlurmSite, job: int) -> bool:
    row = made.trainings.job(job)
    return bool(row["state"] == "RUNNING" and row["restart_count"] > 0)
