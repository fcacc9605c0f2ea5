"""Patterns as trees: rows of characters, classes and groups, over bytes that are never a newline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

_TOKEN = re.compile(
    r"""
      (?P<escape>\\(?:x[0-9A-Fa-f]{2}|x\{[0-9A-Fa-f]{1,2}\}|.))
    | (?P<flag>\(\?i\))
    | (?P<open>\((?:\?(?:P?<\w+>|:|i:))?)
    | (?P<close>\))
    | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])
    | (?P<repeat>(?:[*+?]|\{\d+(?:,\d*)?\})\??)
    | (?P<bar>\|)
    | (?P<char>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SET_ITEM = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|x\{[0-9A-Fa-f]{1,2}\}|.)|.", re.DOTALL)
_POSIX = re.compile(r"\[:\^?[a-z]+:")
_COUNT = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_NEWLINE = 10
_DIGITS = frozenset(range(48, 58))
_WORDS = _DIGITS | frozenset(range(65, 91)) | frozenset(range(97, 123)) | {95}
_SPACES = frozenset(b"\t\n\f\r ")
"""RE2's; Python's has the vertical tab as well, which no log means."""
_ALL = frozenset(range(256))
_CLASSES = {
    "d": _DIGITS,
    "w": _WORDS,
    "s": _SPACES,
    "D": _ALL - _DIGITS,
    "W": _ALL - _WORDS,
    "S": _ALL - _SPACES,
}
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "a": 7}
_WORD_ENDS = frozenset("bB")


ASSERTIONS = frozenset({"^", "$", r"\b", r"\B"})
"""Items that match between characters."""
SETTING = "(?i)"
"""An item that says that case does not count from there on."""


class UnfitError(ValueError):
    """A pattern has something that no finder is made of."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in a row: a text or a group, so many times."""

    what: str | Either
    least: int = 1
    most: int | None = 1
    opening: str = "(?:"

    @property
    def is_open_ended(self) -> bool:
        """Whether it takes whatever is left of the line."""
        return self.most is None and self.what == "."


@dataclass(frozen=True, slots=True)
class Either:
    """Rows of items, one of which matches."""

    options: tuple[tuple[Item, ...], ...]


def parsed(pattern: str) -> Either:
    """The tree of a pattern that `patterns.checked` lets pass.

    Raises:
        UnfitError: It has something that is not known here, such as a class by its Unicode name.
    """
    tokens = [(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(pattern)]
    tree, end = _alternatives(tokens, 0)
    if end != len(tokens):
        raise UnfitError("a group is closed that was not opened")
    return tree


def is_plain(item: Item) -> bool:
    """Whether an item is one character that stands for itself."""
    what = item.what
    return isinstance(what, str) and what not in ".^$" and (len(what) == 1 or what.startswith("\\x"))


def _alternatives(tokens: list[tuple[str, str]], at: int) -> tuple[Either, int]:
    rows: list[list[Item]] = [[]]
    while at < len(tokens):
        kind, text = tokens[at]
        at += 1
        if kind == "close":
            return Either(tuple(map(tuple, rows))), at - 1
        if kind == "bar":
            rows.append([])
        elif kind == "open":
            inside, at = _alternatives(tokens, at)
            if at >= len(tokens):
                raise UnfitError("a group is not closed")
            at += 1
            rows[-1].append(Item(inside, opening="(?i:" if text == "(?i:" else "(?:"))
        elif kind == "repeat":
            if not rows[-1]:
                raise UnfitError("there is nothing to repeat")
            rows[-1][-1] = _repeated(rows[-1][-1], text)
        else:
            rows[-1].append(Item(_single(kind, text)))
    return Either(tuple(map(tuple, rows))), at


def _repeated(item: Item, text: str) -> Item:
    if (item.least, item.most) != (1, 1):
        raise UnfitError("a repetition is repeated")
    if count := _COUNT.match(text):
        least = int(count[1])
        most = least if count[2] is None else int(count[2]) if count[2] else None
    else:
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[text[0]]
    return replace(item, least=least, most=most)


def _single(kind: str, text: str) -> str:
    """One character, class or assertion, as the finder has it."""
    if kind == "set":
        return _set(text)
    if kind == "escape":
        letter = text[1]
        if letter in _CLASSES:
            return _shown(_CLASSES[letter], negated=letter.isupper())
        if letter in _WORD_ENDS:
            return text
        if (value := value_of(text)) == _NEWLINE:
            raise UnfitError("a newline, which no line has")
        return byte(value)
    if kind == "char" and text not in ".^$":
        return byte(ord(text))
    return text


def _set(text: str) -> str:
    negated = text.startswith("[^")
    if _POSIX.search(text):
        raise UnfitError("a class by its POSIX name")
    items = _SET_ITEM.findall(text[2 if negated else 1 : -1])
    taken: set[int] = set()
    at = 0
    while at < len(items):
        item = items[at]
        at += 1
        if item[0] == "\\" and item[1] in _CLASSES:
            taken |= _CLASSES[item[1]]
        elif at + 1 < len(items) and items[at] == "-":
            taken |= set(range(value_of(item), value_of(items[at + 1]) + 1))
            at += 2
        else:
            taken.add(value_of(item))
    return _shown(_ALL - taken if negated else taken, negated=negated)


def _shown(taken: frozenset[int] | set[int], *, negated: bool) -> str:
    """A class of these bytes but the newline.

    A negated one stays so, because letters of either case are let in by the engine after it.
    """
    shown = sorted((_ALL - taken) | {_NEWLINE} if negated else taken - {_NEWLINE})
    if not shown:
        raise UnfitError("a class of nothing but a newline")
    return f"[{'^' if negated else ''}{''.join(_ranges(shown))}]"


def _ranges(values: list[int]) -> Iterator[str]:
    first = last = values[0]
    for value in [*values[1:], None]:
        if value is not None and value == last + 1:
            last = value
            continue
        yield byte(first) if first == last else f"{byte(first)}-{byte(last)}"
        if value is not None:
            first = last = value


def value_of(item: str) -> int:
    """The byte that a character or an escape stands for.

    Raises:
        UnfitError: It is an escape that is not known here.
    """
    if item[0] != "\\":
        return ord(item)
    if item[1] == "x":
        return int(item[2:].strip("{}"), 16)
    if item[1] in _CONTROLS:
        return _CONTROLS[item[1]]
    if item[1].isalnum():
        raise UnfitError(f"{item} is not known here")
    return ord(item[1])


def byte(value: int) -> str:
    """A byte as a pattern has it."""
    if value == _NEWLINE:
        return r"\x0a"
    character = chr(value)
    return character if character.isascii() and (character.isalnum() or character in " _") else f"\\x{value:02x}"
