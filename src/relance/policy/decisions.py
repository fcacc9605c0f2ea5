"""The decision on one attempt: intent, remedy, guards, in this order (design 8). Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from relance.domain.advice import Advice, Guard
from relance.domain.keys import stable_id
from relance.domain.verdicts import Strength
from relance.policy.attempts import Place, ended_at, place_of
from relance.policy.guards import GuardRule, ask_guards, blocking, settled_at
from relance.policy.parking import SHARED_CAUSE, forgotten_at, parks
from relance.policy.parking import until as parked_until
from relance.policy.plans import Plan, plan
from relance.policy.questions import Question

_SETTLES = "verdict_final"
_FINAL = ("attempt_over", _SETTLES)


def decide(question: Question) -> Advice:
    """The advice on an attempt, with every guard's answer and the reasons for each change of the remedy."""
    chosen = plan(question)
    guards = ask_guards(question, chosen)
    held_by = _held_by(chosen, blocking(guards, question.now))
    parked = parks(question, chosen, held_by, guards)
    hold = bool(held_by) and not parked
    attempt, now = question.incident.attempt, question.now
    until = parked_until(question, held_by) if parked else None
    again_at, again_on = _again(chosen, guards, held_by)
    return Advice(
        id=stable_id("adv", attempt, question.generation),
        incident_id=question.incident.id,
        attempt=attempt,
        generation=question.generation,
        action=chosen.action,
        reasons=chosen.reasons,
        guards=guards,
        issued_at=now,
        expires_at=_expires_at(question),
        exclude=chosen.exclude,
        exclude_until=now + timedelta(seconds=question.limits.exclusions.for_s) if chosen.exclude else None,
        exclusion_is_hard=any(
            suspect.node in chosen.exclude and suspect.strength is Strength.HARD
            for suspect in question.verdict.suspects
        ),
        hold=hold,
        park=parked,
        park_until=until,
        storm=_storm_of(question, held_by),
        successor=chosen.successor,
        ends_running=chosen.ends_running,
        cancels_running=chosen.cancels_running,
        decide_again_at=until if parked else again_at,
        decide_again_on=again_on,
        settle_until=settled_at(question) if any(rule.name == _SETTLES for rule in held_by) else None,
    )


def same_decision(one: Advice, other: Advice) -> bool:
    """Whether two pieces of advice on one attempt say the same, times and counters apart."""
    return _essence(one) == _essence(other)


def _held_by(chosen: Plan, blocked: tuple[GuardRule, ...]) -> tuple[GuardRule, ...]:
    """What holds a plan back. Stopping, and finding nothing to do, wait for the end and for late evidence alone."""
    if chosen.action.restarts or chosen.cancels_running:
        return blocked
    return tuple(rule for rule in blocked if chosen.settles and rule.name in _FINAL)


def _storm_of(question: Question, held_by: tuple[GuardRule, ...]) -> str:
    """The storm that holds the plan, or whose canary goes first."""
    storm = question.fleet.storm
    held = any(rule.name == SHARED_CAUSE for rule in held_by)
    if storm is None or not held or storm.canary_stepped:
        return ""
    waits = storm.is_open or storm.canary not in (None, str(question.incident.attempt))
    return storm.storm_id if waits else ""


def _again(chosen: Plan, guards: tuple[Guard, ...], held_by: tuple[GuardRule, ...]) -> tuple[datetime | None, str]:
    """When, and on which event, a hold or a wait is decided again."""
    if not held_by:
        return chosen.again_at, chosen.again_on
    by_name = {guard.name: guard for guard in guards}
    times = [by_name[rule.name].ask_again_at for rule in held_by]
    known = [at for at in times if at is not None]
    return min(known, default=None), held_by[0].event


def _expires_at(question: Question) -> datetime:
    """The earliest of the decision's own limit, the scheduler's memory of an ended job, and the age of the view."""
    limits, now = question.limits, question.now
    own = timedelta(seconds=limits.advice_running_s)
    ended = ended_at(question)
    if place_of(question) is not Place.OVER or ended is None:
        seen = min(now, question.fleet.as_of or now)
        return max(now + timedelta(seconds=limits.view_max_age_s), seen + own)
    deadline = (forgotten_at(question) or now) - timedelta(seconds=limits.expiry_margin_s)
    return deadline if deadline > now else now + own  # it may be forgotten at any moment, and is still there


def _essence(advice: Advice) -> tuple[object, ...]:
    numbers = re.compile(r"\d+(?:\.\d+)?")
    return (
        advice.attempt,
        advice.action,
        frozenset(advice.exclude),
        advice.successor,
        advice.hold,
        advice.park,
        advice.ends_running,
        advice.cancels_running,
        advice.settle_until,
        advice.decide_again_on,
        tuple(numbers.sub("#", reason) for reason in advice.reasons),
    )
