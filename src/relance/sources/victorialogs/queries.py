"""LogsQL: selections as queries, whatever characters the values have.

A string is written as Go reads one between double quotes. Document: "LogsQL" of VictoriaLogs' manual. A pipe that is
misspelt is no error to it but one more word to look for, so these are all the pipes there are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from relance.sources.exchanges import StoreRefusedError
from relance.sources.stores.backs import Selection

MESSAGE: Final = "_msg"
STREAM: Final = "_stream"
TIME: Final = "_time"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS: Final = frozenset({"and", "in", "not", "or"})
_FIELDS: Final = f"fields {TIME}, {STREAM}, {MESSAGE}"
_DELETE: Final = "\x7f"


def query_of(wanted: Selection) -> str:
    """The filter for a selection. Raises StoreRefusedError for one that would select other streams than are meant."""
    streams = ", ".join(_stream_filter(name, values) for name, values in wanted.labels.items())
    if not streams:
        raise StoreRefusedError("no stream is named", "give the labels that every stream of this cluster has")
    lines = f" {MESSAGE}:~{quoted(wanted.lines)}" if wanted.lines else ""
    return f"{{{streams}}}{lines}"


def oldest(query: str, limit: int) -> str:
    """The oldest so many entries, by rising time."""
    return f"{query} | sort by ({TIME}) | limit {limit} | {_FIELDS}"


def newest(query: str, limit: int) -> str:
    """The newest so many entries, by falling time."""
    return f"{query} | sort by ({TIME}) desc | limit {limit} | {_FIELDS}"


def all_of(query: str) -> str:
    """All entries, in no order."""
    return f"{query} | {_FIELDS}"


def quoted(text: str) -> str:
    """A string. JSON's are Go's, too, as long as no character is written as two."""
    whole = text.encode("utf-8", "replace").decode()
    return json.dumps(whole, ensure_ascii=False).replace(_DELETE, r"\x7f")


def _stream_filter(name: str, values: Sequence[str]) -> str:
    if not name or not values or not all(values):
        raise StoreRefusedError(f"the label {name!r} has no value to be asked for", "give the label a value")
    is_plain = _PLAIN_NAME.fullmatch(name) is not None and name.lower() not in _KEYWORDS
    shown = name if is_plain else quoted(name)
    if len(values) == 1:
        return f"{shown}={quoted(values[0])}"
    return f"{shown} in ({','.join(map(quoted, values))})"
