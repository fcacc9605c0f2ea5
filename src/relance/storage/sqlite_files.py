"""The history in one SQLite file on a disk of this machine."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event

from relance.ports.clocks import Clock
from relance.ports.histories import StorageUnusableError
from relance.storage.databases import Threads, closed, persistently
from relance.storage.filesystems import OVER_A_NETWORK
from relance.storage.places import SqlitePlace
from relance.storage.schemas import migrate
from relance.storage.writers import Writer

T = TypeVar("T")

READERS: Final = 4
READER_CACHE_KIB: Final = 512
"""Pages that each reader keeps, a quarter of SQLite's default: the system keeps the file's pages once for all."""
JOURNAL_LIMIT_BYTES: Final = 64 * 1024 * 1024


class SqliteFile:
    """One writer thread, a few readers, write-ahead log, and a commit that is on the disk when it returns."""

    def __init__(self, place: SqlitePlace, clock: Clock, busy_timeout_s: float) -> None:
        self._place = place
        self._clock = clock
        self._engine = _engine(place.path, busy_timeout_s, writes=True)
        self._readers_engine = _engine(place.path, busy_timeout_s, writes=False)
        self._writer = Writer(self._engine)
        self._readers = Threads(place, READERS, "reader")
        self._closed = False
        self._lock: int | None = None

    @classmethod
    async def open(
        cls, place: SqlitePlace, clock: Clock, busy_timeout_s: float, file_system_of: Callable[[Path], str]
    ) -> SqliteFile:
        """Open the file, made new or brought to this program's schema. Raises StorageUnusableError with the remedy."""
        _refuse_network(place, file_system_of(place.path))
        _create(place)
        database = cls(place, clock, busy_timeout_s)
        try:
            await database.write(lambda connection: migrate(connection, place))
        except BaseException:
            await database.close()
            raise
        return database

    async def read(self, work: Callable[[Connection], T]) -> T:
        async def run() -> T:
            return await self._readers.run(lambda: self._reading(work))

        return await persistently(self._clock, self._place, run)

    async def write(self, work: Callable[[Connection], T], done: Callable[[T], None] | None = None) -> T:
        async def run() -> T:
            if self._closed:
                raise closed(self._place)
            written: T = await asyncio.wrap_future(self._writer.submit(work, done))
            return written

        return await persistently(self._clock, self._place, run)

    async def lock(self, holder: str) -> None:
        """Lock a file beside the database; the kernel lets go of it when this process ends, however it ends."""
        if self._lock is None:
            self._lock = _lock(self._place, holder)

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._close)

    def _reading(self, work: Callable[[Connection], T]) -> T:
        with self._readers_engine.connect() as connection:
            return work(connection)

    def _close(self) -> None:
        self._writer.close()
        self._readers.close()
        self._readers_engine.dispose()
        self._engine.dispose()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _engine(path: Path, busy_timeout_s: float, *, writes: bool) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}",
        pool_size=1 if writes else READERS,
        max_overflow=0,
        pool_reset_on_return=None,
        hide_parameters=True,
        connect_args={"timeout": busy_timeout_s, "check_same_thread": False},
        **({} if writes else {"isolation_level": "AUTOCOMMIT", "skip_autocommit_rollback": True}),
    )

    @event.listens_for(engine, "connect")
    def _on_connect(raw: sqlite3.Connection, _record: object) -> None:
        raw.isolation_level = None  # transactions begin where we say so, not where the driver guesses
        if writes:
            raw.execute("PRAGMA journal_mode=WAL")
            raw.execute("PRAGMA synchronous=FULL")
            raw.execute(f"PRAGMA journal_size_limit={JOURNAL_LIMIT_BYTES}")
        else:
            raw.execute("PRAGMA query_only=ON")
            raw.execute(f"PRAGMA cache_size=-{READER_CACHE_KIB}")

    if writes:

        @event.listens_for(engine, "begin")
        def _on_begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _refuse_network(place: SqlitePlace, file_system: str) -> None:
    if file_system in OVER_A_NETWORK:
        raise StorageUnusableError(
            f"{place} is on a network file system ({file_system}), where SQLite can lose data: "
            "name a file on a local disk, or use MySQL"
        )


def _create(place: SqlitePlace) -> None:
    """Make the file before SQLite does, so that nobody else can read it."""
    try:
        os.close(os.open(place.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except FileNotFoundError:
        raise StorageUnusableError(f"{place} cannot be made: create the folder {place.path.parent} first") from None
    except OSError as error:
        raise StorageUnusableError(
            f"{place} cannot be opened ({error.strerror}): let this account write to the file and its folder"
        ) from error


def _lock(place: SqlitePlace, holder: str) -> int:
    try:
        lock = os.open(place.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageUnusableError(
            f"{place} cannot be locked: {place.lock_path} cannot be opened ({error.strerror}); "
            "let this account write to it, or remove it when no Relance runs"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        other = os.read(lock, 1000).decode("utf-8", "replace").strip() or "another process"
        os.close(lock)
        raise StorageUnusableError(
            f"{place} is in use by {other}: one Relance per database; stop that one, or name another file"
        ) from None
    os.truncate(lock, 0)
    os.pwrite(lock, holder.encode("utf-8", "replace"), 0)
    return lock
