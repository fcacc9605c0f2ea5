"""What the gates of an advice would answer now, whether a person may approve it, and what it waits for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.domain.advice import Answer, Guard
from relance.domain.incidents import Incident, IncidentState
from relance.domain.records import JobRecord
from relance.domain.stages import EffectiveStage, Stage
from relance.domain.views import ClusterReport
from relance.policy import GateQuestion, gates
from relance.recovery import wordings
from relance.recovery.ordering import standing, switch
from relance.recovery.sites import ClusterRules

_ASKED_AT_THE_CLAIM = "lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standpoint:
    """From where the gates are asked: an incident with its advice, its job and stage, and the newest report."""

    incident: Incident
    record: JobRecord
    stage: EffectiveStage
    rules: ClusterRules
    report: ClusterReport | None
    now: datetime


def gates_of(standpoint: Standpoint) -> tuple[Guard, ...]:
    """Every gate with its answer and the sentence that explains it; none without an advice.

    The lease is unknown here: only a controller's claim asks for it.
    """
    incident, record, now = standpoint.incident, standpoint.record, standpoint.now
    if incident.advice is None:
        return ()
    return gates(
        GateQuestion(
            advice=incident.advice,
            stage=standpoint.stage,
            standing=standing(record, standpoint.rules),
            switch=switch(record, now),
            approval=incident.approval,
            effect_digest=incident.effect.digest if incident.effect else "",
            facts=standpoint.report.facts if standpoint.report else None,
            lease_held=None,
            now=now,
        )
    )


def why_not_approvable(standpoint: Standpoint) -> str:
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
    closed = [
        gate.reason
        for gate in gates_of(standpoint)
        if gate.answer is not Answer.YES and gate.name != _ASKED_AT_THE_CLAIM
    ]
    return closed[0] if closed else "the controller"
