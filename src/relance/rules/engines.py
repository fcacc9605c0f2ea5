"""Engines find the lines that rules match in a block of text, at the speed of the text and not of its lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import re2

from relance.domain.log_texts import line_end, line_start
from relance.rules.patterns import LineMatcher, Pattern, options


class Engine(Protocol):
    """Finds lines by many patterns at once.

    It is made for a sequence of patterns. What it finds is exactly what each pattern alone finds in each line alone.
    """

    def find(self, data: bytes) -> list[tuple[int, int, int]]:
        """Each pair of pattern and line that match, once: the pattern's index, where the line starts and ends.

        In the order of the lines, then of the patterns. A line ends before its newline.
        """
        ...


class Re2Engine:
    """Google's RE2: one automaton for all patterns runs over the block, a second one tells which of them it was.

    Python sees only lines on which at least one pattern matches.
    """

    __slots__ = ("_any", "_each", "_which")

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        quiet = options(captures=False)
        self._each = [LineMatcher(pattern) for pattern in patterns]
        self._any: Any = re2.compile(b"|".join(pattern.source for pattern in patterns), quiet) if patterns else None
        self._which: Any = re2.Set.SearchSet(quiet)
        for pattern in patterns:
            self._which.Add(pattern.source)
        self._which.Compile()

    def find(self, data: bytes) -> list[tuple[int, int, int]]:
        if self._any is None:
            return []
        return [(index, start, end) for start, end in self._lines(data) for index in self._matching(data[start:end])]

    def _lines(self, data: bytes) -> Iterator[tuple[int, int]]:
        """The lines on which anything matches."""
        search, position = self._any.search, 0
        while position < len(data) and (found := search(data, position)):
            start, end = line_start(data, found.start()), line_end(data, found.start())
            yield start, end
            position = end + 1

    def _matching(self, line: bytes) -> Sequence[int]:
        """Which patterns match the line. A set that runs out of memory says nothing at all: then each is tried."""
        found = self._which.Match(line)
        if found:
            return sorted(found)
        return [index for index, matcher in enumerate(self._each) if matcher.span(line) is not None]
