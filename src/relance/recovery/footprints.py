"""What Slurm did to nodes because of us: told from what happens to them by itself, so that no node is blamed for it.

A restart of ours ends the processes that still run. One that cannot be ended makes slurmd drain its node ("Kill task
failed", peers.md R17): that is our doing, and no sign of broken hardware. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from relance.domain.advice import ActionKind
from relance.domain.incidents import Incident
from relance.domain.records import JobRecord, NodeRecord
from relance.domain.requests import MARK, RequestVerb, is_drain_reason
from relance.domain.views import NodeState, NodeView, SchedulerFacts

_KILL_FAILED = re.compile(r"^\s*kill task failed", re.IGNORECASE)
_BY_SLURM = (None, "", "root", "slurm")
"""As whom slurmd and slurmctld drain."""
_MARGIN_S = 60.0
"""For node clocks that differ, and for the way from slurmd to us."""
_BEFORE = timedelta(seconds=2)
"""Slurm tells whole seconds."""


def is_unkilled(view: NodeView) -> bool:
    """Whether Slurm drained a node because a process on it could not be ended."""
    drained = view.state is NodeState.DRAINED and view.set_by in _BY_SLURM
    return drained and _KILL_FAILED.search(view.reason) is not None


def reach(facts: SchedulerFacts | None) -> timedelta:
    """How long after a command that ends processes its node may still be drained for one that did not end."""
    known = facts if facts is not None else SchedulerFacts(release="")
    return timedelta(seconds=known.kill_wait_s + known.unkillable_s + _MARGIN_S)


def of_our_ending(view: NodeView, records: Iterable[JobRecord], within: timedelta) -> str:
    """The sentence that says which act of ours drained this node; empty: none did, as far as is known."""
    if view.since is None or not is_unkilled(view):
        return ""
    for record in records:
        for incident, at in _endings(record):
            attempt = record.attempt(incident.attempt)
            if attempt is not None and view.name in attempt.nodes and at - _BEFORE <= view.since <= at + within:
                return _words(record, at, "our own restart" if not _cancels(incident) else "our own cancelling")
        for cancelled, at in _cancellings(record):
            attempt = next((item for item in record.attempts if item.attempt.restart_count == cancelled), None)
            if attempt is not None and view.name in attempt.nodes and at - _BEFORE <= view.since <= at + within:
                return _words(record, at, "a cancelling that a person asked us for")
    return ""


def expected_words(record: NodeRecord) -> str:
    """Why what a node shows is no evidence against it, in words; empty: it is as good as any."""
    if record.ours:
        return record.ours
    kept = record.kept_out_by
    if kept is None:
        return ""
    return (
        f"{MARK} keeps it out for {kept.request.by} ({kept.request.verb.value}): that it is lost meanwhile is no sign"
    )


def expected_nodes(records: Iterable[NodeRecord]) -> Mapping[str, str]:
    """The nodes of which what they show is no evidence, each with the sentence that says why."""
    found = {record.node: expected_words(record) for record in records}
    return {node: words for node, words in found.items() if words}


def is_ours(view: NodeView, expected: Mapping[str, str]) -> bool:
    """Whether a node was taken out by us, or because of us, and not by anybody else."""
    return view.name in expected or is_drain_reason(view.reason)


def _endings(record: JobRecord) -> Iterable[tuple[Incident, datetime]]:
    """Our own actions that ended what still ran, and when."""
    for incident in record.incidents:
        action, advice = incident.action, incident.advice
        if action is None or advice is None or action.kind is ActionKind.CONSTRAIN:
            continue
        if advice.ends_running is not None or advice.cancels_running:
            yield incident, incident.times.act.at if incident.times.act is not None else action.started_at


def _cancels(incident: Incident) -> bool:
    return incident.action is not None and incident.action.kind is ActionKind.CANCEL


def _cancellings(record: JobRecord) -> Iterable[tuple[int, datetime]]:
    """Cancellings that people asked us for, by attempt, and when they were begun."""
    for item in record.requests:
        if item.request.verb is RequestVerb.CANCEL and item.started_at is not None:
            yield item.request.restart_count, item.started_at


def _words(record: JobRecord, at: datetime, act: str) -> str:
    return (
        f"Slurm drained it because a process did not end in time after {act} of job {record.job.raw_id} "
        f"({at:%Y-%m-%d %H:%M:%S UTC}): that is no sign of a broken node"
    )  # fmt: skip
