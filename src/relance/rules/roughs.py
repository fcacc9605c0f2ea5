"""Rough patterns: a row of a pattern for stores, which read UTF-8 where rules read bytes, and whole entries for lines.

Every line that the row matches is found: what could be a part of a character beyond ASCII becomes any characters, and
where in the line a match stands does not count.
"""

from __future__ import annotations

import re

from relance.rules.trees import ASSERTIONS, SETTING, Either, Item, is_plain, value_of

_HIGH = re.compile(r"\\x[89a-f][0-9a-f]")
_SPECIAL = frozenset(r"\.+*?()|[]{}^$")
_ASCII_SHOWN = range(0x20, 0x7F)


def rough(row: tuple[Item, ...], *, folded: bool) -> str:
    """A pattern that finds every line that the row matches; `folded` says that case does not count."""
    needed = _needed(row)
    while len(needed) == 1 and isinstance(needed[0].what, Either) and (needed[0].least, needed[0].most) == (1, 1):
        folded = folded or needed[0].opening == "(?i:"
        if len(needed[0].what.options) > 1:
            text = "|".join(map(_row, needed[0].what.options))
            return f"(?i:{text})" if folded else f"(?:{text})"
        needed = _needed(needed[0].what.options[0])
    text = _row(needed)
    return f"(?i:{text})" if folded else text


def _needed(row: tuple[Item, ...]) -> tuple[Item, ...]:
    """A row without what at its ends can be nothing."""
    items = list(row)
    while items and _can_be_nothing(items[-1]):
        items.pop()
    begin = next((at for at, item in enumerate(items) if item.what == SETTING or not _can_be_nothing(item)), 0)
    return tuple(items[begin:])


def _can_be_nothing(item: Item) -> bool:
    """Whether a store may find it in no characters."""
    if item.least == 0 or item.what in ASSERTIONS:
        return True
    if isinstance(item.what, Either):
        return any(all(map(_can_be_nothing, row)) for row in item.what.options)
    return item.what != SETTING and not _is_ascii_char(item) and _is_beyond_ascii(item.what)


def _row(row: tuple[Item, ...]) -> str:
    return "".join(_item(item) for item in row if item.what not in ASSERTIONS)


def _item(item: Item) -> str:
    what = item.what
    if what == SETTING:
        return what
    if isinstance(what, Either):
        if len(what.options) == 1 and item.opening == "(?:" and (item.least, item.most) == (1, 1):
            return _row(what.options[0])
        return f"{item.opening}{'|'.join(map(_row, what.options))}){_times(item.least, item.most)}"
    if _is_ascii_char(item):
        letter = chr(value_of(what))
        return (f"\\{letter}" if letter in _SPECIAL else letter) + _times(item.least, item.most)
    if not _is_beyond_ascii(what):
        return _NAMES.get(what, what) + _times(item.least, item.most)
    shown = _NAMES.get(what, what) if what.startswith("[^") and not _HIGH.search(what) else "."
    return shown + _times(0, item.most)


_NAMES = {
    r"[^\x0a]": ".",
    "[0-9]": r"\d",
    "[0-9A-Z_a-z]": r"\w",
    r"[^\x09-\x0a\x0c-\x0d ]": r"\S",
    r"[\x09-\x0a\x0c-\x0d ]": r"\s",
    r"[\x09\x0c-\x0d ]": r"\s",
}
"""Shorter names of classes; a newline more is none too few."""


def _is_ascii_char(item: Item) -> bool:
    return isinstance(item.what, str) and is_plain(item) and value_of(item.what) in _ASCII_SHOWN


def _is_beyond_ascii(what: str) -> bool:
    """Whether it can be a byte of a character beyond ASCII."""
    return what == "." or what.startswith("[^") or _HIGH.search(what) is not None


def _times(least: int, most: int | None) -> str:
    if (least, most) == (1, 1):
        return ""
    if most is None:
        return {0: "*", 1: "+"}.get(least, f"{{{least},}}")
    if most == least:
        return f"{{{least}}}"
    return "?" if (least, most) == (0, 1) else f"{{{least},{most}}}"
