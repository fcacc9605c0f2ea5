"""What a person's request means for what was read of a job or a node: may it be done, and does it show. Pure.

Whatever somebody else did meanwhile wins: a request is dropped, with the sentence that says why, rather than done to
what is not as it was (peers.md N3). A node that somebody else drained, or that is DOWN, is never touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain.nodes import NodeSight
from relance.domain.requests import Request, RequestVerb
from relance.domain.views import Hold, JobState, JobView, NodeState

_LEAST = timedelta(seconds=30)
"""A quarantine that ends sooner is not begun any more."""
_CANCELLED = (JobState.CANCELLED, JobState.COMPLETING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was read of the request's subject: a job or a node."""

    cluster: str
    at: datetime
    job: JobView | None = None
    node: NodeSight | None = None


def why_not(request: Request, found: Found) -> str:
    """Why it is not done to what was read; empty when nothing speaks against it."""
    if found.job is not None:
        return _job_against(request, found.job, found.cluster)
    if found.node is not None:
        return _node_against(request, found.node, found.at)
    return f"{request.subject} was not read"


def is_done(request: Request, found: Found) -> bool:
    """Whether what was asked for shows."""
    if found.job is not None:
        return _shows_on_job(request, found.job, found.cluster)
    return found.node is not None and _shows_on_node(request, found.node)


def remark(request: Request, found: Found) -> str:
    """What is to be told of a request that shows as done otherwise than its words say; empty: nothing."""
    if request.verb is RequestVerb.HOLD and found.job is not None and found.job.held_next:
        return "it began before the hold came: its next attempt is held"
    return ""


def _job_against(request: Request, job: JobView, cluster: str) -> str:
    if job.job_key(cluster) != request.job:
        return f"the id {job.raw_id} belongs to another job now"
    if job.restart_count != request.restart_count:
        asked, now = request.restart_count + 1, job.restart_count + 1
        return f"it was asked about attempt {asked}, and this is attempt {now}: look again, and ask again"
    if job.state is JobState.UNKNOWN:
        return "its state cannot be read"
    if request.verb is RequestVerb.CANCEL:
        is_ending = job.state.is_over or job.state is JobState.COMPLETING
        return f"there is nothing to cancel: it is {job.state.value}" if is_ending else ""
    if request.verb in (RequestVerb.ARM, RequestVerb.DISARM):
        return _arm_against(request, job)
    return _hold_against(request, job)


def _arm_against(request: Request, job: JobView) -> str:
    """A job that has ended takes no such change, and one that waits has not been seen to need it."""
    if job.state is not JobState.RUNNING:
        return f"whether it may be requeued can be changed while it runs: it is {job.state.value}"
    if job.requeue_allowed is None:
        return "whether it may be requeued cannot be read"
    if request.verb is RequestVerb.DISARM:
        return "" if job.requeue_allowed else "it may not be requeued already"
    if job.requeue_allowed:
        return "it may be requeued already"
    return "" if job.arming else "neither its own comment nor a setting of the site asks for it any more"


def _hold_against(request: Request, job: JobView) -> str:
    if job.state is not JobState.PENDING:
        return f"only a job that waits can be held or released: it is {job.state.value}"
    if job.hold is Hold.UNKNOWN:
        return "whether it is held cannot be read"
    if request.verb is RequestVerb.HOLD:
        return "" if job.hold is Hold.NONE else f"it is held already ({job.reason or job.hold.value})"
    return "it is not held" if job.hold is Hold.NONE else ""


def _node_against(request: Request, node: NodeSight, now: datetime) -> str:
    match request.verb:
        case RequestVerb.QUARANTINE:
            is_late = request.until is None or request.until - now < _LEAST
            return "its time is over before it has begun" if is_late else ""
        case RequestVerb.DRAIN:
            return _drain_against(node)
        case _ if request.undoes_verb is RequestVerb.DRAIN:
            return _undrain_against(request, node)
        case _:
            return _unreserve_against(request, node)


def _drain_against(node: NodeSight) -> str:
    if node.is_drained:
        who = f" by {node.view.set_by}" if node.view.set_by else ""
        return f"it is drained already{who}: {node.view.reason or 'no reason given'}"
    return _untouchable(node)


def _undrain_against(request: Request, node: NodeSight) -> str:
    if not node.is_drained:
        return "it is not drained any more"
    if node.view.reason != request.mark:
        who = node.view.set_by or "somebody"
        return f"the drain is not ours any more: its reason is {node.view.reason or 'empty'!r}, set by {who}"
    return _untouchable(node)


def _unreserve_against(request: Request, node: NodeSight) -> str:
    window = node.window(request.mark)
    if window is None:
        return f"its reservation {request.mark} is not there any more"
    if window.nodes != (request.node,):
        return f"somebody changed the reservation {request.mark}: it has {', '.join(window.nodes)} now"
    return ""


def _untouchable(node: NodeSight) -> str:
    """Why the state of a node is not to be changed at all."""
    if node.planned:
        return f"its power is being changed, or it reboots ({node.planned})"
    if node.is_down:
        return f"it is down: {node.view.reason or 'no reason given'}; a person has to see to it"
    return "what it does cannot be read" if node.view.state is NodeState.UNKNOWN else ""


def _shows_on_job(request: Request, job: JobView, cluster: str) -> bool:
    if job.job_key(cluster) != request.job or job.restart_count != request.restart_count:
        return False
    if request.verb is RequestVerb.CANCEL:
        return job.state in _CANCELLED
    if request.verb in (RequestVerb.ARM, RequestVerb.DISARM):
        return job.requeue_allowed is (request.verb is RequestVerb.ARM)
    if job.state is not JobState.PENDING:
        # A hold that comes when the job has begun is kept for its next attempt (seen: 22.05).
        is_out = job.state is not JobState.UNKNOWN and not job.held_next
        return is_out if request.verb is RequestVerb.RELEASE else job.held_next
    is_held = job.hold in (Hold.USER, Hold.ADMIN, Hold.SCHEDULER)
    return is_held if request.verb is RequestVerb.HOLD else job.hold is Hold.NONE


def _shows_on_node(request: Request, node: NodeSight) -> bool:
    match request.verb:
        case RequestVerb.QUARANTINE:
            window = node.window(request.mark)
            return window is not None and request.node in window.nodes
        case RequestVerb.DRAIN:
            return node.is_drained and node.view.reason == request.mark
        case _ if request.undoes_verb is RequestVerb.DRAIN:
            return not (node.is_drained and node.view.reason == request.mark)
        case _:
            return node.window(request.mark) is None
