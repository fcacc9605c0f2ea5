"""Advancing an incident: verify, judge, decide, in this order, until nothing more follows. Pure.

The same situation always gives the same events; after a crash the record is folded again and advanced again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from relance.attribution import attribute
from relance.attribution.opinions import with_opinions
from relance.domain import events as e
from relance.domain import records
from relance.domain.advice import Advice
from relance.domain.clocks import Stamp
from relance.domain.incidents import Incident, IncidentState
from relance.domain.records import JobRecord
from relance.domain.stages import Stage
from relance.domain.verdicts import Opinion, Verdict
from relance.domain.views import JobState
from relance.policy import RENEW_BEFORE, Question, decide, same_decision
from relance.recovery.footprints import expected_nodes
from relance.recovery.ordering import job_stage
from relance.recovery.outside import outside_events
from relance.recovery.situations import Situation, case_file, earlier_attempts, fleet_view
from relance.recovery.verify import verification, wake_at

_BEFORE_ACTION = frozenset({IncidentState.OPEN, IncidentState.JUDGED, IncidentState.ADVISED})
_MOST_STEPS = 12
_PERMIT = "permit_free"
"""The name of the guard, as policy gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """What follows from a situation: events to append, and when time alone may bring more."""

    events: tuple[e.JobEvent, ...]
    wake_at: datetime | None


def advance(situation: Situation) -> Advance:
    """Advance the open incident of a job as far as the situation allows."""
    record = situation.record
    found: list[e.JobEvent] = list(_outside(situation, record))
    for event in found:
        record = _applied(record, event)
    considered: Advice | None = None
    for _ in range(_MOST_STEPS):
        incident = record.open_incident
        if incident is None:
            return Advance(events=tuple(found), wake_at=None)
        step, considered = _next(situation, record, incident)
        if not step:
            break
        for event in step:
            record = _applied(record, event)
        found += step
    return Advance(events=tuple(found), wake_at=_wake(situation, record, considered))


def _applied(record: JobRecord, event: e.JobEvent) -> JobRecord:
    changed = records.apply(record, event)
    assert isinstance(changed, JobRecord)  # noqa: S101 - a job's record stays one
    return changed


def _outside(situation: Situation, record: JobRecord) -> tuple[e.JobEvent, ...]:
    incident = record.open_incident
    if incident is None:
        return ()
    expected = expected_nodes(situation.nodes)
    return outside_events(record, incident, situation.view, situation.report, expected)


def _next(situation: Situation, record: JobRecord, incident: Incident) -> tuple[tuple[e.JobEvent, ...], Advice | None]:
    """The next events, and the advice as it would be given now, as far as it came to that question."""
    proof = verification(situation.evidence(record, incident))
    if proof:
        return proof, None
    if _waits_parked(situation, incident) and incident.verdict is not None:
        return _advise(situation, record, incident, incident.verdict)
    if incident.state not in _BEFORE_ACTION:
        return (), None
    verdict = with_opinions(attribute(case_file(situation, record, incident)), _opinions(incident))
    if (
        incident.verdict is None
        or incident.judged_findings != len(incident.findings)
        or (_is_looking(situation) and _differs(incident.verdict, verdict))
    ):
        reached = e.VerdictReached(
            incident_id=incident.id,
            verdict=verdict,
            findings=len(incident.findings),
            at=Stamp(at=situation.now, clock="server"),
        )
        return (reached,), None
    return _advise(situation, record, incident, verdict if _is_looking(situation) else incident.verdict)


def _opinions(incident: Incident) -> tuple[Opinion, ...]:
    """What outside providers said. Once an advice may be carried out, what was not weighed before it counts no more.

    Else an answer that comes a moment later would take back what a person or a controller is about to act on.
    """
    given = incident.verdict.opinions if incident.verdict is not None else ()
    if incident.advice is None or not incident.advice.may_begin:
        return given
    return tuple(item if item.effect else replace(item, late=True) for item in given)


