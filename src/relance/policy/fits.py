"""Whether the cluster has enough nodes for a job: partition, features, required nodes, states and exclusions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.domain.advice import Answer
from relance.domain.fleet import FleetView
from relance.domain.records import JobRecord
from relance.domain.views import NodeState, NodeView
from relance.policy.questions import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How many nodes a job needs, how many could take it now or later, and how many are idle."""

    answer: Answer
    reason: str
    needed: int
    fitting: int
    idle: int


def fit(question: Question, exclude: tuple[str, ...] = ()) -> Fit:
    """Whether enough nodes remain for the job without `exclude` and all nodes that are kept out already."""
    needed = nodes_needed(question)
    out = set(exclude) | kept_out(question)
    eligible = [node for node in partition_nodes(question) if node.name not in out and _has_features(node, question)]
    takes = [node for node in eligible if node.state.takes_work]
    unsure = [node for node in eligible if node.state is NodeState.UNKNOWN]
    idle = sum(node.state is NodeState.IDLE for node in takes)
    numbers = f"{len(takes)} of the {needed} nodes that the job needs"

    def fitted(answer: Answer, reason: str) -> Fit:
        return Fit(answer=answer, reason=reason, needed=needed, fitting=len(takes), idle=idle)

    if not question.fleet.nodes or question.fleet.job is None:
        return fitted(Answer.UNKNOWN, "the scheduler's nodes are not known")
    missing = sorted(set(question.fleet.job.required) & out)
    if missing:
        return fitted(Answer.NO, f"the job asks for {', '.join(missing)} by name, and that is to be kept out")
    if len(takes) >= needed:
        return fitted(Answer.YES, f"{len(takes)} nodes can take the job, which needs {needed}")
    if len(takes) + len(unsure) >= needed:
        return fitted(Answer.UNKNOWN, f"only {numbers} are known to be sound, {len(unsure)} are not known")
    without = f" without {', '.join(sorted(exclude))}" if exclude else ""
    return fitted(Answer.NO, f"only {numbers} remain{without}")


def nodes_needed(question: Question) -> int:
    """How many nodes the job asks for."""
    job = question.fleet.job
    return job.node_count if job is not None else question.record.node_count


def partition_nodes(question: Question) -> tuple[NodeView, ...]:
    """The nodes of the job's partitions."""
    wanted = set(partitions(question.fleet, question.record))
    return tuple(node for node in question.fleet.nodes if not node.partitions or wanted & set(node.partitions))


def partitions(fleet: FleetView, record: JobRecord) -> tuple[str, ...]:
    """The partitions that the job may run in: a pending job can name several."""
    text = fleet.job.partition if fleet.job is not None else record.partition
    return tuple(part for part in text.split(",") if part)


def kept_out(question: Question) -> frozenset[str]:
    """The nodes kept out of this job already: by its user, by us for this job, and for all jobs."""
    job = question.fleet.job
    mine = str(question.incident.attempt.job)
    ours = {
        item.node for item in question.fleet.exclusions
        if item.job in (None, mine) and in_force(item.until, question.now)
    }  # fmt: skip
    return frozenset(ours | set(job.excluded if job else ()))


def in_force(until: datetime | None, now: datetime) -> bool:
    """Whether an exclusion has not run out."""
    return until is None or until > now


def _has_features(node: NodeView, question: Question) -> bool:
    job = question.fleet.job
    return job is None or set(job.features) <= set(node.features)
