"""What the double keeps: rows by tenant, as often as they came."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

_NS = 1_000_000_000
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?")
_SECONDS_DIGITS, _MS_DIGITS, _US_DIGITS = 11, 14, 17
_NO_MESSAGE = "missing _msg field; see https://docs.victoriametrics.com/victorialogs/keyconcepts/#message-field"


@dataclass(frozen=True, slots=True)
class Kept:
    """One row: its time, the labels of its stream, and all its fields as they are given."""

    at_ns: int
    labels: Mapping[str, str]
    fields: Mapping[str, str]


@dataclass(slots=True)
class Shelf:
    """The rows of one tenant, in the order in which they came."""

    tenant: tuple[int, int]
    rows: list[Kept] = field(default_factory=list)

    def put(self, at_ns: int, labels: Mapping[str, str], fields: Mapping[str, str]) -> None:
        """Keep a row; `fields` are those beside time and stream."""
        shown = stream_text(labels)
        name = hashlib.md5(shown.encode(), usedforsecurity=False).hexdigest()
        own = {name: value for name, value in fields.items() if value and name != "_msg"}
        row = {
            "_time": time_text(at_ns),
            "_stream_id": f"{self.tenant[0]:08x}{self.tenant[1]:08x}{name}",
            "_stream": shown,
            "_msg": fields.get("_msg", "") or _NO_MESSAGE,
            **dict(sorted(own.items())),
        }
        self.rows.append(Kept(at_ns, dict(labels), row))


def insert_lines(shelf: Shelf, body: bytes, params: Mapping[str, str], now_ns: int) -> None:
    """Take JSON lines; bad ones vanish without a word."""
    streams = [each for each in params.get("_stream_fields", "").split(",") if each]
    time_field, message_field = params.get("_time_field") or "_time", params.get("_msg_field") or "_msg"
    for line in body.splitlines():
        try:
            given = json.loads(line)
        except ValueError:
            continue
        if not isinstance(given, dict):
            continue
        fields = flattened(given)
        at_ns = ns_of(fields.pop(time_field, ""), now_ns)
        if at_ns is None:
            continue
        fields["_msg"] = fields.pop(message_field, "")
        shelf.put(at_ns, {name: fields[name] for name in streams if fields.get(name)}, fields)


def flattened(given: Mapping[str, object], before: str = "") -> dict[str, str]:
    """Fields as texts: objects in dots, lists as JSON, nothing for null."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if isinstance(value, Mapping):
            found |= flattened(value, f"{before}{name}.")
        elif isinstance(value, str):
            found[before + name] = value
        elif value is not None:
            found[before + name] = json.dumps(value, separators=(",", ":"))
    return found


def ns_of(text: str, now_ns: int) -> int | None:
    """A time as nanoseconds; the present where none is given, None for one that cannot be read."""
    if text in ("", "0"):
        return now_ns
    if re.fullmatch(r"\d+", text):
        return int(text) * _scale(text)
    found = _STAMP.fullmatch(text)
    if found is None:
        return None
    zone = "+00:00" if found[3] in (None, "Z") else found[3]
    second = int(datetime.fromisoformat(f"{found[1]}{zone}").timestamp())
    return second * _NS + int((found[2] or "0").ljust(9, "0"))


def range_of(params: Mapping[str, str], now_ns: int) -> tuple[int, int]:
    """From when to when, both counting; a time in whole seconds is that whole second. Raises ValueError."""
    return _bound(params.get("start", ""), now_ns, 0)[0], _bound(params.get("end", ""), now_ns, 2**63 - 1)[1]


def _bound(text: str, now_ns: int, otherwise: int) -> tuple[int, int]:
    if not text:
        return otherwise, otherwise
    if found := re.fullmatch(r"-?(\d+(?:\.\d+)?)(ms|s|m|h|d|w|y)", text):
        back = int(float(found[1]) * seconds_of(found[2]) * _NS)
        return now_ns - back, now_ns - back
    if re.fullmatch(r"\d+\.\d+", text):
        at = int(float(text) * _NS)
        return at, at
    at_ns = ns_of(text, now_ns)
    if at_ns is None:
        message = f"cannot parse timestamp {text!r}"
        raise ValueError(message)
    is_whole = len(text) < _SECONDS_DIGITS if text.isdigit() else "." not in text
    return at_ns, at_ns + (_NS - 1 if is_whole else 0)


def seconds_of(unit: str) -> float:
    """The seconds of a unit."""
    return {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}[unit]


def _scale(digits: str) -> int:
    if len(digits) < _SECONDS_DIGITS:
        return _NS
    return 1_000_000 if len(digits) < _MS_DIGITS else 1000 if len(digits) < _US_DIGITS else 1


def time_text(at_ns: int) -> str:
    """A time as it is given: without zeros at its end."""
    second = datetime.fromtimestamp(at_ns // _NS, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f"{at_ns % _NS:09d}".rstrip("0")
    return f"{second}.{fraction}Z" if fraction else f"{second}Z"


def stream_text(labels: Mapping[str, str]) -> str:
    """A stream as it is given."""
    return "{" + ",".join(f"{name}={go_quoted(value)}" for name, value in sorted(labels.items())) + "}"


def go_quoted(text: str) -> str:
    """A string as Go shows it."""
    shown = text.replace("\\", "\\\\").replace('"', '\\"')
    for character, escape in (("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        shown = shown.replace(character, escape)
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\x{ord(found[0]):02x}", shown) + '"'


def in_time(rows: Sequence[Kept], since_ns: int, until_ns: int) -> list[Kept]:
    """The rows of a time, both ends counting."""
    return [row for row in rows if since_ns <= row.at_ns <= until_ns]
