"""Whether the cluster has enough nodes for a job, as policy asks it: with all exclusions that are in force."""

from __future__ import annotations

from datetime import datetime

from relance.domain.advice import Answer
from relance.domain.fits import Grounds, Room, room
from relance.domain.fleet import FleetView
from relance.domain.records import JobRecord
from relance.domain.views import NodeView
from relance.policy.questions import Question


def fit(question: Question, exclude: tuple[str, ...] = ()) -> Room:
    """Whether enough nodes remain for the job without `exclude` and all nodes that are kept out already."""
    job, fleet = question.fleet.job, question.fleet
    if job is None:
        needed = question.record.node_count
        return Room(answer=Answer.UNKNOWN, reason="the job is not shown", needed=needed, fitting=0, idle=0)
    grounds = Grounds(nodes=fleet.nodes, windows=fleet.windows, now=question.now)
    return room(job, grounds, set(exclude) | kept_out(question), says=exclude)


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
