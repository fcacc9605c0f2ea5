"""From facts to the rows that lists show. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from relance.domain.fleet import Storm
from relance.domain.incidents import Incident, IncidentState
from relance.domain.records import ClusterRecord, NodeRecord
from relance.domain.streams import Recorded
from relance.domain.views import ClusterReport, NodeState, NodeView
from relance.ports.histories import IncidentRow
from relance.recovery import wordings
from relance.recovery.answers import JobFacts, headline, next_of
from relance.recovery.footprints import expected_words
from relance.recovery.gatings import closed, waits_for, why_not_approvable
from relance.recovery.rows import AdviceRow, HistoryRow, IncidentItem, JobRow, NodeRow, StageRow, StormRow
from relance.recovery.tellings import told


def job_row(facts: JobFacts) -> JobRow:
    """The row of one job."""
    record, view, last = facts.record, facts.view, facts.last_attempt
    incident, progress = record.open_incident, facts.progress.get(facts.current)
    return JobRow(
        job=record.job,
        name=record.name,
        user=record.user,
        partition=view.partition if view else record.partition,
        workflow=record.workflow,
        state=facts.state,
        reason=view.reason if view else "",
        as_of=facts.report.as_of if view and facts.report else None,
        restart_count=facts.current.restart_count,
        nodes=view.nodes if view else (last.nodes if last else ()),
        node_count=view.node_count if view else record.node_count,
        started_at=view.started_at if view else (last.started_at if last else None),
        ended_at=view.ended_at if view else (last.ended_at if last else None),
        step=progress.step if progress else (last.highest_step if last else None),
        progress=progress,
        stage=facts.stage,
        incident_id=incident.id if incident else None,
        headline=headline(facts),
    )


def incident_item(row: IncidentRow, then: str = "") -> IncidentItem:
    """The row of one incident. `then`, what happens next, comes from the job's facts where those are at hand."""
    incident, verdict, advice = row.incident, row.incident.verdict, row.incident.advice
    return IncidentItem(
        id=incident.id,
        job=row.job,
        name=row.name,
        user=row.user,
        partition=row.partition,
        attempt=incident.attempt,
        state=incident.state,
        opened_at=incident.opened_at,
        ended_at=incident.ended_at,
        end=incident.end,
        end_reason=incident.end_reason,
        domain=verdict.domain if verdict else None,
        cause=verdict.cause if verdict else "",
        summary=verdict.summary if verdict else "",
        suspects=tuple(item.node for item in verdict.suspects) if verdict else (),
        action=advice.action if advice else None,
        hold=advice.hold if advice else False,
        excluded=advice.exclude if advice else (),
        times=incident.times,
        next=then or _short(incident),
    )


def incident_of(facts: JobFacts, incident: Incident) -> IncidentItem:
    """The row of one incident of a job whose facts are at hand."""
    record = facts.record
    row = IncidentRow(
        job=record.job,
        name=record.name,
        user=record.user,
        partition=record.partition,
        workflow=record.workflow,
        incident=incident,
    )
    return incident_item(row, next_of(facts, incident))


def advice_row(facts: JobFacts, incident: Incident) -> AdviceRow | None:
    """The row of an incident's advice; None unless it is in force and asks for something."""
    advice, record = incident.advice, facts.record
    if advice is None or incident.state is not IncidentState.ADVISED:
        return None
    standpoint = facts.standpoint(incident)
    return AdviceRow(
        id=advice.id,
        incident_id=incident.id,
        job=record.job,
        name=record.name,
        user=record.user,
        partition=record.partition,
        generation=advice.generation,
        action=advice.action,
        wording=wordings.action(advice),
        reasons=advice.reasons,
        hold=advice.hold,
        stage=facts.stage,
        issued_at=advice.issued_at,
        expires_at=advice.expires_at,
        needs_approval=incident.approval is None and not why_not_approvable(standpoint),
        effect_digest=incident.effect.digest if incident.effect else "",
        waits_for=waits_for(standpoint),
        closed=closed(standpoint),
    )


