"""Twins, as policy asks for them: is there another job that is the same work, and does it follow by its dependency?"""

from __future__ import annotations

from relance.domain.advice import Answer
from relance.domain.twins import Twin, twins
from relance.policy.attempts import began_at, ended_at
from relance.policy.questions import Question


def twin_of(question: Question) -> Twin | None:
    """The job that stands in for this one, a certain one first; None where there is none, or the job is not shown."""
    job = question.fleet.job
    if job is None:
        return None
    found = twins(job, question.fleet.others, began_at(question), ended_at(question))
    return found[0] if found else None


def no_twin(question: Question) -> tuple[Answer, str]:
    """Whether nobody else's copy and no successor of this job is queued or running, and the sentence about it."""
    if question.fleet.job is None:
        return Answer.UNKNOWN, "the scheduler does not show the job, so its twins are not known"
    twin = twin_of(question)
    if twin is None:
        return Answer.YES, "no other job of this user is the same work"
    return (Answer.NO if twin.is_certain else Answer.UNKNOWN), twin.reason


def successor(question: Question) -> Twin | None:
    """The next job of the chain, while it waits: it may still be kept off a node."""
    job = question.fleet.job
    if job is None:
        return None
    found = twins(job, question.fleet.others, began_at(question), ended_at(question))
    return next((twin for twin in found if twin.is_successor and twin.waits), None)
