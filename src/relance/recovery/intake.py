"""Intake: from a controller's reports and a watcher's findings to events. Pure.

Exit detection lives here: an attempt that the scheduler calls failed is a finding of its own.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from relance.domain import events as e
from relance.domain.advice import ActionKind
from relance.domain.clocks import Milestones, Stamp
from relance.domain.findings import Certainty, Finding, FindingKind, Sign
from relance.domain.incidents import Incident, IncidentState
from relance.domain.keys import AttemptKey, JobKey, stable_id
from relance.domain.progress import Progress
from relance.domain.records import AttemptRecord, JobRecord, NodeRecord
from relance.domain.requests import BY_US, OURSELVES, RequestVerb, asker_of
from relance.domain.stages import Stage
from relance.domain.views import Hold, JobState, JobView, NodeState, NodeView, PastAttempt

_OPENING = frozenset(set(FindingKind) - {FindingKind.NODE_HEALTH})
_OPEN_ENDS = (None, e.ActionUnknown.__name__)
_NOT_KNOWN = (None, JobState.UNKNOWN)
"""An outcome that nobody has told yet, or that nobody could tell when the job was not shown: a later look may."""
_UNEXPLAINED = "requeue: restart count"
_REQUEUED_BY_SCHEDULER = frozenset({JobState.NODE_FAIL, JobState.PREEMPTED, JobState.BOOT_FAIL})
_ENDED_BY_OTHERS = frozenset({JobState.CANCELLED, JobState.PREEMPTED, JobState.TIMEOUT, JobState.DEADLINE})


def job_events(
    record: JobRecord, view: JobView, past: tuple[PastAttempt, ...], progress: Progress | None, now: datetime
) -> tuple[e.JobEvent, ...]:
    """What a fresh look at a job adds to its stream. An empty record means that the job is new."""
    cluster = record.job.cluster
    key = AttemptKey(job=record.job, restart_count=view.restart_count)
    found: list[e.JobEvent] = []
    if not record.name and not record.attempts:
        found.append(_job_seen(record, view))
    elif record.wish != view.wish:
        found.append(e.WishChanged(job=record.job, wish=view.wish))
    earlier = _earlier_attempts(record, view, past, now)
    found += earlier
    found += _outside(record, view, key, _outcome_before(record, view, earlier))
    found += _missed_failure(record, view, earlier, now)
    known = record.attempt(key)
    if _has_begun(view) and (known is None or known.started_at is None or (view.nodes and not known.nodes)):
        by_us = _is_our_restart(record, key)
        found.append(
            e.AttemptStarted(
                attempt=key,
                nodes=view.nodes,
                started_at=view.started_at,
                by_us=by_us,
                gpu_count=view.gpu_count,
            )
        )
    if view.state.is_over and (known is None or known.outcome in _NOT_KNOWN):
        found.append(_attempt_ended(key, view, progress))
        if view.state.is_failure:
            found += finding_events(record, (exit_finding(cluster, key, view, progress, now),), now)
    return tuple(found)


def exit_finding(cluster: str, key: AttemptKey, view: JobView, progress: Progress | None, now: datetime) -> Finding:
    """The finding that an attempt ended badly, from the scheduler's words alone."""
    ended = view.ended_at or now
    code = "" if view.exit_code is None else f", exit code {view.exit_code}:{view.exit_signal or 0}"
    signs = frozenset({Sign.NODE_DOWN}) if view.state is JobState.NODE_FAIL else frozenset({Sign.PROCESS_DEATH})
    return Finding(
        id=stable_id("fnd", key, "exit", view.state.value),
        attempt=key,
        detector="exit",
        kind=FindingKind.EXIT,
        certainty=Certainty.CONFIRMED,
        symptom=f"ended_{view.state.value}",
        summary=f"{cluster}: the scheduler says {view.state.value}{code}",
        first_evidence_at=ended,
        symptom_at=(progress.step_at if progress and progress.step_at else ended),
        signs=signs,
        progress=progress,
    )


def node_lost_finding(key: AttemptKey, node: NodeView, progress: Progress | None, now: datetime) -> Finding:
    """The finding that the scheduler lost a node of a running attempt."""
    since = node.since or now
    return Finding(
        id=stable_id("fnd", key, "node_down", node.name),
        attempt=key,
        detector="exit",
        kind=FindingKind.CRASH,
        certainty=Certainty.CONFIRMED,
        symptom="node_down",
        summary=f"the scheduler lost node {node.name}: {node.reason or 'no reason given'}",
        first_evidence_at=since,
        symptom_at=since,
        signs=frozenset({Sign.NODE_DOWN}),
        progress=progress,
    )


