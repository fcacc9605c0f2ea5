"""One job that waits for the restarted one is let wait anew: read, compared with what was shown, written down, sent.

The command is one of those that the action's effect shows, or it is not sent. Whatever goes wrong is told and changes
nothing about the restart; doing it twice does no harm.
"""

from __future__ import annotations

import asyncio

from relance.controlling.dependents import waits_in_vain, whole
from relance.controlling.moves import Rearmed, Transaction
from relance.controlling.paces import COMMAND_LIMIT_S, READ_AGE_S
from relance.controlling.senders import GRACE_S, Tools, call
from relance.domain.advice import Command
from relance.domain.ledgers import Did, Intended, Outcome, Verb
from relance.domain.views import JobView
from relance.ports.schedulers import JobGoneError, SchedulerRefusedError, SchedulerSilentError


async def rearm(raw_id: str, transaction: Transaction, tools: Tools) -> Rearmed:
    """Let this job wait for the transaction's job again, if it waits in vain; gives what is to be told."""
    read_at_s = tools.clock.monotonic()
    try:
        async with asyncio.timeout(COMMAND_LIMIT_S + GRACE_S):
            other = await tools.scheduler.read(raw_id)
    except (JobGoneError, SchedulerSilentError) as error:
        return Rearmed(raw_id=raw_id, text=f"job {raw_id}, which waits for it, could not be read: {error}")
    except TimeoutError:
        return Rearmed(raw_id=raw_id, text=f"job {raw_id}, which waits for it, could not be read: no answer in time")
    job = transaction.job
    if job is None or not waits_in_vain(other, job):
        return Rearmed(raw_id=raw_id)
    try:
        command = tools.scheduler.rearm(other, whole(other.dependency))
    except SchedulerRefusedError as error:
        return Rearmed(raw_id=raw_id, text=f"job {raw_id} is left as it is: {error}")
    if command not in transaction.began.effect.commands:
        text = f"job {raw_id} waits in vain ({other.dependency}) and is left as it is: it was not shown beforehand"
        return Rearmed(raw_id=raw_id, text=text)
    intent = _intended(transaction, other, command, tools)
    tools.ledger.keep(intent)
    if tools.clock.monotonic() - read_at_s >= READ_AGE_S:
        outcome, text = Outcome.NOT_SENT, "the read of it was too old"
    else:
        outcome, text, _ = await call(tools.scheduler, command)
    did = Did(
        action_id=intent.action_id,
        number=intent.number,
        verb=Verb.REARM,
        outcome=outcome,
        text=text,
        at=tools.clock.now(),
    )
    tools.ledger.keep(did)
    tools.told()
    return Rearmed(raw_id=raw_id)


def _intended(transaction: Transaction, other: JobView, command: Command, tools: Tools) -> Intended:
    began = transaction.began
    record = tools.ledger.state.actions.get(began.action_id)
    return Intended(
        action_id=began.action_id,
        number=record.next_number if record is not None else 1,
        attempt=str(began.advice.attempt),
        advice_id=began.advice.id,
        generation=began.advice.generation,
        verb=Verb.REARM,
        argv=command.argv,
        restart_count=other.restart_count,
        at=tools.clock.now(),
    )
