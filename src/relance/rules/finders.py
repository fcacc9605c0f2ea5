r"""Finders: a rule's pattern made fit for an engine that reports every place at which a match may end.

Such an engine tells whether a line matches, never where a match begins, and it does not stop at the end of a line by
itself. So what may precede or follow a match is dropped, because each further byte would be reported as one more end;
no class takes a newline; groups lose their names.

Some things cost such an engine more than all else together: counting to a hundred, and what may stand between the
beginning of a line and the words that matter. A finder leaves them out; it then finds a few lines too many and says so,
and the pattern itself has the last word on them.
"""

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
_ASSERTIONS = frozenset("bB")


_MOST_COUNTED = 9
"""Longer gaps are gaps of any length to a finder."""
_WORD = 4
"""So many plain characters together, and what goes with them, are rare enough in a log to stand for a pattern."""
_MORE_WORDS = 6
"""The same where a pattern is not bound to the beginning of a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finder:
    """What the engine looks for. `is_exact` says that a line matches it exactly where it matches the pattern."""

    text: str
    is_exact: bool


class UnfitError(ValueError):
    """A pattern has something that no finder is made of."""


def finder(pattern: str) -> Finder:
    """The finder of a pattern that `patterns.checked` lets pass, in PCRE's syntax over bytes.

    Raises:
        UnfitError: It has something that is not known here, such as a class by its Unicode name.
    """
    tokens = [(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(pattern)]
    tree, end = _alternatives(tokens, 0)
    if end != len(tokens):
        raise UnfitError("a group is closed that was not opened")
    trimmed = _trimmed(tree)
    exact = trimmed if all(trimmed.options) else tree
    eased = _eased_rows(exact)
    return Finder(text=_text(eased), is_exact=eased == exact)


@dataclass(frozen=True, slots=True)
class _Item:
    """One thing in a row: a text or a group, so many times."""

    what: str | _Either
    least: int = 1
    most: int | None = 1
    opening: str = "(?:"

    @property
    def is_open_ended(self) -> bool:
        """Whether it takes whatever is left of the line."""
        return self.most is None and self.what == "."


@dataclass(frozen=True, slots=True)
class _Either:
    """Rows of items, one of which matches."""

    options: tuple[tuple[_Item, ...], ...]


def _alternatives(tokens: list[tuple[str, str]], at: int) -> tuple[_Either, int]:
    rows: list[list[_Item]] = [[]]
    while at < len(tokens):
        kind, text = tokens[at]
        at += 1
        if kind == "close":
            return _Either(tuple(map(tuple, rows))), at - 1
        if kind == "bar":
            rows.append([])
        elif kind == "open":
            inside, at = _alternatives(tokens, at)
            if at >= len(tokens):
                raise UnfitError("a group is not closed")
            at += 1
            rows[-1].append(_Item(inside, opening="(?i:" if text == "(?i:" else "(?:"))
        elif kind == "repeat":
            if not rows[-1]:
                raise UnfitError("there is nothing to repeat")
            rows[-1][-1] = _repeated(rows[-1][-1], text)
        else:
            rows[-1].append(_Item(_single(kind, text)))
    return _Either(tuple(map(tuple, rows))), at


def _repeated(item: _Item, text: str) -> _Item:
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
        if letter in _ASSERTIONS:
            return text
        if (value := _value(text)) == _NEWLINE:
            raise UnfitError("a newline, which no line has")
        return _byte(value)
    if kind == "char" and text not in ".^$":
        return _byte(ord(text))
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
            taken |= set(range(_value(item), _value(items[at + 1]) + 1))
            at += 2
        else:
            taken.add(_value(item))
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
        yield _byte(first) if first == last else f"{_byte(first)}-{_byte(last)}"
        if value is not None:
            first = last = value


def _value(item: str) -> int:
    """The byte that a character or an escape stands for."""
    if item[0] != "\\":
        return ord(item)
    if item[1] == "x":
        return int(item[2:].strip("{}"), 16)
    if item[1] in _CONTROLS:
        return _CONTROLS[item[1]]
    if item[1].isalnum():
        raise UnfitError(f"{item} is not known here")
    return ord(item[1])


def _byte(value: int) -> str:
    if value == _NEWLINE:
        return r"\x0a"
    character = chr(value)
    return character if character.isascii() and (character.isalnum() or character in " _") else f"\\x{value:02x}"


def _trimmed(either: _Either) -> _Either:
    return _Either(tuple(_trimmed_head(_trimmed_tail(row)) for row in either.options))


def _trimmed_tail(row: tuple[_Item, ...]) -> tuple[_Item, ...]:
    """A row without what may follow where it has matched already; nothing of it is left if it always matches."""
    items = list(row)
    while items:
        last = items[-1]
        if last.least == 0 or (last.what == "$" and len(items) > 1 and _takes_the_rest(items[-2])):
            items.pop()
        elif last.most != last.least:
            items[-1] = replace(last, most=last.least)
        elif isinstance(last.what, _Either) and last.least == 1:
            inside = _Either(tuple(_trimmed_tail(each) for each in last.what.options))
            if all(inside.options):
                items[-1] = replace(last, what=inside)
                break
            items.pop()
        else:
            break
    return tuple(items)


def _trimmed_head(row: tuple[_Item, ...]) -> tuple[_Item, ...]:
    """A row without what may stand before it."""
    items = list(row)
    while items and items[0].least == 0 and not _is_setting(items[0]):
        items.pop(0)
    if items and isinstance(items[0].what, str) and items[0].most != items[0].least:
        items[0] = replace(items[0], most=items[0].least)
    return tuple(items)


def _is_setting(item: _Item) -> bool:
    return item.what == "(?i)"


def _from_words(row: tuple[_Item, ...]) -> tuple[_Item, ...]:
    """A row from its first words on, if before them stand only its place in the line or a run of any length.

    That is cheaper, and it is needed: Vectorscan 5.4.12 loses lines that begin to match with such a run and go on with
    one of several words, as in `#[0-9]+ (?:first words|other words)`, unless they come first in a block.
    """
    if not row:
        return row
    is_bound = row[0].what == "^"
    for at in range(1, len(row)):
        begins, before = row[at], row[:at]
        plain = _words((begins,)) if isinstance(begins.what, _Either) else _plain(row[at:])[0]
        if begins.least > 0 and plain >= (_WORD if is_bound else _MORE_WORDS):
            is_run = any(map(_varies, before)) and _words(before) <= 1
            return _trimmed_head(row[at:]) if is_bound or is_run else row
    return row


def _varies(item: _Item) -> bool:
    """Whether an item is of no fixed length."""
    if item.most != item.least:
        return True
    return isinstance(item.what, _Either) and any(_varies(each) for row in item.what.options for each in row)


def _words(row: tuple[_Item, ...]) -> int:
    """The most plain characters that are together in a row, whichever of its options matches."""
    best = max((_plain(row[at:])[0] for at in range(len(row))), default=0)
    inside = (
        min(_words(option) for option in item.what.options)
        for item in row
        if isinstance(item.what, _Either) and item.least > 0
    )
    return max([best, *inside])


def _plain(row: tuple[_Item, ...]) -> tuple[int, bool]:
    """How many plain characters a row begins with at least, and whether there is nothing else in it."""
    count = 0
    for item in row:
        if isinstance(item.what, _Either) and (item.least, item.most) == (1, 1):
            each = [_plain(option) for option in item.what.options]
            count += min(length for length, _ in each)
            if not all(whole for _, whole in each):
                return count, False
        elif count == 0 and item.least == 0:
            continue
        elif (item.least, item.most) == (1, 1) and _is_plain(item):
            count += 1
        else:
            return count, False
    return count, True


def _is_plain(item: _Item) -> bool:
    what = item.what
    return isinstance(what, str) and what not in ".^$" and (len(what) == 1 or what.startswith("\\x"))


def _eased_rows(either: _Either) -> _Either:
    """All that makes a finder cheaper, for the rows of a whole pattern."""
    rows: list[tuple[_Item, ...]] = []
    for whole in either.options:
        row = _from_words(whole)
        if len(row) == 1 and isinstance(row[0].what, _Either) and (row[0].least, row[0].most) == (1, 1):
            rows.append((replace(row[0], what=_eased_rows(row[0].what)),))
        else:
            rows.append(_eased_row(row, is_last=True))
    return _Either(tuple(rows))


def _eased_row(row: tuple[_Item, ...], *, is_last: bool) -> tuple[_Item, ...]:
    """A row whose items need not be counted; the end of a line is only asked for where nothing follows."""
    lasts = [is_last and at == len(row) - 1 for at in range(len(row))]
    return tuple(_eased(item, is_last=last) for item, last in zip(row, lasts, strict=True) if last or item.what != "$")


def _eased(item: _Item, *, is_last: bool) -> _Item:
    if isinstance(item.what, _Either):
        last = is_last and item.most == 1
        item = replace(item, what=_Either(tuple(_eased_row(each, is_last=last) for each in item.what.options)))
    if item.most is None or item.most <= _MOST_COUNTED:
        return item
    return replace(item, least=min(item.least, 1), most=None)


def _takes_the_rest(item: _Item) -> bool:
    """Whether what follows is always the end of the line."""
    if isinstance(item.what, _Either):
        return (item.least, item.most) == (1, 1) and all(
            bool(row) and _takes_the_rest(row[-1]) for row in item.what.options
        )
    return item.is_open_ended


def _text(either: _Either) -> str:
    return "|".join("".join(map(_item_text, row)) for row in either.options)


def _item_text(item: _Item) -> str:
    text = item.what if isinstance(item.what, str) else f"{item.opening}{_text(item.what)})"
    if (item.least, item.most) == (1, 1):
        return text
    if item.most is None:
        return text + {0: "*", 1: "+"}.get(item.least, f"{{{item.least},}}")
    if item.most == item.least:
        return f"{text}{{{item.least}}}"
    return text + ("?" if (item.least, item.most) == (0, 1) else f"{{{item.least},{item.most}}}")
