"""A follower that pages through the history while eight writers append sees every position once, in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest

from relance.domain.events import OutsideChangeSeen
from relance.domain.keys import JobKey
from relance.domain.streams import Recorded, Stream
from relance.ports.clocks import SystemClock
from relance.ports.histories import Append, ConflictError, History
from relance.storage.histories import SqlHistory
from relance.testing.history_values import NOON
from relance.testing.memory_histories import MemoryHistory

WRITERS = 8
EVENTS_EACH = 15
PAGES = (1, 3, 7, 500)


async def _write(history: History, writer: int, random: Random) -> None:
    """Append to a stream of one's own and to one that all share; a lost race is run again."""
    for number in range(EVENTS_EACH):
        name = "shared" if random.random() < 0.5 else f"own-{writer}"
        stream = Stream.of_job(JobKey(cluster="alpha", raw_id=name, submitted_at=NOON))
        event = OutsideChangeSeen(
            job=JobKey.parse(stream.subject), change="note", detail=f"{writer}/{number}", who=None, at=None
        )
        while True:
            version = (await history.load(stream)).version
            await asyncio.sleep(0)
            try:
                await history.append(Append(stream=stream, expected_version=version, events=(event,)), NOON)
            except ConflictError:
                continue
            break


async def _follow(history: History, limit: int) -> list[Recorded]:
    seen: list[Recorded] = []
    while len(seen) < WRITERS * EVENTS_EACH:
        page = await history.follow(seen[-1].position if seen else 0, limit)
        assert len(page) <= limit
        seen += page
        await asyncio.sleep(0 if page else 0.001)
    return seen


def _check(seen: list[Recorded]) -> None:
    assert [item.position for item in seen] == list(range(1, WRITERS * EVENTS_EACH + 1))
    details = [item.event.detail for item in seen if isinstance(item.event, OutsideChangeSeen)]
    wanted = {f"{writer}/{number}" for writer in range(WRITERS) for number in range(EVENTS_EACH)}
    assert set(details) == wanted
    for writer in range(WRITERS):
        mine = [detail for detail in details if detail.startswith(f"{writer}/")]
        assert mine == [f"{writer}/{number}" for number in range(EVENTS_EACH)]
    for stream in {item.stream for item in seen}:
        versions = [item.version for item in seen if item.stream == stream]
        assert versions == list(range(1, len(versions) + 1))


@pytest.mark.parametrize("limit", PAGES)
async def test_a_follower_among_eight_tasks_misses_nothing(limit: int) -> None:
    history = MemoryHistory()
    follower = asyncio.create_task(_follow(history, limit))
    await asyncio.gather(*(_write(history, writer, Random(writer)) for writer in range(WRITERS)))
    _check(await follower)


@pytest.mark.parametrize("limit", PAGES)
def test_a_follower_among_eight_threads_misses_nothing(limit: int, tmp_path: Path) -> None:
    """Each thread has an event loop and an opened history of its own, as processes have."""
    url = f"sqlite:///{tmp_path / 'relance.db'}"
    failures: list[BaseException] = []
    seen: list[Recorded] = []

    async def with_history(use: Callable[[SqlHistory], Coroutine[Any, Any, list[Recorded] | None]]) -> None:
        history = await SqlHistory.open(url, clock=SystemClock(), busy_timeout_s=60.0)
        try:
            seen.extend(await use(history) or [])
        finally:
            await history.close()

    def run(use: Callable[[SqlHistory], Coroutine[Any, Any, list[Recorded] | None]]) -> None:
        try:
            asyncio.run(with_history(use))
        except BaseException as error:  # noqa: BLE001 - told by the test, not by a thread that nobody hears
            failures.append(error)

    async def nothing(_history: SqlHistory) -> None:
        """The tables are made."""

    run(nothing)
    threads = [threading.Thread(target=run, args=(lambda history: _follow(history, limit),))]
    threads += [
        threading.Thread(target=run, args=(lambda history, writer=writer: _write(history, writer, Random(writer)),))
        for writer in range(WRITERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    _check(seen)
