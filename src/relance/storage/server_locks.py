"""Locks by name on a MySQL or MariaDB server: for a migration, and for the whole database."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.exc import DBAPIError

from relance.ports.clocks import Clock
from relance.ports.histories import StorageUnusableError
from relance.storage.columns import from_payload, from_us, to_payload, to_us
from relance.storage.failures import passes, unusable
from relance.storage.places import MysqlPlace
from relance.storage.tables import holders
from relance.storage.upserts import put

BEAT_S: Final = 15.0
"""How often the holder sees that it still has the lock: also keeps the connection from being dropped as idle."""
MIGRATION_WAIT_S: Final = 120
WHOLE: Final = "whole database"


class ServerLock:
    """The exclusive lock on a database, on a connection that is kept for it.

    The server lets go of it when that connection ends, however it ends. If the connection was lost and somebody else
    has the lock meanwhile, `check` refuses from then on: the other one is in charge.
    """

    def __init__(self, *, place: MysqlPlace, engine: Engine, clock: Clock, holder: str) -> None:
        self._place = place
        self._engine = engine
        self._clock = clock
        self._holder = holder
        self._connection: Connection | None = None
        self._beating: asyncio.Task[None] | None = None
        self._lost: StorageUnusableError | None = None

    async def take(self) -> None:
        """Take the lock and keep it. Raises StorageUnusableError that names the other holder."""
        try:
            await asyncio.to_thread(self._take_again)
        except DBAPIError as error:
            raise unusable(error, self._place) from error
        self._beating = asyncio.create_task(self._beat_for_ever())

    def check(self) -> None:
        """Raise StorageUnusableError if somebody else took the database over."""
        if self._lost is not None:
            raise StorageUnusableError(str(self._lost))

    async def release(self) -> None:
        """Let go; may be called twice."""
        if self._beating is not None:
            self._beating.cancel()
            with suppress(asyncio.CancelledError):
                await self._beating
            self._beating = None
        await asyncio.to_thread(self._drop)

    async def _beat_for_ever(self) -> None:
        while self._lost is None:
            await self._clock.sleep(BEAT_S)
            try:
                await asyncio.to_thread(self._beat)
            except StorageUnusableError as error:
                self._lost = error
            except DBAPIError:
                continue  # the server is away: the next beat tries again, and appends fail by themselves

    def _beat(self) -> None:
        if not self._is_ours():
            self._drop()
            self._take_again()

    def _is_ours(self) -> bool:
        """Whether the server still has the lock down for our connection; if so, note when that was."""
        if self._connection is None:
            return False
        try:
            ours = text("SELECT IS_USED_LOCK(:name) = CONNECTION_ID()")
            if not self._connection.scalar(ours, {"name": _lock_name(self._place, WHOLE)}):
                return False
            seen = holders.update().where(holders.c.place == WHOLE).values(seen_at_us=to_us(self._clock.now()))
            self._connection.execute(seen)
        except DBAPIError:
            return False
        return True

    def _take_again(self) -> None:
        """Take the lock; once more if the pool had only connections that the server has dropped."""
        try:
            self._take()
        except DBAPIError as error:
            if not passes(error):
                raise
            self._take()

    def _take(self) -> None:
        connection = self._engine.connect()
        try:
            self._get(connection)
            now_us = to_us(self._clock.now())
            row = {"place": WHOLE, "holder": to_payload(self._holder), "since_us": now_us, "seen_at_us": now_us}
            put(connection, holders, row)
        except BaseException:
            connection.invalidate()  # the lock goes with the connection
            connection.close()
            raise
        self._connection = connection

    def _get(self, connection: Connection) -> None:
        if _get_lock(connection, _lock_name(self._place, WHOLE), wait_s=0):
            return
        row = connection.execute(select(holders).where(holders.c.place == WHOLE)).one_or_none()
        other = "another process"
        if row is not None:
            other = f"{from_payload(str, row.holder)} (last seen {from_us(row.seen_at_us):%Y-%m-%d %H:%M:%S} UTC)"
        raise StorageUnusableError(
            f"{self._place} is in use by {other}: one Relance per database; stop that one, or name another database"
        )

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()


@contextmanager
def migration_lock(connection: Connection, place: MysqlPlace) -> Iterator[None]:
    """Keep every other process from changing the tables at the same time."""
    name = _lock_name(place, "migration")
    if not _get_lock(connection, name, wait_s=MIGRATION_WAIT_S):
        raise StorageUnusableError(
            f"{place} is being upgraded by another process: wait until it is done and start again"
        )
    try:
        yield
    finally:
        connection.scalar(text("SELECT RELEASE_LOCK(:name)"), {"name": name})


def _get_lock(connection: Connection, name: str, *, wait_s: int) -> bool:
    return bool(connection.scalar(text("SELECT GET_LOCK(:name, :wait_s)"), {"name": name, "wait_s": wait_s}))


def _lock_name(place: MysqlPlace, purpose: str) -> str:
    """Lock names belong to the whole server and have at most 64 characters, so the database's name goes in hashed."""
    return f"relance {purpose} {hashlib.sha256(str(place.url.database).encode()).hexdigest()[:24]}"
