"""A transaction as a state machine: what was seen, in; what to do next, out. Pure.

The order is design 10's: look for copies, read, compare, requeue, wait for PENDING and one full second, look for copies
again, read, one update, read back, running for two seconds. Wherever this stops, the scheduler starts the job by
itself; where it would do so too soon, the requeue holds the job and a release follows the update (`holds`). Pages:
docs/explanation/transaction.md.
"""

from __future__ import annotations

from dataclasses import replace

from relance.controlling import updates
from relance.controlling.copies import leave_to_twin, twin_of, waits_for_us
from relance.controlling.freshness import not_fresh, too_late
from relance.controlling.holds import free, freed_first, is_held_by_us, may_be_held, release_answered
from relance.controlling.moves import (
    Answered,
    Blind,
    End,
    Late,
    Leave,
    Look,
    Looked,
    Missing,
    Moment,
    Note,
    Phase,
    Read,
    Rearmed,
    Saw,
    Seen,
    Send,
    Transaction,
    Turn,
    Unreadable,
    abandon,
    elapsed_s,
)
from relance.controlling.paces import COMMAND_LIMIT_S, READ_AGE_S, SETTLE_S
from relance.controlling.state_tables import Case, Course, ruling
from relance.controlling.updates import ENDING_LIMIT_S, job_changed, rearmed
from relance.domain.advice import ActionEnd, ActionKind
from relance.domain.ledgers import Outcome, Verb
from relance.domain.views import ClusterReport, JobState, JobView

PATIENCE_S = 10.0
"""How long a scheduler may be silent, or accounting unreadable, before something that has not begun is given up."""
LONG_PATIENCE_S = 600.0
"""The same once something has begun: then its end is called unknown."""
REQUEUE_TRIES = 2
CANCEL_TRIES = 2


def advance(transaction: Transaction, seen: Seen, now: Moment) -> Turn:
    """The next turn of a transaction; the first one sees a look. No action ends with a hold of ours left."""
    return freed_first(_advance(transaction, seen, now), now)


def _advance(transaction: Transaction, seen: Seen, now: Moment) -> Turn:  # noqa: PLR0911 - one case per sight
    match seen:
        case Blind():
            return _blind(transaction, seen.text, now)
        case Unreadable():
            return _unreadable(transaction, seen.text, now)
        case Missing():
            return _missing(transaction, seen.text)
        case Looked():
            return _looked(transaction, seen.report, now)
        case Answered():
            return _answered(transaction, seen, now)
        case Late():
            return too_late(transaction, now)
        case Rearmed():
            return rearmed(transaction, seen)
        case Saw(job=job) if job.state is JobState.UNKNOWN:
            return _unreadable(transaction, "the job's state cannot be read", now)
        case Saw():
            slow_reads = transaction.slow_reads if seen.took_s >= READ_AGE_S else 0
            read = replace(transaction, silent_since_s=None, read_took_s=seen.took_s, slow_reads=slow_reads)
            return _saw(read, seen.job, now)


def first_step(transaction: Transaction) -> Look | Read:
    """What a transaction asks for before it has seen anything."""
    return Look() if transaction.phase in (Phase.CHECK, Phase.WRITE) else Read()


def _saw(transaction: Transaction, job: JobView, now: Moment) -> Turn:
    known = replace(transaction, job=job, holds=transaction.holds and may_be_held(transaction, job))
    changed = job_changed(known, job) if known.has_sent else None
    if changed is not None:
        return Turn(transaction=known, step=changed)
    match known.phase:
        case Phase.CHECK:
            return _check(known, job, now)
        case Phase.SETTLE:
            return _settle(known, job, now)
        case Phase.QUEUE:
            return _queue(known, job, now)
        case Phase.WRITE | Phase.WATCH:
            return _second_half(known, job, now)
        case Phase.CANCEL:
            return _cancelling(known, job, now)
        case Phase.FREE:
            return free(known, job, now)


def _check(transaction: Transaction, job: JobView, now: Moment) -> Turn:
    """Before the first command: may it be sent, is there a copy, is the job as it was when this was decided?"""
    if not transaction.requeued_by_us:
        if now.leave is Leave.NEVER:
            return Turn(transaction=transaction, step=abandon(now.leave_reason))
        if now.leave is Leave.WAIT:
            return Turn(transaction=transaction, step=Read(after_s=transaction.pace.poll_s))
    if not_yet := not_fresh(transaction, now):
        return not_yet
    if transaction.began.kind is not ActionKind.CANCEL and (twin := twin_of(transaction, job, ended=job.ended_at)):
        return _not_beside(transaction, job, twin)
    rule = ruling(_case(transaction, job))
    note = Note(step="checked", detail=rule.reason)
    match rule.course:
        case Course.TRANSACTION:
            return _requeue(transaction, job, note, now)
        case Course.CONSTRAIN:
            waiting = replace(
                transaction, phase=Phase.WRITE, target_count=job.restart_count, pending_since_s=now.monotonic_s
            )
            return Turn(transaction=waiting, step=Look(after_s=transaction.pace.rest_look_s), notes=(note,))
        case Course.CANCEL:
            return _send(transaction, Send(verb=Verb.CANCEL, restart_count=job.restart_count), note)
        case Course.NOTHING:
            return Turn(transaction=transaction, step=abandon(rule.reason))


