"""The contract of many writers: one winner a version, no gap for a follower, a listener that hears what was stored."""

from __future__ import annotations

import asyncio
from collections import Counter

from relance.domain.streams import Recorded, Stream
from relance.ports.histories import Append, ConflictError, History
from relance.testing.appending import OpenHistory, append, refusal
from relance.testing.history_values import NOON, after, change_seen, job_seen, job_stream

STREAM = job_stream()
WRITERS = 8
ROUNDS = 25
PATIENCE = 500


class WriterContract:
    """Appends at the same time, followers, listeners."""

    async def test_of_appends_to_one_version_exactly_one_wins(self, open_history: OpenHistory) -> None:
        histories = [await open_history() for _ in range(WRITERS)]
        for version in range(3):
            batches = [
                Append(stream=STREAM, expected_version=version, events=(change_seen(str(number)),))
                for number in range(WRITERS)
            ]
            answers = await asyncio.gather(
                *(history.append(batch, NOON) for history, batch in zip(histories, batches, strict=True)),
                return_exceptions=True,
            )
            kinds = Counter(type(answer) for answer in answers)
            assert kinds == {tuple: 1, ConflictError: WRITERS - 1}
        assert [item.version for item in await histories[0].read(STREAM)] == [1, 2, 3]

    async def test_a_follower_misses_nothing_of_eight_writers(self, open_history: OpenHistory) -> None:
        follower = await open_history()
        writers = [asyncio.create_task(_write(await open_history(), number)) for number in range(WRITERS)]
        followed: list[Recorded] = []
        while True:
            all_written = all(writer.done() for writer in writers)
            last = followed[-1].position if followed else 0
            page = await follower.follow(last, limit=7)
            assert [item.position for item in page] == list(range(last + 1, last + 1 + len(page)))
            followed += page
            if all_written and not page:
                break
            await asyncio.sleep(0)
        stored = [item for writer in writers for item in await writer]
        assert sorted(stored, key=lambda item: item.position) == followed
        assert await follower.head() == len(followed) == WRITERS * ROUNDS * 3
        for stream in {item.stream for item in followed}:
            versions = [item.version for item in followed if item.stream == stream]
            assert versions == list(range(1, len(versions) + 1))

    async def test_a_follower_reads_pages_without_gaps(self, open_history: OpenHistory) -> None:
        history = await open_history()
        stored = [
            *await append(history, STREAM, job_seen(), *(change_seen(str(number)) for number in range(4))),
            *await append(history, job_stream("18"), job_seen("18")),
        ]
        pages = [await history.follow(position, limit=2) for position in (0, 2, 4, 6, 7)]
        assert [item for page in pages for item in page] == stored
        assert [len(page) for page in pages] == [2, 2, 2, 0, 0]

    async def test_a_listener_hears_what_was_stored_and_nothing_else(self, open_history: OpenHistory) -> None:
        history = await open_history()
        heard: list[tuple[Recorded, ...]] = []
        history.subscribe(heard.append)
        stored = [
            await append(history, STREAM, job_seen(), change_seen("a")),
            await append(history, STREAM, change_seen("b"), now=after(1)),
        ]
        conflicting = Append(stream=STREAM, expected_version=1, events=(change_seen("late"),))
        await refusal(ConflictError, history.append(conflicting, NOON))
        await history.append(Append(stream=STREAM, expected_version=3, events=(), wake_at=after(5)), NOON)
        assert heard == stored

    async def test_a_listener_is_called_although_the_one_who_appended_has_gone(self, open_history: OpenHistory) -> None:
        history = await open_history()
        heard: list[Recorded] = []
        history.subscribe(heard.extend)
        batches = [
            Append(stream=job_stream(str(number)), expected_version=0, events=(job_seen(str(number)),))
            for number in range(20)
        ]
        tasks = [asyncio.create_task(history.append(batch, NOON)) for batch in batches]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await append(history, STREAM, change_seen("the end"))
        for _ in range(PATIENCE):  # what had begun goes on by itself
            if len(heard) == await history.head():
                break
            await asyncio.sleep(0.01)
        assert sorted(heard, key=lambda item: item.position) == list(await history.follow(0))

    async def test_what_is_closed_and_opened_again_is_all_there(self, open_history: OpenHistory) -> None:
        history = await open_history()
        stored = await append(history, STREAM, job_seen(), change_seen("a"))
        again = await open_history()
        assert await again.follow(0) == stored
        assert await again.load(STREAM) == await history.load(STREAM)


async def _write(history: History, writer: int) -> list[Recorded]:
    """Append to a stream of one's own and, racing with the others, to a shared one."""
    own, shared = job_stream(f"own-{writer}"), job_stream("shared")
    stored: list[Recorded] = []
    for number in range(ROUNDS):
        stored += await _append_until_won(history, own, f"own-{writer}", number, 2)
        stored += await _append_until_won(history, shared, "shared", number, 1)
    return stored


async def _append_until_won(
    history: History, stream: Stream, raw_id: str, number: int, count: int
) -> tuple[Recorded, ...]:
    events = tuple(change_seen(f"{number}.{part}", raw_id) for part in range(count))
    while True:
        try:
            return await append(history, stream, *events)
        except ConflictError:
            await asyncio.sleep(0)  # somebody else was first: load again
