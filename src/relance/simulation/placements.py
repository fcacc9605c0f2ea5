"""One pass of the scheduler over its queue: who starts, and on which nodes; who waits, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from relance.simulation.records import DEFAULT_PRIORITY, Job, JobState, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A job after the pass; `nodes` are those it is to start on now, empty when it waits."""

    job: Job
    nodes: tuple[str, ...] = ()


def placements(jobs: Iterable[Job], nodes: Sequence[Node], outcomes: Mapping[int, str], now: float) -> list[Placement]:
    """What the pass makes of each pending job, highest priority first, then oldest submission.

    A job that cannot start keeps no place free for itself: a smaller one behind it may start, as with Slurm's backfill
    when no end of the running jobs is known.

    Args:
        jobs: All jobs that are known.
        nodes: All nodes.
        outcomes: How each job's last ended attempt ended, by job id; purged jobs included.
        now: Seconds since the epoch.
    """
    known = {job.job_id: job for job in jobs}
    queue = [job for job in known.values() if job.state is JobState.PENDING]
    queue.sort(key=lambda job: (-job.priority, job.submit_time, job.job_id))
    free = {node.name for node in nodes if node.takes_work and node.job_id is None}
    found: list[Placement] = []
    somebody_waits = False
    for waiting in queue:
        job = _ready(waiting, known, outcomes, now)
        if job.reason != "None":
            found.append(Placement(job=job))
            continue
        job, chosen = _fitted(job, nodes, free)
        if chosen:
            free -= set(chosen)
            known[job.job_id] = replace(job, state=JobState.RUNNING)
        elif job.reason == "Resources":
            job = replace(job, reason="Priority") if somebody_waits else job
            somebody_waits = True
        found.append(Placement(job=job, nodes=chosen))
    return found


def _ready(job: Job, known: Mapping[int, Job], outcomes: Mapping[int, str], now: float) -> Job:
    """The job with the reason why it may not start yet; "None" when nothing but nodes can keep it."""
    if job.hold != "none":
        return replace(job, reason="JobHeldAdmin" if job.hold == "admin" else "JobHeldUser")
    if job.begin_time is not None and job.begin_time > now:
        return replace(job, reason="BeginTime")
    if job.dependency:
        return _after_dependency(job, known, outcomes)
    return replace(job, reason="None")


def _after_dependency(job: Job, known: Mapping[int, Job], outcomes: Mapping[int, str]) -> Job:
    """A dependency is asked until it is met once, then forgotten: a requeue does not ask it again."""
    if job.dependency_failed:
        return replace(job, reason="DependencyNeverSatisfied")
    kind, _, number = job.dependency.partition(":")
    if kind == "singleton":
        if any(_precedes(other, job) for other in known.values()):
            return replace(job, reason="Dependency")
        return replace(job, dependency="", reason="None")
    other = known.get(int(number))
    if other is not None and not other.state.is_over:
        return replace(job, reason="Dependency")
    outcome = str(other.state) if other is not None else outcomes.get(int(number), "")
    if kind == "afterok" and outcome != JobState.COMPLETED:
        return replace(job, dependency_failed=True, reason="DependencyNeverSatisfied")
    return replace(job, dependency="", reason="None")


def _precedes(other: Job, job: Job) -> bool:
    same = other.job_id != job.job_id and (other.spec.name, other.spec.uid) == (job.spec.name, job.spec.uid)
    if not same or other.state.is_over:
        return False
    return other.state is not JobState.PENDING or other.job_id < job.job_id


def _fitted(job: Job, nodes: Sequence[Node], free: set[str]) -> tuple[Job, tuple[str, ...]]:
    """The job and its nodes; no nodes and a reason when it does not fit."""
    fit = [
        node
        for node in nodes
        if job.spec.partition in node.partitions
        and set(job.spec.features) <= set(node.features)
        and node.name not in job.exclude
    ]
    names = {node.name for node in fit}
    count = job.spec.node_count
    if len(names) < count or len(job.nodelist) > count or not set(job.nodelist) <= names:
        return replace(job, reason="BadConstraints", priority=0), ()
    if job.priority == 0:
        job = replace(job, priority=DEFAULT_PRIORITY)
    required = [name for name in job.nodelist if name in free]
    others = [node.name for node in fit if node.name in free and node.name not in job.nodelist]
    if len(required) == len(job.nodelist) and len(required) + len(others) >= count:
        return replace(job, reason="None"), tuple(sorted(required + others[: count - len(required)]))
    return replace(job, reason=_why_not(job, fit)), ()


def _why_not(job: Job, fit: Sequence[Node]) -> str:
    away = [node for node in fit if not node.takes_work]
    enough = len(fit) - len(away) >= job.spec.node_count and not {node.name for node in away} & set(job.nodelist)
    if enough:
        return "Resources"
    if any(node.reserved == "maint" and not node.down for node in away):
        return "ReqNodeNotAvail, Reserved for maintenance"
    return f"ReqNodeNotAvail, UnavailableNodes:{','.join(node.name for node in away)}"
