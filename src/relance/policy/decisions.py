"""The decision on one attempt: intent, remedy, guards, in this order (design 8)."""

from __future__ import annotations

from datetime import timedelta

from relance.domain.advice import Advice
from relance.domain.faults import Remedy
from relance.domain.keys import stable_id
from relance.policy.questions import Question


def decide(question: Question) -> Advice:
    """The advice on an attempt."""
    attempt = question.incident.attempt
    return Advice(
        id=stable_id("adv", attempt, question.generation),
        incident_id=question.incident.id,
        attempt=attempt,
        generation=question.generation,
        action=Remedy.WAIT,
        reasons=("more has to be known",),
        guards=(),
        issued_at=question.now,
        expires_at=question.now + timedelta(seconds=question.limits.advice_running_s),
    )


def same_decision(one: Advice, other: Advice) -> bool:
    """Whether two pieces of advice say the same, times apart."""
    return _essence(one) == _essence(other)


def _essence(advice: Advice) -> tuple[object, ...]:
    return (advice.attempt, advice.action, frozenset(advice.exclude), advice.hold, advice.park, advice.ends_running)
