"""What the history asks of a database: run this piece of work in a transaction, on a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from relance.ports.clocks import Clock
from relance.ports.histories import StorageUnusableError
from relance.storage.failures import NOTHING_LOST, RaceLostError, passes, unusable

T = TypeVar("T")

PAUSES_S: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Before each further try of a transaction that ended in a deadlock, a lock time-out or a lost connection."""


class Database(Protocol):
    """A database with its connections and threads. `work` may be run again if its transaction did not come about."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run statements that change nothing; each sees what is committed when it begins."""
        ...

    async def write(self, work: Callable[[Connection], T], done: Callable[[T], None] | None = None) -> T:
        """Run a transaction. `done` is called with its result right after the commit, on the thread that committed."""
        ...

    async def lock(self, holder: str) -> None:
        """Take the database for this process alone. Raises StorageUnusableError that names the other holder."""
        ...

    async def close(self) -> None:
        """Give back everything; may be called twice."""
        ...


async def on_thread(executor: Executor, work: Callable[[], T]) -> T:
    """Run `work` on a thread of the executor."""
    return await asyncio.wrap_future(executor.submit(work))


async def persistently(clock: Clock, place: object, run: Callable[[], Awaitable[T]]) -> T:
    """Run a transaction, again after a failure that passes. Raises StorageUnusableError with the remedy otherwise."""
    for pause_s in PAUSES_S:
        try:
            return await run()
        except RaceLostError:
            pass
        except DBAPIError as error:
            if not passes(error):
                raise unusable(error, place) from error
        await clock.sleep(pause_s)
    try:
        return await run()
    except RaceLostError as error:
        raise StorageUnusableError(f"{place} is too busy: try again; {NOTHING_LOST}") from error
    except DBAPIError as error:
        raise unusable(error, place) from error