def _requeue(transaction: Transaction, job: JobView, note: Note, now: Moment) -> Turn:
    """The requeue; one that holds the job only while a watchdog would free it if we died."""
    verb = Verb.REQUEUE
    notes: tuple[Note, ...] = (note,)
    if transaction.began.holds:
        if job.held_next:
            reason = "somebody holds its next attempt since: left as it is"
            return Turn(transaction=transaction, step=abandon(reason))
        if not now.unwatched:
            verb = Verb.REQUEUE_HELD
        elif not transaction.repeats:
            # What was shown holds the job; the advice expires if the watchdog does not come back.
            return Turn(transaction=transaction, step=Read(after_s=transaction.pace.slow_poll_s))
        else:
            notes = (note, Note(step="not held", detail=now.unwatched))
    return _send(transaction, Send(verb=verb, restart_count=transaction.base_count + 1), *notes)


def _not_beside(transaction: Transaction, job: JobView, twin: str) -> Turn:
    """There is a copy: what has ended is not restarted, and what waits because we parked it makes way."""
    if waits_for_us(transaction, job):
        return leave_to_twin(transaction, job, twin)
    return Turn(transaction=transaction, step=abandon(twin))


def _case(transaction: Transaction, job: JobView) -> Case:
    advice = transaction.began.advice
    report = transaction.report
    return Case(
        cluster=transaction.cluster,
        # A launch is repeated on an attempt that has ended, whatever state the advice was made for.
        advice=replace(advice, ends_running=None) if transaction.repeats else advice,
        job=job,
        base_count=transaction.base_count,
        expected=transaction.expected,
        consent=transaction.began.consent,
        parked=transaction.parked,
        past=report.past if report is not None else (),
    )


def _send(transaction: Transaction, send: Send, *notes: Note) -> Turn:
    return Turn(transaction=replace(transaction, sent=send), step=send, notes=notes)


def _answered(transaction: Transaction, answer: Answered, now: Moment) -> Turn:
    sent = transaction.sent
    known = replace(transaction, sent=None, late_sends=0)
    match sent.verb if sent else None:
        case Verb.REQUEUE | Verb.REQUEUE_HELD:
            holds = sent is not None and sent.verb is Verb.REQUEUE_HELD
            return _requeue_answered(replace(known, holds=holds, releases=0), answer, now)
        case Verb.RELEASE:
            return release_answered(known, answer, now)
        case Verb.CONSTRAIN:
            written = replace(known, wrote=sent, writes=known.writes + 1, looked_since_update=False)
            return updates.update_answered(written, answer, now)
        case Verb.CANCEL:
            return _cancel_answered(replace(known, cancels=known.cancels + 1), answer, now)
        case None | Verb.ARM | Verb.REARM:
            return Turn(transaction=known, step=Read())


def _requeue_answered(transaction: Transaction, answer: Answered, now: Moment) -> Turn:
    known = replace(
        transaction,
        target_count=transaction.base_count + 1,
        requeues=transaction.requeues + 1,
        settle_since_s=now.monotonic_s,
        queue_since_s=now.monotonic_s,
        refused=answer.text if answer.outcome is Outcome.REFUSED else "",
    )
    if answer.outcome is Outcome.DONE:
        return Turn(transaction=replace(known, phase=Phase.QUEUE, requeued_by_us=True), step=Read())
    pause_s = 0.0 if answer.outcome is Outcome.REFUSED else known.pace.slow_poll_s
    return Turn(transaction=replace(known, phase=Phase.SETTLE), step=Read(after_s=pause_s))


