"""A hold of ours from the requeue to the release: whose it is, how it ends, and that no action ends before it. Pure.

A hold by a person looks like ours (peers.md R6): ours is one that the ledger intended and that shows at the restart
count to which that requeue leads. Before it ends, nothing starts; so every way out of a transaction leads through here.
"""

from __future__ import annotations

from dataclasses import replace

from relance.controlling.copies import leave_to_twin, twin_of
from relance.controlling.freshness import not_fresh
from relance.controlling.moves import Answered, End, Look, Moment, Note, Phase, Read, Send, Transaction, Turn, elapsed_s
from relance.controlling.paces import COMMAND_LIMIT_S
from relance.domain.advice import ActionEnd
from relance.domain.ledgers import Outcome, Verb
from relance.domain.views import Hold, JobState, JobView

RELEASE_TRIES = 5
ENDING_LIMIT_S = 900.0


def is_held_by_us(transaction: Transaction, job: JobView) -> bool:
    """Whether the job waits, held by our requeue. An administrator's hold over ours is a person's."""
    is_there = job.restart_count == transaction.target_count and job.state is JobState.PENDING
    return transaction.holds and is_there and job.hold in (Hold.USER, Hold.UNKNOWN)


def may_be_held(transaction: Transaction, job: JobView) -> bool:
    """Whether a hold of ours may still come to show: not once the attempt after our requeue waits free, or starts."""
    if job.restart_count < transaction.target_count:
        return True
    if job.restart_count > transaction.target_count or job.state.is_over:
        return False
    return job.state is JobState.COMPLETING or (job.state is JobState.PENDING and job.hold is not Hold.NONE)


def release(transaction: Transaction, job: JobView, now: Moment) -> Turn:
    """All is written: let the job start, by a fresh read, if no copy has come meanwhile."""
    if not transaction.is_left and (not_yet := not_fresh(transaction, now)):
        return not_yet
    if twin := twin_of(transaction, job):
        return leave_to_twin(transaction, job, twin)
    return _send(transaction)


def release_answered(transaction: Transaction, answer: Answered, now: Moment) -> Turn:
    """What becomes of a transaction after a release was sent."""
    known = replace(transaction, releases=transaction.releases + 1)
    if known.phase is Phase.FREE:
        return Turn(transaction=known, step=Read(after_s=_pause_s(known, answer)))
    if answer.outcome is not Outcome.DONE and known.releases >= RELEASE_TRIES:
        return Turn(transaction=known, step=_stuck(answer.text))
    if answer.outcome is Outcome.DONE:
        # The minute in the queue counts from here, and copies are looked for once more, as after an update.
        started = replace(known, phase=Phase.WATCH, written_at_s=now.monotonic_s, looked_since_update=False)
        return Turn(transaction=started, step=Look() if known.requeued_by_us else Read())
    return Turn(transaction=known, step=Read(after_s=_pause_s(known, answer)))


def freed_first(turn: Turn, now: Moment) -> Turn:
    """The turn, but no end before a hold of ours is gone. An unknown end leaves the action open, hold and all."""
    known, step = turn.transaction, turn.step
    if not isinstance(step, End) or not known.holds or known.phase is Phase.FREE or step.end is ActionEnd.UNKNOWN:
        return turn
    freeing = replace(
        known,
        phase=Phase.FREE,
        free_end=step,
        free_since_s=now.monotonic_s,
        is_left=True,
        releases=0,
        silent_since_s=None,
    )
    return replace(turn, transaction=freeing, step=Read())


def free(transaction: Transaction, job: JobView, now: Moment) -> Turn:
    """The action is over but for a hold: end it, whatever else is so."""
    end = transaction.free_end or End(end=ActionEnd.UNKNOWN, reason="a hold of ours was ended")
    waited_s = elapsed_s(transaction.free_since_s, now)
    if job.state is JobState.COMPLETING and transaction.holds and waited_s < ENDING_LIMIT_S:
        return Turn(transaction=transaction, step=Read(after_s=transaction.pace.slow_poll_s))
    if not is_held_by_us(transaction, job):
        over = f"; {job.hold.value} holds it now" if job.state is JobState.PENDING and job.hold is not Hold.NONE else ""
        return Turn(transaction=transaction, step=replace(end, reason=f"{end.reason}{over}"))
    if transaction.releases >= RELEASE_TRIES and waited_s >= COMMAND_LIMIT_S:
        return Turn(transaction=transaction, step=_stuck(end.reason))
    return replace(_send(transaction), notes=(Note(step="free", detail="our hold is ended before the action ends"),))


def _send(transaction: Transaction) -> Turn:
    send = Send(verb=Verb.RELEASE, restart_count=transaction.target_count, is_overdue=transaction.is_left)
    return Turn(transaction=replace(transaction, sent=send), step=send)


def _pause_s(transaction: Transaction, answer: Answered) -> float:
    return transaction.pace.poll_s if answer.outcome is Outcome.DONE else transaction.pace.slow_poll_s


def _stuck(why: str) -> End:
    reason = f"we hold it and cannot release it, and go on trying each minute; `scontrol release` lets it start: {why}"
    return End(end=ActionEnd.UNKNOWN, reason=reason)
