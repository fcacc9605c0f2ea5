"""Failure tables: lines of `name : value` above each other, as torchelastic prints one for each failed process."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from relance.domain.log_labels import read_label
from relance.domain.log_texts import line_start

LINES = 5
"""How many rows above a line are looked at."""
ROWS_THAT_COUNT = r"(?:^|[\r\n:\])>0-9ZFP])[\t-\r ]+(?:host|rank|time)[\t-\r ]*: \S"
"""What every row matches that says something, whatever labels stand before it."""
_LINE_BYTES = 200
_ROW = re.compile(rb"\s{1,8}([a-z_]{2,20})\s*: (\S[^\n]*)")
_RANK = re.compile(rb"(\d+) \(local_rank: (\d+)\)")
_TIMES_OFF = re.compile(rb"(\d{4}-\d\d-\d\d)_")


def values_above(text: bytes, start: int, carried: Sequence[str]) -> Mapping[str, str]:
    """What the rows right above the line at `start` say: `host`, `rank`, `local_rank`, `time`, if they do.

    Args:
        text: Lines, cleaned.
        start: Where the line starts.
        carried: The rows at the very end of the text before.
    """
    rows = _rows_above(text, start)
    if len(rows) < LINES and sum(len(row) + 1 for row in rows) == start:
        rows += [row.encode() for row in reversed(carried)]
    found: dict[str, str] = {}
    for row in rows[:LINES]:
        match = _ROW.match(row[read_label(row).length :])
        if match is None:
            break
        for name, value in _read(match[1], match[2].strip()):
            found.setdefault(name, value.decode("utf-8", "replace"))
    return found


def unfinished_rows(text: bytes) -> tuple[str, ...]:
    """The rows at the very end of a text, for the one that follows it."""
    if not text.endswith(b"\n"):
        return ()
    rows = _rows_above(text, len(text))
    inside = 0
    while inside < len(rows) and _ROW.match(rows[inside][read_label(rows[inside]).length :]):
        inside += 1
    return tuple(row[:_LINE_BYTES].decode("utf-8", "replace") for row in reversed(rows[:inside]))


def _rows_above(text: bytes, start: int) -> list[bytes]:
    """The lines above a line, nearest first."""
    rows: list[bytes] = []
    while start > 0 and len(rows) < LINES:
        end = start - 1
        start = line_start(text, end)
        rows.append(text[start:end])
    return rows


def _read(name: bytes, value: bytes) -> list[tuple[str, bytes]]:
    if name == b"host":
        return [("host", value)]
    if name == b"time":
        return [("time", _TIMES_OFF.sub(rb"\1T", value))]
    if name == b"rank" and (match := _RANK.match(value)):
        return [("rank", match[1]), ("local_rank", match[2])]
    return []
