from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

import pytest
import pytest_asyncio

from relance.domain.keys import AttemptKey, JobKey
from relance.domain.views import Assignment
from relance.ports.clocks import SystemClock
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.sources import StoreSource
from relance.sources.stores.times import ns_of
from relance.testing.memory_stores import MemoryStore
from relance.testing.source_contract import new_bytes

CLOCK = SystemClock()
SETTINGS = StoreSourceSettings(name="loki", poll_s=0.05, delay_s=0.1, requests_per_s=1000, told_s=0.2)
JOB = Assignment(
    attempt=AttemptKey(job=JobKey(cluster="alpha", raw_id="17", submitted_at=CLOCK.now()), restart_count=0),
    owner_uid=0,
    nodes=("n1",),
    log_paths=(),
    started_at=CLOCK.now(),
)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(now_ns=lambda: ns_of(CLOCK.now()))


@pytest_asyncio.fixture
async def source(store: MemoryStore) -> AsyncIterator[StoreSource]:
    made = StoreSource(store, SETTINGS, clock=CLOCK)
    made.assign([JOB], {})
    yield made
    await made.close()


def put(store: MemoryStore, text: str, node: str = "n1") -> None:
    store.put(ns_of(CLOCK.now()), {"job_id": "17", "node": node}, text.encode())


async def test_new_lines_wake_who_waits(source: StoreSource, store: MemoryStore) -> None:
    put(store, "one")
    async with asyncio.timeout(60):
        text = b""
        while text != b"one\n":
            assert await source.changed(10) == {JOB.attempt}
            text += new_bytes((await source.read(JOB.attempt)).blocks)


async def test_a_silent_attempt_is_told_of_as_its_silence_grows(source: StoreSource) -> None:
    async with asyncio.timeout(60):
        marks: list[datetime] = []
        while len(marks) < 3:
            assert await source.changed(10) == {JOB.attempt}
            seen = (await source.read(JOB.attempt)).seen
            marks += [seen.at] if seen is not None else []
    assert marks == sorted(set(marks))


async def test_a_trouble_that_nobody_thought_of_does_not_end_the_looking(
    source: StoreSource, store: MemoryStore
) -> None:
    store.failures.append(KeyError("no such thing"))  # type: ignore[arg-type]
    put(store, "one")
    async with asyncio.timeout(60):
        while not (await source.read(JOB.attempt)).blocks:
            await source.changed(1)


async def test_last_lines_are_those_of_each_stream_that_travel_or_not(source: StoreSource, store: MemoryStore) -> None:
    for number in range(50):
        put(store, f"line {number}", node=f"n{number % 2}")
    put(store, "export TOKEN=password=hunter2hunter2")
    kept = {each.file: each.data for each in await source.tails(JOB.attempt, 60)}
    assert set(kept) == {'loki:{job_id="17",node="n0"}', 'loki:{job_id="17",node="n1"}'}
    assert kept['loki:{job_id="17",node="n0"}'].endswith(b"line 46\nline 48\n")
    assert not any(b"hunter2" in data or len(data) > 60 for data in kept.values())


async def test_last_lines_of_a_store_that_is_away_are_none(source: StoreSource, store: MemoryStore) -> None:
    store.is_away = True
    assert await source.tails(JOB.attempt, 1000) == ()


async def test_a_closed_source_looks_no_more(source: StoreSource, store: MemoryStore) -> None:
    await source.changed(5)
    await source.close()
    asked = len(store.asked)
    source.assign([JOB], {})
    assert await source.changed(0.2) <= {JOB.attempt}
    assert len(store.asked) == asked
