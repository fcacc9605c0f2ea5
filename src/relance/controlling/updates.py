"""The second half of a transaction: the one update of the pending job, its read-back, and the start. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from relance.controlling.copies import (
    copy_beside_ours,
    is_ours,
    leave_to_twin,
    look_again,
    too_late_to_stop,
    twin_of,
    waits_for_us,
)
from relance.controlling.dependents import dependents, waits_in_vain
from relance.controlling.exclusions import in_the_way, merged, without_ours
from relance.controlling.freshness import LOOK_AGE_S, not_fresh
from relance.controlling.holds import is_held_by_us, release
from relance.controlling.moves import (
    Answered,
    End,
    Look,
    Moment,
    Note,
    Phase,
    Read,
    Rearm,
    Rearmed,
    Send,
    Transaction,
    Turn,
    abandon,
    elapsed_s,
)
from relance.controlling.preparations import expected_of, grounds_of, parked_until
from relance.controlling.state_tables import attempt_before, held, is_meant, parked_by_us, who_decided
from relance.domain.advice import NEEDS_A_PERSON, ActionEnd
from relance.domain.ledgers import Outcome, Verb
from relance.domain.views import Hold, JobState, JobView

ENDING_LIMIT_S = 900.0
"""An attempt that takes longer to end is on a node that does not let go; the requeue stands all the same."""
WRITE_TRIES = 3
_NOT_OF_RANKS = frozenset({"batch", "extern", "interactive"})
"""Steps that an attempt has whether or not its script came to start anything."""
LAUNCH_S = 2.0
"""An attempt that our restart killed at launch never lives this long (slurm.md 2)."""
FAST_S = 10.0
"""After this long in the queue the job is read at the slow pace."""
NEVER_FITS = "BadConstraints"
"""The reason of a pending job that cannot be met. Slurm 25.11 says plain Resources instead (operators.md V10), as it
does in a full cluster: so whether there is room is counted as well."""


def job_changed(transaction: Transaction, job: JobView) -> End | None:
    """The end of an action whose job is another now, or was requeued by somebody else after us."""
    if not is_meant(job, transaction.began.advice, transaction.cluster):
        return abandon(f"the id {job.raw_id} belongs to another job now")
    if job.restart_count > transaction.target_count:
        return abandon(f"somebody else requeued it: the restart count is {job.restart_count}")
    return None


def write(transaction: Transaction, job: JobView, now: Moment) -> Turn:  # noqa: PLR0911 - one question after another
    """The job is read as PENDING, or has gone on: one update, or none any more."""
    if job.state is not JobState.PENDING or job.restart_count != transaction.target_count:
        return watch(replace(transaction, phase=Phase.WATCH), job, now)
    if job.hold is not Hold.NONE and not is_held_by_us(transaction, job):
        return Turn(transaction=transaction, step=_held(transaction, job))
    rested_s = elapsed_s(transaction.pending_since_s, now)
    if rested_s < transaction.pace.rest_s:
        return Turn(transaction=transaction, step=_rest(transaction, rested_s))
    if not transaction.is_left and (not_yet := not_fresh(transaction, now)):
        return not_yet
    if twin := twin_of(transaction, job):
        return leave_to_twin(transaction, job, twin)
    if decided := _decided_beside(transaction, job):
        return decided
    is_written = transaction.wrote is not None and not transaction.refused and _stands(transaction, job)
    if is_held_by_us(transaction, job) and (is_written or transaction.is_left):
        return release(transaction, job, now)
    if is_written:
        return watch(replace(transaction, phase=Phase.WATCH, written_at_s=now.monotonic_s), job, now)
    return _update(transaction, job, now)


def _rest(transaction: Transaction, rested_s: float) -> Look | Read:
    """What fills the rest: one look for copies towards its end, then the read that the update goes by."""
    looked_s, since_s = transaction.looked_at_s, transaction.pending_since_s
    if looked_s is not None and since_s is not None and looked_s > since_s:
        return Read(after_s=transaction.pace.rest_s - rested_s)
    return Look(after_s=max(0.0, transaction.pace.rest_look_s - rested_s))


def update_answered(transaction: Transaction, answer: Answered, now: Moment) -> Turn:
    """What becomes of a transaction after the update was sent; `wrote` and `writes` are of this one."""
    if answer.outcome is Outcome.DONE and transaction.holds:
        # Read back, and copies looked for, before it can start.
        return Turn(transaction=replace(transaction, refused=""), step=Look())
    if answer.outcome is Outcome.DONE:
        written = replace(transaction, phase=Phase.WATCH, written_at_s=now.monotonic_s, refused="")
        return Turn(transaction=written, step=Look() if is_ours(written) else Read())
    if transaction.writes >= WRITE_TRIES:
        left = replace(transaction, phase=Phase.WATCH, written_at_s=now.monotonic_s, is_left=transaction.holds)
        note = Note(step="left", detail="the update could not be made: the scheduler starts the job by itself")
        return Turn(transaction=left, step=Read(after_s=transaction.pace.slow_poll_s), notes=(note,))
    if answer.outcome is Outcome.REFUSED:
        refused = replace(transaction, refused=answer.text)
        return Turn(transaction=refused, step=Read(after_s=transaction.pace.poll_s))
    return Turn(transaction=transaction, step=Read(after_s=transaction.pace.slow_poll_s))


def watch(transaction: Transaction, job: JobView, now: Moment) -> Turn:
    """Written, or started without: read back, and wait until it has run for two seconds."""
    known = transaction
    if known.written_at_s is None:
        known = replace(known, written_at_s=now.monotonic_s)
    if job.state is not JobState.RUNNING:
        known = replace(known, running_since_s=None)
    match job.state:
        case JobState.PENDING:
            return _waiting(known, job, now)
        case JobState.RUNNING:
            return _running(known, job, now)
        case JobState.CONFIGURING | JobState.COMPLETING:
            limit_s = ENDING_LIMIT_S if job.state is JobState.COMPLETING else known.limits.pending_reason_s
            if elapsed_s(known.written_at_s, now) < limit_s:
                return Turn(transaction=known, step=Read(after_s=_pause_s(known, now)))
            reason = f"restarted: it is {job.state.value} on {', '.join(job.nodes)}"
            return Turn(transaction=known, step=End(end=ActionEnd.SUCCEEDED, reason=reason))
        case _:
            return _over(known, job)


def _update(transaction: Transaction, job: JobView, now: Moment) -> Turn:
    notes: list[Note] = []
    known = transaction
    if known.refused and known.wrote is not None and known.added:
        notes.append(Note(step="left out", detail=f"the scheduler refused {', '.join(known.added)}: {known.refused}"))
        known = replace(known, without_ours=True, refused="")
    written = known.written.get(str(job.job_key(known.cluster)), ())
    ours: tuple[str, ...] = ()
    if known.without_ours:
        nodes, added = without_ours(job, known.added, written), known.added
    else:
        found = merged(
            job, (*known.began.our_exclusions, *known.began.advice.exclude), grounds_of(known.report), written
        )
        nodes, ours, added = found.nodes, found.ours, (*known.added, *found.ours)
        notes += [Note(step="left out", detail=text) for text in found.notes]
    start_at = _start_at(known, job, now.at)
    waits_on = start_at is not None and start_at == job.eligible_at
    if not known.requeued_by_us and set(nodes) == set(job.excluded) and (waits_on or job.reason != "BeginTime"):
        reason = "it is in the queue already, and nothing is to be added"
        return Turn(transaction=known, step=End(end=ActionEnd.SUCCEEDED, reason=reason), notes=tuple(notes))
    send = Send(verb=Verb.CONSTRAIN, restart_count=known.target_count, exclude=nodes, start_at=start_at, ours=ours)
    ends_park = known.ends_park or waits_for_us(known, job)
    sent = replace(known, sent=send, added=added, ends_park=ends_park)
    return Turn(transaction=sent, step=send, notes=tuple(notes))


def _start_at(transaction: Transaction, job: JobView, now: datetime) -> datetime | None:
    """When the job is to start: None is now. A wait that is not ours to end stays as it is."""
    until = parked_until(transaction.began.advice, transaction.limits)
    wanted = until if until is not None and until > now else None
    if transaction.requeued_by_us or parked_by_us(job, transaction.parked):
        return wanted
    own = transaction.began.advice.successor
    if job.eligible_at is None or job.eligible_at <= now or (not own and _is_requeue_delay(transaction, job)):
        return wanted
    return job.eligible_at


def _is_requeue_delay(transaction: Transaction, job: JobView) -> bool:
    """Whether the job waits for the delay that every requeue brings, and not for a time that somebody asked for."""
    if job.eligible_at is None or transaction.report is None:
        return False
    late_s = (job.eligible_at - job.submitted_at).total_seconds() - transaction.report.facts.requeue_delay_s
    return -0.5 <= late_s <= 3.0  # noqa: PLR2004 - times in whole seconds, and Slurm adds one (slurm.md 2: 121 s)


def _decided_beside(transaction: Transaction, job: JobView) -> Turn | None:
    """What to do when somebody decided about the attempt between our read of it and our requeue; None: nobody did.

    A scheduler starts a cancelled job again when it is told to requeue it: that is taken back before it starts, and the
    person's wish stands. A preempted one was requeued by the scheduler: what waits then is not ours.
    """
    report = transaction.report
    if report is None or not transaction.requeued_by_us:
        return None
    before = attempt_before(job, report.past, transaction.base_count)
    if before is None:
        return None
    decided = who_decided(job, (before,), transaction.base_count)
    if before.state is JobState.PREEMPTED:
        return Turn(transaction=transaction, step=abandon(f"left as it is: {decided}"))
    if before.state is not JobState.CANCELLED and before.cancelled_by is None:
        return None
    end = abandon(f"our pending attempt was cancelled: {decided}")
    send = Send(verb=Verb.CANCEL, restart_count=transaction.target_count)
    note = Note(step="decided", detail=f"{decided}, as we requeued it: our own pending attempt is cancelled")
    return Turn(transaction=replace(transaction, sent=send, leave_end=end), step=send, notes=(note,))


def _held(transaction: Transaction, job: JobView) -> End:
    began = transaction.began
    if began.taken_over and began.holds and not began.held:
        # Nobody can tell it from ours any more: the journal of whoever began this is not here.
        command = f"`scontrol release {job.raw_id}` lets it start"
        return abandon(
            f"it is held, and whether by Relance cannot be told without the ledger of its controller: {command}"
        )
    return abandon(f"after the requeue: {held(job)}")


def _rearm(transaction: Transaction, job: JobView) -> Turn | None:
    """The next job that waits for this one in vain, seen to once what starts this one is out; None: there is none.

    While this one waits or runs again the scheduler calls no dependency on it hopeless any more.
    """
    is_out = transaction.wrote is not None or job.state is JobState.RUNNING
    if not is_out or not transaction.began.effect.commands:
        return None
    report = transaction.report
    if report is None:
        unseen = not transaction.looked_since_update
        return Turn(transaction=transaction, step=look_again(transaction)) if unseen else None
    waiting = (other for other in dependents(job, report.jobs) if other.raw_id not in transaction.rearmed)
    found = next((other.raw_id for other in waiting if waits_in_vain(other, job)), None)
    return Turn(transaction=transaction, step=Rearm(raw_id=found)) if found is not None else None


def rearmed(transaction: Transaction, seen: Rearmed) -> Turn:
    """A job that waits for this one was seen to, for better or worse: the restart goes on."""
    known = replace(transaction, rearmed=(*transaction.rearmed, seen.raw_id))
    notes = (Note(step="dependent", detail=seen.text),) if seen.text else ()
    return Turn(transaction=known, step=Read(), notes=notes)


def _stands(transaction: Transaction, job: JobView) -> bool:
    """Whether the scheduler shows what the newest update asked for.

    A start time that was set while the old attempt was ending is overwritten by the requeue's delay (slurm.md 2).
    """
    wrote = transaction.wrote
    if wrote is None:
        return True
    wanted = set(job.excluded) >= set(wrote.exclude)
    if wrote.start_at is not None:
        at = job.eligible_at
        return wanted and at is not None and abs(at - wrote.start_at) <= timedelta(seconds=2)
    return wanted and not _is_overwritten(transaction, job)


def _is_overwritten(transaction: Transaction, job: JobView) -> bool:
    """Whether the requeue's delay stands where an immediate start was written."""
    wrote = transaction.wrote
    asked_now = wrote is not None and wrote.start_at is None
    return asked_now and job.reason == "BeginTime" and _is_requeue_delay(transaction, job)


