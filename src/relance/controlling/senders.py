"""What a transaction works with, and how one command goes out: what came of it, whatever the scheduler does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from relance.controlling.ledger import Ledger
from relance.controlling.moves import Leave, Transaction
from relance.controlling.paces import COMMAND_LIMIT_S
from relance.domain.advice import Command
from relance.domain.ledgers import Outcome
from relance.domain.views import ClusterReport
from relance.ports.clocks import Clock
from relance.ports.schedulers import JobGoneError, Scheduler, SchedulerRefusedError, SchedulerSilentError

GRACE_S = 2.0
"""What a scheduler's adapter may take beyond the time limit that it was given, before it counts as silent."""


class Surroundings(Protocol):
    """What a transaction asks of its controller."""

    async def look(self) -> ClusterReport:
        """A whole look, with the dependencies that jobs showed before. Raises SchedulerSilentError."""
        ...

    def leave(self, transaction: Transaction) -> tuple[Leave, str]:
        """Whether the first command may be sent now."""
        ...

    def unwatched(self, partition: str) -> str:
        """Why no watchdog would free a job of this partition that we hold; empty when one would."""
        ...

    def acting(self) -> Collection[str]:
        """Keys of the attempts whose jobs are at `act`, as the newest orders say."""
        ...

    def note_window(self, window_s: float) -> None:
        """A requeued job showed that it starts by itself after so long."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a transaction works with; `told` is called when there is something new to report."""

    scheduler: Scheduler
    ledger: Ledger
    clock: Clock
    surroundings: Surroundings
    told: Callable[[], None]


async def call(scheduler: Scheduler, command: Command) -> tuple[Outcome, str, bool]:
    """Send; gives the outcome, the scheduler's text, and whether the job is gone."""
    try:
        async with asyncio.timeout(COMMAND_LIMIT_S + GRACE_S):
            await scheduler.send(command, COMMAND_LIMIT_S)
    except SchedulerRefusedError as error:
        return Outcome.REFUSED, str(error), False
    except JobGoneError as error:
        return Outcome.REFUSED, str(error), True
    except SchedulerSilentError as error:
        return Outcome.SILENT, str(error), False
    except TimeoutError:
        return Outcome.SILENT, "no answer in time", False
    return Outcome.DONE, "", False
