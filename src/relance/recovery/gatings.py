"""What the gates of an advice would answer now, whether a person may approve it, and what it waits for. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from relance.domain.advice import Answer, Guard
from relance.domain.incidents import Incident, IncidentState
from relance.domain.quiet_hours import quiet_now
from relance.domain.records import JobRecord
from relance.domain.stages import EffectiveStage, Stage
from relance.domain.views import ClusterReport
from relance.policy import GateQuestion, LeaseSeen
from relance.policy import gates as asked_gates
from relance.recovery import wordings
from relance.recovery.ordering import standing, switch
from relance.recovery.sites import ClusterRules
from relance.recovery.standings import ASKED_AT_CLAIM

_LEASE = "lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What the gates ask about a cluster beyond its stages: its lease, its controller, and what is under way."""

    lease: LeaseSeen = ASKED_AT_CLAIM
    stopped: str = ""
    """Why its controller begins nothing; empty: nothing keeps it."""
    recoveries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standpoint:
    """From where the gates are asked: an incident with its advice, its job and stage, and the newest report."""

    incident: Incident
    record: JobRecord
    stage: EffectiveStage
    rules: ClusterRules
    report: ClusterReport | None
    now: datetime
    around: Around = field(default_factory=Around)


def gates_of(standpoint: Standpoint) -> tuple[Guard, ...]:
    """Every gate with its answer and the sentence that explains it; none without an advice."""
    incident, record, now = standpoint.incident, standpoint.record, standpoint.now
    rules, around = standpoint.rules, standpoint.around
    if incident.advice is None:
        return ()
    return asked_gates(
        GateQuestion(
            advice=incident.advice,
            stage=standpoint.stage,
            standing=standing(record, rules),
            switch=switch(record, now),
            switch_until=record.switch_until,
            approval=incident.approval,
            effect_digest=incident.effect.digest if incident.effect else "",
            facts=standpoint.report.facts if standpoint.report else None,
            lease=around.lease,
            now=now,
            quiet=quiet_now(rules.quiet, standing(record, rules).partitions, now),
            recoveries=around.recoveries,
            most_recoveries=rules.limits.restarts.at_once,
            stopped=around.stopped,
        )
    )


def closed_gates(standpoint: Standpoint) -> tuple[Guard, ...]:
    """The gates that are not open, in order, but for a question that only a claim can answer."""
    return tuple(
        gate
        for gate in gates_of(standpoint)
        if gate.answer is not Answer.YES and not (gate.name == _LEASE and gate.answer is Answer.UNKNOWN)
    )


def closed(standpoint: Standpoint) -> tuple[str, ...]:
    """In words, each gate that is not open, with the time at which it opens by itself, where that is known."""
    return tuple(f"{wordings.name(gate.name)}: {wordings.opening(gate)}" for gate in closed_gates(standpoint))


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
    gates = closed_gates(standpoint)
    return wordings.opening(gates[0]) if gates else "the controller"
