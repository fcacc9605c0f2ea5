"""Whether what people ask for may be done now, and what time and other people do to what was done. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain import events as e
from relance.domain.advice import ActionEnd, Exclusion, PermitWish
from relance.domain.records import ClusterRecord, JobRecord, NodeRecord
from relance.domain.request_checks import Found, why_not
from relance.domain.requests import GOOD_FOR, OURSELVES, Request, RequestKind, RequestRecord, RequestVerb, request_id
from relance.domain.stages import Stage
from relance.domain.views import ClusterReport, JobView, NodeState, NodeView
from relance.recovery.ordering import job_stage
from relance.recovery.sites import ClusterRules

_OPEN_ACTIONS = (None, "ActionUnknown")
_BURST, _REFILL_S = 20, 3.0
"""A person may have hundreds of nodes in one line; slurmctld gets them a few at a time."""
_SEEN_AFTER = timedelta(seconds=150)
"""Nodes and reservations may be read that long after the last change: only then does a look tell what others undid."""
_AGAIN = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the question rests on: the cluster's stages, the site's rules, the newest look."""

    cluster: ClusterRecord
    rules: ClusterRules
    report: ClusterReport | None
    now: datetime


def node_view(report: ClusterReport | None, name: str) -> NodeView | None:
    """A node as the newest look showed it."""
    return next((node for node in report.nodes if node.name == name), None) if report is not None else None


def kind_against(ground: Ground, kind: RequestKind, partitions: tuple[str, ...]) -> str:
    """Why this kind of request is not possible now at all; empty when it is."""
    if kind not in (*ground.rules.requests, RequestKind.ARM_JOBS):
        return f"the site has not switched it on (`actions: {{{kind.value}: true}}` in the cluster's settings)"
    stage, why = _stage(ground.cluster, partitions)
    if stage.rank < Stage.APPROVE.rank:
        return f"{why}: below approve Relance changes nothing"
    bars = next((bar for name in partitions if (bar := ground.rules.bars(name))), "")
    refused = dict(ground.report.facts.refuses) if ground.report is not None else {}
    return bars or refused.get(kind.value, "")


def job_against(ground: Ground, request: Request, record: JobRecord, view: JobView | None) -> str:
    """Why a request about a job may not begin now; empty when it may."""
    partition = view.partition if view is not None else record.partition
    against = kind_against(ground, request.kind, tuple(part for part in partition.split(",") if part))
    if against:
        return against
    if view is None:
        return "the scheduler does not show this job any more"
    if request.verb is RequestVerb.ARM:
        stage = job_stage(record, ground.cluster, ground.rules, ground.now, view)
        if stage.stage is not Stage.ACT:
            return f"only at act: {'; '.join(stage.why)}"
    if request.verb is RequestVerb.DISARM and not request.undoes:
        return "it was not Relance that let it be requeued: what others did is theirs to undo"
    incident = record.open_incident
    if incident is not None and incident.action is not None and incident.action.end in _OPEN_ACTIONS:
        return "an action of ours on this job is under way: ask again when it has ended"
    return why_not(request, Found(cluster=record.job.cluster, at=ground.now, job=view))


def node_against(ground: Ground, request: Request, record: NodeRecord) -> str:
    """Why a request about a node may not begin now; empty when it may. What its state says the controller asks."""
    view = node_view(ground.report, record.node)
    against = kind_against(ground, request.kind, view.partitions if view is not None else ())
    if against:
        return against
    if view is None:
        return "the scheduler shows no node of this name"
    kept = record.kept_out_by
    if request.verb.keeps_out:
        return f"{kept_words(kept)}: have it returned first" if kept is not None else ""
    is_known = kept is not None and kept.request.id == request.undoes
    return "" if is_known else "Relance does not keep it out any more: what others did is theirs to undo"


def kept_words(kept: RequestRecord) -> str:
    """In words, who keeps a node out, how, until when and why."""
    request = kept.request
    how = "quarantine" if request.verb is RequestVerb.QUARANTINE else "drain"
    until = f" until {request.until:%Y-%m-%d %H:%M UTC}" if request.until else ""
    return f"in {how}{until} for {request.by}: {request.reason}"


def permits(request: Request) -> tuple[PermitWish, ...]:
    """How many requests of a cluster may begin in a while."""
    return (PermitWish(scope=f"requests/{request.cluster}", burst=_BURST, refill_s=_REFILL_S),)


def overdue(requests: Iterable[RequestRecord], now: datetime, why: str) -> tuple[e.RequestEnded, ...]:
    """The ends of requests that nobody began in time."""
    return tuple(
        ended(item.request, ActionEnd.ABANDONED, f"nobody began it in time: {why or 'no controller did'}", now)
        for item in requests
        if item.is_open and item.started_at is None and now >= item.request.expires_at
    )


def ended(request: Request, end: ActionEnd, reason: str, at: datetime) -> e.RequestEnded:
    """The event that settles a request."""
    return e.RequestEnded(request_id=request.id, verb=request.verb, by=request.by, end=end, reason=reason, at=at)


