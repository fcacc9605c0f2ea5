"""The gates of an advice as they would answer now, and what it waits for. Pure; a claim asks them again for itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.domain.advice import Answer, Guard
from relance.domain.incidents import Incident, IncidentState
from relance.domain.stages import EffectiveStage, Stage
from relance.domain.views import ClusterReport
from relance.recovery import wordings

_CONSENT = "consent to end a running attempt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standpoint:
    """What the gates are asked about: an incident with its advice, the job's stage, the cluster's newest report."""

    incident: Incident
    stage: EffectiveStage
    report: ClusterReport | None
    now: datetime
    report_lost_s: float


def gates(standpoint: Standpoint) -> tuple[Guard, ...]:
    """Every gate with its answer and the sentence that explains it; none without an advice."""
    if standpoint.incident.advice is None:
        return ()
    return (
        _stage(standpoint),
        _consent(standpoint),
        _approval(standpoint),
        _expiry(standpoint),
        _rights(standpoint),
        _controller(standpoint),
    )


def approvable(standpoint: Standpoint) -> str:
    """Empty when a person may approve this advice now; else the sentence that says why not."""
    incident, stage = standpoint.incident, standpoint.stage.stage
    advice = incident.advice
    if advice is None or incident.state is not IncidentState.ADVISED:
        return f"there is no advice to approve: the incident is {incident.state.value}"
    if not advice.may_begin:
        later = f" until {wordings.moment(advice.decide_again_at, standpoint.now)}" if advice.decide_again_at else ""
        return f"the advice is to hold{later}" if advice.hold else f"the advice is to {wordings.action(advice)}"
    if standpoint.now >= advice.expires_at:
        return "the advice has expired; the incident is decided again"
    if stage is Stage.ACT:
        return "no approval is needed: the job is at stage act"
    if stage is not Stage.APPROVE:
        return f"the job is at stage {stage.value}: {'; '.join(standpoint.stage.why)}"
    if incident.effect is None:
        return "the controller has not prepared the commands yet"
    if advice.ends_running is not None and advice.ends_running not in standpoint.stage.end_running:
        return f"there is no consent to end a running attempt for {advice.ends_running.value}"
    return ""


def waits_for(standpoint: Standpoint) -> str:
    """In words, what has to happen before the advice in force is carried out; empty when nothing is to be done."""
    incident, advice = standpoint.incident, standpoint.incident.advice
    if advice is None or incident.state is not IncidentState.ADVISED:
        return ""
    if advice.hold:
        blocking = [guard.reason for guard in advice.guards if guard.answer is not Answer.YES]
        again = f"; decided again at {wordings.moment(advice.decide_again_at, standpoint.now)}"
        return (blocking[0] if blocking else "a guard") + (again if advice.decide_again_at else "")
    if not advice.may_begin:
        return ""
    closed = [gate.reason for gate in gates(standpoint) if gate.answer is not Answer.YES]
    return closed[0] if closed else "the controller"


def _stage(standpoint: Standpoint) -> Guard:
    stage = standpoint.stage.stage
    reason = f"the job is at stage {stage.value}: {'; '.join(standpoint.stage.why)}"
    return Guard(name="stage", answer=_answer(stage in (Stage.APPROVE, Stage.ACT)), reason=reason)


def _consent(standpoint: Standpoint) -> Guard:
    advice = standpoint.incident.advice
    kind = advice.ends_running if advice else None
    if kind is None:
        return Guard(name=_CONSENT, answer=Answer.YES, reason="not needed: no running attempt is ended")
    given = kind in standpoint.stage.end_running
    reason = f"{'given' if given else 'not given'} for {kind.value}"
    return Guard(name=_CONSENT, answer=_answer(given), reason=reason)


def _approval(standpoint: Standpoint) -> Guard:
    if standpoint.stage.stage is Stage.ACT:
        return Guard(name="approval", answer=Answer.YES, reason="not needed at stage act")
    missing = _missing_approval(standpoint.incident, standpoint.now)
    if missing:
        return Guard(name="approval", answer=Answer.NO, reason=missing)
    by = standpoint.incident.approval.by if standpoint.incident.approval else ""
    return Guard(name="approval", answer=Answer.YES, reason=f"given by {by}")


def _missing_approval(incident: Incident, now: datetime) -> str:
    approval, advice = incident.approval, incident.advice
    if approval is None or advice is None or approval.generation != advice.generation:
        return "a named person's approval"
    if not approval.yes:
        return f"denied by {approval.by}"
    if incident.effect is not None and approval.effect_digest != incident.effect.digest:
        return "a new approval: the effect has changed since it was approved"
    if approval.until is not None and now >= approval.until:
        return f"a new approval: that of {approval.by} has run out"
    return ""


def _expiry(standpoint: Standpoint) -> Guard:
    advice = standpoint.incident.advice
    at = advice.expires_at if advice else standpoint.now
    fresh = standpoint.now < at
    reason = f"good until {wordings.moment(at, standpoint.now)}" if fresh else "expired; it is decided again"
    return Guard(name="expiry", answer=_answer(fresh), reason=reason)


def _rights(standpoint: Standpoint) -> Guard:
    if standpoint.report is None:
        return Guard(name="rights", answer=Answer.UNKNOWN, reason="the controller has not reported yet")
    may = standpoint.report.facts.may_act
    reason = "the controller may act" if may else "the controller's account may not requeue jobs"
    return Guard(name="rights", answer=_answer(may), reason=reason)


def _controller(standpoint: Standpoint) -> Guard:
    if standpoint.report is None:
        return Guard(name="controller", answer=Answer.UNKNOWN, reason="the controller has not reported yet")
    age_s = (standpoint.now - standpoint.report.as_of).total_seconds()
    seen = f"the scheduler was last read {wordings.duration(age_s)} ago"
    return Guard(name="controller", answer=_answer(age_s <= standpoint.report_lost_s), reason=seen)


def _answer(yes: object) -> Answer:
    return Answer.YES if yes else Answer.NO