def finding_events(record: JobRecord, findings: tuple[Finding, ...], now: datetime) -> tuple[e.JobEvent, ...]:
    """The events that store findings and open or join an incident. A finding that is known adds nothing."""
    found: list[e.JobEvent] = []
    known = set(record.finding_ids)
    opened: dict[AttemptKey, str] = {item.attempt: item.id for item in record.incidents if item.is_open}
    closed = {item.attempt for item in record.incidents if not item.is_open}
    for finding in findings:
        if finding.id in known:
            continue
        known.add(finding.id)
        found.append(e.FindingReported(finding=finding, at=now))
        incident_id = opened.get(finding.attempt)
        if incident_id is not None:
            found.append(e.FindingAttached(incident_id=incident_id, finding_id=finding.id))
        elif finding.kind in _OPENING and _may_open(record, finding, closed):
            found += _close_older(record, finding, opened, now)
            opened = {finding.attempt: stable_id("inc", finding.attempt, finding.id)}
            found.append(_opened(opened[finding.attempt], finding, now, _told_at(record, finding, now)))
    return tuple(found)


def node_events(
    cluster: str, record: NodeRecord, view: NodeView, now: datetime, ours: str = ""
) -> tuple[e.NodeEvent, ...]:
    """What a fresh look at a node adds to its stream: only a change of state, never work coming and going.

    `ours` says which act of ours brought it there, if one did.
    """
    calm = {NodeState.IDLE, NodeState.ALLOCATED}
    same = record.state is view.state or {record.state, view.state} <= calm
    if same and (record.reason == view.reason or view.state in calm):
        return ()
    if record.state is NodeState.UNKNOWN and view.state in calm:
        return ()
    return (
        e.NodeChanged(
            cluster=cluster,
            node=view.name,
            state=view.state,
            reason=view.reason,
            set_by=view.set_by,
            at=view.since or now,
            ours=ours,
        ),
    )


def _job_seen(record: JobRecord, view: JobView) -> e.JobSeen:
    return e.JobSeen(
        job=record.job,
        name=view.name,
        user=view.user,
        owner_uid=view.owner_uid,
        partition=view.partition,
        workflow=view.wish.workflow or f"{view.user}/{view.name}",
        node_count=view.node_count,
        wish=view.wish,
        array=view.array,
        work_dir=view.work_dir,
        script_id=view.script_id,
        account=view.account,
    )


def _has_begun(view: JobView) -> bool:
    return view.state in (JobState.RUNNING, JobState.COMPLETING) or (view.state.is_over and view.started_at is not None)


def _is_our_restart(record: JobRecord, key: AttemptKey) -> bool:
    """Whether this attempt is Relance's doing: a controller's, or the watchdog's while none lived."""
    before = replace(key, restart_count=key.restart_count - 1)
    return record.restarted_by_watchdog(before) or any(_restart_of(item, key) for item in record.incidents)


def _restart_of(incident: Incident, key: AttemptKey) -> bool:
    return (
        incident.restarted_by_us
        and incident.attempt.job == key.job
        and incident.attempt.restart_count + 1 == key.restart_count
    )


def row_key(cluster: str, row: PastAttempt) -> JobKey:
    """The job that a row of accounting belongs to: never an older one that had the same id."""
    return JobKey(cluster=cluster, raw_id=row.raw_id, submitted_at=row.first_submitted_at)


def _earlier_attempts(
    record: JobRecord, view: JobView, past: tuple[PastAttempt, ...], now: datetime
) -> list[e.JobEvent]:
    """Attempts that ended while nobody looked: from accounting, else as `requeued` once a later one is seen."""
    found: list[e.JobEvent] = []
    rows = {row.restart_count: row for row in past if row_key(record.job.cluster, row) == record.job}
    seen = {item.attempt.restart_count: item for item in record.attempts}
    for count in range(view.restart_count):
        known = seen.get(count)
        row = rows.get(count)
        if known is not None and known.outcome is not None and not _is_told_better(known, row):
            continue
        if known is None and row is None:
            continue  # never seen by anybody we can ask
        key = AttemptKey(job=record.job, restart_count=count)
        if known is None and row is not None:
            found.append(e.AttemptStarted(attempt=key, nodes=row.nodes, started_at=row.started_at))
        found.append(
            e.AttemptEnded(
                attempt=key,
                outcome=row.state if row else JobState.REQUEUED,
                ended_at=(row.ended_at if row else None) or now,
                exit_code=row.exit_code if row else None,
                exit_signal=row.exit_signal if row else None,
                cancelled_by=row.cancelled_by if row else None,
                highest_step=known.highest_step if known else None,
                durable_step=known.durable_step if known else None,
                is_measured=True,
            )
        )
    return found


