"""LogQL: selections as queries, whatever characters the values have.

A string is written as Go reads one between double quotes. Documents: "Log queries" and "LogQL" of Loki's manual.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from relance.sources.exchanges import StoreRefusedError
from relance.sources.stores.backs import Selection

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SPECIAL: Final = re.compile(r"[\\.+*?()|\[\]{}^$]")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")
_PREFIX_CHARS: Final = 4096
_LAST_CHAR: Final = r"\x{10FFFF}"


def query_of(wanted: Selection) -> str:
    """The query for a selection. Raises StoreRefusedError for a label that Loki cannot have."""
    matchers = [_matcher(name, values) for name, values in wanted.labels.items()]
    filters = f" |~ {quoted(wanted.lines)}" if wanted.lines else ""
    return f"{{{', '.join(matchers)}}}{filters}"


def quoted(text: str) -> str:
    """A string."""
    whole = text.encode("utf-8", "replace").decode()
    plain = whole.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", plain) + '"'


def literal(text: str) -> str:
    """A pattern that matches a text and nothing else."""
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", _SPECIAL.sub(r"\\\g<0>", text))


def halves(lines: Sequence[str]) -> tuple[str, str] | None:
    """Two filters that part lines into those of the one and those of the other; each has some of these lines.

    None where they cannot be told apart by their beginnings.
    """
    first, last = min(lines), max(lines)
    same = next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    following = sorted({line[same : same + 1] for line in lines})
    if len(following) < 2 or same > _PREFIX_CHARS:  # noqa: PLR2004 - two halves
        return None
    middle = ord(following[len(following) // 2])
    pattern = quoted(rf"^{literal(first[:same])}[\x{{{middle:x}}}-{_LAST_CHAR}]")
    return f" |~ {pattern}", f" !~ {pattern}"


def _matcher(name: str, values: Sequence[str]) -> str:
    if _NAME.fullmatch(name) is None:
        raise StoreRefusedError(f"a label of Loki cannot be called {name!r}", "name the label as Loki stores it")
    if not values or not all(values):
        raise StoreRefusedError(f"the label {name} has no value to be asked for", "give the label a value")
    if len(values) == 1:
        return f"{name}={quoted(values[0])}"
    return f"{name}=~{quoted('|'.join(literal(value) for value in values))}"
