"""What goes wrong with a server: tried again where that helps, else told in a plain sentence with its remedy."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from sqlalchemy import Connection, create_engine, make_url, text

from relance.ports.clocks import Clock, SystemClock
from relance.ports.histories import StorageUnusableError
from relance.storage.histories import SqlHistory
from relance.testing.appending import append, refusal
from relance.testing.history_values import change_seen, job_seen, job_stream
from relance.testing.manual_clocks import ManualClock

STREAM = job_stream()
PATIENCE = 500
Open = Callable[..., Awaitable[SqlHistory]]


class BeatClock(ManualClock):
    """A clock whose short pauses pass by themselves; only the long ones wait to be told."""

    async def sleep(self, duration_s: float) -> None:
        await super().sleep(duration_s if duration_s > 1 else 0)


@pytest.fixture
async def open_history(mariadb_url: str) -> AsyncIterator[Open]:
    opened: list[SqlHistory] = []

    async def open_one(clock: Clock | None = None) -> SqlHistory:
        opened.append(await SqlHistory.open(mariadb_url, clock=clock or SystemClock()))
        return opened[-1]

    yield open_one
    for history in opened:
        await history.close()


@pytest.fixture
def other(mariadb_url: str) -> Iterator[Connection]:
    """Another client of the same database."""
    engine = create_engine(mariadb_url, isolation_level="READ COMMITTED")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def kill_the_others(other: Connection) -> None:
    """End every connection to the database but this one, as a restart of the server does."""
    query = text("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
    for number in list(other.scalars(query)):
        other.execute(text(f"KILL {int(number)}"))
    other.rollback()


def deadlocks(other: Connection) -> int:
    return int(other.execute(text("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")).one()[1])


def waits(other: Connection) -> int:
    """How many transactions of this database are in the midst of taking a position."""
    query = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'UPDATE head%'"
    return int(other.scalars(text(query)).one())


async def until_it_waits(other: Connection) -> None:
    """Until a transaction waits for a row that this connection holds."""
    for _ in range(PATIENCE):
        if waits(other):
            return
        await asyncio.sleep(0.02)
    pytest.fail("nothing ever waited")


async def test_an_append_waits_for_the_row_that_another_holds(open_history: Open, other: Connection) -> None:
    history = await open_history()
    other.execute(text("SELECT position FROM head FOR UPDATE"))
    task = asyncio.create_task(append(history, STREAM, job_seen()))
    await until_it_waits(other)
    assert await history.head() == 0
    other.rollback()
    assert [item.position for item in await task] == [1]


async def test_the_victim_of_a_deadlock_is_tried_again(open_history: Open, other: Connection) -> None:
    history = await open_history()
    await append(history, STREAM, job_seen())
    before = deadlocks(other)
    # The server sacrifices the transaction that has changed less, so this one changes much.
    many = ", ".join(f"('heavy{number}', 0, 0)" for number in range(500))
    other.execute(text(f"INSERT INTO unique_keys VALUES {many}"))  # noqa: S608 - constants of this test
    other.execute(text("SELECT position FROM head FOR UPDATE"))
    task = asyncio.create_task(append(history, STREAM, change_seen("a")))
    await until_it_waits(other)
    await asyncio.to_thread(other.execute, text("UPDATE streams SET changed_at_us = 0"))
    other.rollback()
    assert [item.position for item in await task] == [2]
    assert deadlocks(other) == before + 1
    assert [item.version for item in await history.read(STREAM)] == [1, 2]


async def test_lost_connections_are_made_anew(open_history: Open, other: Connection) -> None:
    history = await open_history()
    await append(history, STREAM, job_seen())
    kill_the_others(other)
    await append(history, STREAM, change_seen("a"))
    kill_the_others(other)
    assert await history.head() == 2


async def test_a_lock_whose_connection_was_lost_is_taken_again(open_history: Open, other: Connection) -> None:
    clock = BeatClock()
    first, second = await open_history(clock), await open_history()
    await first.lock_exclusively("first")
    kill_the_others(other)
    await _beat(clock)
    error = await refusal(StorageUnusableError, second.lock_exclusively("second"))
    assert "is in use by first (last seen 2026-01-01 " in str(error)
    await append(first, STREAM, job_seen())


async def test_who_lost_the_database_to_another_stores_no_more(open_history: Open, other: Connection) -> None:
    clock = BeatClock()
    first, second = await open_history(clock), await open_history()
    await first.lock_exclusively("first")
    kill_the_others(other)
    await second.lock_exclusively("second")
    await _beat(clock)
    error = await refusal(StorageUnusableError, append(first, STREAM, job_seen()))
    assert "is in use by second" in str(error)
    await append(second, STREAM, job_seen())


async def _beat(clock: ManualClock) -> None:
    """Let the holder of the lock look after it once."""
    await asyncio.sleep(0)
    clock.advance(15)
    for _ in range(25):
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"password": "wr0ng"}, "refused the account or its password: correct user and password"),
        ({"database": "missing"}, "does not exist: CREATE DATABASE it"),
        ({"port": 1}, "cannot be reached: start the server, or correct the address"),
        ({"host": "no-such-host.invalid"}, "cannot be reached: start the server, or correct the address"),
    ],
)
async def test_a_server_that_cannot_be_used_is_told_without_the_password(
    mariadb_url: str, changes: dict[str, str | int], says: str
) -> None:
    url = make_url(mariadb_url).set(**changes)  # type: ignore[arg-type]
    error = await refusal(
        StorageUnusableError, SqlHistory.open(url.render_as_string(hide_password=False), clock=SystemClock())
    )
    assert says in str(error)
    assert f"database {url.database} on {url.host}:{url.port}" in str(error)
    assert str(url.password) not in "".join(traceback.format_exception(error))


async def test_a_first_start_that_was_killed_half_way_does_not_bar_the_next(
    open_history: Open, other: Connection
) -> None:
    other.execute(text("CREATE TABLE relance_schema (version_num VARCHAR(32) NOT NULL)"))
    other.execute(text("CREATE TABLE streams (id INTEGER PRIMARY KEY)"))
    other.execute(text("CREATE TABLE head (id INTEGER PRIMARY KEY)"))
    other.commit()
    await append(await open_history(), STREAM, job_seen())
