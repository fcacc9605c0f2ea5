"""The chaos run: ranks, nodes and Relance's own processes are killed at random for twenty minutes, on a real Slurm."""

from __future__ import annotations

from bench.chaos_runs import Size, chaos_site, run
from bench.chaos_verdicts import judge
from bench.measures import Limit, Result
from bench.punishers import Deed
from bench.rigs import folder
from relance.simulation.private_slurm import ClusterPlan, start_cluster

LONG = Size(
    jobs=20,
    nodes_each=2,
    steps=900,
    step_s=0.9,
    checkpoint_every=10,
    punished_s=1200.0,
    every_s=6.0,
    finish_s=900.0,
    seed=20261201,
)
SHORT = Size(
    jobs=4,
    nodes_each=2,
    steps=120,
    step_s=0.25,
    checkpoint_every=10,
    punished_s=45.0,
    every_s=3.5,
    finish_s=300.0,
    seed=20261202,
    node_away_s=(40.0, 45.0),
    first=(
        Deed.NODE,
        Deed.RANK,
        Deed.CONTROLLER,
        Deed.RANK,
        Deed.SERVER,
        Deed.WATCHER,
        Deed.RANK,
        Deed.SLURMD,
        Deed.WATCHDOG,
    ),
)
CPUS = 2
"""Of a node: two jobs share one."""


def plan_of(size: Size) -> ClusterPlan:
    """A cluster on which all jobs run at once, and a few nodes more."""
    nodes = -(-size.jobs * size.nodes_each // CPUS)
    return ClusterPlan(node_count=nodes + max(2, nodes // 5), cpus_per_node=CPUS, slurmd_timeout_s=20)


def measure(*, quick: bool) -> Result:
    """Run it, and judge by the jobs' own records, accounting, the queue and the history."""
    size = SHORT if quick else LONG
    with folder() as place:
        place.chmod(0o755)
        cluster = start_cluster(plan_of(size))
        try:
            with chaos_site(cluster, place / "chaos", "") as site:
                record = run(site, size)
                found = judge(site, record)
        finally:
            cluster.stop()
    return Result(
        name="chaos",
        measure="a punisher kills ranks, nodes and Relance's processes at random under real trainings on a real Slurm",
        limits=(
            Limit(name="jobs or steps lost", value=len(found.lost), most=0, unit=""),
            Limit(
                name="doubled: two writers, or an attempt that nobody hit", value=len(found.doubled), most=0, unit=""
            ),
            Limit(name="jobs left held", value=len(found.held), most=0, unit=""),
            Limit(name="gaps in the history", value=len(found.untold), most=0, unit=""),
        ),
        figures=found.figures,
        wrong=(*found.lost, *found.doubled, *found.held, *found.untold),
        conditions=(
            f"{size.jobs} trainings of {size.nodes_each} ranks, {size.steps} steps of {size.step_s} s, a checkpoint "
            f"every {size.checkpoint_every}; a deed every {size.every_s:g} s on average for {size.punished_s:g} s, "
            f"seed {size.seed}: ranks, nodes with all that runs there, slurmds alone, and controller, watcher, "
            "server and watchdog, each its own process, brought back some seconds later; limits of restarts and "
            "storms raised, settle 1 s, every consent to end what runs given"
        ),
    )
