"""Loki as a source: on the double, or unchanged on the server that `RELANCE_TEST_LOKI_URL` names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
import pytest_asyncio

from relance.domain.faults import Scope
from relance.sources.exchanges import Exchange, ExchangeSettings, StoreRefusedError
from relance.sources.loki.stores import LokiStore
from relance.sources.stores.backs import Entry, Selection
from relance.sources.stores.sources import StoreSource
from relance.sources.stores.wanted import wanted_of
from relance.testing.source_contract import SourceContract, read_all
from tests.components.loki import REAL_URL, Loki, loki_double
from tests.components.store_stages import QUICK, StoreStage
from tests.unit.rules.packs import packaged

HOUR_NS = 3600 * 10**9
HOSTILE = (
    'quo"ted',
    "back`tick",
    "back\\slash",
    "a|b",
    ".*",
    "(?i)x",
    "$end^",
    "{job}",
    "tab\there",
    "ü日本",
    "new\nline",
    "%d %s",
    "' OR 1=1",
    "x} |= `y",
)


@pytest.fixture(scope="module")
def loki(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loki]:
    if REAL_URL:
        real = Loki(REAL_URL)
        yield real
        real.close()
        return
    with loki_double(tmp_path_factory.mktemp("loki")) as double:
        yield double


def new_store(loki: Loki) -> LokiStore:
    return LokiStore(Exchange(ExchangeSettings(url=loki.url)))


@pytest_asyncio.fixture
async def stage(loki: Loki) -> AsyncIterator[StoreStage]:
    made = StoreStage(lambda: new_store(loki), loki.push)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def store(loki: Loki) -> AsyncIterator[LokiStore]:
    made = new_store(loki)
    yield made
    await made.close()


class TestLokiSource(SourceContract):
    """The contract of sources; its fixture is the module's."""


def texts(entries: tuple[Entry, ...]) -> list[str]:
    return [entry.line.decode() for entry in entries]


def of(stage: StoreStage, lines: str = "", **labels: str) -> Selection:
    return Selection(
        labels={"job_id": (stage.mark,), **{name: (value,) for name, value in labels.items()}}, lines=lines
    )


async def test_entries_of_many_streams_come_by_time(stage: StoreStage, store: LokiStore) -> None:
    times = [stage.next_ns() for _ in range(6)]
    for node, own in (("b", times[::2]), ("a", times[1::2])):
        stage.push({"job_id": stage.mark, "node": node}, [(at, f"line {times.index(at)}") for at in own])
    page = await store.page(of(stage), times[0], times[-1] + 1, 100)
    assert texts(page.entries) == [f"line {number}" for number in range(6)]
    assert page.is_whole
    assert {entry.labels["node"] for entry in page.entries} == {"a", "b"}
    assert len({id(entry.labels) for entry in page.entries}) == 2


async def test_lines_with_and_without_a_level_are_of_one_stream(stage: StoreStage, store: LokiStore) -> None:
    labels = {"job_id": stage.mark, "node": "n1"}
    begin = stage.next_ns()
    stage.push(labels, [(stage.next_ns(), "plain"), (stage.next_ns(), "level=error msg=bad")])
    page = await store.page(of(stage), begin, stage.next_ns(), 100)
    assert len({tuple(sorted(entry.labels.items())) for entry in page.entries}) == 1
    assert len(page.entries) == 2


async def test_the_start_is_in_and_the_end_is_out(stage: StoreStage, store: LokiStore) -> None:
    first, second, third = (stage.next_ns() for _ in range(3))
    stage.push({"job_id": stage.mark}, [(first, "a"), (second, "b"), (third, "c")])
    assert texts((await store.page(of(stage), first, third, 10)).entries) == ["a", "b"]
    assert texts((await store.page(of(stage), second, third + 1, 10)).entries) == ["b", "c"]


async def test_pages_cover_everything_and_say_up_to_when(stage: StoreStage, store: LokiStore) -> None:
    times = [stage.next_ns() for _ in range(25)]
    stage.push({"job_id": stage.mark}, [(at, f"{number:02}") for number, at in enumerate(times)])
    since, got = times[0], set[str]()
    for _ in range(100):
        page = await store.page(of(stage), since, times[-1] + 1, 4)
        got |= set(texts(page.entries))
        if page.is_whole:
            break
        assert page.up_to_ns is not None
        assert page.up_to_ns > since
        since = page.up_to_ns
    assert got == {f"{number:02}" for number in range(25)}


async def test_more_lines_of_one_time_than_a_page_has_all_come(stage: StoreStage, store: LokiStore) -> None:
    at = stage.next_ns()
    lines = [f"[2026-01-01 00:00:00] rank {number % 7}: step {number}" for number in range(150)]
    for node in ("n1", "n2"):
        stage.push({"job_id": stage.mark, "node": node}, [(at, line) for line in lines])
    stage.push({"job_id": stage.mark, "node": "n1"}, [(at + 5, "after")])
    page = await store.page(of(stage), at, at + 100, 20)
    assert (sorted(texts(page.entries)), page.is_whole, page.up_to_ns) == (sorted(lines * 2), False, at + 1)
    assert texts((await store.page(of(stage), at + 1, at + 100, 20)).entries) == ["after"]


