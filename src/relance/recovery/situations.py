"""A situation: everything the loop knows of one incident at one moment, gathered once and then a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from relance.domain import events as e
from relance.domain.advice import Exclusion
from relance.domain.faults import FaultDomain, Scope
from relance.domain.findings import Coverage, Finding, FindingKind, Sight
from relance.domain.fleet import FleetView, Storm
from relance.domain.incidents import Incident
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.limits import RestartLimits
from relance.domain.progress import Progress
from relance.domain.quiet_hours import quiet_now
from relance.domain.records import AttemptRecord, ClusterRecord, JobRecord, NodeRecord
from relance.domain.streams import Recorded
from relance.domain.trials import is_trial
from relance.domain.verdicts import CaseFile, EarlierAttempt, FleetSign, Suspect
from relance.domain.views import ClusterReport, JobState, JobView
from relance.ports.histories import IncidentRow
from relance.recovery.assigning import rank_to_node, view_of
from relance.recovery.collecting import collected_hits
from relance.recovery.footprints import expected_nodes
from relance.recovery.queues import RestartQueue
from relance.recovery.sites import ClusterRules
from relance.recovery.storms import file_systems_of
from relance.recovery.verify import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that bears on one job's open incident."""

    record: JobRecord
    findings: Mapping[str, Finding]
    """Every finding of the job, by id."""
    progress: Mapping[AttemptKey, Progress]
    report: ClusterReport | None
    cluster: ClusterRecord
    nodes: tuple[NodeRecord, ...]
    fleet: tuple[FleetSign, ...]
    coverage: tuple[Coverage, ...]
    watched: bool
    """Whether a watcher is at work on this cluster."""
    read_to_end: bool
    """Whether the watcher has said its last word of the open incident's attempt, which has ended."""
    permit_free_at: datetime | None
    storm: Storm | None
    """The storm that concerns the job, with the canary that goes first after it."""
    rules: ClusterRules
    now: datetime
    array_failures: Mapping[str, frozenset[JobKey]] = field(default_factory=dict)
    """By fingerprint, the tasks of the job's array that failed in that way lately."""
    queue: RestartQueue = field(default_factory=RestartQueue)

    @property
    def view(self) -> JobView | None:
        """The job in the newest whole look."""
        return view_of(self.report, self.record.job)

    def of_incident(self, incident: Incident) -> tuple[Finding, ...]:
        """The findings of an incident, in the order in which they came."""
        return tuple(self.findings[item] for item in incident.findings if item in self.findings)

    def of_case(self, incident: Incident) -> tuple[Finding, ...]:
        """The findings of an incident, and what was told of the attempt's nodes, which opens none."""
        joined = set(incident.findings)
        told = tuple(
            finding
            for finding in self.findings.values()
            if finding.kind is FindingKind.NODE_HEALTH
            and finding.attempt == incident.attempt
            and finding.id not in joined
        )
        return (*self.of_incident(incident), *told)

    def read_to(self, incident: Incident) -> datetime | None:
        """Up to when all that the attempt's logs say is known; None when nobody can follow them.

        That they were read at some time is not enough: lines of a death are held back until it is known that no step
        follows, and that is when the watcher has heard of the attempt's end.
        """
        logs = [item for item in self.coverage if item.scope is Scope.APPLICATION]
        followed = not logs or any(item.sight in (Sight.SEEN, Sight.LAGGING) for item in logs)
        if not followed:
            return None
        # While the watcher is away nothing more is known, which does not mean that there is nothing more.
        return self.now if self.watched and self.read_to_end else incident.attempt.job.submitted_at

    def evidence(self, record: JobRecord, incident: Incident) -> Evidence:
        """What verification looks at. A look from before the incident says nothing of a job that it does not show."""
        report, view = self.report, self.view
        newest = {finding.kind: finding for finding in self.of_incident(incident)}
        if view is not None and view.restart_count < incident.attempt.restart_count:
            report = view = None
        return Evidence(
            record=record,
            incident=incident,
            view=view,
            looked=_shows_all_since(report, incident),
            as_of=report.as_of if report is not None else self.now,
            progress=dict(self.progress),
            kinds=frozenset(newest),
            limits=self.rules.limits,
            now=self.now,
            over=frozenset(kind for kind, finding in newest.items() if finding.over),
        )


