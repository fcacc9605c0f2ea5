"""Log text as bytes, made fit for patterns, with the way back to the bytes as they were read.

Terminals' colour codes vanish, a carriage return ends a line as a newline does (progress bars draw over themselves with
it), and a NUL (the hole that a truncated file has) becomes a space. Invalid UTF-8 stays: patterns work on bytes.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n\r]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_WINDOW = 4096


class LogText:
    """A block of log text without what disturbs patterns.

    `text` has the lines of the raw bytes in the same order; `raw_start` leads from a line of it to the raw bytes.
    """

    __slots__ = ("_flat", "_last", "text")

    def __init__(self, raw: bytes) -> None:
        flat = raw.replace(b"\r", b"\n") if b"\r" in raw else raw
        self._flat = flat.replace(b"\0", b" ") if b"\0" in flat else flat
        self.text = _ESCAPE.sub(b"", self._flat) if b"\x1b" in self._flat else self._flat
        self._last = (0, 0)

    def raw_start(self, start: int) -> int:
        """The raw position of the line that starts at `start` in `text`. Cheapest when asked in rising order."""
        if self.text is self._flat:
            return start
        here, there = self._last if start >= self._last[0] else (0, 0)
        there = _after_newlines(self._flat, there, self.text.count(b"\n", here, start))
        self._last = (start, there)
        return there


def line_start(text: bytes, position: int) -> int:
    """Where the line that holds `position` starts."""
    return text.rfind(b"\n", 0, position) + 1


def line_end(text: bytes, position: int) -> int:
    """Where the line that holds `position` ends, its newline left out."""
    end = text.find(b"\n", position)
    return len(text) if end < 0 else end


def _after_newlines(text: bytes, start: int, count: int) -> int:
    """The position right after the next `count` newlines."""
    while count and start < len(text):
        found = text.count(b"\n", start, start + _WINDOW)
        if found < count:
            start += _WINDOW
            count -= found
            continue
        while count:
            start = text.index(b"\n", start) + 1
            count -= 1
    return start
