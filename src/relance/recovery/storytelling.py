"""From facts and events to the stories of a job and of an incident. Pure."""

from __future__ import annotations

import shlex
from datetime import datetime

from relance.domain import events as e
from relance.domain.advice import Command, Effect
from relance.domain.clocks import Milestones, Stamp, seconds_between
from relance.domain.collecting_events import Collecting
from relance.domain.findings import Coverage, Finding, FindingKind, Sight
from relance.domain.fleet import Storm
from relance.domain.incidents import Incident, IncidentState
from relance.domain.requests import RequestRecord
from relance.domain.streams import Recorded
from relance.recovery import wordings
from relance.recovery.answers import JobFacts, alarm, fault, first_quote, five_answers, next_of
from relance.recovery.by_hand import quarantines
from relance.recovery.gatings import closed, gates_of, why_not_approvable
from relance.recovery.kept_logs import kept_logs
from relance.recovery.ordering import switch
from relance.recovery.situations import findings_of
from relance.recovery.stories import Entry, IncidentStory, JobStory, MilestoneLine, Quote, quote_of
from relance.recovery.tables import incident_of, job_row
from relance.recovery.tellings import told

_QUOTES_PER_ENTRY = 5
_NOTES_ON_LOGS = 5
_ASKED = 3
_UNREAD = (Sight.REFUSED, Sight.MISSING)

MILESTONES = {
    "fault": "first evidence",
    "symptom": "symptom",
    "detect": "finding stored",
    "attribute": "verdict",
    "advise": "advice",
    "act": "scheduler accepted",
    "running": "new attempt running",
    "step": "its first step",
    "progress": "first step beyond the old",
}
"""The milestones of design 9 in their order, with the words for people."""


def job_story(facts: JobFacts, recorded: tuple[Recorded, ...]) -> JobStory:
    """The story of one job from its facts and the events of its stream."""
    incident = facts.last_incident
    kinds = {finding.kind for finding in findings_of(recorded).values() if finding.attempt == facts.current}
    return JobStory(
        job=job_row(facts),
        answers=five_answers(facts),
        happened=incident.verdict.summary if incident and incident.verdict else "",
        opinions=incident.verdict.opinions if incident and incident.verdict else (),
        quote=first_quote(incident.verdict) if incident else None,
        alarm=alarm(facts, did_not_resume=FindingKind.DID_NOT_RESUME in kinds),
        notes=_notes(facts),
        storm=_storm_of(facts, facts.record.open_incident),
        closed=_closed(facts),
        attempts=facts.record.attempts,
        incidents=tuple(incident_of(facts, item) for item in reversed(facts.record.incidents)),
        kept=kept_logs(recorded),
    )


def _storm_of(facts: JobFacts, incident: Incident | None) -> Storm | None:
    """The shared incident that the advice on an incident names, while the cluster's record has it."""
    wanted = incident.advice.storm if incident is not None and incident.advice is not None else ""
    return next((storm for storm in facts.cluster.storms if wanted and storm.storm_id == wanted), None)


def _closed(facts: JobFacts) -> tuple[str, ...]:
    """What keeps the advice on the open incident, where it asks for something."""
    incident = facts.record.open_incident
    if incident is None or incident.state is not IncidentState.ADVISED or incident.advice is None:
        return ()
    asks = incident.advice.may_begin or (incident.advice.hold and incident.advice.action.restarts)
    return closed(facts.standpoint(incident)) if asks else ()


def incident_story(facts: JobFacts, incident: Incident, recorded: tuple[Recorded, ...]) -> IncidentStory:
    """The story of one incident, in the order of the history."""
    every = findings_of(recorded)
    findings = tuple(every[item] for item in incident.findings if item in every)
    verdict = incident.verdict
    standpoint = facts.standpoint(incident)
    return IncidentStory(
        incident=incident_of(facts, incident),
        job=job_row(facts),
        happened=verdict.summary if verdict else "",
        fault=fault(incident) if verdict else "",
        next=next_of(facts, incident),
        verdict=verdict,
        quote=first_quote(verdict),
        evidence=tuple(quote_of(hit) for hit in verdict.evidence) if verdict else (),
        findings=findings,
        coverage=_coverage(findings),
        advice=incident.advice,
        storm=_storm_of(facts, incident),
        gates=gates_of(standpoint),
        effect=incident.effect,
        commands=commands_of(incident.effect),
        approval=incident.approval,
        not_approvable=why_not_approvable(standpoint),
        action=incident.action,
        stage=facts.stage,
        milestones=milestones(incident.times),
        entries=tuple(_entry(item) for item in recorded if _belongs(item, incident)),
        kept=kept_logs(recorded, incident.attempt),
        by_hand=quarantines(verdict, facts.rules),
        position=max((item.position for item in recorded), default=0),
    )


def commands_of(effect: Effect | None) -> tuple[str, ...]:
    """The commands of an effect, one line each, quoted as a shell would need them."""
    return tuple(_line(command) for command in effect.commands) if effect else ()