def _is_told_better(known: AttemptRecord, row: PastAttempt | None) -> bool:
    """Whether accounting, which comes a little later, tells how an attempt ended that only showed as requeued.

    A preemption may show nowhere else (operators.md V5).
    """
    return known.outcome is JobState.REQUEUED and row is not None and row.state is not JobState.REQUEUED


def _outcome_before(record: JobRecord, view: JobView, earlier: list[e.JobEvent]) -> JobState | None:
    """How the attempt before the one that is shown ended, as far as it is known."""
    key = AttemptKey(job=record.job, restart_count=view.restart_count - 1)
    told = next((item for item in earlier if isinstance(item, e.AttemptEnded) and item.attempt == key), None)
    known = record.attempt(key)
    return told.outcome if told is not None else known.outcome if known is not None else None


def _missed_failure(
    record: JobRecord, view: JobView, earlier: list[e.JobEvent], now: datetime
) -> tuple[e.JobEvent, ...]:
    """The finding that an attempt of a known job ended badly, and was requeued by others before anybody looked."""
    if not record.name:
        return ()
    findings = tuple(
        exit_finding(
            record.job.cluster,
            item.attempt,
            replace(
                view, state=item.outcome, ended_at=item.ended_at, exit_code=item.exit_code, exit_signal=item.exit_signal
            ),
            None,
            now,
        )
        for item in earlier
        if isinstance(item, e.AttemptEnded)
        and item.outcome.is_failure
        and item.attempt.restart_count == view.restart_count - 1
    )
    return finding_events(record, findings, now)


def _outside(record: JobRecord, view: JobView, key: AttemptKey, before: JobState | None) -> list[e.JobEvent]:
    """What people and the scheduler did, each once; `before` is how the attempt before ended."""
    changes: list[tuple[str, str, str | None, datetime | None]] = []
    if _is_others(record, view, key):
        own = before in _REQUEUED_BY_SCHEDULER
        detail = f"{'by the scheduler: ' if own else ''}restart count is {view.restart_count}"
        changes.append(("requeue", detail, "scheduler" if own else None, view.submitted_at))
    if view.state is JobState.CANCELLED:
        uid = None if view.cancelled_by is None else f"uid {view.cancelled_by}"
        who = _asker(record, RequestVerb.CANCEL, view) or uid
        changes.append(("cancel", f"attempt {view.restart_count}", who, view.ended_at))
    if view.hold in (Hold.USER, Hold.ADMIN, Hold.SCHEDULER) and not _may_be_our_hold(record, view, key):
        who = "scheduler" if view.hold is Hold.SCHEDULER else _asker(record, RequestVerb.HOLD, view)
        changes.append(("hold", f"attempt {view.restart_count} by {view.hold.value}", who, None))
    if view.hold is Hold.NONE and any(
        text.startswith(f"hold: attempt {view.restart_count} ") for text in record.outside
    ):
        who = _asker(record, RequestVerb.RELEASE, view)
        changes.append(("release", f"attempt {view.restart_count}", who, None))
    if view.preempted_at is not None:
        changes.append(("preempt", f"attempt {view.restart_count}", "scheduler", view.preempted_at))
    if view.state in _ENDED_BY_OTHERS - {JobState.CANCELLED, JobState.PREEMPTED}:
        changes.append((view.state.value, f"attempt {view.restart_count}", "scheduler", view.ended_at))
    found: list[e.JobEvent] = [
        e.OutsideChangeSeen(job=record.job, change=change, detail=detail, who=who, at=at)
        for change, detail, who, at in changes
        if f"{change}: {detail}" not in record.outside
    ]
    return [*found, *_other_engine(record, found)]


def _may_be_our_hold(record: JobRecord, view: JobView, key: AttemptKey) -> bool:
    """Whether a restart that is under way may hold it: a person's hold still shows when that has ended."""
    return view.hold is Hold.USER and any(
        item.action is not None
        and item.action.end in _OPEN_ENDS
        and item.action.kind in (ActionKind.RESTART, ActionKind.PARK)
        and item.attempt.job == key.job
        and item.attempt.restart_count + 1 == key.restart_count
        for item in record.incidents
    )