def node_rows(
    records: tuple[NodeRecord, ...], reports: tuple[ClusterReport, ...], now: datetime
) -> tuple[NodeRow, ...]:
    """All nodes that the newest reports show or that have a history, by cluster and name."""
    known = {(record.cluster, record.node): record for record in records}
    seen = {(report.cluster, view.name): (report, view) for report in reports for view in report.nodes}
    jobs: dict[tuple[str, str], list[str]] = {}
    for report in reports:
        for job in report.jobs:
            for node in () if job.state.is_over else job.nodes:
                jobs.setdefault((report.cluster, node), []).append(job.raw_id)
    rows: list[NodeRow] = []
    for key in sorted(known.keys() | seen.keys()):
        record = known.get(key) or NodeRecord(cluster=key[0], node=key[1])
        exclusions = tuple(item for item in record.exclusions if item.until is None or item.until > now)
        rows.append(_node_row(replace(record, exclusions=exclusions), seen.get(key), tuple(jobs.get(key, ()))))
    return tuple(rows)


def _node_row(record: NodeRecord, seen: tuple[ClusterReport, NodeView] | None, jobs: tuple[str, ...]) -> NodeRow:
    report, view = seen or (None, None)
    return NodeRow(
        cluster=record.cluster,
        node=record.node,
        state=view.state if view else NodeState.UNKNOWN,
        reason=view.reason if view else record.reason,
        set_by=view.set_by if view else record.set_by,
        since=view.since if view else record.since,
        as_of=report.as_of if report else None,
        partitions=view.partitions if view else (),
        jobs=jobs,
        exclusions=record.exclusions,
        suspicions=record.suspicions,
        expected=expected_words(record),
        requests=tuple(item for item in record.requests if item.is_open or item is record.kept_out_by),
    )


def stage_row(cluster: ClusterRecord, report: ClusterReport | None, now: datetime) -> StageRow:
    """What a cluster's stages are set to and what caps them."""
    return StageRow(
        cluster=cluster.cluster,
        setting=cluster.setting,
        partitions=tuple(cluster.partitions[name] for name in sorted(cluster.partitions)),
        caps=cluster.caps,
        storms=cluster.open_storms,
        lost_sources=tuple(sorted(cluster.lost_sources.items())),
        controller=cluster.controller,
        report_as_of=report.as_of if report else None,
        report_age_s=(now - report.as_of).total_seconds() if report else None,
        problems=report.problems if report else (),
    )


def storm_row(cluster: str, storm: Storm, items: tuple[IncidentItem, ...]) -> StormRow:
    """A shared incident with those of its jobs."""
    return StormRow(
        cluster=cluster,
        storm_id=storm.storm_id,
        place=storm.place,
        partition=storm.partition,
        file_system=storm.file_system,
        reason=storm.reason,
        opened_at=storm.opened_at,
        cleared_at=storm.cleared_at,
        cleared_by=storm.cleared_by,
        next=_next_of_storm(storm),
        incidents=items,
    )


def _next_of_storm(storm: Storm) -> str:
    if storm.is_open:
        return "restarts wait, and what ends is parked, until nothing new comes for a while or a person ends it"
    if storm.canary_stepped:
        return "it has cleared, and the first job has made a step: the others follow one after another"
    if storm.canary is not None:
        return f"it has cleared: {storm.canary} goes first, to its first step"
    return "it has cleared"


def history_row(recorded: Recorded) -> HistoryRow:
    """An event as it is told."""
    telling = told(recorded.event)
    return HistoryRow(
        position=recorded.position,
        at=telling.at or recorded.recorded_at,
        stream=str(recorded.stream),
        version=recorded.version,
        event=type(recorded.event).__name__,
        title=telling.title,
        detail=telling.detail,
        incident_id=getattr(recorded.event, "incident_id", None),
    )


def _short(incident: Incident) -> str:
    word = wordings.name(incident.end.value if incident.end else incident.state.value)
    return f"{word}: {incident.end_reason}" if incident.end_reason else word