def milestones(times: Milestones) -> tuple[MilestoneLine, ...]:
    """The nine milestones, known or not, with the seconds since the symptom."""
    found: list[MilestoneLine] = []
    for name, wording in MILESTONES.items():
        stamp: Stamp | None = getattr(times, name)
        since_s = seconds_between(times.symptom, stamp)
        found.append(MilestoneLine(name=name, wording=wording, stamp=stamp, since_symptom_s=since_s))
    return tuple(found)


def _line(command: Command) -> str:
    return shlex.join(command.argv)


def _belongs(recorded: Recorded, incident: Incident) -> bool:
    event = recorded.event
    if getattr(event, "incident_id", None) == incident.id:
        return not isinstance(event, e.FindingAttached)  # the finding itself is told
    if isinstance(event, e.FindingReported):
        return event.finding.id in incident.findings
    if isinstance(event, e.AttemptStarted | e.AttemptEnded | e.AttachmentKept):
        return event.attempt in (incident.attempt, incident.next_attempt)
    if isinstance(event, e.WatchdogActed):
        return event.attempt == incident.attempt
    if isinstance(event, e.OutsideChangeSeen | e.JobSwitched | e.ActionRequested | e.RequestEnded):
        ended = incident.ended_at is not None and recorded.recorded_at > incident.ended_at
        return recorded.recorded_at >= incident.opened_at and not ended
    return False


def _entry(recorded: Recorded) -> Entry:
    event, telling = recorded.event, told(recorded.event)
    quotes: tuple[Quote, ...] = ()
    if isinstance(event, e.FindingReported):
        quotes = tuple(quote_of(hit) for hit in event.finding.hits[:_QUOTES_PER_ENTRY])
    elif isinstance(event, e.VerdictReached):
        quotes = tuple(quote_of(hit) for hit in event.verdict.evidence[:_QUOTES_PER_ENTRY])
    elif isinstance(event, e.EvidenceCollected | e.EvidenceFailed):
        quotes = tuple(quote_of(hit) for hit in event.hits[:_QUOTES_PER_ENTRY])
    shows_commands = e.ActionPrepared | e.ActionStarted | e.EvidencePrepared | e.EvidenceStarted | e.RequestStarted
    effect = event.effect if isinstance(event, shows_commands) else None
    return Entry(
        position=recorded.position,
        at=telling.at or recorded.recorded_at,
        recorded_at=recorded.recorded_at,
        event=type(event).__name__,
        title=telling.title,
        detail=telling.detail,
        who=telling.who,
        quotes=quotes,
        commands=commands_of(effect),
    )


def _coverage(findings: tuple[Finding, ...]) -> tuple[Coverage, ...]:
    """The newest word on each source."""
    return tuple({item.source: item for finding in findings for item in finding.coverage}.values())


def _notes(facts: JobFacts) -> tuple[str, ...]:
    record = facts.record
    notes = list(record.wish.notes)
    if record.disagreed:
        notes.append(f"said to be wrong: {record.disagreed}")
    ceiling = switch(record, facts.now)
    if ceiling is not None:
        until = f" until {record.switch_until:%Y-%m-%d %H:%M UTC}" if record.switch_until else ""
        notes.append(f"switched to {ceiling.value}{until}")
    deed = next((item for item in reversed(record.watchdog) if item.is_requeue), None)
    if deed is not None:
        notes.append(f"{wordings.moment(deed.at, facts.now)}: {wordings.deed(deed)}, as no controller did")
    notes += [asked_words(item, facts.now) for item in record.requests[-_ASKED:]]
    incident = record.open_incident
    if incident is not None and incident.evidence:
        notes.append(_evidence_note(incident.evidence[-1], facts.now))
    return (*notes, *_unread(facts.coverage))


def asked_words(item: RequestRecord, now: datetime) -> str:
    """What a person asked to be done to a job, why, and what came of it, in one line."""
    request = item.request
    what = f"{request.verb.value} asked for by {request.by} at {wordings.moment(request.at, now)}: {request.reason}"
    if item.end is None:
        return f"{what} ({'begun' if item.started_at is not None else 'not begun yet'})"
    reason = f": {item.reason}" if item.reason else ""
    return f"{what} ({wordings.request_end(item.end)}{reason})"


def _evidence_note(found: Collecting, now: datetime) -> str:
    """What the newest collection of evidence came to, in one line."""
    if found.ended_at is None:
        if found.started_at is not None:
            return "evidence of the hang is being collected"
        why = "it runs at stage act alone" if found.switched_on else "the site has not switched it on"
        return f"evidence of the hang could be collected: {why}"
    at = wordings.moment(found.ended_at, now)
    if found.hits:
        return f"evidence of the hang, collected at {at}: {found.hits[0].excerpt}"
    if found.is_collected:
        return f"evidence of the hang was collected at {at}; nothing that is read by itself names anybody"
    return f"collecting evidence of the hang failed at {at}: {found.reason}"


def _unread(coverage: tuple[Coverage, ...]) -> tuple[str, ...]:
    """Which logs are not read and why, the first few of them."""
    unread = [f"not read: {item.source}: {item.note}" for item in coverage if item.sight in _UNREAD]
    if len(unread) <= _NOTES_ON_LOGS:
        return tuple(unread)
    return (*unread[:_NOTES_ON_LOGS], f"not read: {len(unread) - _NOTES_ON_LOGS} more")
