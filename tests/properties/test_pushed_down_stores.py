"""What is found in a store of which only some lines travel is what is found in all of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import timedelta
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relance.domain.faults import Scope
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import LogBlock
from relance.domain.views import Assignment
from relance.progress import ProgressReader, ReaderState
from relance.sources.stores.gathering import Gathering
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.times import ns_of
from relance.sources.stores.wanted import Wanted, wanted_of
from relance.testing.manual_clocks import ManualClock
from relance.testing.memory_stores import MemoryStore
from tests.properties.test_pushdown import hits, logs
from tests.unit.rules.packs import READ_AT, packaged

NODES = ("n1", "n2")
ASKED = st.sampled_from(("look", "read", "pass", "restart"))


@cache
def wanted() -> Wanted:
    return wanted_of(packaged())


class Stand:
    """A job with a stream per node, followed by a source that may be started anew."""

    def __init__(self, wanted: Wanted, page_entries: int) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(now_ns=lambda: ns_of(self.clock.now()))
        self.wanted = wanted
        self.settings = StoreSourceSettings(
            delay_s=2.0, requests_per_s=1e9, page_entries=page_entries, read_bytes=1000, identities=30, pages_at_once=6
        )
        job = JobKey(cluster="alpha", raw_id="7", submitted_at=self.clock.now())
        self.job = Assignment(
            attempt=AttemptKey(job=job, restart_count=0),
            owner_uid=0,
            nodes=NODES,
            log_paths=(),
            started_at=self.clock.now(),
        )
        self.positions: Mapping[str, object] = {}
        self.lines: dict[str, list[bytes]] = {node: [] for node in NODES}
        self.gathering = self.begin()

    def begin(self) -> Gathering:
        self.gathering = Gathering(self.store, self.settings, self.wanted, self.clock)
        self.gathering.assign([self.job], {self.job.attempt: json.loads(json.dumps(self.positions))})
        return self.gathering

    def read(self) -> bool:
        reading = self.gathering.followed[self.job.attempt].read(self.clock.now())
        self.positions = reading.positions
        for block in reading.blocks:
            self.lines[str(block.node)] += block.data.split(b"\n")[:-1]
        return reading.more or reading.seen is None

    async def take(self, step: str) -> None:
        if step == "look":
            await self.gathering.look()
        elif step == "read":
            self.read()
        elif step == "pass":
            self.clock.advance(0.9)
        else:
            self.begin()

    async def settle(self) -> None:
        for _ in range(6):
            self.clock.advance(1)
            for _ in range(300):
                more = await self.gathering.look()
                if not self.read() and not more:
                    break


def steps_of(lines: list[bytes]) -> list[int]:
    data = b"".join(line + b"\n" for line in lines)
    block = LogBlock(file="a", offset=0, data=data, scope=Scope.APPLICATION, read_at=READ_AT)
    return [mark.step for mark in ProgressReader().read(block, ReaderState())[1] if hasattr(mark, "step") and mark.step]


@settings(max_examples=40, deadline=None)
@given(
    written=st.tuples(logs(Scope.APPLICATION), logs(Scope.APPLICATION)),
    asked=st.lists(st.tuples(st.integers(0, 6), ASKED), max_size=25),
    page_entries=st.sampled_from((4, 15, 1000)),
)
def test_pushed_down_and_local_results_are_the_same(
    written: tuple[list[bytes], list[bytes]], asked: list[tuple[int, str]], page_entries: int
) -> None:
    async def play() -> Stand:
        stand = Stand(wanted(), page_entries)
        coming = [iter(lines) for lines in written]
        for count, step in asked:
            for node, lines in zip(NODES, coming, strict=True):
                for line in [next(lines, None) for _ in range(count)]:
                    if line is not None:
                        stand.store.put(ns_of(stand.clock.advance(0.001)), {"job_id": "7", "node": node}, line)
            await stand.take(step)
        for node, lines in zip(NODES, coming, strict=True):
            for line in lines:
                stand.store.put(ns_of(stand.clock.advance(0.001)), {"job_id": "7", "node": node}, line)
        await stand.settle()
        return stand

    stand = asyncio.run(play())
    for node, lines in zip(NODES, written, strict=True):
        assert hits(stand.lines[node], Scope.APPLICATION) == hits(lines, Scope.APPLICATION)
        assert steps_of(stand.lines[node]) == steps_of(lines)


async def test_quiet_lines_stay_where_they_are() -> None:
    stand = Stand(wanted(), 1000)
    for number in range(500):
        line = b"quiet words of no rule: %d" % number
        stand.store.put(ns_of(stand.clock.advance(0.001)), {"job_id": "7", "node": "n1"}, line)
    await stand.settle()
    assert stand.lines["n1"] == []


@pytest.mark.parametrize("restart", [False, True])
async def test_a_traceback_comes_whole_though_it_is_looked_at_half_way(restart: bool) -> None:
    stand = Stand(wanted(), 1000)
    lines = [
        b"quiet words",
        b"Traceback (most recent call last):",
        b'  File "/repo/train.py", line 7, in main',
        b"    weights = load(path)",
        b'  File "/repo/load.py", line 70, in load',
        b"    return open(path)",
        b'  File "/repo/open.py", line 700, in open',
        b"    raise NobodyKnowsThisOne",
        b"mine.NobodyKnowsThisOne: what now",
        b"quiet words",
    ]
    for line in lines:
        stand.store.put(ns_of(stand.clock.advance(1.0)), {"job_id": "7", "node": "n1"}, line)
        await stand.take("look")
        stand.read()
        if restart:
            stand.begin()
    stand.clock.advance(timedelta(seconds=30).total_seconds())
    for _ in range(3):
        stand.store.put(ns_of(stand.clock.advance(1.0)), {"job_id": "7", "node": "n1"}, b"quiet words")
        await stand.take("look")
        stand.read()
    assert stand.lines["n1"][:8] == lines[1:9]
    assert len(stand.lines["n1"]) <= 10  # of thirteen: it was not known at once that it was over
