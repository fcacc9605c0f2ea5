"""What people are told without asking: one notice for each thing that needs them, and nothing else. Pure.

A notice's id is made of what it is about, so that the same thing said again by the history is told once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from relance.attribution import faults_sentence
from relance.domain import events as e
from relance.domain.advice import NEEDS_A_PERSON, Advice, Answer, Guard
from relance.domain.findings import FindingKind
from relance.domain.fleet import place_words
from relance.domain.incidents import Incident, IncidentState
from relance.domain.keys import stable_id
from relance.domain.records import JobRecord, Record
from relance.domain.requests import OURSELVES
from relance.domain.stages import Stage
from relance.domain.streams import Recorded
from relance.ports.notifiers import Notice, NoticeKind
from relance.recovery import wordings
from relance.recovery.answers import first_quote
from relance.recovery.storytelling import commands_of

_SHORT_HOLD = timedelta(minutes=5)
"""A hold that is decided again within this time is nobody's business (operators.md 3)."""
_DID_NOTHING = frozenset({e.ActionFailed.__name__, e.ActionAbandoned.__name__})


def notices_for(recorded: Recorded, record: Record) -> tuple[Notice, ...]:
    """The notices that an event asks for; `record` is its stream's record after the event."""
    event = recorded.event
    if isinstance(event, e.ClusterEvent):
        return _of_cluster(recorded, event)
    if isinstance(record, JobRecord) and isinstance(event, e.JobEvent):
        return _of_job(recorded, event, record)
    return ()


def _of_cluster(recorded: Recorded, event: e.ClusterEvent) -> tuple[Notice, ...]:
    match event:
        case e.StormOpened():
            kind, about = NoticeKind.STORM, event.storm_id
            place = place_words(event.partition, event.file_system)
            title = f"storm on {event.cluster} {place}: restarts there wait for a shared cause"
            jobs = wordings.count(len(event.incidents), "job")
            text = f"{event.reason}; {jobs} so far: `relance storm show` lists them, and no page comes for each"
        case e.SourceLost():
            kind, about = NoticeKind.SOURCE_LOST, f"{event.source}/{event.at.isoformat()}"
            title, text = f"source {event.source} on {event.cluster} is lost", event.reason
        case e.HealthCapped():
            cap = event.cap
            kind, about = NoticeKind.SOURCE_LOST, f"{cap.name}/{cap.partition}/{cap.since.isoformat()}"
            title = f"{event.cluster}: {cap.effect} while it lasts: {cap.name}"
            text = cap.reason
        case _:
            return ()
    return (
        Notice(
            id=stable_id("ntc", kind.value, event.cluster, about),
            kind=kind,
            cluster=event.cluster,
            title=title,
            text=text,
            at=recorded.recorded_at,
        ),
    )


def _of_job(recorded: Recorded, event: e.JobEvent, record: JobRecord) -> tuple[Notice, ...]:
    at = recorded.recorded_at
    match event:
        case e.ActionPrepared() if event.stage is Stage.APPROVE:
            return _approval_needed(event, record, at)
        case e.AdviceIssued() if _is_told(event.advice):
            return _held(event, record, at)
        case e.ActionSucceeded() if NEEDS_A_PERSON in event.reason:
            title = f"{_name(record)} does not start: {NEEDS_A_PERSON}"
            matter = _Matter(kind=NoticeKind.HELD, about=event.action_id, title=title, text=event.reason)
            return _notice(matter, record, record.incident(event.incident_id), at)
        case e.IncidentClosed() if event.end is e.IncidentEnd.STOPPED or _came_to_nothing(event, record):
            return _stopped(event, record, at)
        case e.FindingReported() if event.finding.kind is FindingKind.DID_NOT_RESUME:
            matter = _Matter(
                kind=NoticeKind.DID_NOT_RESUME,
                about=str(event.finding.attempt),
                title=f"{_name(record)} did not resume from its last checkpoint",
                text=f"{event.finding.summary}; no further automatic restart",
            )
            return _notice(matter, record, None, at)
        case e.JobSwitched() if event.by == OURSELVES:
            matter = _Matter(
                kind=NoticeKind.OTHER_ENGINE,
                about=str(event.job),
                title=f"{_name(record)} was put at observe: another engine may be at work",
                text=f"{event.reason}; `relance off {event.job.raw_id} --undo` lifts it",
            )
            return _notice(matter, record, None, at)
        case e.ActionUnknown():
            matter = _Matter(
                kind=NoticeKind.ACTION_UNKNOWN,
                about=event.action_id,
                title=f"it cannot be told whether an action on {_name(record)} was carried out",
                text=event.reason,
            )
            return _notice(matter, record, record.incident(event.incident_id), at)
        case _:
            return ()


