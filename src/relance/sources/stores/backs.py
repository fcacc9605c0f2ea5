"""What a log store has to do for us: give entries of some streams and some time, oldest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from relance.sources.exchanges import StoreAnswerError


class Entry(NamedTuple):
    """One line: nanoseconds since 1970, the labels of its stream (one object per stream of a page), its bytes."""

    at_ns: int
    labels: Mapping[str, str]
    line: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which lines are wanted: of streams whose labels have one of these values each, and that may match.

    `lines` is a pattern (RE2 syntax, as LogQL and LogsQL take it) that every wanted line matches; empty: all lines.
    """

    labels: Mapping[str, Sequence[str]]
    lines: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Entries by rising time; those of one stream and one time in the order of the store.

    `is_whole` says that there are no more in the time that was asked for. Otherwise all entries before `up_to_ns` are
    here, and maybe some from then on, which are given again when asked for from there; None: the last entry's time.
    """

    entries: tuple[Entry, ...]
    is_whole: bool
    up_to_ns: int | None = None


class LogStore(Protocol):
    """A log store. Every call may raise `relance.sources.exchanges.StoreError`.

    Of these StoreTooMuchError is raised for what a limit of the store forbids and smaller parts would mend.
    """

    @property
    def told_at(self) -> datetime | None:
        """The time by the store's own clock when it answered last; None: it does not tell."""
        ...

    async def page(self, wanted: Selection, since_ns: int, until_ns: int, at_most: int) -> Page:
        """The oldest entries from `since_ns` on and before `until_ns`; about `at_most` of them.

        A page that is not whole ends after `since_ns`: if more entries than that bear one time, all of them are given.
        """
        ...

    async def newest(self, wanted: Selection, since_ns: int, until_ns: int, at_most: int) -> tuple[Entry, ...]:
        """The newest entries of that time, at most so many, by rising time."""
        ...

    async def label_names(self, since_ns: int) -> frozenset[str]:
        """The names of labels (stream fields) of anything stored since then."""
        ...

    async def label_values(self, name: str, since_ns: int, at_most: int) -> tuple[str, ...]:
        """Values of a label since then."""
        ...

    async def version(self) -> str:
        """What the store says that it is; raises when it does not answer."""
        ...

    async def close(self) -> None:
        """Give the connections back; may be called twice."""
        ...


def within(entries: Iterable[Entry], since_ns: int, until_ns: int, *, is_full: bool) -> list[Entry]:
    """The entries of the time that was asked for; a store may give those just beyond it, too.

    Raises StoreAnswerError where there are only others and no room for more: asking on would never end.
    """
    given = list(entries)
    found = [entry for entry in given if since_ns <= entry.at_ns < until_ns]
    if is_full and given and not found:
        message = "the store answers with lines of other times than those that it is asked for"
        raise StoreAnswerError(message, "see whether a cache stands before it, and have that leave these queries alone")
    return found
