"""What the demonstration sets differently from the defaults, so that it takes minutes and not an hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from relance.domain.limits import Limits, SlowdownLimits
from relance.testing.slurm_clusters import ClusterPlan, PartitionPlan

CLUSTER = "demo"
PARTITION = "train"
NODES_PER_JOB = 4
RANKS_PER_NODE = 2
NODES_PER_RACK = 5
"""One more than a job needs: it can do without a broken one."""
STEP_S = 0.2
CHECKPOINT_EVERY = 10
HANG_AFTER_S = 6.0
KILL_WAIT_S = 1.0

SLURM_SCHEDULER: Mapping[str, object] = {"kind": "slurm", "jobs_s": 0.5, "nodes_s": 5, "accounting_s": 5}
"""A private cluster of some nodes bears faster looks than a site's."""

_SETTLE_S = 0.0
_DEAD_RANK_S = 5.0
_SUSPECTED_S = 4.0
_AFTER_BOOT_S = 0.0
_SLOW_SHARE, _SLOW_STEPS, _SLOW_S = 1.0, 20, 4.0
"""Nothing short of twice as long: trainings that begin beside it on the same few cores slow it down as well."""
_BURST_AT_ONCE = 8
_POLL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One setting that differs from its default."""

    name: str
    here: str
    usual: str


def cluster_settings(racks: Sequence[str]) -> dict[str, object]:
    """The simulated cluster: a rack of nodes for each job, so that no job is placed on another's broken node."""
    names = [f"node{number:03}" for number in range(1, len(racks) * NODES_PER_RACK + 1)]
    return {
        "cluster": CLUSTER,
        "nodes": len(names),
        "features": {name: [racks[number // NODES_PER_RACK]] for number, name in enumerate(names)},
        "kill_wait_s": KILL_WAIT_S,
    }


def slurm_plan(racks: Sequence[str]) -> ClusterPlan:
    """The private Slurm cluster: the same racks of nodes, as real daemons."""
    empty = ClusterPlan(node_prefix="node", node_count=len(racks) * NODES_PER_RACK)
    return replace(
        empty,
        cpus_per_node=RANKS_PER_NODE,
        features={name: (racks[number // NODES_PER_RACK],) for number, name in enumerate(empty.nodes)},
        partitions=(PartitionPlan(name=PARTITION, options="Default=YES"),),
        kill_wait_s=round(KILL_WAIT_S),
    )


def relance_settings(
    scheduler: Mapping[str, object], folder: Path, kernel_log: str, *, at_once: bool
) -> Mapping[str, object]:
    """The settings file; trainings write below `folder`.

    `at_once`: all faults strike together, so more restarts may begin together.
    """
    limits: dict[str, object] = {
        "settle_s": _SETTLE_S,
        "dead_rank_min_s": _DEAD_RANK_S,
        "grace_after_boot_s": _AFTER_BOOT_S,
        "hang": {"suspected_min_s": _SUSPECTED_S},
        "slowdown": {"share": _SLOW_SHARE, "steps": _SLOW_STEPS, "for_s": _SLOW_S},
    }
    if at_once:
        limits["storms"] = {"bucket_burst": _BURST_AT_ONCE}
    return {
        "clusters": [
            {
                "name": CLUSTER,
                "scheduler": dict(scheduler),
                "kernel_log": kernel_log,
                "log_roots": [str(folder)],
                "opt_in": "all",
                "poll_s": _POLL_S,
                "limits": limits,
            }
        ],
        "server": {"port": 0},
    }


def differences(*, at_once: bool) -> tuple[Difference, ...]:
    """What is set differently, for the screen."""
    usual = Limits()
    found = [
        Difference(name="settle time before a verdict is final", here=_s(_SETTLE_S), usual=_s(usual.settle_s)),
        Difference(name="dead rank beside living ones", here=_s(_DEAD_RANK_S), usual=_s(usual.dead_rank_min_s)),
        Difference(name="silence that looks like a hang", here=_s(_SUSPECTED_S), usual=_s(usual.hang.suspected_min_s)),
        Difference(name="silence that is a hang (llama-hang's own wish)", here=_s(HANG_AFTER_S), usual="never"),
        Difference(
            name="longer steps that are a slowdown",
            here=_slow(SlowdownLimits(share=_SLOW_SHARE, steps=_SLOW_STEPS, for_s=_SLOW_S)),
            usual=_slow(usual.slowdown),
        ),
        Difference(
            name="caution after the scheduler's start", here=_s(_AFTER_BOOT_S), usual=_s(usual.grace_after_boot_s)
        ),
        Difference(name="the scheduler's time from TERM to KILL", here=_s(KILL_WAIT_S), usual="30 s"),
    ]
    if at_once:
        burst = usual.storms.bucket_burst
        found.append(Difference(name="restarts that may begin together", here=str(_BURST_AT_ONCE), usual=str(burst)))
    return tuple(found)


def _s(value: float) -> str:
    return f"{value:g} s"


def _slow(limits: SlowdownLimits) -> str:
    return f"by {100 * limits.share:g} % over {limits.steps} steps and {limits.for_s:g} s"