def _approval_needed(event: e.ActionPrepared, record: JobRecord, at: datetime) -> tuple[Notice, ...]:
    incident = record.incident(event.incident_id)
    if incident is None or incident.advice is None or incident.state is not IncidentState.ADVISED:
        return ()
    if incident.advice.id != event.advice_id or not incident.advice.may_begin or incident.approval is not None:
        return ()
    advice = incident.advice
    title = f"approve: {wordings.action(advice)} ({_name(record)})?"
    facts = {
        "advice": advice.id,
        "generation": str(advice.generation),
        "effect": event.effect.digest,
        "good_until": advice.expires_at.isoformat(),
        "commands": "\n".join(commands_of(event.effect)),
    }
    text = f"{_fault(incident)}; good until {advice.expires_at:%H:%M:%S UTC}; without an answer nothing is done"
    about = f"{advice.id}/{event.effect.digest}"
    matter = _Matter(kind=NoticeKind.APPROVAL_NEEDED, about=about, title=title, text=text, facts=facts)
    return _notice(matter, record, incident, at)


def _held(event: e.AdviceIssued, record: JobRecord, at: datetime) -> tuple[Notice, ...]:
    incident, advice = record.incident(event.incident_id), event.advice
    closed = [*choice_of(advice), *(guard for guard in advice.guards if guard.answer is not Answer.YES)]
    name = closed[0].name if closed else "hold"
    again = f"; decided again at {advice.decide_again_at:%H:%M:%S UTC}" if advice.decide_again_at else ""
    text = (closed[0].reason if closed else "; ".join(advice.reasons)) + again
    title = f"held: {wordings.action(advice)} ({_name(record)})"
    matter = _Matter(kind=NoticeKind.HELD, about=f"{event.incident_id}/{name}", title=title, text=text)
    return _notice(matter, record, incident, at)


def _is_told(advice: Advice) -> bool:
    """Whether a hold is worth a notice: one of a few minutes passes by itself, and a storm is told once for all."""
    if choice_of(advice):
        return True
    if not advice.hold or advice.storm:
        return False
    return advice.decide_again_at is None or advice.decide_again_at - advice.issued_at > _SHORT_HOLD


def choice_of(advice: Advice) -> tuple[Guard, ...]:
    """The guard that leaves a choice to people, if one does: the job waits parked meanwhile."""
    asks = advice.hold or advice.park
    return tuple(guard for guard in advice.guards if asks and NEEDS_A_PERSON in guard.reason)


def _came_to_nothing(event: e.IncidentClosed, record: JobRecord) -> bool:
    """Whether the incident ends with the failed attempt still the job's newest, because our own action did nothing."""
    incident = record.incident(event.incident_id)
    if incident is None or incident.action is None or incident.action.end not in _DID_NOTHING or not record.attempts:
        return False
    newest = record.attempts[-1]
    return newest.attempt == incident.attempt and newest.outcome is not None and newest.outcome.is_failure


def _stopped(event: e.IncidentClosed, record: JobRecord, at: datetime) -> tuple[Notice, ...]:
    """One notice a job; of an array's tasks that ended of one cause, one for them all (peers.md A6)."""
    incident = record.incident(event.incident_id)
    title, about = f"{_name(record)} ended and is not started again", event.incident_id
    text = f"{event.reason}. {_fault(incident)}" if incident is not None else event.reason
    if record.array is not None and incident is not None and incident.verdict is not None:
        about = f"{record.job.cluster}/{record.array}/{incident.verdict.fingerprint}"
        title = f"tasks of array {record.array} {record.name} ended and are not started again, {_name(record)} first"
    matter = _Matter(kind=NoticeKind.JOB_STOPPED, about=about, title=title, text=text)
    return _notice(matter, record, incident, at)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matter:
    """What a notice about a job is about: `about` makes its id."""

    kind: NoticeKind
    about: str
    title: str
    text: str
    facts: Mapping[str, str] = field(default_factory=dict)


def _notice(matter: _Matter, record: JobRecord, incident: Incident | None, at: datetime) -> tuple[Notice, ...]:
    quote = first_quote(incident.verdict) if incident else None
    shown = {"line": quote.text, "place": quote.place} if quote else {}
    return (
        Notice(
            id=stable_id("ntc", matter.kind.value, matter.about),
            kind=matter.kind,
            cluster=record.job.cluster,
            title=matter.title,
            text=matter.text,
            at=at,
            job=str(record.job),
            incident_id=incident.id if incident else None,
            owner=record.user or None,
            facts={"name": record.name, **shown, **matter.facts},
        ),
    )


def _fault(incident: Incident) -> str:
    return faults_sentence(incident.verdict).rstrip(".") if incident.verdict else "it is not judged yet"


def _name(record: JobRecord) -> str:
    return f"job {record.job.raw_id} {record.name}".strip()