def _shows_all_since(report: ClusterReport | None, incident: Incident) -> bool:
    return report is not None and report.complete and report.as_of >= incident.opened_at


def findings_of(recorded: tuple[Recorded, ...]) -> dict[str, Finding]:
    """The findings among the events of a stream, by id."""
    return {item.event.finding.id: item.event.finding for item in recorded if isinstance(item.event, e.FindingReported)}


def case_file(situation: Situation, record: JobRecord, incident: Incident) -> CaseFile:
    """The case that attribution is given."""
    attempt = record.attempt(incident.attempt)
    view = situation.view
    same = view is not None and view.restart_count == incident.attempt.restart_count
    nodes = attempt.nodes if attempt and attempt.nodes else (view.nodes if view and same else ())
    shaped = replace(view, nodes=nodes) if view is not None else None
    return CaseFile(
        incident_id=incident.id,
        attempt=incident.attempt,
        as_of=situation.now,
        nodes=nodes,
        rank_to_node=rank_to_node(shaped) if shaped else {},
        job=view if same else _as_it_was(view, attempt),
        findings=situation.of_case(incident),
        node_views=tuple(item for item in (situation.report.nodes if situation.report else ()) if item.name in nodes),
        earlier=earlier_attempts(situation, record, incident),
        node_history=_node_history(situation, incident, nodes),
        fleet=tuple(sign for sign in situation.fleet if sign.incident_id != incident.id),
        coverage=situation.coverage,
        progress=situation.progress.get(incident.attempt),
        signs=collected_hits(record, incident.attempt, situation.progress.get(incident.attempt)),
        expected=expected_nodes(node for node in situation.nodes if node.node in nodes),
    )


def _as_it_was(view: JobView | None, attempt: AttemptRecord | None) -> JobView | None:
    """The job as an attempt left it that a later one has replaced; None where nobody told how it ended.

    Else the nodes of a preempted attempt would be blamed for what its ranks said when they were told to end.
    """
    if view is None or attempt is None or attempt.outcome in (None, JobState.REQUEUED, JobState.UNKNOWN):
        return None
    assert attempt.outcome is not None  # noqa: S101 - said above
    return replace(
        view,
        restart_count=attempt.attempt.restart_count,
        state=attempt.outcome,
        nodes=attempt.nodes,
        started_at=attempt.started_at,
        ended_at=attempt.ended_at,
        exit_code=attempt.exit_code,
        exit_signal=attempt.exit_signal,
        cancelled_by=attempt.cancelled_by,
        preempted_at=None,
        steps=None,
        somebody_at_work=None,
    )


def fleet_view(situation: Situation, incident: Incident) -> FleetView:
    """The cluster around the incident, as policy sees it.

    A look that does not show the job says that it is gone only if it is whole and newer than the incident.
    """
    report, view = situation.report, situation.view
    tells = view is not None or _shows_all_since(report, incident)
    others = tuple(
        job for job in (report.jobs if report else ())
        if view is not None and job.user == view.user and job.raw_id != view.raw_id
    )  # fmt: skip
    return FleetView(
        as_of=report.as_of if report is not None and tells else None,
        facts=report.facts if report else None,
        job=view,
        others=others,
        nodes=report.nodes if report else (),
        exclusions=active_exclusions(situation.nodes, situation.now),
        storm=situation.storm,
        permit_free_at=situation.permit_free_at,
        recoveries=situation.queue.under_way,
        restarts_ahead=situation.queue.ahead_of(incident.id),
        quiet=quiet_now(situation.rules.quiet, _partitions(situation), situation.now),
        windows=report.windows if report else (),
        array_tasks=len(_array_tasks(situation)),
        array_failures={
            fingerprint: len(jobs - {incident.attempt.job}) for fingerprint, jobs in situation.array_failures.items()
        },
    )


def _partitions(situation: Situation) -> tuple[str, ...]:
    """The partitions in which the job may run, as the scheduler shows them."""
    view = situation.view
    shown = view.partition if view is not None else situation.record.partition
    return tuple(part for part in shown.split(",") if part)


