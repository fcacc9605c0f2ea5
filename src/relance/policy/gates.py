"""Gates: may this advice be carried out now? Asked when it is shown and again, by the same function, at the claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from relance.domain.advice import Advice, Answer, Guard
from relance.domain.incidents import Approval
from relance.domain.stages import IN_ARRAY, EffectiveStage, Stage, Standing
from relance.domain.views import SchedulerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQuestion:
    """An advice and the standing of those who would carry it out.

    `switch` is the ceiling set for this job alone, if any. `approval` is the answer that a person gave to this advice,
    `effect_digest` the effect that would be carried out now. `lease_held` is None while nobody has asked to act yet.
    """

    advice: Advice
    stage: EffectiveStage
    standing: Standing
    switch: Stage | None
    approval: Approval | None
    effect_digest: str
    facts: SchedulerFacts | None
    lease_held: bool | None
    now: datetime


def gates(question: GateQuestion) -> tuple[Guard, ...]:
    """Every gate with its answer, in order."""
    return tuple(_guard(name, ask(question)) for name, ask in GATES)


def gates_open(answers: tuple[Guard, ...]) -> bool:
    """Whether every gate answered yes. Unknown is not yes."""
    return all(guard.answer is Answer.YES for guard in answers)


def _guard(name: str, answer: tuple[Answer, str]) -> Guard:
    return Guard(name=name, answer=answer[0], reason=answer[1])


def _stage(question: GateQuestion) -> tuple[Answer, str]:
    stage = question.stage
    why = "; ".join(stage.why)
    if stage.stage.rank >= Stage.APPROVE.rank:
        return Answer.YES, f"the effective stage is {stage.stage.value}"
    return Answer.NO, f"the effective stage is {stage.stage.value}: {why}"


def _switch(question: GateQuestion) -> tuple[Answer, str]:
    if question.switch is not None and question.switch.rank < Stage.APPROVE.rank:
        return Answer.NO, f"this job was switched to {question.switch.value}"
    return Answer.YES, "nobody switched this job off"


def _opt_in(question: GateQuestion) -> tuple[Answer, str]:
    standing = question.standing
    if standing.wish is not None:
        if standing.wish.rank >= Stage.APPROVE.rank:
            return Answer.YES, f"the job asked for {standing.wish.value}"
        return Answer.NO, f"the job asked for {standing.wish.value}"
    if standing.in_array:
        return Answer.NO, IN_ARRAY
    if standing.opted_in:
        return Answer.YES, "the partition's opt-in rule covers this job"
    return Answer.NO, "the job did not opt in and no opt-in rule covers it"


def _end_running(question: GateQuestion) -> tuple[Answer, str]:
    kind = question.advice.ends_running
    if kind is None:
        return Answer.YES, "no running attempt would be ended"
    if kind in question.stage.end_running:
        return Answer.YES, f"the site consents to ending a running attempt for {kind.value}"
    if question.stage.spared:
        return Answer.NO, f"nothing that runs is ended for now ({'; '.join(question.stage.spared)})"
    return Answer.NO, f"the site has not consented to ending a running attempt for {kind.value}"


def _approval(question: GateQuestion) -> tuple[Answer, str]:
    approval, advice = question.approval, question.advice
    mine = approval is not None and (approval.advice_id, approval.generation) == (advice.id, advice.generation)
    if approval is not None and mine and not approval.yes:
        return Answer.NO, f"{approval.by} said no: {approval.reason or 'no reason given'}"
    if question.stage.stage is not Stage.APPROVE:
        return Answer.YES, f"stage {question.stage.stage.value} asks for no approval"
    if approval is None or not mine:
        return Answer.UNKNOWN, "nobody has approved this generation yet"
    if approval.until is None or approval.until <= question.now:
        return Answer.NO, f"the approval by {approval.by} has run out"
    if not question.effect_digest or approval.effect_digest != question.effect_digest:
        return Answer.NO, "the commands are not those that were approved"
    return Answer.YES, f"approved by {approval.by}"


def _rights(question: GateQuestion) -> tuple[Answer, str]:
    if question.facts is None:
        return Answer.UNKNOWN, "the controller has not said what it may do"
    if question.facts.lacks:
        return Answer.NO, "; ".join(question.facts.lacks)
    if question.facts.may_act:
        return Answer.YES, "the controller's account may act"
    return Answer.NO, "the controller's account may not act on other users' jobs"


def _lease(question: GateQuestion) -> tuple[Answer, str]:
    if question.lease_held is None:
        return Answer.UNKNOWN, "asked when a controller claims"
    if question.lease_held:
        return Answer.YES, "the controller holds the lease"
    return Answer.NO, "the controller does not hold the lease"


def _unexpired(question: GateQuestion) -> tuple[Answer, str]:
    if question.now < question.advice.expires_at:
        return Answer.YES, f"good until {question.advice.expires_at.isoformat(timespec='seconds')}"
    return Answer.NO, f"expired at {question.advice.expires_at.isoformat(timespec='seconds')}"


GATES: tuple[tuple[str, Callable[[GateQuestion], tuple[Answer, str]]], ...] = (
    ("stage", _stage),
    ("switch", _switch),
    ("opt_in", _opt_in),
    ("end_running", _end_running),
    ("approval", _approval),
    ("rights", _rights),
    ("lease", _lease),
    ("unexpired", _unexpired),
)
"""The gates, in the order in which they are shown."""
