"""Twins: another job that runs, or will run, what a job would run again (design 8, nobody twice). Pure.

One rule for all who ask: policy before it advises, and the controller before the requeue and before the start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from relance.domain.views import JobState, JobView

_AFTER_THE_END = re.compile(r"\b(afterany|afternotok)((?::[^,?:]+)+)")
"""Both are met by an attempt that has failed: such a job may run although this one is requeued."""
_RAW_ID = re.compile(r":(\d+)(_\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """A job that stands in for another, and the sentence that says why.

    `is_certain` is False where it has the same name, and what is known of it neither shows nor rules out that it is a
    copy. `is_successor` says that it follows by its dependency: the next of a chain. `waits` says that it has not
    begun, so that it can still be kept off a node.
    """

    raw_id: str
    reason: str
    is_certain: bool = True
    is_successor: bool = False
    waits: bool = False


def twins(
    job: JobView, jobs: Iterable[JobView], since: datetime | None, ended: datetime | None = None
) -> tuple[Twin, ...]:
    """The running or pending jobs that make another attempt of `job` a second writer of the same checkpoints.

    That is a job of the same user with the same name and script, or name and work directory, submitted at `since` (when
    the attempt began; None: not known) or later, or started since it `ended`; or a singleton, `afterany` or
    `afternotok` successor; or, where the job itself is of a singleton chain, any other that lives.
    Tasks of one array are no twins of each other. Times count in whole seconds, as some
    schedulers give no finer ones. What a requeue does to a submit time is left out: the first submission counts. A
    state that cannot be read counts as alive. One that is over counts where it outlived the attempt: somebody had the
    work done again, or it failed with it and is the one to restart. The certain ones come first.
    """
    found = [twin for twin in (_twin(job, other, since, ended) for other in jobs) if twin is not None]
    return tuple(sorted(found, key=lambda twin: not twin.is_certain))


def with_former_dependencies(jobs: Iterable[JobView], former: Mapping[str, str]) -> tuple[JobView, ...]:
    """The jobs with the dependency that each showed last, by raw id.

    A scheduler forgets a dependency once it is met, so the successor in a chain is known only from when it waited.
    """
    return tuple(
        replace(job, dependency=former[job.raw_id]) if not job.dependency and former.get(job.raw_id) else job
        for job in jobs
    )


def _twin(  # noqa: PLR0911 - one case after another
    job: JobView, other: JobView, since: datetime | None, ended: datetime | None
) -> Twin | None:
    is_over = other.state.is_over
    is_one_array = job.array is not None and other.array == job.array
    if other.raw_id == job.raw_id or other.user != job.user or is_one_array:
        return None
    if is_over and not _outlived(other, job, ended):
        return None
    waits = other.state is JobState.PENDING
    state = f"job {other.raw_id} ({other.state.value}) of {other.user}"
    kind = _waits_by(other, job)
    if kind:
        reason = f"{state} follows this one by {kind}"
        return Twin(raw_id=other.raw_id, reason=reason, is_successor=True, waits=waits)
    if other.name != job.name:
        return None
    if "singleton" in other.dependency:
        reason = f"{state} has the same name and is the next of a singleton chain"
        return Twin(raw_id=other.raw_id, reason=reason, is_successor=True, waits=waits)
    if "singleton" in job.dependency and not is_over:
        # A requeue is not asked for it again: both would run.
        reason = f"{state} has the same name, and this one was to run alone (singleton)"
        return Twin(raw_id=other.raw_id, reason=reason, waits=waits)
    newer = _is_newer(other, since, ended)
    likeness = _likeness(job, other)
    same = [word for word, is_same in likeness if is_same]
    may_be = not is_over and any(is_same is None for _, is_same in likeness)
    if newer is False or not (same or may_be) or (is_over and not newer):
        return None
    if newer and same:
        reason = f"{state} has the same name and {same[0]} and was {newer} since"
        return Twin(raw_id=other.raw_id, reason=reason, waits=waits)
    reason = f"{state} has the same name; whether it is a copy cannot be told"
    return Twin(raw_id=other.raw_id, reason=reason, is_certain=False, waits=waits)


def _outlived(other: JobView, job: JobView, ended: datetime | None) -> bool:
    """Whether a job that is over stood in for an attempt since that `ended`, or is a failure of the same moment.

    Of copies that fail at once the newest is restarted: else each is requeued, and then makes way for the other.
    """
    if ended is None:
        return False
    end = _second(ended)
    if _second(other.first_submitted_at) >= end or (other.started_at is not None and other.started_at >= end):
        return True
    failed_with_it = other.state.is_failure and other.ended_at is not None and other.ended_at >= end
    return failed_with_it and _age(other) > _age(job)


def _is_newer(other: JobView, since: datetime | None, ended: datetime | None) -> str | bool | None:
    """What it did since: submitted since the attempt began, or started since it ended.

    The second because a chain's successor does not say any more what it is once it runs. A job that was requeued keeps
    its first submit time, so an old job is not taken for a new copy.
    """
    if since is not None and _second(other.first_submitted_at) >= _second(since):
        return "submitted"
    if ended is not None and other.started_at is not None and other.started_at >= _second(ended):
        return "started"
    return None if since is None else False


def _likeness(job: JobView, other: JobView) -> tuple[tuple[str, bool | None], ...]:
    return (
        ("script", _same(other.script_id, job.script_id)),
        ("work directory", _same(other.work_dir, job.work_dir)),
    )


def _same(one: str, other: str) -> bool | None:
    return one == other if one and other else None


def _waits_by(other: JobView, job: JobView) -> str:
    """By which kind of dependency, such as `afterany:17(unfulfilled):18`, another waits for the job; empty: by none.

    `17_4` waits for one task of an array, `17_*` for all of them.
    """
    mine = {job.raw_id, job.array or job.raw_id, f"{job.array}_{job.array_task}"}
    for kind, ids in _AFTER_THE_END.findall(other.dependency):
        for number, task in _RAW_ID.findall(ids):
            if f"{number}{task}" in mine:
                return str(kind)
    return ""


def _age(job: JobView) -> tuple[datetime, int, str]:
    """The greater, the later it was submitted; of two submitted in one second the ids decide."""
    return _second(job.first_submitted_at), len(job.raw_id), job.raw_id


def _second(at: datetime) -> datetime:
    return at.replace(microsecond=0)