def array_failures(rows: Iterable[IncidentRow], record: JobRecord) -> dict[str, frozenset[JobKey]]:
    """The tasks of a job's array that failed, by how; its tasks share owner and workflow."""
    found: dict[str, frozenset[JobKey]] = {}
    for row in rows:
        verdict = row.incident.verdict
        if verdict is not None and (row.user, row.workflow) == (record.user, record.workflow):
            found[verdict.fingerprint] = found.get(verdict.fingerprint, frozenset()) | {row.job}
    return found


def _array_tasks(situation: Situation) -> frozenset[JobKey]:
    """Every task of the job's array that is shown, or failed lately."""
    array, report = situation.record.array, situation.report
    if array is None:
        return frozenset()
    shown = frozenset(
        job.job_key(report.cluster) for job in (report.jobs if report else ()) if report and job.array == array
    )
    return shown.union(*situation.array_failures.values())


def active_exclusions(nodes: tuple[NodeRecord, ...], now: datetime) -> tuple[Exclusion, ...]:
    """The exclusions that have not run out."""
    return tuple(
        item for node in nodes for item in node.exclusions if item.until is None or item.until > now
    )  # fmt: skip


def earlier_attempts(situation: Situation, record: JobRecord, incident: Incident) -> tuple[EarlierAttempt, ...]:
    """What the job's earlier attempts came to, oldest first."""
    found: list[EarlierAttempt] = []
    best = 0
    for item in record.attempts:
        if item.attempt.restart_count >= incident.attempt.restart_count:
            continue
        other = next((one for one in reversed(record.incidents) if one.attempt == item.attempt), None)
        verdict = other.verdict if other else None
        progress = situation.progress.get(item.attempt)
        found.append(
            EarlierAttempt(
                attempt=item.attempt,
                nodes=item.nodes,
                ended_at=item.ended_at,
                cause=verdict.cause if verdict else None,
                fingerprint=verdict.fingerprint if verdict else None,
                suspects=verdict.suspects if verdict else (),
                made_progress=made_progress(progress, best, situation.rules.limits.restarts),
                restarted_by_us=other is not None and other.restarted_by_us,
            )
        )
        best = max(best, (progress.checkpoint_durable or 0) if progress else 0)
    return tuple(found)


def made_progress(progress: Progress | None, durable_before: int, limits: RestartLimits) -> bool | None:
    """Whether an attempt made progress: a new durable checkpoint and enough time of steps.

    None when its progress is not known, which is not "no". An attempt whose steps are known and that saved nothing new
    made none.
    """
    if progress is None or progress.steps_seen == 0:
        return None if progress is None else False
    if progress.checkpoint_durable is None and progress.checkpoint_begun is None and progress.loaded_step is None:
        return None
    began, last = progress.first_step_at, progress.step_at
    long_enough = began is not None and last is not None and last - began >= timedelta(seconds=limits.progress_s)
    return (progress.checkpoint_durable or 0) > durable_before and long_enough


def fleet_signs(rows: tuple[IncidentRow, ...], known: Sequence[str] = ()) -> tuple[FleetSign, ...]:
    """Other jobs' disturbances, from the rows of recent incidents; `known` are the site's file systems."""
    return tuple(
        FleetSign(
            incident_id=row.incident.id,
            owner=row.user,
            workflow=row.workflow,
            domain=row.incident.verdict.domain if row.incident.verdict else FaultDomain.UNKNOWN,
            cause=row.incident.verdict.cause if row.incident.verdict else "",
            at=row.incident.opened_at,
            nodes=tuple(item.node for item in row.incident.verdict.suspects) if row.incident.verdict else (),
            partitions=tuple(part for part in row.partition.split(",") if part),
            file_systems=file_systems_of(row.incident.verdict, (row.work_dir,), known),
        )
        for row in rows
        if not is_trial(row.name)
    )


def _node_history(
    situation: Situation, incident: Incident, nodes: tuple[str, ...]
) -> tuple[tuple[str, Suspect, datetime], ...]:
    return tuple(
        (node.node, suspect, at)
        for node in situation.nodes
        if node.node in nodes
        for suspect, at, other in node.suspicions
        if other != incident.id
    )