def _advise(
    situation: Situation, record: JobRecord, incident: Incident, verdict: Verdict
) -> tuple[tuple[e.JobEvent, ...], Advice]:
    old = incident.advice
    fresh = decide(
        Question(
            incident=incident,
            record=record,
            verdict=verdict,
            progress=situation.progress.get(incident.attempt),
            fleet=fleet_view(situation, incident),
            limits=situation.rules.limits,
            earlier=earlier_attempts(situation, record, incident),
            now=situation.now,
            generation=_next_generation(record, incident),
            read_to=situation.read_to(incident),
        )
    )
    if incident.state is IncidentState.SETTLED and not fresh.may_begin:
        return (), fresh  # it goes on waiting, and starts by itself if nobody comes
    in_force = old if incident.state is IncidentState.ADVISED else None
    if in_force is not None and not (_is_looking(situation) and _is_due(situation, record, in_force, fresh)):
        return (), fresh
    return (e.AdviceIssued(incident_id=incident.id, advice=fresh, at=Stamp(at=situation.now, clock="server")),), fresh


def _waits_parked(situation: Situation, incident: Incident) -> bool:
    """Whether the job waits with a start time that we gave it: then it is decided on again."""
    view = situation.view
    next_count = incident.attempt.restart_count + 1
    waits = view is not None and view.state is JobState.PENDING and view.restart_count == next_count
    return incident.is_parked and waits and incident.state in (IncidentState.SETTLED, IncidentState.ADVISED)


def _is_looking(situation: Situation) -> bool:
    """Whether the scheduler was looked at just now.

    Without a look nothing is known that was not known when the advice was given, and an approval of it should not be
    lost because a look took long: the claim asks for a fresh one anyway.
    """
    report = situation.report
    most_s = situation.rules.limits.view_max_age_s
    return report is not None and (situation.now - report.as_of).total_seconds() <= most_s


def _is_due(situation: Situation, record: JobRecord, old: Advice, fresh: Advice) -> bool:
    """Whether a newer generation is needed: the decision changed, or one that could be carried out has expired."""
    if not same_decision(old, fresh) and not (old.may_begin and _waits_for_a_permit(old, fresh)):
        return True
    stage = job_stage(record, situation.cluster, situation.rules, situation.now, situation.view).stage
    return old.may_begin and old.expires_at <= situation.now and stage.rank >= Stage.APPROVE.rank


def _waits_for_a_permit(old: Advice, fresh: Advice) -> bool:
    """Whether all that has changed is that the permits are taken for the moment: the claim asks for one anyway.

    Else each permit that one of many waiting jobs gets would be two more generations of every other one.
    """
    before = {guard.name: guard.answer for guard in old.guards}
    changed = {guard.name for guard in fresh.guards if guard.answer is not before.get(guard.name)}
    same = (old.action, old.exclude, old.park, old.ends_running) == (
        fresh.action, fresh.exclude, fresh.park, fresh.ends_running,
    )  # fmt: skip
    return same and fresh.hold and changed == {_PERMIT}


def _next_generation(record: JobRecord, incident: Incident) -> int:
    """Generations count from 1 per attempt, over all its incidents."""
    used = [item.advice.generation for item in record.incidents if item.attempt == incident.attempt and item.advice]
    return max(used, default=0) + 1


def _differs(old: Verdict, new: Verdict) -> bool:
    """Whether a verdict says something else than the one in force; evidence and words alone do not count."""

    def essence(verdict: Verdict) -> tuple[object, ...]:
        suspects = tuple((item.node, item.strength) for item in verdict.suspects)
        return (
            verdict.domain,
            verdict.cause,
            verdict.remedy,
            suspects,
            verdict.fingerprint,
            verdict.proven_death,
            verdict.restart_limit_without_progress,
            frozenset((item.provider, item.effect) for item in verdict.opinions),
        )

    return essence(old) != essence(new)


def _wake(situation: Situation, record: JobRecord, considered: Advice | None) -> datetime | None:
    """When time alone may bring more.

    What would be advised now tells when that may change: the advice in force may say the same for an older reason,
    whose time has passed.
    """
    incident = record.open_incident
    if incident is None:
        return None
    times = [wake_at(situation.evidence(record, incident))]
    advice = incident.advice
    if considered is not None:
        times += [considered.decide_again_at, considered.settle_until]
    if advice is not None and advice.may_begin and incident.state in _BEFORE_ACTION:
        times.append(advice.expires_at)
    if incident.is_parked and situation.view is not None and situation.view.eligible_at is not None:
        times.append(situation.view.eligible_at - RENEW_BEFORE)
    later = [at for at in times if at is not None and at > situation.now]
    return min(later, default=None)