def _waiting(transaction: Transaction, job: JobView, now: Moment) -> Turn:
    if job.hold is not Hold.NONE:
        if is_held_by_us(transaction, job):
            return release(transaction, job, now)
        return Turn(transaction=transaction, step=_held(transaction, job))
    if beside := copy_beside_ours(transaction, job):
        return beside
    if rearm := _rearm(transaction, job):
        return rearm
    known, notes = transaction, []
    # What a person changes after the read-back wins; the delay of a requeue is nobody's wish.
    stands = _stands(known, job) if not known.is_read_back else not _is_overwritten(known, job)
    if known.wrote is not None and not stands and known.writes < WRITE_TRIES and not known.is_left:
        note = Note(step="read back", detail=f"not as written (starts at {_shown(job.eligible_at)}): writing again")
        again = replace(known, phase=Phase.WRITE, is_read_back=False)
        return Turn(transaction=again, step=Look(), notes=(note,))
    if known.wrote is not None and stands and not known.is_read_back:
        known = replace(known, is_read_back=True)
        kept_out = f"kept off {', '.join(job.excluded)}" if job.excluded else "no node kept out"
        notes.append(Note(step="read back", detail=f"{kept_out}; waits for {job.reason or 'nothing'}"))
    if known.parks and known.is_read_back:
        end = End(end=ActionEnd.SUCCEEDED, reason=f"parked: it starts by itself at {_shown(job.eligible_at)}")
        return Turn(transaction=known, step=end, notes=tuple(notes))
    if elapsed_s(known.written_at_s, now) < known.limits.pending_reason_s:
        return Turn(transaction=known, step=Read(after_s=_pause_s(known, now)), notes=tuple(notes))
    return _long_waiting(known, job, tuple(notes), now)