def _settle(transaction: Transaction, job: JobView, now: Moment) -> Turn:
    """The requeue was refused, or not answered: what the scheduler shows decides, and nothing else."""
    if job.restart_count == transaction.target_count:
        # After a refusal it was somebody else's: then the pending record is not ours to cancel either. One that is
        # held, as ours would be, was refused by mistake: a command may reach the scheduler twice.
        ours = not transaction.refused or is_held_by_us(transaction, job)
        said = f"refused it ({transaction.refused})" if transaction.refused else "did not answer"
        note = Note(step="settled", detail=f"the scheduler {said}, and the job was requeued: going on from there")
        known = replace(
            transaction, phase=Phase.QUEUE, requeued_by_us=ours, refused="", holds=transaction.holds and ours
        )
        turn = _queue(known, job, now)
        return replace(turn, notes=(note, *turn.notes))
    waited_s = elapsed_s(transaction.settle_since_s, now)
    is_ending = job.state is JobState.COMPLETING and waited_s < ENDING_LIMIT_S
    if is_ending or (not transaction.refused and waited_s < SETTLE_S):
        return Turn(transaction=transaction, step=Read(after_s=transaction.pace.slow_poll_s))
    if transaction.refused:
        end = End(end=ActionEnd.FAILED, reason=f"the scheduler refused the requeue: {transaction.refused}")
        return Turn(transaction=transaction, step=end)
    if transaction.requeues >= REQUEUE_TRIES:
        # A requeue that would hold the job is kept in sight for a while more, in case it comes after all.
        kept = transaction.holds and not transaction.is_resumed
        reason = "the scheduler did not answer the requeue, and did not do it"
        end = End(end=ActionEnd.UNKNOWN if kept else ActionEnd.FAILED, reason=reason)
        return Turn(transaction=transaction, step=end)
    # The lost command has had its time and the job is as it was: it was not done. All is asked anew.
    note = Note(step="settled", detail="the scheduler did not answer, and did not requeue the job: asking anew")
    again = replace(transaction, phase=Phase.CHECK, report=None, looked_at_s=None)
    return Turn(transaction=again, step=Look(), notes=(note,))


def _queue(transaction: Transaction, job: JobView, now: Moment) -> Turn:
    """Requeued: wait until the old attempt is gone and the new one is PENDING."""
    if transaction.queue_since_s is None:
        transaction = replace(transaction, queue_since_s=now.monotonic_s)
    waited_s = elapsed_s(transaction.queue_since_s, now)
    pause_s = transaction.pace.slow_poll_s if waited_s > COMMAND_LIMIT_S else transaction.pace.poll_s
    if job.restart_count < transaction.target_count:
        if job.state.is_over and not job.state.is_failure:
            by = f" by uid {job.cancelled_by}" if job.cancelled_by is not None else ""
            reason = f"it was {job.state.value}{by} beside our requeue, and does not wait: left as it is"
            return Turn(transaction=transaction, step=abandon(reason))
        limit_s = COMMAND_LIMIT_S if job.state.is_over else ENDING_LIMIT_S
        if waited_s < limit_s:
            return Turn(transaction=transaction, step=Read(after_s=pause_s))
        if job.state.is_over and transaction.requeues < REQUEUE_TRIES:
            detail = f"the scheduler accepted the requeue, and the job is {job.state.value} as before: asking anew"
            again = replace(transaction, phase=Phase.CHECK, requeued_by_us=False, queue_since_s=None, report=None)
            return Turn(transaction=again, step=Look(), notes=(Note(step="settled", detail=detail),))
        if job.state.is_over:
            reason = f"the scheduler accepted the requeue and did not do it: it is {job.state.value}"
            return Turn(transaction=transaction, step=End(end=ActionEnd.FAILED, reason=reason))
        reason = f"the old attempt has been {job.state.value} for {waited_s:.0f} s since the requeue"
        return Turn(transaction=transaction, step=End(end=ActionEnd.UNKNOWN, reason=reason))
    if job.state is JobState.COMPLETING and waited_s < ENDING_LIMIT_S:
        # Some schedulers count the restart first: only who saw it before can tell that the old attempt still ends.
        return Turn(transaction=transaction, step=Read(after_s=pause_s))
    if job.state is not JobState.PENDING:
        return updates.watch(replace(transaction, phase=Phase.WATCH), job, now)
    eligible = job.eligible_at.isoformat(timespec="seconds") if job.eligible_at else "at once"
    starts = "held by us" if is_held_by_us(transaction, job) else f"would start by itself at {eligible}"
    note = Note(step="pending", detail=f"restart count {job.restart_count}, {starts}")
    waiting = replace(transaction, phase=Phase.WRITE, pending_since_s=now.monotonic_s)
    return Turn(transaction=waiting, step=Look(after_s=transaction.pace.rest_look_s), notes=(note,))


def _second_half(transaction: Transaction, job: JobView, now: Moment) -> Turn:
    if transaction.requeued_by_us and job.restart_count < transaction.target_count:
        return _gone_back(transaction, job, now)
    half = updates.write if transaction.phase is Phase.WRITE else updates.watch
    return half(transaction, job, now)


