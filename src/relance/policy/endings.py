"""Whether a running attempt may be ended: never by a log line, only by proof and silence after it (design 8)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain.advice import Answer
from relance.domain.findings import Certainty
from relance.domain.progress import Progress
from relance.domain.stages import EndRunning
from relance.domain.views import JobState, JobView
from relance.policy.questions import Question

OUTLIVED_S = 60.0
"""Steps so long after a death were not only read late: logs of a network file system lag as long."""
_NUMBERED = re.compile(r"(^|\.)\d+$")
"""A step that a script has started, such as `17.0`; `17.batch` and `17.extern` are the scheduler's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Whether a running attempt may be ended, why, for which kind of consent, and when it may be asked again."""

    answer: Answer
    reason: str
    kind: EndRunning | None = None
    ask_again_at: datetime | None = None


def ending_of(question: Question) -> Ending:
    """Whether the living attempt is proven dead or stuck, and has been silent long enough since.

    Silence counts only up to the watermark of its sources, `progress.as_of`.
    """
    verdict, progress, job = question.verdict, question.progress, question.fleet.job
    if job is None or job.state is not JobState.RUNNING:
        state = job.state.value if job else "not to be read"
        return Ending(answer=Answer.NO, reason=f"the attempt is {state}, and has not ended")
    if verdict.proof is None or verdict.proof_at is None:
        return Ending(answer=Answer.NO, reason="the attempt runs, and nothing proves that it cannot go on")
    if progress is None or progress.step_at is None or progress.steps_seen == 0:
        reason = "the attempt runs, and its progress is not recognised: it is touched only after its end"
        return Ending(answer=Answer.UNKNOWN, reason=reason, kind=verdict.proof)
    if verdict.proof is not EndRunning.NODE_LOST and _script_goes_on(job):
        reason = "its training step has ended and its script goes on: it may try again, save or export"
        return Ending(answer=Answer.NO, reason=reason, kind=verdict.proof)
    unread_s = (question.now - progress.as_of).total_seconds()
    if unread_s > question.limits.logs_max_age_s:
        reason = f"its logs were last read to their end {unread_s:.0f} s ago: it may have gone on since"
        return Ending(answer=Answer.UNKNOWN, reason=reason, kind=verdict.proof)
    alive_at = max(filter(None, (progress.step_at, progress.checkpoint_durable_at)))
    if verdict.proof is EndRunning.HANG:
        if alive_at > verdict.proof_at or _stepped_since(question, progress):
            return Ending(answer=Answer.NO, reason="it made progress after the hang", kind=verdict.proof)
        return Ending(answer=Answer.YES, reason="the attempt hangs, and that is confirmed", kind=verdict.proof)
    return _after_a_death(question, verdict.proof, verdict.proof_at, alive_at, progress.as_of)


def _stepped_since(question: Question, progress: Progress) -> bool:
    """Whether steps were made since a hang was last confirmed, by their number: the clock of their lines may be off."""
    told = [
        silence.steps_seen
        for silence in question.record.silences
        if silence.attempt == question.incident.attempt and silence.certainty is Certainty.CONFIRMED
    ]
    return bool(told) and told[-1] is not None and progress.steps_seen > told[-1]


def _script_goes_on(job: JobView) -> bool:
    """Whether the job's script lives and none of its steps does: the end of a step is not that of the attempt.

    A job of which no step was ever seen trains in its script itself. It is not asked where a node is lost: then the
    scheduler's books of the steps on it say little.
    """
    steps = [step for step in job.steps or () if _NUMBERED.search(step.name)]
    return bool(steps) and all(step.state.is_over for step in steps)


def _after_a_death(
    question: Question, kind: EndRunning, proof_at: datetime, alive_at: datetime, seen_up_to: datetime
) -> Ending:
    """A death counts once nothing was heard since; a job that went on long after it did not die of it."""
    limits, quiet_since = question.limits, max(proof_at, alive_at)
    median_s = (question.progress.median_step_s if question.progress else None) or 0.0
    need_s = max(limits.dead_rank_min_s, limits.dead_rank_medians * median_s)
    quiet_s = (seen_up_to - quiet_since).total_seconds()
    what = "a node is lost" if kind is EndRunning.NODE_LOST else "a process is dead"
    lived_s = (alive_at - proof_at).total_seconds()
    if lived_s >= max(need_s, OUTLIVED_S):
        reason = f"{what}, but it made progress for {lived_s:.0f} s after that"
        return Ending(answer=Answer.NO, reason=reason, kind=kind)
    if quiet_s >= need_s:
        return Ending(answer=Answer.YES, reason=f"{what}, and there was no progress for {need_s:.0f} s", kind=kind)
    reason = f"{what}, but it takes {need_s:.0f} s without progress to be sure"
    return Ending(answer=Answer.NO, reason=reason, kind=kind, ask_again_at=quiet_since + timedelta(seconds=need_s))
