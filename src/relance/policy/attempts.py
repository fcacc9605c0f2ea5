"""Where the attempt in question stands with the scheduler, and what it got done."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum

from relance.domain.progress import Phase, Progress
from relance.domain.views import JobState
from relance.policy.questions import Question


class Place(Enum):
    """Where an attempt stands."""

    LIVING = "living"
    """It has not ended, its last processes included."""
    OVER = "over"
    """It has ended, and is the newest of its job."""
    REQUEUED = "requeued"
    """It has ended, and somebody else has put its job back into the queue already."""
    REPLACED = "replaced"
    """A later attempt has begun or is over."""
    GONE = "gone"
    """The scheduler answers, and does not know the job any more."""
    UNREADABLE = "unreadable"
    """It cannot be told: no answer, no state, or not the job that the question is about."""


_WAITING = (JobState.PENDING, JobState.CONFIGURING)


def place_of(question: Question) -> Place:
    """Where the attempt stands by the newest view."""
    attempt, job = question.incident.attempt, question.fleet.job
    if job is None:
        return Place.GONE if question.fleet.as_of is not None else Place.UNREADABLE
    if job.raw_id != attempt.job.raw_id or job.first_submitted_at.replace(microsecond=0) != attempt.job.submitted_at:
        return Place.GONE
    if job.restart_count > attempt.restart_count:
        return Place.REQUEUED if job.state in _WAITING else Place.REPLACED
    if job.restart_count < attempt.restart_count or job.state is JobState.UNKNOWN:
        return Place.UNREADABLE
    return Place.OVER if job.state.is_over else Place.LIVING


def ended_at(question: Question) -> datetime | None:
    """When the attempt ended, by the scheduler; None when it has not, or the time is not known."""
    job, attempt = question.fleet.job, question.incident.attempt
    if job is not None and job.restart_count == attempt.restart_count and job.ended_at is not None:
        return job.ended_at
    known = question.record.attempt(attempt)
    return known.ended_at if known else None


def began_at(question: Question) -> datetime | None:
    """When the attempt began."""
    known = question.record.attempt(question.incident.attempt)
    if known is not None and known.started_at is not None:
        return known.started_at
    job = question.fleet.job
    same = job is not None and job.restart_count == question.incident.attempt.restart_count
    return job.started_at if job is not None and same else None


def made_progress(question: Question) -> bool | None:
    """Whether this attempt made progress: a new durable checkpoint and long enough of steps (design 8).

    None when it is not known, which is not "no": nothing was read, or the job's checkpoints are not recognised.
    """
    progress = question.progress
    if progress is None or (progress.steps_seen == 0 and progress.phase is Phase.UNKNOWN):
        return None
    if progress.steps_seen == 0:
        return False
    stepped_s = _stepped_s(progress)
    if stepped_s is None or stepped_s < question.limits.restarts.progress_s:
        return False
    marks = (progress.checkpoint_begun, progress.checkpoint_durable, progress.loaded_step)
    if all(mark is None for mark in marks):
        return None
    return (progress.checkpoint_durable or 0) > _durable_before(question)


def died_before_first_step(question: Question) -> bool | None:
    """Whether the attempt ended before its first step; None where its steps may just not be recognised."""
    progress = question.progress
    if progress is None:
        return None
    if progress.steps_seen > 0:
        return False
    if progress.phase in (Phase.STARTING, Phase.COMPILING, Phase.LOADING):
        return True
    began, ended = began_at(question), ended_at(question)
    short = timedelta(seconds=question.limits.hang.start_limit_s)
    if began is not None and ended is not None and ended - began < short and question.verdict.evidence:
        return True
    return None


def _stepped_s(progress: Progress) -> float | None:
    if progress.first_step_at is None or progress.step_at is None:
        return None
    return (progress.step_at - progress.first_step_at).total_seconds()


def _durable_before(question: Question) -> int:
    """The last durable checkpoint of the earlier attempts, or the one that this attempt started from."""
    earlier = [
        item.durable_step
        for item in question.record.attempts
        if item.attempt.restart_count < question.incident.attempt.restart_count and item.durable_step is not None
    ]
    loaded = question.progress.loaded_step if question.progress else None
    return max([*earlier, loaded or 0])