def _gone_back(transaction: Transaction, job: JobView, now: Moment) -> Turn:
    """A requeue that was seen is not there any more: the scheduler died and lost its newest state (seen: 22.05, 5 s).

    What it shows as running may have ended long ago; it finds that out by itself, and requeues the job then.
    """
    detail = f"the scheduler shows the job as it was before the requeue ({job.state.value}): it lost its newest state"
    forgotten = replace(
        transaction, phase=Phase.QUEUE, queue_since_s=None, wrote=None, written_at_s=None, is_read_back=False
    )
    turn = _queue(forgotten, job, now)
    return replace(turn, notes=(Note(step="gone back", detail=detail), *turn.notes))


def _cancel_answered(transaction: Transaction, answer: Answered, now: Moment) -> Turn:
    if answer.outcome is Outcome.REFUSED and transaction.leave_end is None:
        end = End(end=ActionEnd.FAILED, reason=f"the scheduler refused to cancel: {answer.text}")
        return Turn(transaction=transaction, step=end)
    pause_s = transaction.pace.poll_s if answer.outcome is Outcome.DONE else transaction.pace.slow_poll_s
    since_s = transaction.cancel_since_s if transaction.cancel_since_s is not None else now.monotonic_s
    known = replace(transaction, phase=Phase.CANCEL, cancel_since_s=since_s, refused=answer.text)
    return Turn(transaction=known, step=Read(after_s=pause_s))


def _cancelling(transaction: Transaction, job: JobView, now: Moment) -> Turn:
    if job.state.is_over:
        done = End(end=ActionEnd.SUCCEEDED, reason=f"the job is {job.state.value}")
        return Turn(transaction=transaction, step=transaction.leave_end or done)
    waited_s = elapsed_s(transaction.cancel_since_s, now)
    if is_held_by_us(transaction, job) and transaction.cancels < CANCEL_TRIES and waited_s >= COMMAND_LIMIT_S:
        # Held it is no second writer, but nobody would ever end it.
        again = replace(transaction, cancel_since_s=None)
        return _send(again, Send(verb=Verb.CANCEL, restart_count=transaction.target_count))
    if waited_s < (COMMAND_LIMIT_S if job.state is JobState.PENDING else ENDING_LIMIT_S):
        return Turn(transaction=transaction, step=Read(after_s=transaction.pace.slow_poll_s))
    reason = f"the job is {job.state.value} {waited_s:.0f} s after the cancellation"
    return Turn(transaction=transaction, step=End(end=ActionEnd.UNKNOWN, reason=reason))


def _looked(transaction: Transaction, report: ClusterReport, now: Moment) -> Turn:
    if not report.complete:
        return _blind(transaction, "not all jobs could be read", now)
    known = replace(
        transaction, report=report, looked_at_s=now.monotonic_s, blind_since_s=None, looked_since_update=True
    )
    return Turn(transaction=known, step=Read())


def _blind(transaction: Transaction, text: str, now: Moment) -> Turn:
    """Copies cannot be looked for: nothing is begun; what waits would start by itself, so its update goes out later."""
    since_s = transaction.blind_since_s if transaction.blind_since_s is not None else now.monotonic_s
    known = replace(transaction, blind_since_s=since_s)
    if now.monotonic_s - since_s < PATIENCE_S:
        # After the update the job is read in between: what was written is read back whether or not copies are seen.
        step = Read() if known.phase is Phase.WATCH else Look(after_s=known.pace.slow_poll_s)
        return Turn(transaction=known, step=step)
    if known.phase is Phase.CHECK:
        return Turn(transaction=known, step=abandon(f"copies of the job could not be looked for: {text}"))
    note = Note(step="blind", detail=f"copies of the job could not be looked for: {text}")
    blind = replace(known, looked_at_s=now.monotonic_s, looked_since_update=True)
    return Turn(transaction=blind, step=Read(), notes=(note,))


def _unreadable(transaction: Transaction, text: str, now: Moment) -> Turn:
    since_s = transaction.silent_since_s if transaction.silent_since_s is not None else now.monotonic_s
    known = replace(transaction, silent_since_s=since_s)
    silent_s = now.monotonic_s - since_s
    if not known.has_sent and silent_s >= PATIENCE_S:
        return Turn(transaction=known, step=abandon(f"the scheduler is silent: {text}"))
    if silent_s >= LONG_PATIENCE_S:
        return Turn(transaction=known, step=End(end=ActionEnd.UNKNOWN, reason=f"the scheduler is silent: {text}"))
    return Turn(transaction=known, step=Read(after_s=known.pace.slow_poll_s))


def _missing(transaction: Transaction, text: str) -> Turn:
    known_end = transaction.free_end or transaction.leave_end
    if known_end is not None:
        return Turn(transaction=transaction, step=known_end)
    return Turn(transaction=transaction, step=abandon(f"the scheduler does not know the job any more: {text}"))
