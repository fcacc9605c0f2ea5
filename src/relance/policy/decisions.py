"""The decision on one attempt: intent, remedy, guards, in this order (design 8). Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from relance.domain.advice import Advice, Answer, Guard
from relance.domain.keys import stable_id
from relance.domain.verdicts import Strength
from relance.policy.attempts import Place, ended_at, place_of
from relance.policy.guards import GuardRule, ask_guards, blocking, settled_at
from relance.policy.plans import Plan, plan
from relance.policy.questions import Question
from relance.policy.storms import RENEW_BEFORE, park_until

_MIN_JOB_AGE_S = 300.0
"""How long Slurm remembers an ended job by default; taken where the scheduler's own facts are not known."""
_SHARED_CAUSE = "no_shared_cause"
_ROOM = "enough_nodes"
_SETTLES = "verdict_final"
_FINAL = ("attempt_over", _SETTLES)


def decide(question: Question) -> Advice:
    """The advice on an attempt, with every guard's answer and the reasons for each change of the remedy."""
    chosen = plan(question)
    guards = ask_guards(question, chosen)
    held_by = _held_by(chosen, blocking(guards, question.now))
    parks = _parks(question, chosen, held_by, guards)
    hold = bool(held_by) and not parks
    attempt, now = question.incident.attempt, question.now
    until = park_until(_parked_since(question), question.limits.storms, now) if parks else None
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
        park=parks,
        park_until=until,
        successor=chosen.successor,
        ends_running=chosen.ends_running,
        cancels_running=chosen.cancels_running,
        decide_again_at=until if parks else again_at,
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


def _parks(question: Question, chosen: Plan, held_by: tuple[GuardRule, ...], guards: tuple[Guard, ...]) -> bool:
    """Whether an ended job is put back with a start time ahead, instead of waiting for what keeps it from starting.

    That is a shared cause, or a person who has to choose because there is no room without a node that is surely bad.
    Waiting would lose the job for good, because the scheduler forgets an ended one after a while.
    """
    names = {rule.name for rule in held_by}
    no_room = any(guard.name == _ROOM and guard.answer is Answer.NO for guard in guards)
    waits = _SHARED_CAUSE in names or (no_room and bool(chosen.exclude) and _may_park_longer(question))
    if not waits or any(rule.for_parking for rule in held_by) or chosen.successor or not chosen.action.restarts:
        return False
    place = place_of(question)
    return place is Place.OVER or _wants_renewal(question, place)


def _may_park_longer(question: Question) -> bool:
    return park_until(_parked_since(question), question.limits.storms, question.now) is not None


def _wants_renewal(question: Question, place: Place) -> bool:
    """Whether a job that we parked is about to start by itself."""
    job = question.fleet.job
    if place is not Place.REQUEUED or not question.incident.is_parked or job is None or job.eligible_at is None:
        return False
    given = question.incident.advice.park_until if question.incident.advice is not None else None
    if given is not None and given - question.now > RENEW_BEFORE:
        # A look from before our update shows the time of the requeue; an earlier time since then is a person's.
        return False
    return job.eligible_at - question.now <= RENEW_BEFORE


def _parked_since(question: Question) -> datetime:
    return ended_at(question) or question.incident.opened_at


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
    facts = question.fleet.facts
    remembered_s = facts.min_job_age_s if facts is not None else _MIN_JOB_AGE_S
    deadline = ended + timedelta(seconds=remembered_s - limits.expiry_margin_s)
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
