"""Gates: may this advice be carried out now? Asked when it is shown and again, by the same function, at the claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from relance.domain.advice import Advice, Answer, Guard
from relance.domain.incidents import Approval
from relance.domain.quiet_hours import Quiet
from relance.domain.stages import IN_ARRAY, EffectiveStage, Stage, Standing
from relance.domain.views import SchedulerFacts

Reply = tuple[Answer, str] | tuple[Answer, str, datetime | None]
"""An answer, the sentence that explains it, and when time alone opens the gate, where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSeen:
    """What is known of the cluster's lease: whether it is held (None: not known here), and in words by whom."""

    held: bool | None
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQuestion:
    """An advice and the standing of those who would carry it out.

    `switch` is the ceiling set for this job alone, if any, and `switch_until` its end. `approval` is the answer that a
    person gave to this advice, `effect_digest` the effect that would be carried out now.
    """

    advice: Advice
    stage: EffectiveStage
    standing: Standing
    switch: Stage | None
    approval: Approval | None
    effect_digest: str
    facts: SchedulerFacts | None
    lease: LeaseSeen
    now: datetime
    switch_until: datetime | None = None
    quiet: Quiet | None = None
    """The quiet hours that count for the job now; None: nothing keeps it."""
    recoveries: int = 0
    """How many recoveries are under way on the cluster."""
    most_recoveries: int = 1
    stopped: str = ""
    """Why the controller begins nothing, as it said with its newest look; empty: nothing keeps it."""


def gates(question: GateQuestion) -> tuple[Guard, ...]:
    """Every gate with its answer, in order."""
    return tuple(_guard(name, ask(question)) for name, ask in GATES)


def gates_open(answers: tuple[Guard, ...]) -> bool:
    """Whether every gate answered yes. Unknown is not yes."""
    return all(guard.answer is Answer.YES for guard in answers)


def _guard(name: str, reply: Reply) -> Guard:
    answer, reason, *opens_at = reply
    return Guard(name=name, answer=answer, reason=reason, ask_again_at=next(iter(opens_at), None))


def _stage(question: GateQuestion) -> Reply:
    stage = question.stage
    why = "; ".join(stage.why)
    if stage.stage.rank >= Stage.APPROVE.rank:
        return Answer.YES, f"the effective stage is {stage.stage.value}"
    return Answer.NO, f"the effective stage is {stage.stage.value}: {why}"


def _switch(question: GateQuestion) -> Reply:
    if question.switch is not None and question.switch.rank < Stage.APPROVE.rank:
        return Answer.NO, f"this job was switched to {question.switch.value}", question.switch_until
    return Answer.YES, "nobody switched this job off"


def _opt_in(question: GateQuestion) -> Reply:
    standing = question.standing
    if standing.wish is not None:
        if standing.wish.rank >= Stage.APPROVE.rank:
            return Answer.YES, f"the job asked for {standing.wish.value}"
        return Answer.NO, f"the job asked for {standing.wish.value}"
    if standing.in_array:
        return Answer.NO, IN_ARRAY
    if standing.opted_in:
        return Answer.YES, "the site's opt-in rule covers this job"
    return Answer.NO, "the job did not opt in and no opt-in rule covers it"


def _partition(question: GateQuestion) -> Reply:
    if question.standing.barred:
        return Answer.NO, question.standing.barred
    return Answer.YES, f"partition {question.standing.partition or 'unknown'} is one in which may be acted"


def _quiet_hours(question: GateQuestion) -> Reply:
    quiet = question.quiet
    if quiet is None:
        return Answer.YES, "there are no quiet hours now"
    if question.advice.park:
        return Answer.YES, f"{quiet.words}; parking starts nothing, and keeps the job until then"
    return Answer.NO, f"{quiet.words}: nothing begins before", quiet.until


def _recoveries(question: GateQuestion) -> Reply:
    count, most = question.recoveries, question.most_recoveries
    words = f"{count} of at most {most} recoveries are under way on the cluster"
    if question.advice.park or question.advice.cancels_running:
        return Answer.YES, f"{words}; this is none"
    return (Answer.YES if count < most else Answer.NO), words


def _controller(question: GateQuestion) -> Reply:
    if question.stopped:
        return Answer.NO, question.stopped
    return Answer.YES, "the controller names nothing that keeps it from beginning"


def _end_running(question: GateQuestion) -> Reply:
    kind = question.advice.ends_running
    if kind is None:
        return Answer.YES, "no running attempt would be ended"
    if kind in question.stage.end_running:
        return Answer.YES, f"the site consents to ending a running attempt for {kind.value}"
    if question.stage.spared:
        return Answer.NO, f"nothing that runs is ended for now ({'; '.join(question.stage.spared)})"
    return Answer.NO, f"the site has not consented to ending a running attempt for {kind.value}"


def _approval(question: GateQuestion) -> Reply:
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


def _rights(question: GateQuestion) -> Reply:
    if question.facts is None:
        return Answer.UNKNOWN, "the controller has not said what it may do"
    if question.facts.lacks:
        return Answer.NO, "; ".join(question.facts.lacks)
    if question.facts.may_act:
        return Answer.YES, "the controller's account may act"
    return Answer.NO, "the controller's account may not act on other users' jobs"


def _lease(question: GateQuestion) -> Reply:
    if question.lease.held is None:
        return Answer.UNKNOWN, question.lease.words
    return (Answer.YES if question.lease.held else Answer.NO), question.lease.words


def _unexpired(question: GateQuestion) -> Reply:
    if question.now < question.advice.expires_at:
        return Answer.YES, f"good until {question.advice.expires_at.isoformat(timespec='seconds')}"
    return Answer.NO, f"expired at {question.advice.expires_at.isoformat(timespec='seconds')}"


GATES: tuple[tuple[str, Callable[[GateQuestion], Reply]], ...] = (
    ("stage", _stage),
    ("switch", _switch),
    ("partition", _partition),
    ("opt_in", _opt_in),
    ("quiet_hours", _quiet_hours),
    ("recoveries", _recoveries),
    ("end_running", _end_running),
    ("approval", _approval),
    ("rights", _rights),
    ("controller", _controller),
    ("lease", _lease),
    ("unexpired", _unexpired),
)
"""The gates, in the order in which they are shown."""
