"""The thin driver of transactions: it does what the state machine asks for, and writes the ledger before each call.

Between the read that allows a command and the command lies less than a second, the write to the disk included; where it
took longer, the job is read again and all is asked anew.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

from relance.controlling.ledger import LedgerUnusableError
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
    Read,
    Rearm,
    Saw,
    Seen,
    Send,
    Step,
    Transaction,
    Unreadable,
    abandon,
)
from relance.controlling.paces import COMMAND_LIMIT_S, READ_AGE_S
from relance.controlling.preparations import parked_until, window_of
from relance.controlling.rearming import rearm
from relance.controlling.senders import GRACE_S, Tools, call
from relance.controlling.sequences import advance, first_step
from relance.domain.advice import ActionEnd, Command
from relance.domain.ledgers import ActionRecord, Did, Ended, Entry, Excluded, Intended, Noted, Outcome, Parked, Verb
from relance.domain.views import JobView
from relance.ports.schedulers import JobGoneError, SchedulerSilentError


class Carrying:
    """One transaction on its way."""

    def __init__(self, transaction: Transaction, tools: Tools) -> None:
        """Take what is to be carried out; its action is in the ledger."""
        self._transaction = transaction
        self._tools = tools
        self._read_at_s = 0.0
        self._intent: Intended | None = None

    async def carry_out(self) -> Ended:
        """Go on until the action has ended, and give its end; whatever happens, the ledger tells it."""
        step: Step = first_step(self._transaction)
        seen: Seen | End | None = None
        while not isinstance(step, End):
            # An intent that came to the disk too late is still good after the next read, which then goes before it.
            if not isinstance(step, Send) and not isinstance(seen, Late) and self._intent is not None:
                self._call_off("what was read since does not allow it any more")
            seen = await self._do(step)
            if isinstance(seen, End):
                step = seen
                break
            turn = advance(self._transaction, seen, self._moment())
            self._transaction = turn.transaction
            self._note(turn.notes)
            step = turn.step
        if self._intent is not None:
            self._call_off("the action ended")
        return self._end(step)

    async def _do(self, step: Look | Read | Send | Rearm) -> Seen | End:
        match step:
            case Send():
                return await self._send(step)
            case Rearm():
                return await rearm(step.raw_id, self._transaction, self._tools)
            case Look():
                await self._pause(step.after_s)
                return await self._look()
            case Read():
                await self._pause(step.after_s)
                return await self._read()

    async def _pause(self, duration_s: float) -> None:
        if duration_s > 0:
            await self._tools.clock.sleep(duration_s)

    async def _look(self) -> Seen:
        try:
            async with asyncio.timeout(COMMAND_LIMIT_S + GRACE_S):
                return Looked(report=await self._tools.surroundings.look())
        except SchedulerSilentError as error:
            return Blind(text=str(error))
        except TimeoutError:
            return Blind(text="no answer in time")

    async def _read(self) -> Seen:
        self._read_at_s = self._tools.clock.monotonic()
        try:
            async with asyncio.timeout(COMMAND_LIMIT_S + GRACE_S):
                job = await self._tools.scheduler.read(self._transaction.expected.raw_id)
            return Saw(job=job, took_s=self._tools.clock.monotonic() - self._read_at_s)
        except JobGoneError as error:
            return Missing(text=str(error))
        except SchedulerSilentError as error:
            return Unreadable(text=str(error))
        except TimeoutError:
            return Unreadable(text="no answer in time")

    async def _send(self, send: Send) -> Seen | End:
        job = self._transaction.job
        if job is None:
            return await self._read()
        if send.verb is Verb.CONSTRAIN and (window_s := window_of(self._transaction, job)) is not None:
            self._tools.surroundings.note_window(window_s)
        command = self._command(send, job)
        is_first = self._is_first()
        try:
            intent = self._intend(send, command, is_first=is_first)
        except LedgerUnusableError as error:
            return abandon(str(error))
        if self._tools.clock.monotonic() - self._read_at_s >= READ_AGE_S and not send.is_overdue:
            return Late()
        leave, reason = self._tools.surroundings.leave(self._transaction) if is_first else (Leave.GRANTED, "")
        if leave is Leave.NEVER:
            return abandon(reason)
        if leave is Leave.WAIT:
            await self._pause(self._transaction.pace.poll_s)
            return await self._read()
        outcome, text, is_gone = await call(self._tools.scheduler, command)
        self._intent = None
        did = Did(
            action_id=intent.action_id,
            number=intent.number,
            verb=intent.verb,
            outcome=outcome,
            text=text,
            at=self._tools.clock.now(),
        )
        self._keep(did)
        return Missing(text=text) if is_gone else Answered(outcome=outcome, text=text)

    def _command(self, send: Send, job: JobView) -> Command:
        scheduler = self._tools.scheduler
        match send.verb:
            case Verb.REQUEUE:
                return scheduler.requeue(job)
            case Verb.CONSTRAIN:
                return scheduler.constrain(job, send.exclude, send.start_at)
            case Verb.CANCEL:
                return scheduler.cancel(job)
            case Verb.REQUEUE_HELD:
                return scheduler.requeue_held(job)
            case Verb.RELEASE:
                return scheduler.release(job)
            case Verb.ARM | Verb.REARM:
                message = f"no transaction sends {send.verb.value}"
                raise ValueError(message)

    def _intend(self, send: Send, command: Command, *, is_first: bool) -> Intended:
        """The intent of this command, on the disk; the first of an action must be, or it is not sent."""
        if self._intent is not None and self._intent.argv == command.argv:
            return self._intent
        if self._intent is not None:
            self._call_off("another command is needed")
        began = self._transaction.began
        advice, now = began.advice, self._tools.clock.now()
        intent = Intended(
            action_id=began.action_id,
            number=self._number(),
            attempt=str(advice.attempt),
            advice_id=advice.id,
            generation=advice.generation,
            verb=send.verb,
            argv=command.argv,
            restart_count=send.restart_count,
            at=now,
        )
        entries: list[Entry] = [intent]
        until = parked_until(advice, self._transaction.limits)
        if send.verb is Verb.CONSTRAIN and until is not None and send.start_at is not None:
            job = str(advice.attempt.job)
            entries.append(Parked(action_id=began.action_id, job=job, until=send.start_at, at=now))
        if send.verb is Verb.CONSTRAIN:
            entries += self._list_written(send, now)
        if is_first:
            self._tools.ledger.append(*entries)
        else:
            self._tools.ledger.keep(*entries)
        self._intent = intent
        return intent

    def _list_written(self, send: Send, now: datetime) -> list[Entry]:
        """Which of the nodes are ours: to be taken out again when our exclusion is over."""
        job = self._transaction.job
        if job is None:
            return []
        key = str(job.job_key(self._transaction.cluster))
        if not send.ours and key not in self._tools.ledger.state.exclusions:
            return []
        own = tuple(name for name in send.exclude if name not in send.ours)
        owner = str(self._transaction.began.advice.attempt.job)
        return [Excluded(job=key, own=own, ours=send.ours, owner=owner, at=now)]

    def _call_off(self, reason: str) -> None:
        intent = self._intent
        if intent is None:
            return
        self._intent = None
        did = Did(
            action_id=intent.action_id,
            number=intent.number,
            verb=intent.verb,
            outcome=Outcome.NOT_SENT,
            text=reason,
            at=self._tools.clock.now(),
        )
        self._keep(did)

    def _note(self, notes: tuple[Note, ...]) -> None:
        for note in notes:
            noted = Noted(
                action_id=self._transaction.began.action_id,
                number=self._number(),
                step=note.step,
                detail=note.detail,
                at=self._tools.clock.now(),
            )
            self._keep(noted, durable=False)

    def _end(self, end: End) -> Ended:
        action_id = self._transaction.began.action_id
        record = self._tools.ledger.state.actions.get(action_id)
        ended = Ended(
            action_id=action_id,
            number=self._number(),
            end=end.end,
            reason=self._reason(end, record),
            at=self._tools.clock.now(),
            accepted_at=record.accepted_at if record is not None else None,
        )
        is_known = record is not None and record.ended is not None
        if not (is_known and end.end is ActionEnd.UNKNOWN):
            self._keep(ended)
        return ended

    def _reason(self, end: End, record: ActionRecord | None) -> str:
        """Why it ended; an action that was given up says plainly if nothing was sent."""
        if end.end is not ActionEnd.ABANDONED or record is None:
            return end.reason
        answers = [record.answer(intent) for intent in record.intents]
        # A command without an answer may have gone out just before a process died.
        if any(answer is None or answer.outcome is not Outcome.NOT_SENT for answer in answers):
            return end.reason
        # What the process before us sent is not known.
        return f"nothing {'more ' if record.began.taken_over else ''}was sent: {end.reason}"

    def _is_first(self) -> bool:
        """Whether no command of this action was sent before, by us or by a process before us."""
        record = self._tools.ledger.state.actions.get(self._transaction.began.action_id)
        sent = [item for item in record.intents if item != self._intent] if record is not None else []
        return not sent and not self._transaction.requeued_by_us

    def _number(self) -> int:
        record = self._tools.ledger.state.actions.get(self._transaction.began.action_id)
        return record.next_number if record is not None else 1

    def _keep(self, entry: Entry, *, durable: bool = True) -> None:
        self._tools.ledger.keep(entry, durable=durable)
        self._tools.told()

    def _moment(self) -> Moment:
        clock = self._tools.clock
        leave, reason = self._tools.surroundings.leave(self._transaction)
        job = self._transaction.job if self._transaction.began.holds else None
        unwatched = self._tools.surroundings.unwatched(job.partition) if job is not None else ""
        return Moment(
            at=clock.now(), monotonic_s=clock.monotonic(), leave=leave, leave_reason=reason, unwatched=unwatched
        )
