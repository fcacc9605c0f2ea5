"""Jobs that wait for the success of the one that is restarted, and were told that it can never come. Pure.

Slurm decides once that an `afterok` dependency is never satisfied, and keeps to it even when the job is requeued and
then succeeds (slurm.md 4). Its whole dependency given anew while the job waits or runs again makes it wait again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from relance.domain.views import JobState, JobView

NEVER = "DependencyNeverSatisfied"
"""The reason that such a job shows."""
MOST = 32
"""So many jobs are named in an effect and re-armed; a job with more of them is a workflow engine's."""
_SUCCESS = re.compile(r"\bafterok((?::[^,?:]+)+)")
_TOLD = re.compile(r"\([a-z]*\)", re.ASCII)
"""What Slurm writes behind each id: `(unfulfilled)`, `(failed)`."""


def dependents(job: JobView, jobs: Iterable[JobView]) -> tuple[JobView, ...]:
    """The waiting jobs of the same user that run only after this one has succeeded, by their ids."""
    found = [other for other in jobs if other.state is JobState.PENDING and _waits_for(other, job)]
    return tuple(sorted(found, key=lambda other: (len(other.raw_id), other.raw_id)))


def cancelled_dependents(job: JobView, jobs: Iterable[JobView]) -> tuple[JobView, ...]:
    """The jobs of the same user that waited for it and are cancelled: no restart saves them."""
    return tuple(other for other in jobs if other.state is JobState.CANCELLED and _waits_for(other, job))


def waits_in_vain(other: JobView, job: JobView) -> bool:
    """Whether a job waits for this one and is shown as one that never can start."""
    return other.state is JobState.PENDING and other.reason == NEVER and _waits_for(other, job, failed=True)


def whole(dependency: str) -> str:
    """A dependency as it was asked for, without what the scheduler says of its parts; the rest stays word for word."""
    return _TOLD.sub("", dependency)


def _waits_for(other: JobView, job: JobView, *, failed: bool = False) -> bool:
    """`failed`: and the part that names it is not called anything but failed."""
    if other.user != job.user or other.raw_id == job.raw_id:
        return False
    mine = {job.raw_id, f"{job.array}_{job.array_task}"} if job.array is not None else {job.raw_id}
    for ids in _SUCCESS.findall(other.dependency):
        for part in ids.split(":")[1:]:
            number, _, told = part.partition("(")
            if number.partition("+")[0] in mine and not (failed and told and told != "failed)"):
                return True
    return False