def _asker(record: JobRecord, verb: RequestVerb, view: JobView) -> str | None:
    """The person for whom Relance did it; None: it was not done by us."""
    asker = asker_of(record.requests, verb, view.restart_count)
    return f"{asker}{BY_US}" if asker is not None else None


def _is_others(record: JobRecord, view: JobView, key: AttemptKey) -> bool:
    """Whether there is a new attempt that is not our doing."""
    newest = max((item.attempt.restart_count for item in record.attempts), default=view.restart_count)
    return view.restart_count > newest and not _is_our_restart(record, key)


def _other_engine(record: JobRecord, found: list[e.JobEvent]) -> list[e.JobEvent]:
    """A second restart that nobody explains: another engine may be at work, and two would double each other's work.

    One may be a person's hand (design 8). The job is left at observe until its owner or an operator lifts it.
    """
    now = any(
        isinstance(event, e.OutsideChangeSeen) and event.change == "requeue" and event.who is None for event in found
    )
    # What accounting has told since, late, to have been the scheduler's own does not count.
    own = {f"{_UNEXPLAINED} is {item.attempt.restart_count + 1}" for item in record.attempts
           if item.outcome in _REQUEUED_BY_SCHEDULER}  # fmt: skip
    before = any(text.startswith(_UNEXPLAINED) and text not in own for text in record.outside)
    if not now or not before or record.switch is not None:
        return []
    reason = "restarted again by something that is not Relance: another engine may be at work on this job"
    return [e.JobSwitched(job=record.job, stage=Stage.OBSERVE, by=OURSELVES, reason=reason)]


def _attempt_ended(key: AttemptKey, view: JobView, progress: Progress | None) -> e.AttemptEnded:
    return e.AttemptEnded(
        attempt=key,
        outcome=view.state,
        ended_at=view.ended_at,
        exit_code=view.exit_code,
        exit_signal=view.exit_signal,
        cancelled_by=view.cancelled_by,
        highest_step=progress.highest_step if progress else None,
        durable_step=progress.checkpoint_durable if progress else None,
        is_measured=True,
    )


def _may_open(record: JobRecord, finding: Finding, closed: set[AttemptKey]) -> bool:
    """Whether a finding opens an incident: not for an attempt that a newer one has replaced, or one dealt with.

    An attempt that went on after a closed incident may have another; one that has ended was dealt with. What is over
    already opens none, and a silence that may yet pass by itself none yet.
    """
    if finding.over or finding.is_passing:
        return False
    newest = max((item.attempt.restart_count for item in record.attempts), default=0)
    if finding.attempt.restart_count < newest:
        return False
    attempt: AttemptRecord | None = record.attempt(finding.attempt)
    over = attempt is not None and attempt.outcome is not None
    return not (over and finding.attempt in closed)


def _close_older(record: JobRecord, finding: Finding, opened: dict[AttemptKey, str], now: datetime) -> list[e.JobEvent]:
    """An incident of an earlier attempt ends as relapsed when the next attempt opens its own."""
    reason = f"attempt {finding.attempt.restart_count + 1} has an incident of its own"
    return [
        e.IncidentClosed(incident_id=item.id, end=e.IncidentEnd.RELAPSED, reason=reason, at=now)
        for item in record.incidents
        if item.is_open and item.attempt in opened and item.state is not IncidentState.CLOSED
    ]


def _told_at(record: JobRecord, finding: Finding, now: datetime) -> datetime:
    """When what a finding tells was stored first: a hang that lasts was suspected before it became an incident."""
    before = [
        silence.told_at
        for silence in record.silences
        if silence.told_at is not None
        and finding.kind is FindingKind.HANG
        and (silence.attempt, silence.symptom_at) == (finding.attempt, finding.symptom_at)
    ]
    return min([now, *before])


def _opened(incident_id: str, finding: Finding, now: datetime, told_at: datetime) -> e.IncidentOpened:
    return e.IncidentOpened(
        incident_id=incident_id,
        attempt=finding.attempt,
        finding_id=finding.id,
        opened_at=now,
        times=Milestones(
            fault=Stamp(at=finding.first_evidence_at, clock="log"),
            symptom=Stamp(at=finding.symptom_at, clock="log"),
            detect=Stamp(at=told_at, clock="server"),
        ),
    )