def _long_waiting(transaction: Transaction, job: JobView, notes: tuple[Note, ...], now: Moment) -> Turn:
    """A minute in the queue: is it because of us?"""
    added = ", ".join(transaction.added)
    may_be_us = bool(added) and not transaction.without_ours
    if may_be_us and elapsed_s(transaction.looked_at_s, now) > LOOK_AGE_S:
        return Turn(transaction=transaction, step=look_again(transaction), notes=notes)
    grounds = grounds_of(transaction.report)
    ours = job.reason.startswith(NEVER_FITS) or (grounds is not None and in_the_way(job, transaction.added, grounds))
    if may_be_us and ours:
        if transaction.began.advice.exclusion_is_hard:
            reason = f"waits for {job.reason} without {added}; the evidence is hard: {NEEDS_A_PERSON}"
            return Turn(transaction=transaction, step=End(end=ActionEnd.SUCCEEDED, reason=reason), notes=notes)
        note = Note(step="taken back", detail=f"waits for {job.reason} without {added}: allowed again")
        again = replace(transaction, phase=Phase.WRITE, without_ours=True, wrote=None, is_read_back=False)
        return Turn(transaction=again, step=Look(), notes=(*notes, note))
    when = f" at {_shown(job.eligible_at)}" if job.reason == "BeginTime" else ""
    reason = f"in the queue: {job.reason or 'no reason given'}{when}"
    return Turn(transaction=transaction, step=End(end=ActionEnd.SUCCEEDED, reason=reason), notes=notes)


