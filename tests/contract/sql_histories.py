"""What both databases promise beyond the port: durability, one holder, migrations, retention, upkeep."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, text

from relance.domain.observations import Attachment
from relance.domain.records import fold
from relance.domain.streams import Recorded, Stream
from relance.ports.clocks import SystemClock
from relance.ports.histories import Append, NotUniqueError, StorageUnusableError
from relance.ports.tokens import TokenStore
from relance.storage.histories import SqlHistory
from relance.storage.retention import Pruned, Retention
from relance.storage.schemas import VERSION_TABLE
from relance.storage.tables import METADATA
from relance.testing.appending import append, refusal
from relance.testing.history_contract import HistoryContract
from relance.testing.history_contract_questions import filled
from relance.testing.history_values import (
    NOON,
    after,
    attempt_key,
    change_seen,
    job_seen,
    job_stream,
    opening,
    progress_at,
    stage_set,
    whole_story,
)
from relance.testing.token_contract import TokenContract

OpenSql = Callable[[], Awaitable[SqlHistory]]

KILLED_WRITER = Path(__file__).with_name("killed_writer.py")
PATIENCE = 500


class SqlHistoryContract(HistoryContract, TokenContract):
    @pytest.fixture
    async def open_history(self, url: str) -> AsyncIterator[OpenSql]:
        opened: list[SqlHistory] = []

        async def open_one() -> SqlHistory:
            opened.append(await SqlHistory.open(url, clock=SystemClock()))
            return opened[-1]

        yield open_one
        for history in opened:
            await history.close()
            await history.close()

    @pytest.fixture
    async def tokens(self, open_history: OpenSql) -> TokenStore:
        return (await open_history()).token_store

    # ------------------------------------------------------------------------------------------------- whole or not

    async def test_a_killed_writer_leaves_nothing_half_written_and_nothing_undone(
        self, url: str, open_history: OpenSql
    ) -> None:
        for number, acknowledged in enumerate((1, 40, 150)):
            name = f"writer-{number}"
            seen = await asyncio.to_thread(_write_and_kill, url, name, acknowledged)
            history = await open_history()
            await _lock_in_the_end(history, f"reader-{number}")
            await _see_that_all_is_whole(history, max(seen))
            await history.close()

    async def test_one_process_at_a_time_may_hold_the_whole_database(self, open_history: OpenSql) -> None:
        first, second = await open_history(), await open_history()
        await first.lock_exclusively("relance up on node7, process 4711")
        await first.lock_exclusively("the same once more")
        error = await refusal(StorageUnusableError, second.lock_exclusively("another"))
        assert "in use by relance up on node7, process 4711" in str(error)
        assert "one Relance per database; stop that one" in str(error)
        await append(second, job_stream(), job_seen())
        await first.close()
        await second.lock_exclusively("another")
        third = await open_history()
        assert "in use by another" in str(await refusal(StorageUnusableError, third.lock_exclusively("third")))

    async def test_closed_it_says_so(self, open_history: OpenSql) -> None:
        history = await open_history()
        await history.close()
        for asked in (history.head(), history.append(Append(stream=job_stream(), expected_version=0, events=()), NOON)):
            assert "was closed by this process" in str(await refusal(StorageUnusableError, asked))

    # ---------------------------------------------------------------------------------------------------- migrations

    async def test_what_the_migrations_make_is_what_the_statements_expect(
        self, url: str, open_history: OpenSql
    ) -> None:
        await open_history()
        engine = create_engine(url)
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            differences = compare_metadata(context, METADATA)
        engine.dispose()
        assert differences == []

    async def test_a_newer_database_is_refused_and_left_alone(self, url: str, open_history: OpenSql) -> None:
        history = await open_history()
        stored = await append(history, job_stream(), job_seen())
        await history.close()
        _run(url, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")  # noqa: S608 - a constant
        error = await refusal(StorageUnusableError, open_history())
        assert "written by a newer Relance (schema 9999" in str(error)
        assert "install the newer release again, or restore the backup" in str(error)
        _run(url, f"UPDATE {VERSION_TABLE} SET version_num = '0001'")  # noqa: S608 - a constant
        assert await (await open_history()).follow(0) == stored

    async def test_a_database_of_something_else_is_refused_and_left_alone(
        self, url: str, open_history: OpenSql
    ) -> None:
        _run(url, "CREATE TABLE invoices (id INTEGER PRIMARY KEY)")
        error = await refusal(StorageUnusableError, open_history())
        assert "holds the tables of another program" in str(error)
        _run(url, "SELECT id FROM invoices")

    async def test_several_may_open_an_empty_database_at_once(self, open_history: OpenSql) -> None:
        histories = await asyncio.gather(*(open_history() for _ in range(4)))
        await append(histories[0], job_stream(), job_seen())
        assert [await history.head() for history in histories] == [1, 1, 1, 1]

    # -------------------------------------------------------------------------------------------------------- upkeep

    async def test_projections_that_were_damaged_are_written_anew(self, url: str, open_history: OpenSql) -> None:
        history = await open_history()
        await filled(history)
        before = (await history.jobs(), await history.incidents(), await history.nodes())
        await history.close()
        _run(
            url,
            "UPDATE streams SET record = '{}', name_key = NULL, raw_id_key = NULL, version = 1, position = 1",
            "DELETE FROM incidents",
            "UPDATE incident_names SET id_key = 'x'",
        )
        history = await open_history()
        assert await history.rebuild() == 7
        assert (await history.jobs(), await history.incidents(), await history.nodes()) == before
        row = await history.find_incident("adv-17-1-inc-aaa1")
        assert row is not None
        assert row.incident.id == "inc-aaa1"
        await append(history, job_stream("17"), change_seen("goes on"))

    async def test_a_record_of_another_fold_is_folded_again(self, url: str, open_history: OpenSql) -> None:
        history = await open_history()
        await append(history, job_stream(), *whole_story())
        await history.close()
        for damage in ("record_schema = 0", "record = '[]'"):
            _run(url, f"UPDATE streams SET {damage}")  # noqa: S608 - a constant of this test
            history = await open_history()
            assert (await history.load(job_stream())).record == fold(job_stream().name, whole_story())
            await history.close()

    async def test_an_event_that_this_program_does_not_know_is_named(self, url: str, open_history: OpenSql) -> None:
        history = await open_history()
        await append(history, job_stream(), job_seen())
        _run(url, "UPDATE events SET type = 'JobDreamt'")
        error = await refusal(StorageUnusableError, history.follow(0))
        assert "the event JobDreamt at position 1 cannot be read" in str(error)
        assert "install that release again" in str(error)

    async def test_old_jobs_go_as_a_whole_and_open_incidents_stay(self, open_history: OpenSql) -> None:
        history = await open_history()
        await append(history, job_stream("old"), *whole_story("old", "inc-old"))
        await append(history, job_stream("open"), job_seen("open"), *opening("inc-open", "open"))
        await append(history, Stream.of_cluster("alpha"), stage_set())
        await append(history, job_stream("new"), job_seen("new"), now=after(500))
        keep = Retention(events_s=100)
        assert await history.prune(after(100), keep) == Pruned()
        assert await history.prune(after(101), keep) == Pruned(jobs=1)
        assert sorted(record.job.raw_id for record in await history.jobs()) == ["new", "open"]
        assert await history.read(job_stream("old")) == ()
        assert await history.find_incident("inc-old") is None
        assert await history.find_incident("act-old-inc-old") is None
        assert len(await history.clusters()) == 1
        assert await history.head() == 15
        await append(history, job_stream("old"), job_seen("old"), now=after(600))
        assert (await history.load(job_stream("old"))).version == 1

    async def test_attachments_go_by_age_and_then_oldest_first_until_the_rest_fits(self, open_history: OpenSql) -> None:
        history = await open_history()
        noise = [random.Random(number).randbytes(1000) for number in range(4)]
        for number, data in enumerate(noise):
            piece = Attachment(file=f"/log{number}", start_offset=0, data=data)
            batch = Append(stream=job_stream(), expected_version=0, events=(), attachments=((attempt_key(), piece),))
            await history.append(batch, after(number))
        assert await history.prune(after(100), Retention(attachments_s=100)) == Pruned()
        assert await history.prune(after(100.5), Retention(attachments_s=100)) == Pruned(attachments=1)
        assert [kept.file for kept in await history.kept_logs(attempt_key().job)] == ["/log1", "/log2", "/log3"]
        assert (await history.prune(after(100), Retention(attachments_bytes=1500))).attachments == 2
        (last,) = await history.kept_logs(attempt_key().job)
        assert last.file == "/log3"
        assert await history.kept_bytes(last.digest) == noise[3]

    async def test_old_progress_and_checkpoints_go(self, open_history: OpenSql) -> None:
        history = await open_history()
        first, second = attempt_key("1"), attempt_key("2")
        for attempt, second_s in ((first, 0), (first, 60), (second, 120)):
            seen = progress_at(second_s, second_s)
            batch = Append(
                stream=job_stream(),
                expected_version=0,
                events=(),
                progress=((attempt, seen),),
                checkpoints=((attempt, "x"),),
            )
            await history.append(batch, after(second_s))
        keep = Retention(progress_s=100, checkpoints_s=100)
        assert await history.prune(after(161), keep) == Pruned(progress_rows=3, checkpoints=1)
        assert (await history.progress(first), await history.progress_rows(first)) == (None, ())
        assert (await history.checkpoint(first), await history.checkpoint(second)) == (None, "x")

    def test_by_default_things_are_kept_as_long_as_operators_agreed(self) -> None:
        keep, day_s = Retention(), timedelta(days=1).total_seconds()
        assert (keep.events_s, keep.attachments_s, keep.progress_s) == (400 * day_s, 30 * day_s, 14 * day_s)
        assert keep.attachments_bytes == 20_000_000_000


def _run(url: str, *statements: str) -> None:
    """Change the database behind the history's back."""
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def _write_and_kill(url: str, name: str, acknowledged: int) -> list[int]:
    """Let a process write until it has told so many positions, kill it at once, and give all that it told."""
    with subprocess.Popen(
        [sys.executable, str(KILLED_WRITER), url, name], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        seen = [int(process.stdout.readline()) for _ in range(acknowledged)]
        process.kill()
        lines = process.stdout.read().splitlines(keepends=True)
    return seen + [int(line) for line in lines if line.endswith("\n")]


async def _lock_in_the_end(history: SqlHistory, holder: str) -> None:
    """A server needs a moment to see that its client is dead."""
    for _ in range(PATIENCE):
        try:
            return await history.lock_exclusively(holder)
        except StorageUnusableError:
            await asyncio.sleep(0.01)
    return await history.lock_exclusively(holder)


async def _see_that_all_is_whole(history: SqlHistory, acknowledged: int) -> None:
    by_stream: dict[Stream, list[Recorded]] = defaultdict(list)
    position = 0
    while page := await history.follow(position):
        assert [item.position for item in page] == list(range(position + 1, position + 1 + len(page)))
        position = page[-1].position
        for item in page:
            by_stream[item.stream].append(item)
    assert position == await history.head() >= acknowledged
    stories = set()
    for stream, stored in by_stream.items():
        snapshot = await history.load(stream)
        assert [item.version for item in stored] == list(range(1, snapshot.version + 1))
        assert snapshot.record == fold(stream.name, [item.event for item in stored])
        if snapshot.wake_at is None:
            await _see_that_changes_are_whole(history, stream, snapshot.version)
        else:
            assert len(stored) == len(whole_story())
            stories.add(stream)
    assert {Stream.of_job(row.job) for row in await history.incidents(limit=100_000)} == stories


async def _see_that_changes_are_whole(history: SqlHistory, stream: Stream, version: int) -> None:
    raw_id = stream.subject.split("/")[1]
    assert await history.checkpoint(attempt_key(raw_id)) == str(version)
    progress = await history.progress(attempt_key(raw_id))
    assert progress is not None
    assert progress.step == version
    taken = Append(stream=stream, expected_version=version, events=(), unique=(f"{raw_id}/{version}",))
    await refusal(NotUniqueError, history.append(taken, NOON))
