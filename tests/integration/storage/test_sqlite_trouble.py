"""What goes wrong with a file, told in a plain sentence with its remedy, and nothing lost."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from relance.ports.clocks import SystemClock
from relance.ports.histories import Append, StorageUnusableError
from relance.storage.histories import SqlHistory
from relance.testing.appending import append, refusal
from relance.testing.history_values import NOON, change_seen, job_seen, job_stream

STREAM = job_stream()
Open = Callable[..., Awaitable[SqlHistory]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "relance.db"


@pytest.fixture
async def open_history(path: Path) -> AsyncIterator[Open]:
    opened: list[SqlHistory] = []

    async def open_one(file: Path = path, file_system: str = "ext4") -> SqlHistory:
        history = await SqlHistory.open(
            f"sqlite:///{file}", clock=SystemClock(), busy_timeout_s=0.1, file_system_of=lambda _: file_system
        )
        opened.append(history)
        return history

    yield open_one
    for history in opened:
        await history.close()


@contextmanager
def on_each_connection(statement: str) -> Iterator[None]:
    """Run a statement on every SQLite connection that is made meanwhile."""

    def on_connect(raw: sqlite3.Connection, _record: object) -> None:
        raw.execute(statement)

    event.listen(Engine, "connect", on_connect)
    try:
        yield
    finally:
        event.remove(Engine, "connect", on_connect)


def damage(path: Path) -> None:
    """Overwrite all but the first page of the file with zeros."""
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))


@contextmanager
def held_by_another(path: Path) -> Iterator[None]:
    """Another program that keeps writing to the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


async def test_a_locked_file_is_told_and_nothing_is_lost(path: Path, open_history: Open) -> None:
    history = await open_history()
    await append(history, STREAM, job_seen())
    with held_by_another(path):
        error = await refusal(StorageUnusableError, append(history, STREAM, change_seen("a")))
        assert f"database {path} is locked by another process: end it" in str(error)
        assert (await history.load(STREAM)).version == 1
        assert "is locked by another process" in str(await refusal(StorageUnusableError, open_history()))
    await append(history, STREAM, change_seen("a"))
    assert await (await open_history()).head() == 2


@pytest.mark.parametrize("file_system", ["nfs4", "lustre", "fuse.sshfs"])
async def test_a_file_on_a_network_file_system_is_refused_before_it_is_made(
    tmp_path: Path, open_history: Open, file_system: str
) -> None:
    error = await refusal(StorageUnusableError, open_history(file_system=file_system))
    assert f"is on a network file system ({file_system})" in str(error)
    assert "name a file on a local disk, or use MySQL" in str(error)
    assert [entry.name for entry in os.scandir(tmp_path)] == []


async def test_a_full_disk_stores_what_it_acknowledged_and_nothing_else(path: Path, open_history: Open) -> None:
    history = await open_history()
    await append(history, STREAM, job_seen())
    await history.close()
    with closing(sqlite3.connect(path)) as raw:
        pages = raw.execute("PRAGMA page_count").fetchone()[0]
    with on_each_connection(f"PRAGMA max_page_count = {pages + 60}"):
        history = await open_history()
        batches = [
            Append(stream=job_stream(raw_id), expected_version=0, events=(change_seen("x" * 20_000, raw_id),))
            for raw_id in map(str, range(100, 130))
        ]
        answers = await asyncio.gather(*(history.append(batch, NOON) for batch in batches), return_exceptions=True)
        stored = [item for answer in answers if isinstance(answer, tuple) for item in answer]
        failures = {type(answer): str(answer) for answer in answers if isinstance(answer, BaseException)}
        assert stored
        assert set(failures) == {StorageUnusableError}
        assert "cannot grow because the disk is full: free some space" in failures[StorageUnusableError]
        await history.close()
    history = await open_history()
    assert sorted(stored, key=lambda item: item.position) == list(await history.follow(1))
    for batch, answer in zip(batches, answers, strict=True):
        assert (await history.load(batch.stream)).version == (1 if isinstance(answer, tuple) else 0)
    await append(history, STREAM, change_seen("there is room again"))


async def test_a_read_only_file_is_told(open_history: Open) -> None:
    history = await open_history()
    await append(history, STREAM, job_seen())
    await history.close()
    with on_each_connection("PRAGMA query_only = ON"):
        error = await refusal(StorageUnusableError, open_history())
    assert "is read-only for this account: give it the right to write" in str(error)


async def test_a_damaged_file_is_told(path: Path, open_history: Open) -> None:
    history = await open_history()
    for number in range(50):
        await append(history, STREAM, change_seen(f"{number}" * 1000))
    await history.close()
    damage(path)

    async def use() -> None:
        history = await open_history()
        await history.follow(0)

    assert "is damaged: stop Relance, keep a copy, and restore a backup" in str(
        await refusal(StorageUnusableError, use())
    )


@pytest.fixture
def settings(path: Path) -> Iterator[Path]:
    """A file of another kind; it is seen afterwards that it has not changed."""
    path.write_text("# my settings\n" * 500)
    yield path
    assert path.read_text() == "# my settings\n" * 500


async def test_a_file_that_is_no_database_is_told_and_left_alone(settings: Path, open_history: Open) -> None:
    error = await refusal(StorageUnusableError, open_history(settings))
    assert "is not an SQLite database" in str(error)


async def test_a_missing_folder_is_named(tmp_path: Path, open_history: Open) -> None:
    error = await refusal(StorageUnusableError, open_history(tmp_path / "missing" / "relance.db"))
    assert f"create the folder {tmp_path / 'missing'} first" in str(error)


async def test_a_folder_in_place_of_a_file_is_told(tmp_path: Path, open_history: Open) -> None:
    error = await refusal(StorageUnusableError, open_history(tmp_path))
    assert "cannot be opened (Is a directory)" in str(error)


async def test_nobody_else_may_read_the_file(path: Path, open_history: Open) -> None:
    history = await open_history()
    await append(history, STREAM, job_seen())
    await history.lock_exclusively("us")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert set(modes) == {"relance.db", "relance.db-wal", "relance.db-shm", "relance.db.lock"}
    assert set(modes.values()) == {0o600}


async def test_a_failure_does_not_repeat_what_was_to_be_stored(path: Path, open_history: Open) -> None:
    history = await open_history()
    with held_by_another(path):
        error = await refusal(StorageUnusableError, append(history, STREAM, change_seen("s3cret of a log")))
    assert "s3cret" not in "".join(traceback.format_exception(error))


async def test_commits_wait_for_the_disk(open_history: Open) -> None:
    modes: list[tuple[str, int]] = []

    def on_checkin(raw: sqlite3.Connection, _record: object) -> None:
        if raw.execute("PRAGMA query_only").fetchone()[0] == 0:
            journal = raw.execute("PRAGMA journal_mode").fetchone()[0]
            modes.append((journal, raw.execute("PRAGMA synchronous").fetchone()[0]))

    event.listen(Engine, "checkin", on_checkin)
    try:
        await append(await open_history(), STREAM, job_seen())
    finally:
        event.remove(Engine, "checkin", on_checkin)
    assert set(modes) == {("wal", 2)}


async def test_a_lock_file_that_cannot_be_opened_is_named(path: Path, open_history: Open) -> None:
    history = await open_history()
    path.with_name(path.name + ".lock").mkdir()
    with pytest.raises(StorageUnusableError, match="cannot be locked"):
        await history.lock_exclusively("a test")
