"""Values of documents that other programs wrote: each may be missing, or of any type."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from relance.domain.log_times import dated

MOST_DOCUMENT_BYTES = 16 * 1024 * 1024
"""Documents beyond are not read: as objects they take many times the room."""
_NOTHING = frozenset({"", "n/a", "none", "unknown", "(null)", "null", "none assigned", "invalid"})
_EPOCH = re.compile(r"\d{9,13}(?:\.\d{1,9})?")
_MILLISECONDS = 100_000_000_000
LAST_SECOND = 4_102_444_799
"""The end of 2099: what is later is no time of a log, and most often the largest number that somebody had room for."""


class DocumentError(ValueError):
    """A document cannot be read. Says why."""


def whole(chunks: Callable[[], Iterable[bytes]], most: int = MOST_DOCUMENT_BYTES) -> bytes:
    """All of a file that is not too long. Raises DocumentError, and what reading raises."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks():
        size += len(chunk)
        if size > most:
            message = f"longer than {most // (1024 * 1024)} MiB"
            raise DocumentError(message)
        parts.append(chunk)
    return b"".join(parts)


def parsed(data: bytes) -> object:
    """A JSON document. Raises DocumentError."""
    try:
        return cast("object", json.loads(data.decode("utf-8-sig", "replace")))
    except (ValueError, RecursionError) as error:
        message = f"no whole JSON document: {str(error)[:120]}"
        raise DocumentError(message) from None


def mapping(value: object) -> Mapping[str, object]:
    """The value if it is a mapping, else an empty one."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[object]:
    """The value if it is a list, else an empty one."""
    return cast("Sequence[object]", value) if isinstance(value, list) else ()


def mappings(value: object) -> Iterator[Mapping[str, object]]:
    """The mappings of a list."""
    return (cast("Mapping[str, object]", each) for each in items(value) if isinstance(each, Mapping))


def dug(value: object, *path: str) -> object:
    """What stands at a path of keys; None where any is missing."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def first(record: Mapping[str, object], *keys: str) -> object:
    """The value of the first of these keys that says anything."""
    return next((record[key] for key in keys if record.get(key) not in (None, "", [], {})), None)


def text(value: object, most: int = 1000) -> str:
    """A text or a number as a text, on one line; empty where it says nothing."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    said = " ".join(str(value)[: 4 * most].split())[:most]
    return "" if said.lower() in _NOTHING else said


def number(value: object) -> int | None:
    """A whole number, bare, in a text, or as Slurm's `{set, infinite, number}`."""
    if isinstance(value, Mapping):
        if value.get("set") is False or value.get("infinite") is True:
            return None
        return number(value.get("number"))
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1 << 62 else None
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value.strip(), re.ASCII):
        return int(value)
    return None


def moment(value: object) -> datetime | None:
    """A time: seconds or milliseconds since 1970, or a date in a text, then in UTC unless it says otherwise."""
    if isinstance(value, Mapping):
        return moment(number(value))
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        said = value.strip()[:60]
        if _EPOCH.fullmatch(said):
            return moment(float(said))
        return dated(said.encode())
    if isinstance(value, int | float) and 0 < value <= 1000 * LAST_SECOND:  # before any division: it may be of any size
        seconds = value / 1000 if value >= _MILLISECONDS else value
        return datetime.fromtimestamp(seconds, UTC) if seconds <= LAST_SECOND else None
    return None


def placed(data: bytes, key: str) -> list[tuple[int, object]] | None:
    """The objects of a JSON list, which is the document itself or stands under `key`, each with its line from 1.

    None where there is no such list, or the document is broken.
    """
    said = data.decode("utf-8-sig", "replace")
    start = re.search(rf'^\s*\[|"{key}"\s*:\s*\[', said)
    if start is None:
        return None
    decoder = json.JSONDecoder()
    found: list[tuple[int, object]] = []
    at, line, counted = start.end(), 1, 0
    while True:
        at += len(said[at : at + 10_000]) - len(said[at : at + 10_000].lstrip(" \t\r\n,"))
        if at >= len(said) or said[at] == "]":
            return found
        try:
            value, end = decoder.raw_decode(said, at)
        except (ValueError, RecursionError):
            return None
        line += said.count("\n", counted, at)
        counted = at
        found.append((line + _line_within(said[at:end]), value))
        at = end


def _line_within(item: str) -> int:
    """On which line of an object its message stands, from 0."""
    spot = re.search(r'"(?:message|note)"\s*:', item)
    return item.count("\n", 0, spot.start()) if spot else 0
