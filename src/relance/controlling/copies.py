"""Nobody twice (design 8): copies of a job, looked for before each command and once more after the update. Pure.

No look is as new as the command that it allows: it takes time, and the read of the job comes after it. A copy that was
submitted in between is found by the look after the update, mostly before the scheduler has started our attempt.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from relance.controlling.moves import Look, Note, Send, Transaction, Turn, abandon
from relance.controlling.state_tables import parked_by_us
from relance.domain.ledgers import Verb
from relance.domain.twins import twins
from relance.domain.views import ClusterReport, JobState, JobView


def twin_of(transaction: Transaction, job: JobView, *, ended: datetime | None = None) -> str:
    """The sentence about a copy of this job that runs or will run; empty when there is none.

    Without `ended`, when the attempt ended, a job counts that was submitted since, and not one that only started since:
    for such a one nothing that waits already is cancelled.
    """
    report = transaction.report
    if report is None or transaction.began.advice.successor:
        return ""
    # A scheduler forgets a dependency once it is met: the look remembers it.
    former = next((other.dependency for other in report.jobs if other.raw_id == job.raw_id), "")
    known = replace(job, dependency=job.dependency or former)
    found = twins(known, report.jobs, _attempt_began(transaction, report), ended)
    return next((twin.reason for twin in found if twin.is_certain), "")


def _attempt_began(transaction: Transaction, report: ClusterReport) -> datetime:
    """When the attempt began that is replaced; accounting knows it when somebody else has requeued it already."""
    expected, attempt = transaction.began.expected, transaction.began.advice.attempt
    if expected.started_at is not None:
        return expected.started_at
    starts = (
        item.started_at
        for item in report.past
        if item.raw_id == expected.raw_id and item.restart_count == attempt.restart_count and item.started_at
    )
    return next(starts, expected.submitted_at)


def waits_for_us(transaction: Transaction, job: JobView) -> bool:
    """Whether the job is pending for the time that an earlier action of ours gave it."""
    return job.state is JobState.PENDING and parked_by_us(job, transaction.parked)


def is_ours(transaction: Transaction) -> bool:
    """Whether the attempt that waits after the update is our doing, so that it may be cancelled for a copy."""
    return transaction.requeued_by_us or transaction.ends_park


def leave_to_twin(transaction: Transaction, job: JobView, twin: str) -> Turn:
    """A copy goes on: a pending attempt that is our doing is cancelled, any other is left as it is."""
    if not is_ours(transaction) and not waits_for_us(transaction, job):
        return Turn(transaction=transaction, step=abandon(f"left as it is: {twin}"))
    end = abandon(f"our pending attempt was cancelled: {twin}")
    is_overdue = transaction.is_left and transaction.holds
    send = Send(verb=Verb.CANCEL, restart_count=transaction.target_count, is_overdue=is_overdue)
    note = Note(step="twin", detail=f"{twin}; our own pending attempt is cancelled, the copy goes on")
    return Turn(transaction=replace(transaction, sent=send, leave_end=end), step=send, notes=(note,))


def copy_beside_ours(transaction: Transaction, job: JobView) -> Turn | None:
    """What to do about copies while our attempt waits for its start, the update written; None: nothing, go on.

    One look that began after the update shows every copy that was there at the update.
    """
    if transaction.wrote is None or transaction.is_left or not is_ours(transaction):
        return None
    if not transaction.looked_since_update:
        return Turn(transaction=transaction, step=look_again(transaction))
    twin = twin_of(transaction, job)
    return leave_to_twin(transaction, job, twin) if twin else None


def look_again(transaction: Transaction) -> Look:
    """A look at once, or after a pause where the one before was not answered."""
    return Look(after_s=transaction.pace.slow_poll_s if transaction.blind_since_s is not None else 0.0)


def too_late_to_stop(transaction: Transaction, job: JobView) -> str:
    """What the end of a restart says of a copy that the look after the update showed when ours had started by then.

    What runs is not ended for it: that is a person's choice.
    """
    if not transaction.looked_since_update or not (twin := twin_of(transaction, job)):
        return ""
    return f"; but {twin}, too late for ours to make way: cancel one of the two, they may write the same checkpoints"
