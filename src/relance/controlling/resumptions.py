"""Transactions at their beginning, and taken up again after a crash. Pure.

The ledger says what was intended, the cluster what was done; the key is the attempt and the expected restart count. A
requeue that shows is gone on from, whoever is away. One that does not show is never sent again on the ledger's word:
only if the server still shows the action as begun, under our lease, and the advice, the switch, the stage and the state
table all still allow it, is the same action finished; else it is abandoned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from relance.controlling.moves import Phase, Transaction
from relance.controlling.paces import COMMAND_LIMIT_S, Pace
from relance.domain.advice import ActionKind
from relance.domain.ledgers import ActionRecord, Began, Did, Intended, LedgerState, Outcome, Verb
from relance.domain.limits import Limits
from relance.domain.views import JobView


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What every transaction of a controller shares."""

    cluster: str
    limits: Limits
    pace: Pace


def fresh(began: Began, setting: Setting, state: LedgerState) -> Transaction:
    """The transaction of an action that was claimed just now."""
    attempt = began.advice.attempt
    is_restart = began.kind in (ActionKind.RESTART, ActionKind.PARK)
    return Transaction(
        began=began,
        cluster=setting.cluster,
        expected=began.expected,
        base_count=attempt.restart_count,
        target_count=attempt.restart_count + 1 if is_restart else began.expected.restart_count,
        limits=setting.limits,
        pace=setting.pace,
        parked=state.parked.get(str(attempt.job)),
        written=state.exclusions,
        requeued_by_us=began.requeued,
        holds=began.held,
    )


def adopted(began: Began, setting: Setting, state: LedgerState, job: JobView) -> Transaction:
    """The transaction of an action that the server shows as begun and this ledger does not know.

    Its controller died between claim and ledger, or it was another's and is dead: no command of it can be under way any
    more when this is called. What the job shows says how far it came, `began.requeued` whether that was our requeue.
    """
    start = replace(fresh(began, setting, state), is_resumed=True)
    if not began.advice.successor and job.restart_count == start.base_count + 1:
        return replace(start, phase=Phase.QUEUE, target_count=job.restart_count)
    return start


def resumed(record: ActionRecord, setting: Setting, state: LedgerState, now_s: float) -> Transaction:
    """The transaction of an action that this ledger has open, at the point where looking at the cluster goes on.

    `now_s` is the monotonic clock: what a dead process sent may still be under way for a command's time limit.
    """
    start = replace(fresh(record.began, setting, state), is_resumed=True)
    cancel = record.last(Verb.CANCEL)
    requeue, update = _last_requeue(record), record.last(Verb.CONSTRAIN)
    holds = requeue is not None and _is_hold_open(record, requeue[0])
    if cancel is not None:
        return replace(
            start, phase=Phase.CANCEL, target_count=cancel[0].restart_count, cancel_since_s=now_s,
            holds=holds or start.holds,
        )  # fmt: skip
    if requeue is None:
        if update is None:
            if not record.began.requeued:
                return start
            return replace(start, phase=Phase.QUEUE, queue_since_s=now_s)
        # Somebody else had requeued it; the update is read back, and writing it again does no harm.
        return replace(start, phase=Phase.QUEUE, target_count=update[0].restart_count, queue_since_s=now_s)
    intent, answer = requeue
    refused = answer.text if answer is not None and answer.outcome is Outcome.REFUSED else ""
    known = replace(
        start,
        base_count=intent.restart_count - 1,
        target_count=intent.restart_count,
        repeats=max(0, intent.restart_count - start.base_count - 1),
        requeues=sum(item.verb in _REQUEUES and item.restart_count == intent.restart_count for item in record.intents),
        # A command without an answer may have been sent just before the end, with all of its time limit to go.
        settle_since_s=now_s if answer is not None else now_s + COMMAND_LIMIT_S,
        queue_since_s=now_s,
        holds=holds,
    )
    is_done = answer is not None and answer.outcome is Outcome.DONE
    if is_done or (update is not None and update[0].number > intent.number):
        return replace(known, phase=Phase.QUEUE, requeued_by_us=not refused or holds)
    return replace(known, phase=Phase.SETTLE, refused=refused)


_REQUEUES = (Verb.REQUEUE, Verb.REQUEUE_HELD)


def _last_requeue(record: ActionRecord) -> tuple[Intended, Did | None] | None:
    found = [item for verb in _REQUEUES if (item := record.last(verb)) is not None]
    return max(found, key=lambda item: item[0].number, default=None)


def _is_hold_open(record: ActionRecord, requeue: Intended) -> bool:
    """Whether that requeue held the job, and no release after it is known to have been done."""
    if requeue.verb is not Verb.REQUEUE_HELD:
        return False
    release = record.last(Verb.RELEASE)
    is_newer = release is not None and release[0].number > requeue.number
    is_done = release is not None and release[1] is not None and release[1].outcome is Outcome.DONE
    return not (is_newer and is_done)