def _running(transaction: Transaction, job: JobView, now: Moment) -> Turn:
    if transaction.running_since_s is None:
        begun = replace(transaction, running_since_s=now.monotonic_s)
        return Turn(transaction=begun, step=Read(after_s=transaction.pace.poll_s))
    if rearm := _rearm(transaction, job):
        return rearm
    left_s = transaction.limits.settled_running_s - (now.monotonic_s - transaction.running_since_s)
    if left_s > 0:
        return Turn(transaction=transaction, step=Read(after_s=min(left_s, transaction.pace.poll_s)))
    unkept = [name for name in transaction.began.advice.exclude if name in job.nodes]
    but = f", before {', '.join(unkept)} could be kept out" if unkept else ""
    beside = too_late_to_stop(transaction, job)
    end = End(end=ActionEnd.SUCCEEDED, reason=f"runs on {', '.join(job.nodes)}{but}{beside}")
    return Turn(transaction=transaction, step=end)


def _over(transaction: Transaction, job: JobView) -> Turn:
    """The new attempt has ended already, or somebody has put it aside."""
    lived_s = _lived_s(job)
    if _died_at_launch(job, lived_s):
        ours = transaction.requeued_by_us and transaction.writes > 0 and not transaction.is_resumed
        if ours and transaction.repeats == 0:
            return _repeat(transaction, job)
        end = End(end=ActionEnd.FAILED, reason=f"the new attempt died at launch: {job.state.value} {job.reason}")
        return Turn(transaction=transaction, step=end)
    if job.state in (JobState.CANCELLED, JobState.PREEMPTED, JobState.SUSPENDED):
        return Turn(transaction=transaction, step=abandon(f"after the requeue it was {job.state.value}: left"))
    reason = f"restarted: the new attempt ran for {lived_s:.0f} s and is {job.state.value}"
    return Turn(transaction=transaction, step=End(end=ActionEnd.SUCCEEDED, reason=reason))


