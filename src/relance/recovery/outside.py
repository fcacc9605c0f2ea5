"""What people did about an incident by other means than its job: a copy submitted, a node taken out. Pure.

Recorded for the later comparison with what we advised (design 4); each thing once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from relance.domain import events as e
from relance.domain.incidents import Incident
from relance.domain.records import JobRecord
from relance.domain.twins import twins
from relance.domain.views import ClusterReport, JobView, NodeState, NodeView
from relance.recovery.footprints import is_ours

_TAKEN_OUT = {NodeState.DRAINED: "drain", NodeState.MAINTENANCE: "maintenance"}


def outside_events(
    record: JobRecord,
    incident: Incident,
    view: JobView | None,
    report: ClusterReport | None,
    expected: Mapping[str, str] | None = None,
) -> tuple[e.JobEvent, ...]:
    """What a look shows that people did, and that the job's record does not know yet.

    `expected` are nodes that are out because of us.
    """
    if report is None:
        return ()
    found = (*_copies(record, incident, view, report), *_nodes(record, incident, report, expected or {}))
    return tuple(event for event in found if f"{event.change}: {event.detail}" not in record.outside)


def _copies(
    record: JobRecord, incident: Incident, view: JobView | None, report: ClusterReport
) -> tuple[e.OutsideChangeSeen, ...]:
    attempt = record.attempt(incident.attempt)
    if view is None or attempt is None or attempt.started_at is None:
        return ()
    submitted = {job.raw_id: job.first_submitted_at for job in report.jobs}
    return tuple(
        _seen(record, "resubmit", f"job {twin.raw_id}", view.user, submitted[twin.raw_id])
        for twin in twins(view, report.jobs, attempt.started_at)
        if twin.is_certain and not twin.is_successor
    )


def _nodes(
    record: JobRecord, incident: Incident, report: ClusterReport, expected: Mapping[str, str]
) -> tuple[e.OutsideChangeSeen, ...]:
    """The nodes of the attempt that a person took out since it began."""
    attempt = record.attempt(incident.attempt)
    if attempt is None or attempt.started_at is None:
        return ()
    began = attempt.started_at
    return tuple(
        _seen(record, _TAKEN_OUT[node.state], f"node {node.name}: {node.reason or 'no reason given'}",
              node.set_by, node.since)
        for node in report.nodes
        if node.name in attempt.nodes and _was_taken_out(node, began) and not is_ours(node, expected)
    )  # fmt: skip


def _was_taken_out(node: NodeView, began: datetime) -> bool:
    return node.state in _TAKEN_OUT and bool(node.set_by) and node.since is not None and node.since >= began


def _seen(
    record: JobRecord, change: str, detail: str, who: str | None, at: datetime | None
) -> e.OutsideChangeSeen:  # fmt: skip
    return e.OutsideChangeSeen(job=record.job, change=change, detail=detail, who=who, at=at)
