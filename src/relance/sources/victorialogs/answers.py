"""VictoriaLogs' answers as entries: JSON lines in which every value is a string."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from relance.rules.masking import mask_bytes
from relance.sources.exchanges import StoreAnswerError
from relance.sources.stores.backs import Entry
from relance.sources.victorialogs.queries import MESSAGE, STREAM, TIME

_REMEDY: Final = "see that the url is that of VictoriaLogs itself"
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z", re.ASCII)
_LABEL: Final = re.compile(r'([^=]+)="((?:[^"\\]|\\.)*)"(?:,|\}$)')
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_CONTROLS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NO_MESSAGE: Final = "missing _msg field; see https://docs.victoriametrics.com/"
"""VictoriaLogs writes so where an empty line came."""
_SHOWN: Final = 100


def entries_of(body: bytes) -> list[Entry]:
    """The entries of an answer, in its order. Raises StoreAnswerError."""
    entries: list[Entry] = []
    for line in body.split(b"\n"):
        if not line:
            continue
        try:
            row = json.loads(line)
            text = row.get(MESSAGE, "")
            message = "" if text.startswith(_NO_MESSAGE) else text
            entries.append(Entry(ns_of(row[TIME]), labels_of(row[STREAM]), message.encode("utf-8", "replace")))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            shown = repr(mask_bytes(line[:_SHOWN]).decode("utf-8", "replace"))
            raise StoreAnswerError(f"a line of the answer is not one of VictoriaLogs: {shown}", _REMEDY) from error
    return entries


def values_of(document: Any) -> tuple[str, ...]:  # noqa: ANN401 - JSON data
    """The values of an answer that counts them. Raises StoreAnswerError."""
    try:
        found = tuple(each["value"] for each in document["values"] or ())
    except (KeyError, TypeError) as error:
        raise StoreAnswerError("the answer has no list of values", _REMEDY) from error
    if not all(isinstance(each, str) for each in found):
        raise StoreAnswerError("the answer has values that are no text", _REMEDY)
    return found


def ns_of(text: str) -> int:
    """A time as nanoseconds since 1970; zeros at its end may be left out. Raises ValueError."""
    found = _TIME.fullmatch(text)
    if found is None:
        message = f"{text!r} is no time in UTC"
        raise ValueError(message)
    second = int(datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp())
    return second * 1_000_000_000 + int((found[2] or "0").ljust(9, "0"))


@lru_cache(maxsize=4096)
def labels_of(stream: str) -> Mapping[str, str]:
    """The labels of a stream as it is written, `{name="value",…}`. Raises ValueError."""
    labels: dict[str, str] = {}
    position = 1
    while position < len(stream) and stream != "{}":
        found = _LABEL.match(stream, position)
        if found is None:
            message = f"{stream!r} is no stream"
            raise ValueError(message)
        labels[found[1]] = _ESCAPE.sub(_unescaped, found[2])
        position = found.end()
    return labels


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code is None:
        return _CONTROLS.get(found[4], found[4])
    value = int(code, 16)
    return chr(value) if value <= 0x10FFFF else "\ufffd"  # noqa: PLR2004 - the last character there is
