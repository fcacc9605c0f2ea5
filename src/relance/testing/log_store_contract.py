"""The contract of `relance.sources.stores.backs.LogStore`, as tests that every log store runs.

A test class of one's own inherits from `LogStoreContract` and has a fixture `stage` that gives a `StoreStage`: a store,
and a way to put lines into it. Each test uses labels of its own, so that the store may have other lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from relance.sources.stores.backs import Entry, LogStore, Selection

_NS = 1_000_000_000
_HOSTILE = ('a"b', "a\\b", "a|b", "a`b", "a'b", "a.b", "a b", "a{b}", "a,b", "a)b", ".*", "日本", "$a^", "a\tb", "-a")


class StoreStage(Protocol):
    """A store for tests."""

    store: LogStore
    keeps_repeats: bool
    """Whether the same line of one stream and time is kept as often as it came."""

    def name(self) -> str:
        """A value of a label that no other test has."""
        ...

    def base_ns(self) -> int:
        """A time some minutes ago, in whole seconds, that the store takes lines of."""
        ...

    async def push(self, labels: Mapping[str, str], lines: Sequence[tuple[int, str]]) -> None:
        """Store lines of one stream, each with its time in nanoseconds; done when they can be asked for."""
        ...


async def everything(store: LogStore, wanted: Selection, since_ns: int, until_ns: int, at_most: int) -> list[Entry]:
    """All entries, page by page, those of the last page's end asked for again."""
    found: list[Entry] = []
    while True:
        page = await store.page(wanted, since_ns, until_ns, at_most)
        if page.is_whole:
            return found + list(page.entries)
        up_to = page.up_to_ns if page.up_to_ns is not None else page.entries[-1].at_ns
        assert up_to > since_ns, "a page that is not whole goes on"
        found += [entry for entry in page.entries if entry.at_ns < up_to]
        since_ns = up_to


def texts(entries: Sequence[Entry]) -> list[str]:
    """The lines of entries."""
    return [entry.line.decode() for entry in entries]


