"""Lines that tell of an attempt's progress beside steps: found many at once, and taken apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import re2

from relance.domain.log_texts import line_end, line_start
from relance.progress.dialects import Mark, Told


class LineFinder(Protocol):
    """Finds the lines that patterns match."""

    def find(self, data: bytes, /) -> list[tuple[int, int, int]]:
        """Each pair of line and pattern that match, in order: start and end of the line, index of the pattern."""
        ...


LineFinders = Callable[[Sequence[str]], LineFinder]
"""Makes a finder for patterns in RE2's syntax, within one line, over bytes."""


@dataclass(frozen=True, slots=True)
class MarkText:
    """A mark as the text has it."""

    told: Told
    values: Mapping[str, bytes]


class MarkFinder:
    """Finds the lines of several marks in one pass; mostly there are none.

    Args:
        marks: What is looked for.
        finders: Makes what finds lines; None: RE2 alone.
    """

    def __init__(self, marks: Sequence[Mark], finders: LineFinders | None = None) -> None:
        self._marks = marks
        self._each: list[Any] = [re2.compile(_source(mark.pattern), _options()) for mark in marks]
        self._lines = (finders or _Re2Lines)([mark.pattern for mark in marks])

    def find(self, text: bytes) -> Iterator[tuple[int, MarkText]]:
        """The marks of a text, each with its position: of each line one for each pattern at most."""
        for start, end, index in self._lines.find(text):
            match = self._each[index].search(text[start:end])
            if match is not None:
                values = {name.decode("ascii"): match[at] for name, at in match.re.groupindex.items() if match[at]}
                yield start + match.start(), MarkText(self._marks[index].told, values)


class _Re2Lines:
    """RE2: one pass tells which patterns there are at all."""

    def __init__(self, patterns: Sequence[str]) -> None:
        sources = [_source(pattern) for pattern in patterns]
        self._each: list[Any] = [re2.compile(source, _options()) for source in sources]
        self._which: Any = re2.Set.SearchSet(_options())
        for source in sources:
            self._which.Add(source)
        self._which.Compile()

    def find(self, data: bytes, /) -> list[tuple[int, int, int]]:
        return sorted(
            (start, end, index) for index in self._which.Match(data) or () for start, end in self._of(index, data)
        )

    def _of(self, index: int, data: bytes) -> Iterator[tuple[int, int]]:
        position = 0
        while position < len(data) and (match := self._each[index].search(data, position)):
            end = line_end(data, match.start())
            yield line_start(data, match.start()), end
            position = end + 1


def _source(pattern: str) -> bytes:
    return f"(?m:{pattern})".encode("ascii")


def _options() -> re2.Options:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_nl = True
    options.log_errors = False
    return options