async def test_a_filter_takes_the_lines_that_match(stage: StoreStage, store: LokiStore) -> None:
    begin = stage.next_ns()
    lines = ["step 1", 'say "NCCL" `now`', "a\tb", "[é]日本", "nothing"]
    stage.push({"job_id": stage.mark}, [(stage.next_ns(), line) for line in lines])
    wanted = of(stage, lines='^step \\d|"NCCL" `|a\\tb|\\[é\\]')
    assert texts((await store.page(wanted, begin, stage.next_ns(), 100)).entries) == lines[:4]


@pytest.mark.parametrize("value", HOSTILE)
async def test_values_of_labels_mean_themselves(stage: StoreStage, store: LokiStore, value: str) -> None:
    begin = stage.next_ns()
    stage.push({"job_id": stage.mark, "node": value}, [(stage.next_ns(), "mine")])
    stage.push({"job_id": stage.mark, "node": "other"}, [(stage.next_ns(), "not mine")])
    alone = await store.page(of(stage, node=value), begin, stage.next_ns(), 10)
    among = Selection(labels={"job_id": (stage.mark,), "node": (value, "nobody")})
    assert texts(alone.entries) == texts((await store.page(among, begin, stage.next_ns(), 10)).entries) == ["mine"]
    assert alone.entries[0].labels["node"] == value


async def test_the_newest_entries_come_by_time(stage: StoreStage, store: LokiStore) -> None:
    begin = stage.next_ns()
    stage.push({"job_id": stage.mark}, [(stage.next_ns(), f"{number}") for number in range(9)])
    assert texts(await store.newest(of(stage), begin, stage.next_ns(), 3)) == ["6", "7", "8"]


async def test_a_time_longer_than_a_query_may_be_is_asked_for_in_parts(stage: StoreStage, store: LokiStore) -> None:
    stage.push({"job_id": stage.mark}, [(stage.next_ns(), "late")])
    now = stage.next_ns()
    long_ago = now - 24 * 70 * HOUR_NS
    assert texts(await store.newest(of(stage), long_ago, now, 10)) == ["late"]
    since, got = long_ago, list[str]()
    while since < now:
        page = await store.page(of(stage), since, now, 10)
        got += texts(page.entries)
        since = now if page.is_whole else page.up_to_ns or now
    assert got == ["late"]


async def test_more_entries_than_the_server_gives_are_asked_for_in_pages(stage: StoreStage, store: LokiStore) -> None:
    times = [stage.next_ns() for _ in range(5100)]
    for begin in range(0, len(times), 1700):
        stage.push({"job_id": stage.mark}, [(at, f"{at}") for at in times[begin : begin + 1700]])
    page = await store.page(of(stage), times[0], times[-1] + 1, 1_000_000)
    assert not page.is_whole
    assert len(page.entries) >= 1000


async def test_what_no_query_can_be_is_refused_with_the_reason(stage: StoreStage, store: LokiStore) -> None:
    now = stage.next_ns()
    with pytest.raises(StoreRefusedError, match="error parsing regexp"):
        await store.page(of(stage, lines="(open"), now - HOUR_NS, now, 10)
    with pytest.raises(StoreRefusedError, match="cannot be called"):
        await store.page(of(stage, **{"a-b": "x"}), now - HOUR_NS, now, 10)
    with pytest.raises(StoreRefusedError, match="has no value"):
        await store.page(of(stage, node=""), now - HOUR_NS, now, 10)


async def test_names_and_values_of_labels_are_told(stage: StoreStage, store: LokiStore) -> None:
    since = stage.next_ns() - HOUR_NS
    stage.push({"job_id": stage.mark, "node": f"of-{stage.mark}"}, [(stage.next_ns(), "x")])
    assert {"job_id", "node"} <= await store.label_names(since)
    assert f"of-{stage.mark}" in await store.label_values("node", since, 100_000)
    assert len(await store.label_values("node", since, 1)) == 1
    assert await store.label_values("no_such_label", since, 10) == ()
    assert (await store.version()).startswith("Loki")


async def test_only_what_rules_and_progress_want_travels(loki: Loki, stage: StoreStage) -> None:
    kernel = replace(QUICK, kernel_match={"unit": stage.mark})
    source = StoreSource(new_store(loki), kernel, wanted_of(packaged()), clock=stage.clock)
    job = stage.assignment()
    source.assign([job], {})
    failure = [
        b"[rank3]: Traceback (most recent call last):",
        b'[rank3]:   File "/repo/train.py", line 7, in main',
        b"[rank3]:     weights = load(path)",
        b"[rank3]: mine.NobodyKnowsThisOne: what now",
    ]
    step = b" [2026-11-29 12:00:00] iteration     1000/ 5000 | elapsed time per iteration (ms): 1000.5 | lm loss: 2.0 |"
    quiet = [b"quiet words of no rule %d" % number for number in range(300)]
    xid = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python, GPU has fallen off the bus."
    await stage.write(job, [*quiet, step])
    stage.push(
        {"unit": stage.mark, "node": "n1"}, [(stage.next_ns(), "random: crng init done"), (stage.next_ns(), xid)]
    )
    first, reading = await read_all(stage, source, job)
    assert sorted(first.splitlines()) == sorted([step, xid.encode()])
    assert {(block.scope, block.node) for block in reading.blocks} <= {(Scope.APPLICATION, "n1"), (Scope.KERNEL, "n1")}
    for line in failure:
        await stage.write(job, [line])
        await stage.pass_time(0.25)
    second, _ = await read_all(stage, source, job)
    assert second.splitlines() == failure
    await source.close()
