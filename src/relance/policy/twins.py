"""Twins: another job that is the same work. Where there is one, nothing is restarted (design 8)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.domain.advice import Answer
from relance.domain.views import JobState, JobView
from relance.policy.attempts import began_at, ended_at
from relance.policy.questions import Question

_WAKES_ON_FAILURE = ("afterany", "afternotok")


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """Whether there is no twin (yes means: none), and the sentence that says so."""

    answer: Answer
    reason: str


def no_twin(question: Question) -> Twin:
    """Whether nobody else's copy and no successor of this job is queued or running."""
    job = question.fleet.job
    if job is None:
        return Twin(answer=Answer.UNKNOWN, reason="the scheduler does not show the job, so its twins are not known")
    answers = [_of_other(other, job, question) for other in question.fleet.others if _lives(other, job)]
    for wanted in (Answer.NO, Answer.UNKNOWN):
        found = next((answer for answer in answers if answer is not None and answer.answer is wanted), None)
        if found is not None:
            return found
    return Twin(answer=Answer.YES, reason="no other job of this user is the same work")


def _lives(other: JobView, job: JobView) -> bool:
    same_array = job.array is not None and other.array == job.array
    living = not other.state.is_over or other.state is JobState.UNKNOWN
    return other.raw_id != job.raw_id and other.user == job.user and living and not same_array


def _of_other(other: JobView, job: JobView, question: Question) -> Twin | None:
    what = f"job {other.raw_id} ({other.state.value})"
    if _succeeds(other, job):
        return Twin(answer=Answer.NO, reason=f"{what} follows this one by its dependency {other.dependency}")
    newer = _is_newer(other, question)
    if other.name != job.name or newer is False:
        return None
    by_script = _same(other.script_id, job.script_id)
    by_folder = _same(other.work_dir, job.work_dir)
    if by_script is False and by_folder is False:
        return None
    if newer is None or not (by_script or by_folder):
        return Twin(answer=Answer.UNKNOWN, reason=f"{what} has the same name; whether it is a copy cannot be told")
    return Twin(answer=Answer.NO, reason=f"{what} has the same name and {'script' if by_script else 'folder'}")


def _is_newer(other: JobView, question: Question) -> bool | None:
    """Submitted since the attempt began, or started since it ended: a singleton's successor no longer says what it is.

    A job that was requeued keeps its first submit time here, so an old job is not taken for a new copy.
    """
    began, ended = began_at(question), ended_at(question)
    if ended is not None and other.started_at is not None and other.started_at >= _second(ended):
        return True
    return None if began is None else _second(other.first_submitted_at) >= _second(began)


def _succeeds(other: JobView, job: JobView) -> bool:
    for clause in other.dependency.replace("?", ",").split(","):
        kind, _, ids = clause.strip().partition(":")
        if kind.split("(")[0] == "singleton" and other.name == job.name:
            return True
        if kind in _WAKES_ON_FAILURE and job.raw_id in {part.split("(")[0].split("+")[0] for part in ids.split(":")}:
            return True
    return False


def _same(one: str, other: str) -> bool | None:
    return one == other if one and other else None


def _second(at: datetime) -> datetime:
    return at.replace(microsecond=0)
