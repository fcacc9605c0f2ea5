"""How often a job is started again. Progress resets what counts without it; unknown progress is not "no progress"."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from relance.domain.faults import FaultDomain
from relance.domain.verdicts import EarlierAttempt
from relance.policy.attempts import died_before_first_step, ended_at, made_progress
from relance.policy.questions import Question

_DAY = timedelta(hours=24)
_ONCE = 1
_NO_SIGN_OF_A_NODE = (FaultDomain.APPLICATION, FaultDomain.USER, FaultDomain.UNKNOWN)
DID_NOT_RESUME = "did_not_resume"
LAUNCH_REVOKED = "launch_revoked"


def spent(question: Question) -> str | None:
    """The sentence that says which budget is used up; None while there is one left in each."""
    return next(filter(None, (ask(question) for ask in BUDGETS)), None)


def restarts_since_progress(question: Question) -> int:
    """Our restarts since an attempt last made progress; those whose progress is not known count here."""
    if made_progress(question):
        return 0
    return sum(item.restarted_by_us for item in _since_progress(question))


def _counted(question: Question) -> tuple[EarlierAttempt, ...]:
    """The earlier attempts that count.

    One that died at launch because we started it too soon is repeated once and counts for nothing (design 10).
    """
    pairs = zip((None, *question.earlier), question.earlier, strict=False)
    return tuple(
        item
        for before, item in pairs
        if item.cause != LAUNCH_REVOKED or (before is not None and before.cause == LAUNCH_REVOKED)
    )


def _since_progress(question: Question) -> Iterator[EarlierAttempt]:
    """The latest attempts, newest first, back to the last one that made progress."""
    for item in reversed(_counted(question)):
        if item.made_progress:
            return
        yield item


def _without_progress(question: Question) -> str | None:
    if made_progress(question):
        return None
    limits, wish = question.limits.restarts, question.verdict.restart_limit_without_progress
    allowed, why = limits.without_progress, ""
    if wish == _ONCE:
        allowed, why = min(allowed, limits.once_without_progress), " for a fault that gets one try"
    elif wish is not None:
        allowed, why = min(allowed, limits.unknown_without_progress), " for a cause that is not known"
    failed = [item for item in _since_progress(question) if item.restarted_by_us and item.made_progress is False]
    if wish == _ONCE:
        failed = [item for item in failed if item.fingerprint == question.verdict.fingerprint]
    if len(failed) < allowed:
        return None
    return f"{_times(len(failed))} without progress, {allowed} allowed{why}"


def _per_day(question: Question) -> str | None:
    recent = [
        item for item in _counted(question)
        if item.restarted_by_us and (item.ended_at is None or question.now - item.ended_at <= _DAY)
    ]  # fmt: skip
    allowed = question.limits.restarts.per_day
    return f"{_times(len(recent))} within 24 h, {allowed} allowed" if len(recent) >= allowed else None


def _in_all(question: Question) -> str | None:
    allowed, who = question.limits.restarts.in_all, "allowed"
    wish = question.record.wish.max_restarts
    if wish is not None and wish < allowed:
        allowed, who = wish, "wanted by the job"
    count = sum(item.restarted_by_us for item in _counted(question))
    return f"{_times(count)} in all, {allowed} {who}" if count >= allowed else None


def _before_first_step(question: Question) -> str | None:
    """A mistake shows before the first step; without a sign of a node or the system another try is no use."""
    verdict, limits = question.verdict, question.limits.restarts
    blamed = any(not suspect.isolated for suspect in verdict.suspects)
    if verdict.domain not in _NO_SIGN_OF_A_NODE or blamed or died_before_first_step(question) is not True:
        return None
    allowed = limits.before_first_step_later if question.earlier else limits.before_first_step_first
    count = 0
    for item in _since_progress(question):
        known = question.record.attempt(item.attempt)
        if known is None or known.highest_step is not None or not item.restarted_by_us:
            break
        count += 1
    if count < allowed:
        return None
    return f"it ended before its first step, with no sign of a node or the system, {_times(count)} ({allowed} allowed)"


def _wall_time(question: Question) -> str | None:
    """A requeue renews the time limit; all attempts together may use a few times as much, no more."""
    limit_s = question.fleet.job.time_limit_s if question.fleet.job else None
    if limit_s is None:
        return None
    used_s = 0.0
    for item in question.record.attempts:
        end = item.ended_at or (ended_at(question) if item.attempt == question.incident.attempt else None)
        if item.started_at is not None and end is not None:
            used_s += max(0.0, (end - item.started_at).total_seconds())
    limits = question.limits.restarts
    allowed_s = limits.wall_time_times * limit_s
    if used_s < allowed_s - limits.wall_time_left_share * limit_s:
        return None
    return f"its attempts ran {used_s / 3600:.1f} h together, {allowed_s / 3600:.1f} h allowed"


def _array(question: Question) -> str | None:
    """What fails alike in many tasks of an array lies in what they share: one decision for all of them."""
    limits, fleet = question.limits.restarts, question.fleet
    if question.record.array is None:
        return None
    alike = fleet.array_failures.get(question.verdict.fingerprint, 0) + 1
    known = max(alike, fleet.array_tasks)
    if alike < limits.array_tasks or alike <= limits.array_share * known:
        return None
    return f"{alike} of the {known} known tasks of array {question.record.array} failed in the same way"


BUDGETS: tuple[Callable[[Question], str | None], ...] = (
    _without_progress,
    _before_first_step,
    _per_day,
    _in_all,
    _wall_time,
    _array,
)
"""The budgets in the order in which they are asked; the first that is used up is named."""


def _times(count: int) -> str:
    return "restarted once" if count == 1 else f"restarted {count} times"
