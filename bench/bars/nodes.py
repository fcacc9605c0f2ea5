"""A node that breaks every attempt: kept out no later than at its second fault, and the job finishes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.measures import Limit, Result, spread
from bench.rigs import NO_STORM, Rig, Setup, rig
from relance.testing.clusters import Training

_RUNS, _QUICK_RUNS = 3, 1
_LIMIT_S = 180.0
_NEVER_S = 100_000.0
_STEPS, _STEP_S = 60, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """When the node's kernel speaks of the fault, and how long a verdict settles."""

    name: str
    kernel_delay_s: float
    settle_s: float


_VARIANTS = (
    Variant(name="the kernel speaks at once, settle 0", kernel_delay_s=0.0, settle_s=0.0),
    Variant(name="the kernel speaks 4 s late, settle 0", kernel_delay_s=4.0, settle_s=0.0),
    Variant(name="the kernel speaks 4 s late, settle 15 s", kernel_delay_s=4.0, settle_s=15.0),
    Variant(name="the kernel never speaks, settle 0", kernel_delay_s=_NEVER_S, settle_s=0.0),
)


def measure(*, quick: bool) -> Result:
    """Break a node under one training after another."""
    faults: list[float] = []
    wrong: list[str] = []
    figures: dict[str, Any] = {}
    for variant in _VARIANTS:
        setup = Setup(
            cluster={"nodes": 8, "kill_wait_s": 1.0},
            site={
                "limits": {
                    "settle_s": variant.settle_s,
                    "grace_after_boot_s": 0,
                    "restarts": {"backoff_first_s": 1},
                    "storms": NO_STORM,
                    "exclusions": {"per_partition_share": 1},  # each run keeps a node out for its own job
                }
            },
        )
        counts: list[float] = []
        with rig(setup) as made:
            for number in range(_QUICK_RUNS if quick else _RUNS):
                count, problems = _run(made, f"node-{number}", variant)
                counts.append(count)
                wrong += [f"{variant.name}: {sentence}" for sentence in problems]
        faults += counts
        figures[variant.name] = {"faults on the node before it is kept out": spread(counts).data}
    return Result(
        name="nodes",
        measure="bad node: excluded no later than its second fault; job finishes",
        limits=(Limit(name="faults on the node, max", value=max(faults), most=2, unit=""),),
        figures=figures,
        wrong=tuple(wrong),
        conditions=(
            f"a training of 4 nodes x 1 rank on 8 nodes, whose first rank on the broken node loses its GPU (Xid 79) in "
            f"every attempt there; {_QUICK_RUNS if quick else _RUNS} runs per variant; back-off shortened to 1 s"
        ),
    )


def _run(made: Rig, name: str, variant: Variant) -> tuple[int, list[str]]:
    """One training; gives how many attempts the node broke, and what was wrong."""
    job = made.cluster.submit(Training(name=name, nodes=4, ranks_per_node=1, steps=_STEPS, step_s=_STEP_S))
    made.wait_for_step(job, 12)
    node = made.cluster.job(job)["node_list"][1]
    made.cluster.ask("break_node", node=node, kind="xid79", after_steps=3, kernel_delay_s=variant.kernel_delay_s)
    made.wait_for_end(job, _LIMIT_S)
    made.cluster.ask("mend_node", node=node)
    attempts = made.cluster.attempts(job)
    broken = sum(node in row["nodes"] for row in attempts)
    problems: list[str] = []
    if attempts[-1]["state"] != "COMPLETED":
        problems.append(f"the job ended {attempts[-1]['state']} after {len(attempts)} attempts")
    kept_out = {each for item in made.incidents(job) for each in item.excluded}
    if kept_out != {node}:
        problems.append(f"kept out: {sorted(kept_out)}, broken: {node}")
    return broken, problems
