"""Slurm's records as the domain's views, as far as the watchdog needs them. Pure; an unknown word is never "over"."""

from __future__ import annotations

from datetime import UTC, datetime

from relance.domain.views import Hold, JobState, JobView
from relance.slurm.errors import UnreadableError
from relance.slurm.records import HeldBy, SlurmJob

_WORDS = {
    state.name: state
    for state in JobState
    if state not in (JobState.UNKNOWN, JobState.REQUEUED)  # REQUEUED is an end in accounting alone
} | {"REQUEUE_HOLD": JobState.PENDING, "SPECIAL_EXIT": JobState.PENDING}
_HOLDS = {
    None: Hold.NONE,
    HeldBy.NOBODY: Hold.NONE,
    HeldBy.USER: Hold.USER,
    HeldBy.ADMIN: Hold.ADMIN,
    HeldBy.SLURM: Hold.SCHEDULER,
    HeldBy.UNKNOWN: Hold.UNKNOWN,
}


def job_view(job: SlurmJob, first_submitted_at: datetime | None = None) -> JobView:
    """A record as a view. `first_submitted_at` as the ledger knows it; None: as the record shows it.

    Raises UnreadableError when the record does not say when it was submitted.
    """
    state = _WORDS.get(job.states[0], JobState.UNKNOWN) if len(job.states) == 1 else JobState.UNKNOWN
    submitted_at = _moment(job.submitted_at)
    if submitted_at is None:
        raise UnreadableError(f"Job {job.job_id} does not say when it was submitted.")
    is_over = state.is_over
    ended = job.exit if is_over else None
    return JobView(
        raw_id=str(job.job_id),
        first_submitted_at=first_submitted_at or submitted_at,
        submitted_at=submitted_at,
        restart_count=job.restart_count or 0,
        name=job.name,
        user=job.user or f"uid {job.uid}",
        owner_uid=job.uid,
        partition=job.partition or "",
        state=state,
        reason=job.reason or "",
        started_at=None if state is JobState.PENDING else _moment(job.started_at),
        ended_at=_moment(job.ends_at) if is_over else None,
        exit_code=ended.code if ended is not None else None,
        exit_signal=ended.signal if ended is not None else None,
        preempted_at=_moment(job.preempted_at),
        hold=_HOLDS[job.held_by] if state is JobState.PENDING else Hold.NONE,
        requeue_allowed=job.requeue,
        work_dir=job.work_dir or "",
        script_id=job.command or "",
        dependency=job.dependency or "",
        array=str(job.array_job_id) if job.array_job_id is not None else None,
        array_task=job.array_task_id,
        steps=None,
    )


def shown_id(job: JobView) -> str:
    """The id that a command about this job alone takes: one task of an array may bear the id of the whole."""
    return job.raw_id if job.array is None or job.array_task is None else f"{job.array}_{job.array_task}"


def _moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
