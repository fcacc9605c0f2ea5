"""A command needs a fresh read: where none can be had, an action ends, or goes on without the command. Pure."""

from __future__ import annotations

from dataclasses import replace

from relance.controlling.moves import End, Look, Moment, Note, Phase, Read, Transaction, Turn
from relance.controlling.paces import READ_AGE_S
from relance.domain.advice import ActionEnd

LOOK_AGE_S = 2.0
"""A look for copies is older than this only if a read took very long: then it is done again."""
LATE_TRIES = 5
"""After so many reads that were too slow no command is tried any more: each read burdens a scheduler that is busy."""
TOO_SLOW = (
    f"{LATE_TRIES} times more than {READ_AGE_S:g} s passed from the begin of a read of the job to the command, and by "
    "older news nothing is sent; see why the scheduler, or the disk of the ledger, is slow"
)


def not_fresh(transaction: Transaction, now: Moment) -> Turn | None:
    """The turn when the newest read took too long for a command to follow, or copies are to be looked for again."""
    if transaction.read_took_s < READ_AGE_S:
        looked_at_s = transaction.looked_at_s
        is_old = looked_at_s is None or now.monotonic_s - looked_at_s > LOOK_AGE_S
        return Turn(transaction=transaction, step=Look()) if is_old else None
    return _once_more(replace(transaction, slow_reads=transaction.slow_reads + 1), now)


def too_late(transaction: Transaction, now: Moment) -> Turn:
    """The turn when the read was too old as the command was about to be sent."""
    known = replace(transaction, late_sends=transaction.late_sends + 1, sent=None, leave_end=None)
    if known.late_sends == 1:
        # What took so long may have been the write to the ledger, which is done now.
        return Turn(transaction=known, step=Read())
    return _once_more(known, now)


def _once_more(transaction: Transaction, now: Moment) -> Turn:
    if max(transaction.slow_reads, transaction.late_sends) < LATE_TRIES:
        return Turn(transaction=transaction, step=Read(after_s=transaction.pace.slow_poll_s))
    if not (transaction.requeued_by_us or transaction.requeues or transaction.writes):
        return Turn(transaction=transaction, step=End(end=ActionEnd.ABANDONED, reason=TOO_SLOW))
    if transaction.phase is Phase.CHECK:
        # A restart that is to be repeated: the job is as it was.
        return Turn(transaction=transaction, step=End(end=ActionEnd.FAILED, reason=TOO_SLOW))
    left = replace(transaction, phase=Phase.WATCH, is_left=True, slow_reads=0, late_sends=0)
    if left.written_at_s is None:
        left = replace(left, written_at_s=now.monotonic_s)
    note = Note(step="left", detail=f"{TOO_SLOW}: the scheduler starts the job by itself")
    return Turn(transaction=left, step=Read(after_s=transaction.pace.slow_poll_s), notes=(note,))
