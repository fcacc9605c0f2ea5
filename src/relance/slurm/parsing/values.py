"""Single values in the forms of all releases: numbers that became objects, words that became lists, times, durations.

Every reader raises `UnreadableError` for a shape it does not know, so that a renamed or mangled value never reads as
"not shown".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import cast

from relance.slurm.errors import UnreadableError
from relance.slurm.records import ExitCode

_STATE_WORD = re.compile(r"[A-Z][A-Z0-9_]*\Z", re.ASCII)
_EPOCH = re.compile(r"-?\d{1,20}\Z", re.ASCII)
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\Z", re.ASCII)
_LAST_SECOND = 253_402_300_799
"""The end of the year 9999, which stands for all that is later: behind jobs without a limit Slurm expects starts
thousands of years ahead (seen), and a user may ask for any begin (seen: the year 33715, on 22.05)."""
_MARK = (1 << 64) - 1
"""Nothing that Slurm shows is larger."""
_NOT_SHOWN = frozenset({"", "N/A", "n/a", "None", "NONE", "Unknown", "(null)", "INVALID", "Invalid"})


def unreadable(what: str, value: object) -> UnreadableError:
    """An error that names the field and shows a piece of what stood there."""
    piece = repr(value)[:200]
    return UnreadableError(f"Cannot read {what} in Slurm's answer: {piece}.", text=piece)


def number(record: Mapping[str, object], key: str) -> int | None:
    """A whole number, bare or as `{set, infinite, number}`; None for null, not set, infinite, or no such key."""
    value = record.get(key)
    if value is None or type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is dict:
        whole = cast("dict[str, object]", value)
        inner = whole.get("number")
        if type(whole.get("set")) is bool and type(inner) in (int, float):
            if not whole["set"] or whole.get("infinite") is True:
                return None
            return number(whole, "number")
    raise unreadable(key, value)


def positive(record: Mapping[str, object], key: str) -> int | None:
    """A count that Slurm shows as 0 where none was asked for; None then."""
    return number(record, key) or None


def moment(record: Mapping[str, object], key: str) -> int | None:
    """A time in seconds since 1970, the year 9999 at the latest; None for 0, which is Slurm's "never", or before it.

    Users choose some of them: none may make the whole answer unreadable.
    """
    value = number(record, key) or 0
    if abs(value) > _MARK:
        raise unreadable(key, value)
    return _bounded(value)


def text(record: Mapping[str, object], key: str) -> str | None:
    """A text; None for null, no such key, or the empty text."""
    value = record.get(key)
    if value is None or value == "":
        return None
    if type(value) is not str:
        raise unreadable(key, value)
    return value


def flag(record: Mapping[str, object], key: str) -> bool | None:
    """A yes or no; None for null or no such key."""
    value = record.get(key)
    if value is None or type(value) is bool:
        return value
    if value in (0, 1):
        return bool(value)
    raise unreadable(key, value)


def state_words(value: object) -> tuple[str, ...]:
    """State words: one text (22.05) or a list of texts (23.02 and later); at least one."""
    words = value if type(value) is list else [value]
    if not words or not all(type(word) is str and _STATE_WORD.match(word) for word in words):
        raise unreadable("a job's state", value)
    return tuple(words)


def exit_code(record: Mapping[str, object], key: str) -> ExitCode | None:
    """How it ended: a wait status as one number (22.05), or an object with return code and signal (later)."""
    value = record.get(key)
    if value is None:
        return None
    if type(value) is int:
        return ExitCode(code=(value >> 8) & 0xFF, signal=value & 0x7F)
    if type(value) is dict:
        whole = cast("dict[str, object]", value)
        signal = whole.get("signal")
        if "return_code" in whole and type(signal) is dict:
            inner = cast("dict[str, object]", signal)
            which = "id" if "id" in inner else "signal_id"
            return ExitCode(code=number(whole, "return_code") or 0, signal=number(inner, which) or 0)
    raise unreadable(key, value)


def shown_moment(shown: str, what: str) -> int | None:
    """A time in a text: seconds since 1970, as asked for, or ISO without a zone, which is then UTC; None: not shown."""
    if _EPOCH.match(shown):
        return _bounded(int(shown))
    if shown in _NOT_SHOWN:
        return None
    if _ISO.match(shown) is None:
        raise unreadable(what, shown)
    try:
        return int(datetime.fromisoformat(shown).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise unreadable(what, shown) from None


def _bounded(seconds: int) -> int | None:
    return min(seconds, _LAST_SECOND) if seconds > 0 else None


def shown_number(shown: str, what: str) -> int | None:
    """A whole number in a text; None: not shown or unlimited."""
    if shown in _NOT_SHOWN or shown in ("UNLIMITED", "INFINITE", "Partition_Limit"):
        return None
    if not (shown.isascii() and shown.isdigit()):
        raise unreadable(what, shown)
    return int(shown)


def shown_exit(shown: str, what: str) -> ExitCode | None:
    """An exit in a text, "code:signal"; None: not shown."""
    if shown in _NOT_SHOWN:
        return None
    code, colon, signal = shown.partition(":")
    if not (colon and code.isascii() and code.isdigit() and signal.isascii() and signal.isdigit()):
        raise unreadable(what, shown)
    return ExitCode(code=int(code), signal=int(signal))


def shown_text(shown: str) -> str | None:
    """A text; None for the words that Slurm prints for "nothing"."""
    return None if shown in _NOT_SHOWN else shown
