"""Second step of a decision: the remedy, changed by repeats, budgets and limits; each change is a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.domain.advice import Answer
from relance.domain.faults import Remedy
from relance.domain.stages import EndRunning
from relance.domain.views import JobState
from relance.policy.attempts import Place, place_of
from relance.policy.budgets import spent
from relance.policy.endings import Ending, ending_of
from relance.policy.exclusions import exclusions
from relance.policy.fits import fit
from relance.policy.intents import by_twin, by_verdict, decided
from relance.policy.questions import Question
from relance.policy.twins import successor

_NO_REQUEUE = "the job was submitted so that it may not be requeued"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done, guards permitting. `successor` is a job that goes on instead: only that one is touched.

    `settles` says that a later line may change it, so that even doing nothing waits for the settle time. `awaits` says
    what has to clear before a restart is any use.
    """

    action: Remedy
    reasons: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    ends_running: EndRunning | None = None
    successor: str = ""
    cancels_running: bool = False
    awaits: str = ""
    settles: bool = False
    again_at: datetime | None = None
    again_on: str = ""


def plan(question: Question) -> Plan:
    """What is to be done about the attempt, before the guards are asked."""
    somebody = decided(question)
    place = place_of(question)
    if somebody is not None and somebody == by_twin(question):
        return _beside_twin(question, somebody)
    if somebody is not None:
        # What logs and exit codes suggest, a later line may change; what the scheduler's books say is final.
        return Plan(action=Remedy.NONE, reasons=(somebody,), settles=somebody == by_verdict(question))
    if place is Place.REQUEUED and question.incident.is_parked:
        return _of_parked(question)
    if place is Place.REQUEUED:
        return _beside_others(question)
    if place is Place.LIVING:
        return _of_living(question)
    return _of_ended(question)


def _of_ended(question: Question) -> Plan:
    verdict, job = question.verdict, question.fleet.job
    if verdict.remedy is Remedy.NONE or (verdict.remedy is Remedy.STOP and not verdict.confirmable):
        return Plan(action=verdict.remedy, reasons=(_because(question),), settles=True)
    if job is not None and job.requeue_allowed is False:
        reason = f"{_NO_REQUEUE}: its owner has to submit it again"
        return Plan(action=Remedy.STOP, reasons=(reason, _because(question)), settles=True)
    return _restart(question)


def _restart(question: Question) -> Plan:
    over = spent(question)
    if over is not None:
        return Plan(action=Remedy.STOP, reasons=(f"no restart: {over}", _because(question)), settles=True)
    reasons = [_because(question)]
    if question.verdict.remedy is Remedy.STOP:
        reasons.append("one try confirms it first, because a job that is stopped by mistake loses without limit")
    awaits = "what it depends on has to come back first" if question.verdict.remedy is Remedy.WAIT else ""
    exclude: tuple[str, ...] = ()
    if question.verdict.remedy is Remedy.RESTART_EXCLUDING:
        choice = exclusions(question)
        exclude = choice.nodes
        reasons += choice.reasons
    action = Remedy.RESTART_EXCLUDING if exclude else Remedy.RESTART
    reasons += filter(None, (fit(question, exclude).waits,))
    return Plan(action=action, reasons=tuple(reasons), exclude=exclude, awaits=awaits)


def _of_living(question: Question) -> Plan:
    """A living attempt is left alone, unless it is proven that it cannot go on."""
    verdict = question.verdict
    if verdict.remedy is Remedy.NONE:
        return Plan(action=Remedy.NONE, reasons=(_because(question),))
    ending = ending_of(question)
    stops = verdict.remedy is Remedy.STOP and not verdict.confirmable
    may_stop = question.limits.stop_cancels_running
    if ending.answer is not Answer.YES or verdict.remedy is Remedy.WAIT or (stops and not may_stop):
        return _wait(question, ending)
    if stops:
        return Plan(
            action=Remedy.STOP, reasons=(_because(question), ending.reason), ends_running=ending.kind,
            cancels_running=True,
        )  # fmt: skip
    if question.fleet.job is not None and question.fleet.job.requeue_allowed is False:
        return _wait(question, ending, _NO_REQUEUE)
    restart = _restart(question)
    if not restart.action.restarts:
        return _wait(question, ending, restart.reasons[0])
    return Plan(
        action=restart.action,
        reasons=(*restart.reasons, ending.reason),
        exclude=restart.exclude,
        ends_running=ending.kind,
    )


