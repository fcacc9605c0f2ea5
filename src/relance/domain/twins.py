"""Twins: another job that runs, or will run, what a job would run again (design 8, nobody twice). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from relance.domain.views import JobView

_AFTER_THE_END = re.compile(r"\b(afterany|afternotok)((?::[^,?:]+)+)")
"""Both are met by an attempt that has failed: such a job may run although this one is requeued."""
_RAW_ID = re.compile(r":(\d+(?:_\d+)?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """A job that stands in for another, and the sentence that says why."""

    raw_id: str
    reason: str


def attempt_began(job: JobView) -> datetime:
    """When the job's current attempt began; when it was submitted if it never started."""
    return job.started_at or job.submitted_at


def twins(job: JobView, jobs: Iterable[JobView], since: datetime) -> tuple[Twin, ...]:
    """The running or pending jobs that make another attempt of `job` a second writer of the same checkpoints.

    That is a job of the same user with the same name and script, or name and work directory, submitted at `since` (when
    the attempt began) or later; or a singleton, `afterany` or `afternotok` successor. Tasks of one array are no twins
    of each other. Times count in whole seconds, as some schedulers give no finer ones. What a requeue does to a submit
    time is left out: the first submission counts. A state that cannot be read counts as alive.
    """
    found = (_twin(job, other, since) for other in jobs)
    return tuple(twin for twin in found if twin is not None)


def with_former_dependencies(jobs: Iterable[JobView], former: Mapping[str, str]) -> tuple[JobView, ...]:
    """The jobs with the dependency that each showed last, by raw id.

    A scheduler forgets a dependency once it is met, so the successor in a chain is known only from when it waited.
    """
    return tuple(job if job.dependency else replace(job, dependency=former.get(job.raw_id, "")) for job in jobs)


def _twin(job: JobView, other: JobView, since: datetime) -> Twin | None:
    if other.raw_id == job.raw_id or other.user != job.user or other.state.is_over:
        return None
    if job.array is not None and other.array == job.array:
        return None
    state = f"job {other.raw_id} ({other.state.value}) of {other.user}"
    kind = _waits_by(other, job.raw_id)
    if kind:
        return Twin(raw_id=other.raw_id, reason=f"{state} follows this one by {kind}")
    if other.name != job.name:
        return None
    if "singleton" in other.dependency:
        return Twin(raw_id=other.raw_id, reason=f"{state} has the same name and is the next of a singleton chain")
    same = [word for word, is_same in _likeness(job, other) if is_same]
    if same and other.first_submitted_at >= since.replace(microsecond=0):
        return Twin(raw_id=other.raw_id, reason=f"{state} has the same name and {same[0]} and was submitted since")
    return None


def _likeness(job: JobView, other: JobView) -> tuple[tuple[str, bool], ...]:
    return (
        ("script", bool(job.script_id) and other.script_id == job.script_id),
        ("work directory", bool(job.work_dir) and other.work_dir == job.work_dir),
    )


def _waits_by(other: JobView, raw_id: str) -> str:
    """By which kind of dependency, such as `afterany:17(unfulfilled):18`, another waits for the job; empty: by none."""
    found = _AFTER_THE_END.findall(other.dependency)
    return next((kind for kind, ids in found if raw_id in _RAW_ID.findall(ids)), "")