def node_outcome(request: Request, end: ActionEnd, reason: str, at: datetime) -> tuple[e.NodeEvent, ...]:
    """What came of a request about a node: kept out from now on, or not any more."""
    settled = ended(request, end, reason, at)
    if end is not ActionEnd.SUCCEEDED:
        return (settled,)
    if request.verb.keeps_out:
        exclusion = Exclusion(
            cluster=request.cluster,
            node=request.node,
            reason=request.reason,
            owner=request.by,
            since=at,
            until=request.until,
        )
        return (settled, e.NodeExcluded(exclusion=exclusion))
    return (settled, _over(request.cluster, request.node, request.by, request.reason, at))


def node_duties(record: NodeRecord, report: ClusterReport | None, ground: Ground) -> tuple[e.NodeEvent, ...]:
    """What is due on a node: what ran out, what somebody else undid, and the return that Relance itself asks for."""
    kept, now = record.kept_out_by, ground.now
    if kept is None:
        return _shown_after_all(record, report, now)
    if kept.ended_at is None:
        return ()
    request = kept.request
    is_over = request.until is not None and request.until <= now
    if request.verb is RequestVerb.QUARANTINE and is_over:
        return (_over(record.cluster, record.node, OURSELVES, "its time is over", request.until or now),)
    gone = _undone_by(request, report, kept.ended_at)
    if gone is not None:
        who, how = gone
        return (_over(record.cluster, record.node, who, how, now),)
    if not is_over or not _may_ask_again(record, now) or kind_against(ground, request.kind, ()):
        return ()
    return (e.ActionRequested(request=return_of(kept, OURSELVES, "its time is over", now)),)


def return_of(kept: RequestRecord, by: str, reason: str, now: datetime) -> Request:
    """The request that undoes a quarantine or a drain."""
    request = kept.request
    return Request(
        id=request_id(request.cluster, request.node, RequestVerb.RETURN, by, now),
        verb=RequestVerb.RETURN,
        cluster=request.cluster,
        node=request.node,
        reason=reason,
        by=by,
        at=now,
        expires_at=now + GOOD_FOR,
        mark=request.mark,
        undoes=request.id,
        undoes_verb=request.verb,
    )


def needs_a_look(record: NodeRecord, now: datetime) -> bool:
    """Whether something about requests on a node may be due: one is open or in force, or may show after all."""
    return record.kept_out_by is not None or any(item.is_open or _may_show(item, now) for item in record.requests)


def _may_show(item: RequestRecord, now: datetime) -> bool:
    """Whether a command that was sent, and is not known to be done, may have kept the node out after all."""
    until = item.request.until
    is_doubtful = item.started_at is not None and item.end not in (None, ActionEnd.SUCCEEDED)
    return item.request.verb.keeps_out and is_doubtful and until is not None and now < until


def _shown_after_all(record: NodeRecord, report: ClusterReport | None, now: datetime) -> tuple[e.NodeEvent, ...]:
    """Nobody may be kept out by us without the history knowing: a command may arrive long after it was given up."""
    for item in record.requests:
        request, since = item.request, item.ended_at
        if report is None or since is None or not _may_show(item, now):
            continue
        if report.as_of > since and _stands(request, report):
            return node_outcome(request, ActionEnd.SUCCEEDED, "it shows after all", now)
    return ()


def _stands(request: Request, report: ClusterReport) -> bool:
    """Whether a look shows the very reservation, or the very reason."""
    if request.verb is RequestVerb.QUARANTINE:
        return any(window.name == request.mark and request.node in window.nodes for window in report.windows)
    view = node_view(report, request.node)
    return view is not None and view.reason == request.mark


def _may_ask_again(record: NodeRecord, now: datetime) -> bool:
    returns = [item for item in record.requests if item.request.verb is RequestVerb.RETURN]
    if not returns:
        return True
    last = returns[-1]
    return last.ended_at is not None and now - last.ended_at >= _AGAIN


def _undone_by(request: Request, report: ClusterReport | None, since: datetime) -> tuple[str, str] | None:
    """Who undid it, other than us, and how; None: it stands, or that cannot be told."""
    if report is None or not report.complete or not report.nodes or report.as_of - since < _SEEN_AFTER:
        return None
    if request.verb is RequestVerb.QUARANTINE:
        return (
            None
            if _stands(request, report)
            else ("somebody else", f"the reservation {request.mark} is not there any more")
        )
    view = node_view(report, request.node)
    if view is None or view.state is NodeState.UNKNOWN or view.reason == request.mark:
        return None
    said = f"its reason is {view.reason!r} now" if view.reason else "it is not drained any more"
    return view.set_by or "somebody else", said


def _over(cluster: str, node: str, by: str, reason: str, at: datetime) -> e.ExclusionEnded:
    return e.ExclusionEnded(cluster=cluster, node=node, job=None, by=by, at=at, reason=reason)


def _stage(cluster: ClusterRecord, partitions: tuple[str, ...]) -> tuple[Stage, str]:
    """The least of what was set and what caps it, whatever the job's own wish is: a person asks, by name."""
    stage = cluster.setting.stage if cluster.setting is not None else Stage.OBSERVE
    limits = [(stage, f"cluster {cluster.cluster} is at {stage.value}")]
    of_partitions = {name: cluster.partitions[name].stage for name in partitions if name in cluster.partitions}
    limits += [(each, f"partition {name} is at {each.value}") for name, each in of_partitions.items()]
    limits += [
        (cap.stage, f"at most {cap.stage.value} while it lasts: {cap.name}: {cap.reason}")
        for cap in cluster.caps
        if cap.partition in (None, *partitions)
    ]
    return min(limits, key=lambda limit: limit[0].rank)