def _repeat(transaction: Transaction, job: JobView) -> Turn:
    """Our own restart killed the attempt at launch: once more, with everything asked anew (design 10)."""
    note = Note(step="repeat", detail=f"the new attempt died at launch ({job.reason}): requeued once more")
    again = replace(
        transaction,
        phase=Phase.CHECK,
        expected=expected_of(job),
        base_count=transaction.target_count,
        repeats=transaction.repeats + 1,
        requeues=0,
        holds=False,
        writes=0,
        wrote=None,
        is_read_back=False,
        written_at_s=None,
        running_since_s=None,
        looked_at_s=None,
    )
    return Turn(transaction=again, step=Look(), notes=(note,))


def _died_at_launch(job: JobView, lived_s: float) -> bool:
    """Whether the attempt was ended before it had begun. One whose ranks ran died of something of its own.

    Where accounting cannot be read the scheduler's reason has to say so.
    """
    if not job.state.is_failure or lived_s >= LAUNCH_S:
        return False
    if job.steps is None:
        return job.reason == "JobLaunchFailure"
    return all(step.name in _NOT_OF_RANKS for step in job.steps)


def _lived_s(job: JobView) -> float:
    if job.started_at is None:
        return 0.0
    return (job.ended_at - job.started_at).total_seconds() if job.ended_at is not None else LAUNCH_S


def _pause_s(transaction: Transaction, now: Moment) -> float:
    is_new = elapsed_s(transaction.written_at_s, now) < FAST_S
    return transaction.pace.poll_s if is_new else transaction.pace.slow_poll_s


def _shown(at: datetime | None) -> str:
    return at.isoformat(timespec="seconds") if at is not None else "a time that is not shown"