def _wait(question: Question, ending: Ending, *more: str) -> Plan:
    job = question.fleet.job
    running = job is not None and job.state is JobState.RUNNING
    event = "the attempt ends, or is proven dead or stuck" if running else "the attempt ends"
    reasons = (ending.reason, *more, _because(question))
    return Plan(action=Remedy.WAIT, reasons=reasons, again_at=ending.ask_again_at, again_on=event)


def _of_parked(question: Question) -> Plan:
    """We gave it a start time ahead: it is let go when the shared cause has cleared, and renewed until then."""
    parked, storm = question.incident.advice, question.fleet.storm
    exclude = parked.exclude if parked is not None else ()
    if question.verdict.remedy is Remedy.WAIT and storm is None:
        reason = "it waits for what it depends on, and starts by itself at the time that we gave it"
        return Plan(action=Remedy.WAIT, reasons=(reason, _because(question)))
    return Plan(
        action=Remedy.RESTART_EXCLUDING if exclude else Remedy.RESTART,
        reasons=("it waits with a start time that we gave it", _because(question)),
        exclude=exclude,
    )


def _beside_others(question: Question) -> Plan:
    """Somebody else was first with the requeue: nothing is requeued again, only our exclusions are added."""
    first = "the scheduler or a person has requeued it already"
    choice = exclusions(question) if question.verdict.remedy is Remedy.RESTART_EXCLUDING else None
    if choice is None or not choice.nodes:
        more = choice.reasons if choice is not None else ()
        if _lost_its_node(question) and question.verdict.remedy.restarts:
            reason = "the scheduler has requeued it after it lost a node: only its wait is cut short"
            return Plan(action=Remedy.RESTART, reasons=(reason, *more, _because(question)))
        return Plan(action=Remedy.NONE, reasons=(f"{first}, and there is nothing to add", *more))
    reasons = (f"{first}: only the exclusions are added", *choice.reasons)
    return Plan(action=Remedy.RESTART_EXCLUDING, reasons=reasons, exclude=choice.nodes)


def _lost_its_node(question: Question) -> bool:
    known = question.record.attempt(question.incident.attempt)
    return known is not None and known.outcome in (JobState.NODE_FAIL, JobState.BOOT_FAIL)


def _beside_twin(question: Question, somebody: str) -> Plan:
    """Another job goes on. The next of a chain is the next attempt: while it waits it is kept off the bad nodes."""
    verdict, follower = question.verdict, successor(question)
    if follower is None:
        return Plan(action=Remedy.NONE, reasons=(somebody,))
    if verdict.remedy is Remedy.STOP:
        hold = f"job {follower.raw_id} will meet the same: `scontrol hold {follower.raw_id}` holds the rest"
        return Plan(action=Remedy.STOP, reasons=(_because(question), hold, somebody), settles=True)
    choice = exclusions(question) if verdict.remedy is Remedy.RESTART_EXCLUDING else None
    if choice is None or not choice.nodes:
        # A kernel's word may come seconds after the end: while the next one waits it can still be kept off a node.
        more = choice.reasons if choice is not None else ()
        return Plan(action=Remedy.NONE, reasons=(somebody, *more), settles=True)
    reasons = (f"{somebody}: it is the next attempt, and only the exclusions are put on it", *choice.reasons)
    return Plan(action=Remedy.RESTART_EXCLUDING, reasons=reasons, exclude=choice.nodes, successor=follower.raw_id)


def _because(question: Question) -> str:
    return f"{question.verdict.summary}; {question.verdict.remedy_reason}"
