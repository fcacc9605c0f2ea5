"""A log store in memory, for tests of what is above log stores: late lines, small pages, failures, limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from relance.sources.exchanges import StoreAwayError, StoreError, StoreTooMuchError
from relance.sources.stores.backs import Entry, Page, Selection
from relance.sources.stores.wanted import compiled


@dataclass(frozen=True, slots=True)
class Stored:
    """A line, and when it comes into the store."""

    arrives_ns: int
    at_ns: int
    labels: Mapping[str, str]
    line: bytes


@dataclass(slots=True)
class MemoryStore:
    """Implements `relance.sources.stores.backs.LogStore`. `now_ns` is its time."""

    now_ns: Callable[[], int]
    lines: list[Stored] = field(default_factory=list)
    page_entries: int = 5000
    """Its own limit: what is asked for beyond it is cut."""
    names_at_most: int = 10_000
    """More values of labels in one query are refused."""
    failures: list[StoreError] = field(default_factory=list)
    """What the next calls raise, one each."""
    is_away: bool = False
    asked: list[tuple[Selection, int, int]] = field(default_factory=list)
    told_at: datetime | None = None
    """The time by its own clock."""
    keeps_repeats: bool = True
    """Whether the same line of one stream and time is kept twice."""

    def put(self, at_ns: int, labels: Mapping[str, str], line: bytes, *, arrives_ns: int | None = None) -> None:
        """Have a line come in, at once or at a time."""
        self.lines.append(Stored(self.now_ns() if arrives_ns is None else arrives_ns, at_ns, labels, line))

    async def page(self, wanted: Selection, since_ns: int, until_ns: int, at_most: int) -> Page:
        """The oldest entries."""
        found = self._found(wanted, since_ns, until_ns)
        most = max(min(at_most, self.page_entries), 1)
        if len(found) <= most:
            return Page(entries=tuple(found), is_whole=True)
        end = found[most].at_ns
        if end > found[0].at_ns:
            return Page(entries=tuple(found[:most]), is_whole=False, up_to_ns=found[most - 1].at_ns)
        together = [entry for entry in found if entry.at_ns == end]
        return Page(entries=tuple(together), is_whole=False, up_to_ns=end + 1)

    async def newest(self, wanted: Selection, since_ns: int, until_ns: int, at_most: int) -> tuple[Entry, ...]:
        """The newest entries."""
        return tuple(self._found(wanted, since_ns, until_ns)[-at_most:])

    async def label_names(self, since_ns: int) -> frozenset[str]:
        """All names of labels."""
        return frozenset(name for line in self.lines for name in line.labels)

    async def label_values(self, name: str, since_ns: int, at_most: int) -> tuple[str, ...]:
        """All values of a label."""
        return tuple(sorted({line.labels[name] for line in self.lines if name in line.labels}))[:at_most]

    async def version(self) -> str:
        """What it is."""
        self._fail()
        return "memory"

    async def close(self) -> None:
        """Nothing is held."""

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)
        if self.is_away:
            raise StoreAwayError("the store is away")

    def _found(self, wanted: Selection, since_ns: int, until_ns: int) -> list[Entry]:
        self.asked.append((wanted, since_ns, until_ns))
        self._fail()
        if any(len(values) > self.names_at_most for values in wanted.labels.values()):
            raise StoreTooMuchError("too many values")
        now_ns = self.now_ns()
        pattern = compiled(wanted.lines) if wanted.lines else None
        found: list[Entry] = []
        known: set[tuple[int, tuple[tuple[str, str], ...], bytes]] = set()
        for line in self.lines:
            if line.arrives_ns > now_ns or not since_ns <= line.at_ns < until_ns:
                continue
            key = (line.at_ns, tuple(sorted(line.labels.items())), line.line)
            if any(line.labels.get(name, "") not in values for name, values in wanted.labels.items()):
                continue
            if (pattern is not None and pattern.search(line.line) is None) or (key in known and not self.keeps_repeats):
                continue
            known.add(key)
            found.append(Entry(line.at_ns, line.labels, line.line))
        found.sort(key=lambda entry: entry.at_ns)
        return found
