"""What the history asks of a database: run this piece of work in a transaction, on a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
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


class Threads:
    """A bounded pool of threads that says plainly when it was closed."""

    def __init__(self, place: object, most: int, name: str) -> None:
        self._place = place
        self._closed = False
        self._executor = ThreadPoolExecutor(max_workers=most, thread_name_prefix=f"relance-{name}")

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` on a thread. Raises StorageUnusableError after `close`."""
        if self._closed:
            raise closed(self._place)
        return await asyncio.wrap_future(self._executor.submit(work))

    def close(self) -> None:
        """Finish what waits, and end the threads; may be called twice."""
        self._closed = True
        self._executor.shutdown(wait=True)


def closed(place: object) -> StorageUnusableError:
    """What is told to those who come after `close`."""
    return StorageUnusableError(f"{place} was closed by this process: it is ending")


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
