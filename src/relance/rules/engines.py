"""Engines find the lines that rules match in a block of text, at the speed of the text and not of its lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import re2

from relance.domain.log_texts import line_end, line_start
from relance.rules.patterns import Pattern, options

Found = tuple[int, int, int]
"""Where a line starts, where it ends (before its newline), and the index of a pattern that it matches."""


class Engine(Protocol):
    """Finds lines by many patterns at once; any number of threads may ask it at the same time.

    It is made for a sequence of patterns. What it finds is exactly what each pattern alone finds in each line alone.
    """

    @property
    def name(self) -> str:
        """What it is, for people: name and version."""
        ...

    def find(self, data: bytes) -> list[Found]:
        """Each pair of line and pattern that match, once, in the order of the lines, then of the patterns."""
        ...


class EngineMaker(Protocol):
    """Makes an engine for patterns."""

    def __call__(self, patterns: Sequence[Pattern], /) -> Engine:
        """An engine that finds lines by these patterns."""
        ...


class Re2Engine:
    """Google's RE2: one automaton tells in one pass which patterns match anywhere in the block, often none.

    Each of these then looks for its lines alone; a single pattern is several times as fast as all together. A set never
    gives up when its automaton grows, unlike an alternation of the same patterns, which falls back to a slow search.
    """

    __slots__ = ("_each", "_which")

    name: Final = "google-re2"

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        quiet = options(captures=False)
        self._each: list[Any] = [re2.compile(pattern.source, quiet) for pattern in patterns]
        self._which: Any = re2.Set.SearchSet(quiet)
        for pattern in patterns:
            self._which.Add(pattern.source)
        self._which.Compile()

    def find(self, data: bytes) -> list[Found]:
        return sorted(
            (start, end, index) for index in self._which.Match(data) or () for start, end in self._lines(index, data)
        )

    def _lines(self, index: int, data: bytes) -> Iterator[tuple[int, int]]:
        """The lines that one pattern matches."""
        search, position = self._each[index].search, 0
        while position < len(data) and (found := search(data, position)):
            start, end = line_start(data, found.start()), line_end(data, found.start())
            yield start, end
            position = end + 1
