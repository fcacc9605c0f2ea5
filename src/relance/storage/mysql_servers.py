"""The history in a database on a MySQL or MariaDB server, which several processes may share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event

from relance.ports.clocks import Clock
from relance.storage.databases import Threads, persistently
from relance.storage.places import MysqlPlace
from relance.storage.schemas import migrate
from relance.storage.server_locks import ServerLock, migration_lock

T = TypeVar("T")

READERS: Final = 4
CONNECT_TIMEOUT_S: Final = 10
ANSWER_TIMEOUT_S: Final = 60
LOCK_WAIT_S: Final = 10
"""How long a statement waits for a row that another transaction holds, before the transaction is tried again."""
CONNECTION_AGE_S: Final = 1800
"""A pooled connection is replaced after this long: well before servers and firewalls drop idle ones."""
SETTINGS: Final = (
    f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT_S}, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
)
"""Strict: a value that does not fit is an error and never cut short."""


class MysqlServer:
    """A pool of writers at READ COMMITTED, and one of readers whose every statement is a transaction of its own."""

    def __init__(self, place: MysqlPlace, clock: Clock, writers: int) -> None:
        self._place = place
        self._clock = clock
        self._writers_engine = _engine(place, writers, writes=True)
        self._readers_engine = _engine(place, READERS, writes=False)
        self._writers = Threads(place, writers, "writer")
        self._readers = Threads(place, READERS, "reader")
        self._lock: ServerLock | None = None

    @classmethod
    async def open(cls, place: MysqlPlace, clock: Clock, writers: int) -> MysqlServer:
        """Connect, and make the tables or bring them to this program's schema. Raises StorageUnusableError."""
        server = cls(place, clock, writers)
        try:
            await server.write(server._migrate)
        except BaseException:
            await server.close()
            raise
        return server

    async def read(self, work: Callable[[Connection], T]) -> T:
        async def run() -> T:
            return await self._readers.run(lambda: self._reading(work))

        return await persistently(self._clock, self._place, run)

    async def write(self, work: Callable[[Connection], T], done: Callable[[T], None] | None = None) -> T:
        async def run() -> T:
            return await self._writers.run(lambda: self._writing(work, done))

        if self._lock is not None:
            self._lock.check()
        return await persistently(self._clock, self._place, run)

    async def lock(self, holder: str) -> None:
        if self._lock is None:
            lock = ServerLock(place=self._place, engine=self._readers_engine, clock=self._clock, holder=holder)
            await lock.take()
            self._lock = lock

    async def close(self) -> None:
        if self._lock is not None:
            await self._lock.release()
            self._lock = None
        await asyncio.to_thread(self._close)

    def _migrate(self, connection: Connection) -> None:
        with migration_lock(connection, self._place):
            migrate(connection, self._place)

    def _reading(self, work: Callable[[Connection], T]) -> T:
        with self._readers_engine.connect() as connection:
            return work(connection)

    def _writing(self, work: Callable[[Connection], T], done: Callable[[T], None] | None) -> T:
        with self._writers_engine.begin() as connection:
            value = work(connection)
        if done is not None:
            done(value)
        return value

    def _close(self) -> None:
        self._writers.close()
        self._readers.close()
        self._writers_engine.dispose()
        self._readers_engine.dispose()


def _engine(place: MysqlPlace, connections: int, *, writes: bool) -> Engine:
    mode: dict[str, Any] = {"isolation_level": "READ COMMITTED"}
    if not writes:
        mode = {"isolation_level": "AUTOCOMMIT", "skip_autocommit_rollback": True}
    engine = create_engine(
        place.url,
        pool_size=connections,
        max_overflow=1,  # a kept connection for the lock beside those of the threads
        pool_recycle=CONNECTION_AGE_S,
        pool_reset_on_return=None,  # every use ends its transaction itself; saves a round trip each time
        hide_parameters=True,
        connect_args={
            "connect_timeout": CONNECT_TIMEOUT_S,
            "read_timeout": ANSWER_TIMEOUT_S,
            "write_timeout": ANSWER_TIMEOUT_S,
        },
        **mode,
    )

    @event.listens_for(engine, "connect")
    def _on_connect(raw: Any, _record: object) -> None:  # noqa: ANN401 - either of two drivers
        with raw.cursor() as cursor:
            cursor.execute(SETTINGS)

    return engine
