"""JSON and text that nobody vouches for: read within limits, and picked apart without trust in its shape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from relance.traces.signs import UnreadableTraceError

MAX_JSON_BYTES = 64 * 1024 * 1024
MAX_JSON_PARTS = 3_000_000
"""Commas, colons and opening brackets: each part costs some 100 bytes of memory at worst."""
MAX_TEXT_BYTES = 32 * 1024 * 1024
MAX_LINES = 400_000
MAX_LINE_CHARS = 4096
"""Longer lines are cut: what a stack or a status says stands at their beginning."""

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_JSON = re.compile(rb"\s*(?:\{|\[\s*(?:[\[{\]]|\Z))")
_MOST_DIGITS = 20
_FIRST_NS, _LAST_NS = 946_684_800 * 10**9, 4_102_444_800 * 10**9
"""From 2000 to 2100."""


def read_json(data: bytes) -> Any:  # noqa: ANN401 - JSON data
    """The value that a JSON text gives.

    Raises:
        UnreadableTraceError: It is too large or no JSON.
    """
    parts = json_parts(data)
    if len(data) > MAX_JSON_BYTES or parts > MAX_JSON_PARTS:
        raise UnreadableTraceError(
            f"The file has {len(data)} bytes with {parts} parts; the limits are {MAX_JSON_BYTES} and {MAX_JSON_PARTS}. "
            "Give one file for each rank, with fewer entries."
        )
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        said = str(error).partition(": line")[0]
        raise UnreadableTraceError(f"The file is no JSON ({said}). Copy it again, whole.") from error


def begins_as_json(data: bytes) -> bool:
    """Whether a trace begins as JSON does: with an object, or a list of such; a text may begin with `[rank3]: `."""
    return _JSON.match(data) is not None


def json_parts(data: bytes) -> int:
    """Commas, colons and opening brackets of a text, also those within words: a bound for the values in it."""
    return sum(data.count(sign) for sign in (b",", b":", b"[", b"{"))


def lines_of(data: bytes) -> Iterator[tuple[int, str]]:
    """The lines of a text with their numbers from 1, without colours and control characters.

    Raises:
        UnreadableTraceError: The text is too large.
    """
    lines = data.count(b"\n")
    if len(data) > MAX_TEXT_BYTES or lines > MAX_LINES:
        raise UnreadableTraceError(
            f"The file has {len(data)} bytes in {lines} lines; the limits are {MAX_TEXT_BYTES} and {MAX_LINES}. "
            "Give one file for each node."
        )
    for number, line in enumerate(data.split(b"\n"), 1):
        yield number, _ESCAPES.sub("", line[:MAX_LINE_CHARS].decode("utf-8", "replace")).rstrip()


def mapping(value: object) -> Mapping[Any, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any] | tuple[Any, ...]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list | tuple) else ()


def text(value: object, *, most: int = 200) -> str:
    """A text without control characters and cut to a length; anything but text and numbers is empty."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return _ESCAPES.sub("", str(value)[:most])


def whole(value: object) -> int | None:
    """A whole number, also one written as text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if -(10**_MOST_DIGITS) < value < 10**_MOST_DIGITS else None
    if isinstance(value, str) and len(value) <= _MOST_DIGITS and re.fullmatch(r"-?[0-9]+", value):
        return int(value)
    return None


def natural(value: object) -> int | None:
    """A whole number from 0 on; None for anything else."""
    found = whole(value)
    return found if found is not None and found >= 0 else None


def moment(nanoseconds: int | None) -> datetime | None:
    """A time from its nanoseconds since 1970; None where they are no time of this century."""
    if nanoseconds is None or not _FIRST_NS <= nanoseconds < _LAST_NS:
        return None
    return datetime.fromtimestamp(nanoseconds // 1000 / 1e6, tz=UTC)
