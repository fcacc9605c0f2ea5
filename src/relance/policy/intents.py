"""First step of a decision: whether a person or the scheduler has decided, so that nothing is left to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from relance.domain.advice import Answer
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.views import Hold, JobState, JobView
from relance.policy.attempts import Place, place_of
from relance.policy.budgets import DID_NOT_RESUME
from relance.policy.questions import Question
from relance.policy.twins import no_twin

_DECIDED = {
    JobState.CANCELLED: "the job was cancelled",
    JobState.COMPLETED: "the job completed",
    JobState.TIMEOUT: "the job ran into its time limit",
    JobState.DEADLINE: "the job ran into its deadline",
    JobState.PREEMPTED: "the scheduler preempted the job",
}
"""Ends that are somebody's decision; none of them is ever undone by a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What the scheduler's books say of a decision: yes means that nobody decided."""

    answer: Answer
    reason: str


def decided(question: Question) -> str | None:
    """The sentence that says who decided; None when nobody has, as far as can be told."""
    return next(filter(None, (ask(question) for ask in INTENTS)), None)


def nobody_decided(question: Question) -> Books:
    """Whether the scheduler's books rule out that a person or the scheduler decided."""
    job = question.fleet.job
    found = _by_books(question)
    if found is not None:
        return Books(answer=Answer.NO, reason=found)
    if job is None:
        return Books(answer=Answer.UNKNOWN, reason="the scheduler does not show the job")
    if job.hold is Hold.UNKNOWN:
        return Books(answer=Answer.UNKNOWN, reason="whether somebody holds the job cannot be read")
    if job.steps is None and _is_this(job, question) and (job.state.is_failure or job.state is JobState.RUNNING):
        return Books(answer=Answer.UNKNOWN, reason="the steps cannot be read: a cancelled step cannot be ruled out")
    return Books(answer=Answer.YES, reason="nobody cancelled, preempted or held it")


def _disagreed(question: Question) -> str | None:
    words = question.record.disagreed
    return f"the owner said that we were wrong ({words}): no further action on this job" if words else None


def _begun_before(question: Question) -> str | None:
    """A restart of one attempt is begun at most once, whatever came of it: a second one is a person's to order."""
    incident = question.incident
    begun = any(
        item.action is not None and item.attempt == incident.attempt and item.id != incident.id
        for item in question.record.incidents
    )
    return "a restart of this attempt was begun before and came to nothing: no second one" if begun else None


def _did_not_resume(question: Question) -> str | None:
    causes = [question.verdict.cause, *(item.cause for item in question.earlier)]
    causes += [item.verdict.cause for item in question.record.incidents if item.verdict is not None]
    if DID_NOT_RESUME not in causes:
        return None
    return "an attempt did not resume from its checkpoint: the owner was told, no more automatic restarts"


def _by_books(question: Question) -> str | None:
    job = question.fleet.job
    known = question.record.attempt(question.incident.attempt)
    if known is not None and known.outcome in _DECIDED:
        return _DECIDED[known.outcome]
    if known is not None and known.cancelled_by is not None:
        return f"uid {known.cancelled_by} cancelled the attempt"
    return _by_view(job, of_this=_is_this(job, question)) if job is not None else None


def _by_view(job: JobView, *, of_this: bool) -> str | None:
    if job.hold in (Hold.USER, Hold.ADMIN):
        return f"the job is held by its {'owner' if job.hold is Hold.USER else 'administrator'}"
    if job.hold is Hold.SCHEDULER:
        return f"the scheduler gave up starting the job and holds it ({job.reason}): a person has to release it"
    if job.state in _DECIDED:
        return _DECIDED[job.state]
    if job.cancelled_by is not None:
        return f"uid {job.cancelled_by} cancelled the job"
    if job.preempted_at is not None and (not of_this or job.started_at is None or job.preempted_at >= job.started_at):
        return "the scheduler preempted the job"
    step = next((step for step in job.steps or () if of_this and step.cancelled_by is not None), None)
    return f"uid {step.cancelled_by} cancelled step {step.name}" if step is not None else None


def by_verdict(question: Question) -> str | None:
    """The sentence when the evidence alone, and not the scheduler's books, says that somebody decided."""
    verdict = question.verdict
    if verdict.remedy is Remedy.NONE and verdict.domain in (FaultDomain.USER, FaultDomain.SCHEDULER):
        return verdict.summary
    return None


def _by_place(question: Question) -> str | None:
    place, job = place_of(question), question.fleet.job
    if place is Place.GONE:
        return "the scheduler no longer knows the job: its owner has to submit it again"
    if place is Place.REPLACED and job is not None:
        return f"attempt {job.restart_count} has been started by somebody else, and is {job.state.value}"
    return None


def by_twin(question: Question) -> str | None:
    """The sentence that says which other job is the same work; None where there is none for certain."""
    if place_of(question) not in (Place.OVER, Place.REQUEUED) or question.incident.is_parked:
        return None  # a copy of a parked job is the controller's matter: it withdraws ours
    answer, reason = no_twin(question)
    return f"nobody twice: {reason}" if answer is Answer.NO else None


def _is_this(job: JobView | None, question: Question) -> bool:
    return job is not None and job.restart_count == question.incident.attempt.restart_count


INTENTS: tuple[Callable[[Question], str | None], ...] = (
    _by_books,
    by_verdict,
    _by_place,
    _disagreed,
    _begun_before,
    by_twin,
    _did_not_resume,
)
"""Whose decision is asked for, in this order; the first one found is named."""
