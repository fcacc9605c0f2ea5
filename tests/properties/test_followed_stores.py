"""Every line that comes into a store in time is delivered once, whatever happens between the store and the watcher."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from relance.domain.keys import AttemptKey, JobKey
from relance.domain.views import Assignment
from relance.ports.sources import Reading
from relance.sources.exchanges import StoreAwayError, StoreBusyError, StoreTooMuchError
from relance.sources.stores.gathering import Gathering
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.times import ns_of
from relance.sources.stores.wanted import Wanted
from relance.testing.manual_clocks import ManualClock
from relance.testing.memory_stores import MemoryStore

SECOND_NS = 10**9
DELAY_S = 5.0
JOBS = ("1", "2", "3")
POSITIONS_BYTES = 64 * 1024


@dataclass(frozen=True)
class Write:
    """A line: whose, which stream, how long ago it was written, how late it comes, how often the same."""

    job: str
    node: str
    ago_ms: int
    late_ms: int
    times: int
    text: int


WRITES = st.builds(
    Write,
    job=st.sampled_from(JOBS),
    node=st.sampled_from(("n1", "n2")),
    ago_ms=st.sampled_from((-2000, 0, 0, 0, 1, 500, 2500)),
    late_ms=st.sampled_from((0, 0, 0, 700, 2400)),
    times=st.sampled_from((1, 1, 1, 2)),
    text=st.integers(0, 5),
)
STEPS = st.one_of(
    st.tuples(st.just("write"), st.lists(WRITES, min_size=1, max_size=12)),
    st.tuples(st.just("burst"), st.tuples(st.sampled_from(JOBS), st.integers(1, 60))),
    st.tuples(st.just("pass"), st.sampled_from((0, 1, 50, 700, 2000, 9000))),
    st.tuples(st.just("look"), st.none()),
    st.tuples(st.just("read"), st.sampled_from(JOBS)),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("fail"), st.sampled_from(("away", "busy", "much"))),
    st.tuples(st.just("outage"), st.booleans()),
)


class World:
    """A store with three jobs, a watcher that may be started anew, and what was delivered so far."""

    def __init__(self, page_entries: int, identities: int) -> None:
        self.clock = ManualClock()
        self.began = self.clock.now()
        self.store = MemoryStore(now_ns=lambda: ns_of(self.clock.now()), page_entries=page_entries)
        self.settings = StoreSourceSettings(
            delay_s=DELAY_S,
            requests_per_s=1e9,
            page_entries=page_entries,
            page_least=1,
            pages_at_once=3,
            identities=identities,
            read_bytes=200,
            pending_bytes=2000,
            span_s=20.0,
            span_least_s=2.0,
            query_names=2,
        )
        self.written: Counter[tuple[str, str, bytes]] = Counter()
        self.delivered: Counter[tuple[str, str, bytes]] = Counter()
        self.offsets: dict[tuple[str, str], int] = {}
        self.checkpoints: dict[str, tuple[Mapping[str, object], Counter[tuple[str, str, bytes]]]] = {}
        self.count = 0
        self.gathering = self._new()

    def assignment(self, job: str) -> Assignment:
        key = AttemptKey(job=JobKey(cluster="alpha", raw_id=job, submitted_at=self.began), restart_count=0)
        return Assignment(
            attempt=key, owner_uid=0, nodes=("n1", "n2"), log_paths=(), started_at=self.began - timedelta(seconds=60)
        )

    def _new(self) -> Gathering:
        gathering = Gathering(self.store, self.settings, Wanted(), self.clock)
        positions = {
            self.assignment(job).attempt: json.loads(json.dumps(at)) for job, (at, _) in self.checkpoints.items()
        }
        gathering.assign([self.assignment(job) for job in JOBS], positions)
        return gathering

    def write(self, write: Write) -> None:
        now = ns_of(self.clock.now())
        at = now - write.ago_ms * 1_000_000
        text = b"line %d %d" % (write.text, self.count // 7)
        labels = {"job_id": write.job, "node": write.node}
        for _ in range(write.times):
            self.store.put(at, labels, text, arrives_ns=now + write.late_ms * 1_000_000)
            self.written[write.job, write.node, text] += 1
        self.count += 1

    def burst(self, job: str, size: int) -> None:
        at = ns_of(self.clock.now())
        for number in range(size):
            text = b"burst %d %d" % (self.count, number)
            self.store.put(at, {"job_id": job, "node": "n1"}, text)
            self.written[job, "n1", text] += 1
        self.count += 1

    def read(self, job: str) -> Reading:
        reading = self.gathering.followed[self.assignment(job).attempt].read(self.clock.now())
        for block in reading.blocks:
            node = str(block.node)
            assert block.data.endswith(b"\n")
            assert block.file == f'logs:{{job_id="{job}",node="{node}"}}'
            assert block.offset == self.offsets.get((job, block.file), 0)
            assert block.read_at <= self.clock.now()
            self.offsets[job, block.file] = block.offset + len(block.data)
            for line in block.data.splitlines():
                self.delivered[job, node, line] += 1
        plain = json.dumps(reading.positions)
        assert len(plain) <= POSITIONS_BYTES
        if reading.seen is not None:
            assert reading.seen.at <= self.clock.now() - timedelta(seconds=DELAY_S)
        self.checkpoints[job] = (reading.positions, Counter())
        return reading

    async def settle(self) -> None:
        """Let all that was written come in, the store be there, and everything be read."""
        self.store.is_away = False
        self.store.failures.clear()
        for _ in range(400):
            self.clock.advance(3)
            await self.gathering.look()
            readings = [self.read(job) for job in JOBS]
            late = [reading.seen for reading in readings if reading.seen is None]
            if not late and self.delivered == self.written and self.clock.now() > self.began + timedelta(minutes=2):
                return

    async def step(self, what: str, how: object) -> None:
        if what == "write" and isinstance(how, list):
            for write in how:
                self.write(write)
        elif what == "burst" and isinstance(how, tuple):
            self.burst(*how)
        elif what == "pass" and isinstance(how, int):
            self.clock.advance(how / 1000)
        elif what == "look":
            await self.gathering.look()
        elif what == "read":
            self.read(str(how))
        elif what == "restart":
            self.gathering = self._new()
        elif what == "fail":
            failures = {
                "away": StoreAwayError("away"),
                "busy": StoreBusyError("busy", 2.0),
                "much": StoreTooMuchError("too much"),
            }
            self.store.failures.append(failures[str(how)])
        elif what == "outage":
            self.store.is_away = bool(how)


TWICE = Write(job="1", node="n1", ago_ms=0, late_ms=0, times=2, text=0)


@settings(max_examples=150)
@example(
    steps=[("write", [TWICE]), ("look", None), ("read", "1"), ("restart", None), ("look", None), ("read", "1")],
    page_entries=50,
    identities=20,
)
@given(
    steps=st.lists(STEPS, max_size=40),
    page_entries=st.sampled_from((1, 2, 3, 7, 50)),
    identities=st.sampled_from((0, 3, 20, 2000)),
)
def test_each_line_is_delivered_once(steps: list[tuple[str, object]], page_entries: int, identities: int) -> None:
    async def play() -> World:
        world = World(page_entries, identities)
        for what, how in steps:
            await world.step(what, how)
        await world.settle()
        return world

    world = asyncio.run(play())
    assert world.delivered == world.written
