"""What stores, agents and jobs do wrong, and what is still read of all others."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from relance.domain.findings import Sight
from relance.sources.exchanges import StoreAnswerError, StoreError, StoreRefusedError, StoreTooMuchError
from relance.sources.stores.backs import Page, Selection
from relance.sources.stores.gathering import Gathering
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.sources import StoreSource
from relance.sources.stores.times import ns_of
from relance.testing.manual_clocks import ManualClock
from relance.testing.memory_stores import MemoryStore
from tests.unit.sources.stores.test_gathering import SETTINGS, Stand, text_of


class Choking(MemoryStore):
    """A store that cannot tell of one job."""

    def __init__(self, stand: Stand, bad: str, error: StoreError) -> None:
        super().__init__(now_ns=lambda: ns_of(stand.clock.now()))
        self.bad, self.error = bad, error

    async def page(self, wanted: Selection, since_ns: int, until_ns: int, at_most: int) -> Page:
        found = await super().page(wanted, since_ns, until_ns, at_most)
        if self.bad in wanted.labels.get("job_id", ()):
            raise self.error
        return found


@pytest.mark.parametrize("error", [StoreAnswerError("broken JSON"), StoreRefusedError("no such value")])
async def test_a_job_that_a_store_cannot_tell_of_keeps_it_from_telling_of_no_other(error: StoreError) -> None:
    settings = replace(SETTINGS, kernel_match={}, page_least=5000, span_least_s=6 * 3600.0)
    stand = Stand(settings)
    stand.store = Choking(stand, "250", error)
    stand.gathering = Gathering(stand.store, settings, stand.wanted, stand.clock)
    jobs = [stand.job(str(number)) for number in range(400)]
    stand.follow(*jobs)
    for number in range(400):
        stand.put("one", job=str(number))
    await stand.gathering.look()
    got = {job.attempt.job.raw_id: text_of(stand.read(job).blocks) for job in jobs}
    assert {raw_id for raw_id, text in got.items() if text != "one\n"} == {"250"}
    assert len(stand.store.asked) < 25
    assert stand.gathering.sight()[0].sight is Sight.SEEN
    (entry,) = stand.read(stand.job("250")).coverage
    assert (entry.sight, str(error) in entry.note) == (Sight.LAGGING, True)


@pytest.mark.parametrize("error", [StoreAnswerError("broken JSON"), StoreTooMuchError("too large")])
async def test_a_job_that_can_be_read_in_no_measure_does_not_have_the_store_asked_without_end(
    error: StoreError,
) -> None:
    settings = replace(SETTINGS, kernel_match={}, query_names=20)
    stand = Stand(settings)
    stand.store = Choking(stand, "25", error)
    stand.gathering = Gathering(stand.store, settings, stand.wanted, stand.clock)
    jobs = [stand.job(str(number)) for number in range(100)]
    stand.follow(*jobs)
    for number in range(100):
        stand.put("one", job=str(number))
    for _ in range(100):  # five seconds of looks as fast as they may come
        await stand.gathering.look()
        stand.clock.advance(0.05)
    got = {job.attempt.job.raw_id: text_of(stand.read(job).blocks) for job in jobs}
    assert {raw_id for raw_id, text in got.items() if text != "one\n"} == {"25"}
    assert not await stand.gathering.look()


async def test_a_store_that_refuses_all_is_not_asked_for_each_job() -> None:
    settings = replace(SETTINGS, kernel_match={}, page_least=5000, span_least_s=6 * 3600.0)
    stand = Stand(settings)
    stand.follow(*[stand.job(str(number)) for number in range(400)])
    stand.store.failures += [StoreRefusedError("no")] * 10_000
    await stand.gathering.look()
    assert len(stand.store.asked) <= 25
    assert stand.gathering.sight()[0].sight is Sight.REFUSED
    stand.store.asked.clear()
    stand.clock.advance(1.0)
    await stand.gathering.look()
    assert stand.store.asked == []


class Skewed(Stand):
    """A site whose clocks are right, and ours is ahead of them, or behind."""

    def __init__(self, ahead_s: float) -> None:
        super().__init__(replace(SETTINGS, kernel_match={}))
        self.ahead_s = ahead_s
        self.began = self.site_now()
        self.store = MemoryStore(now_ns=lambda: ns_of(self.site_now()))
        self.gathering = Gathering(self.store, self.settings, self.wanted, self.clock)

    def site_now(self) -> datetime:
        return self.clock.now() - timedelta(seconds=self.ahead_s)

    async def look(self) -> None:
        self.store.told_at = self.site_now().replace(microsecond=0)
        await self.gathering.look()


@pytest.mark.parametrize("ahead_s", [0.0, 12.0, 40.0, 600.0, 7200.0, -12.0, -40.0, -600.0])
async def test_each_line_is_read_once_though_our_clock_is_not_that_of_the_site(ahead_s: float) -> None:
    stand = Skewed(ahead_s)
    job = stand.job()
    stand.follow(job)
    text, wanted = "", []
    for number in range(60):
        stand.store.put(ns_of(stand.site_now()), {"job_id": "17", "node": "n1"}, b"line %d" % number)
        wanted.append(f"line {number}\n")
        stand.clock.advance(2.0)
        await stand.look()
        reading = stand.read(job)
        text += text_of(reading.blocks)
        if reading.seen is not None:
            assert reading.seen.at <= stand.site_now() + timedelta(seconds=1) or ahead_s < 0
    assert text == "".join(wanted)
    entry = stand.gathering.sight()[0]
    assert entry.sight is (Sight.LAGGING if abs(ahead_s) > 301 else Sight.SEEN)
    assert ("time servers" in entry.note) == (abs(ahead_s) > 10)


HOSTS = ["n1\n2026 NVRM: Xid", "n1;rm -rf /", "../n1", "\ud800", "n" * 5000, "<b>n1</b>", "n1 n2", "\x1b[2J", "-n1"]


@pytest.mark.parametrize("name", HOSTS)
async def test_a_label_that_is_no_name_of_a_node_names_none(name: str) -> None:
    stand = Stand()
    job = stand.job()
    stand.follow(job)
    stand.put("one", node=name)
    await stand.gathering.look()
    (block,) = stand.read(job).blocks
    assert block.node is None
    assert block.file.isprintable()
    assert len(block.file) <= 200


@pytest.mark.parametrize("name", ["gpu-a01.example.org", "10.0.0.7", "fe80::1", "node_7", "n1"])
async def test_names_and_addresses_of_nodes_are_taken(name: str) -> None:
    stand = Stand()
    job = stand.job(nodes=("n7",))
    stand.follow(job)
    stand.put("one", node=name)
    await stand.gathering.look()
    assert [block.node for block in stand.read(job).blocks] == [name]


async def test_empty_lines_without_end_are_fetched_up_to_a_bound() -> None:
    clock = ManualClock()
    store = MemoryStore(now_ns=lambda: ns_of(clock.now()))
    settings = StoreSourceSettings(name="loki", requests_per_s=1e6, delay_s=0.0)
    stand = Stand()
    stand.clock, stand.store = clock, store
    stand.gathering = Gathering(store, settings, stand.wanted, clock)
    job = stand.job(started_at=clock.now())
    stand.follow(job)
    begin = ns_of(clock.now())
    for number in range(60_000):
        store.put(begin + number * 1000, {"job_id": "17", "node": "n1"}, b"")
    clock.advance(1.0)
    for _ in range(5):
        await stand.gathering.look()
    following = stand.gathering.followed[job.attempt]
    assert following.own.waiting_lines <= settings.pending_lines + settings.page_entries
    text = ""
    for _ in range(100):
        text += text_of(stand.read(job).blocks)
        await stand.gathering.look()
    assert len(text) == 60_000


IDS = [
    "1",
    "10",
    "100",
    "1_1",
    "1.batch",
    "1+het",
    "1|10",
    ".*",
    "(",
    "[0-9]",
    "1\\d",
    "$1",
    "^1",
    "a b",
    "\u00e9",
    "1\n",
]


async def test_ids_that_are_parts_of_others_or_have_characters_of_patterns_are_told_apart() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}))
    jobs = {raw_id: stand.job(raw_id) for raw_id in IDS}
    stand.follow(*jobs.values())
    for raw_id in IDS:
        stand.put(f"of {raw_id!r}", job=raw_id)
    await stand.gathering.look()
    for raw_id, job in jobs.items():
        assert text_of(stand.read(job).blocks) == f"of {raw_id!r}\n"


async def test_ten_thousand_jobs_are_asked_for_in_a_few_queries() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}))
    jobs = [stand.job(str(1_000_000 + number)) for number in range(10_000)]
    stand.follow(*jobs)
    await stand.gathering.look()
    assert len(stand.store.asked) <= 21
    assert max(sum(map(len, wanted.labels["job_id"])) for wanted, _, _ in stand.store.asked) <= 16 * 1024


async def test_a_job_that_writes_more_than_is_read_is_told_to_lag_and_holds_up_no_other() -> None:
    stand = Stand(replace(SETTINGS, kernel_match={}, pages_at_once=2, page_entries=100))
    loud, other = stand.job("1"), stand.job("2")
    stand.follow(loud, other)
    await stand.gathering.look()
    stand.read(loud)
    for _ in range(20):
        for number in range(50):
            stand.put(f"line {number}", job="1", ago_s=number / 50)
            stand.put(f"line {number}", job="1", ago_s=number / 50 + 0.001)
            stand.put(f"line {number}", job="1", ago_s=number / 50 + 0.002)
        stand.clock.advance(0.5)
        stand.put("step", job="2")
        await stand.gathering.look()
        stand.read(loud)
    stand.clock.advance(0.1)
    await stand.gathering.look()
    (entry,) = stand.read(loud).coverage
    assert (entry.sight, "more lines" in entry.note) == (Sight.LAGGING, True)
    assert text_of(stand.read(other).blocks).count("step") == 20
    for _ in range(40):
        stand.clock.advance(1.0)
        await stand.gathering.look()
        stand.read(loud)
    assert stand.read(loud).coverage[0].sight is Sight.SEEN


async def test_last_lines_are_not_waited_for_while_the_store_is_away() -> None:
    stand = Stand()
    source = StoreSource(stand.store, SETTINGS, clock=stand.clock)
    job = stand.job()
    source.assign([job], {})
    stand.put("one")
    stand.store.is_away = True
    await source.look()
    asked = len(stand.store.asked)
    assert await source.tails(job.attempt, 1000) == ()
    assert len(stand.store.asked) == asked
    stand.store.is_away = False
    stand.clock.advance(60.0)
    await source.look()
    assert [each.data for each in await source.tails(job.attempt, 1000)] == [b"one\n"]
    await source.close()