class LogStoreContract:
    """What every log store does."""

    async def test_lines_come_by_time_with_labels_and_nanoseconds(self, stage: StoreStage) -> None:
        """Streams are mixed by time, and no digit of a time is lost."""
        job, base = stage.name(), stage.base_ns()
        await stage.push({"job_id": job, "node": "n1"}, [(base + 1, "a"), (base + 3 * _NS, "c")])
        await stage.push({"job_id": job, "node": "n2"}, [(base + 1_500_000_007, "b")])
        page = await stage.store.page(Selection(labels={"job_id": (job,)}), base, base + 60 * _NS, 100)
        assert page.is_whole
        assert [(entry.at_ns - base, entry.labels["node"], entry.line) for entry in page.entries] == [
            (1, "n1", b"a"),
            (1_500_000_007, "n2", b"b"),
            (3 * _NS, "n1", b"c"),
        ]

    async def test_the_beginning_of_a_time_counts_and_its_end_does_not(self, stage: StoreStage) -> None:
        """Times next to each other have each line once, also at whole seconds."""
        job, base = stage.name(), stage.base_ns()
        lines = [(base, "a"), (base + 1, "b"), (base + _NS, "c"), (base + _NS + 1, "d"), (base + 2 * _NS, "e")]
        await stage.push({"job_id": job}, lines)
        wanted = Selection(labels={"job_id": (job,)})
        for since, until, expected in (
            (base, base + _NS, ["a", "b"]),
            (base + _NS, base + 2 * _NS, ["c", "d"]),
            (base + 1, base + _NS + 1, ["b", "c"]),
            (base + 2 * _NS, base + 3 * _NS, ["e"]),
        ):
            assert texts((await stage.store.page(wanted, since, until, 100)).entries) == expected
            assert texts(await stage.store.newest(wanted, since, until, 100)) == expected

    async def test_pages_have_the_oldest_lines_first_and_lose_none(self, stage: StoreStage) -> None:
        """Whatever the size of a page, over streams whose lines are mixed."""
        job, base = stage.name(), stage.base_ns()
        for node in range(3):
            lines = [(base + (3 * at + node) * 100, f"{3 * at + node}") for at in range(20)]
            await stage.push({"job_id": job, "node": f"n{node}"}, lines)
        wanted = Selection(labels={"job_id": (job,)})
        for size in (1, 7, 59, 60, 61):
            found = await everything(stage.store, wanted, base, base + _NS, size)
            assert texts(found) == [str(number) for number in range(60)]
        first = await stage.store.page(wanted, base, base + _NS, 7)
        assert not first.is_whole
        assert texts(first.entries)[:6] == ["0", "1", "2", "3", "4", "5"]

    async def test_more_lines_of_one_time_than_a_page_has_all_come(self, stage: StoreStage) -> None:
        """A storm of lines with the same stamp neither stops the reading nor loses any."""
        job, base = stage.name(), stage.base_ns()
        await stage.push({"job_id": job}, [(base + 5, "before"), *((base + 7, f"line {at}") for at in range(40))])
        await stage.push({"job_id": job}, [(base + 9, "after")])
        found = await everything(stage.store, Selection(labels={"job_id": (job,)}), base, base + _NS, 10)
        assert sorted(texts(found)) == sorted(["before", *(f"line {at}" for at in range(40)), "after"])

    async def test_lines_far_apart_all_come(self, stage: StoreStage) -> None:
        """Hours without a line are no end."""
        job, base = stage.name(), stage.base_ns()
        times = [base - hours * 3600 * _NS for hours in (20, 19, 5, 1, 0)]
        await stage.push({"job_id": job}, [(at, str(number)) for number, at in enumerate(times)])
        wanted = Selection(labels={"job_id": (job,)})
        for size in (1, 2, 100):
            found = await everything(stage.store, wanted, base - 24 * 3600 * _NS, base + _NS, size)
            assert texts(found) == ["0", "1", "2", "3", "4"]
        assert texts(await stage.store.newest(wanted, base - 24 * 3600 * _NS, base + _NS, 2)) == ["3", "4"]

    async def test_the_newest_lines_come_by_rising_time(self, stage: StoreStage) -> None:
        """The last ones, and no more than asked for."""
        job, base = stage.name(), stage.base_ns()
        await stage.push({"job_id": job}, [(base + at, str(at)) for at in range(20)])
        found = await stage.store.newest(Selection(labels={"job_id": (job,)}), base, base + _NS, 3)
        assert texts(found) == ["17", "18", "19"]

    async def test_labels_have_one_of_the_values_each_whatever_characters_they_have(self, stage: StoreStage) -> None:
        """Values are compared whole: none is a pattern, none ends a string."""
        job, base = stage.name(), stage.base_ns()
        for at, value in enumerate(_HOSTILE):
            await stage.push({"job_id": job, "unit": value}, [(base + at, value)])
        for value in _HOSTILE:
            wanted = Selection(labels={"job_id": (job,), "unit": (value,)})
            page = await stage.store.page(wanted, base, base + _NS, 100)
            assert [(entry.line.decode(), entry.labels["unit"]) for entry in page.entries] == [(value, value)]
        for values in (_HOSTILE[:5], _HOSTILE[5:]):
            wanted = Selection(labels={"job_id": (job, "nobody"), "unit": values})
            assert texts((await stage.store.page(wanted, base, base + _NS, 100)).entries) == list(values)

    async def test_lines_come_as_they_were_pushed(self, stage: StoreStage) -> None:
        """Quotes, braces, escape codes, letters of any script."""
        job, base = stage.name(), stage.base_ns()
        lines = ['"quoted" {braces} `tick` \\ | pipe', "é 日本 🙂", "\x1b[31mred\x1b[0m", " indented\t", "a=b _msg:x"]
        await stage.push({"job_id": job}, [(base + at, line) for at, line in enumerate(lines)])
        found = (await stage.store.page(Selection(labels={"job_id": (job,)}), base, base + _NS, 100)).entries
        assert texts(found) == lines

    async def test_a_pattern_selects_lines(self, stage: StoreStage) -> None:
        """RE2 syntax, case by case, anywhere in the line; what is special to the query language is not to it."""
        job, base = stage.name(), stage.base_ns()
        lines = ["Xid (PCI:0000): 79", "nothing", 'has "quotes" | pipe', "XID 79", "\x1b[31mred", "tick ` tock", "日本"]
        await stage.push({"job_id": job}, [(base + at, line) for at, line in enumerate(lines)])
        for pattern, expected in (
            (r"Xid \(PCI", [0]),
            ("(?i:xid)", [0, 3]),
            (r'"quotes" \| p|nothing', [1, 2]),
            (r"[\x00\x1b]|^tick `", [4, 5]),
            ("日", [6]),
            ("absent", []),
        ):
            wanted = Selection(labels={"job_id": (job,)}, lines=pattern)
            page = await stage.store.page(wanted, base, base + _NS, 100)
            assert texts(page.entries) == [lines[at] for at in expected], pattern

    async def test_repeats_come_as_often_as_they_are_kept(self, stage: StoreStage) -> None:
        """Where a store keeps the same line of one time twice, both come."""
        job, base = stage.name(), stage.base_ns()
        await stage.push({"job_id": job}, [(base, "same"), (base, "same"), (base + 1, "same")])
        page = await stage.store.page(Selection(labels={"job_id": (job,)}), base, base + _NS, 100)
        assert texts(page.entries) == ["same"] * (3 if stage.keeps_repeats else 2)

    async def test_nothing_is_a_whole_page(self, stage: StoreStage) -> None:
        """No line is no error."""
        base = stage.base_ns()
        page = await stage.store.page(Selection(labels={"job_id": (stage.name(),)}), base, base + _NS, 100)
        assert page.entries == ()
        assert page.is_whole
        wanted = Selection(labels={"job_id": (stage.name(),)})
        assert await stage.store.newest(wanted, base, base + _NS, 100) == ()

    async def test_labels_and_their_values_are_told(self, stage: StoreStage) -> None:
        """Names, and values up to as many as are asked for."""
        job, base = stage.name(), stage.base_ns()
        for node in ("n1", "n2", "n3"):
            await stage.push({"job_id": job, "node": f"{job}-{node}"}, [(base, "a")])
        assert {"job_id", "node"} <= await stage.store.label_names(base - _NS)
        assert job in await stage.store.label_values("job_id", base - _NS, 10_000)
        assert len(await stage.store.label_values("node", base - _NS, 2)) <= 2

    async def test_a_store_says_what_it_is(self, stage: StoreStage) -> None:
        """For people."""
        assert await stage.store.version()
