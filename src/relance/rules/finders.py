r"""Finders: a rule's pattern made fit for an engine that reports every place at which a match may end.

Such an engine tells whether a line matches, never where a match begins, and it does not stop at the end of a line by
itself. So what may precede or follow a match is dropped, because each further byte would be reported as one more end;
no class takes a newline; groups lose their names.

Some things cost such an engine more than all else together: counting to a hundred, and what may stand between the
beginning of a line and the words that matter. A finder leaves them out; it then finds a few lines too many and says so,
and the pattern itself has the last word on them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from relance.rules.trees import Either, Item, is_plain, parsed

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


def finder(pattern: str) -> Finder:
    """The finder of a pattern that `patterns.checked` lets pass, in PCRE's syntax over bytes.

    Raises:
        UnfitError: It has something that is not known here, such as a class by its Unicode name.
    """
    exact = _exact(parsed(pattern))
    eased = _eased_rows(exact)
    return Finder(text=_text(eased), is_exact=eased == exact)


def eased(tree: Either) -> Either:
    """A tree that a line matches wherever it matches this one, and some other lines too; shorter, cheaper."""
    return _eased_rows(_exact(tree))


def _exact(tree: Either) -> Either:
    """A tree without what may precede or follow a match."""
    trimmed = _trimmed(tree)
    return trimmed if all(trimmed.options) else tree


def _trimmed(either: Either) -> Either:
    return Either(tuple(_trimmed_head(_trimmed_tail(row)) for row in either.options))


def _trimmed_tail(row: tuple[Item, ...]) -> tuple[Item, ...]:
    """A row without what may follow where it has matched already; nothing of it is left if it always matches."""
    items = list(row)
    while items:
        last = items[-1]
        if last.least == 0 or (last.what == "$" and len(items) > 1 and _takes_the_rest(items[-2])):
            items.pop()
        elif last.most != last.least:
            items[-1] = replace(last, most=last.least)
        elif isinstance(last.what, Either) and last.least == 1:
            inside = Either(tuple(_trimmed_tail(each) for each in last.what.options))
            if all(inside.options):
                items[-1] = replace(last, what=inside)
                break
            items.pop()
        else:
            break
    return tuple(items)


def _trimmed_head(row: tuple[Item, ...]) -> tuple[Item, ...]:
    """A row without what may stand before it."""
    items = list(row)
    while items and items[0].least == 0 and not _is_setting(items[0]):
        items.pop(0)
    if items and isinstance(items[0].what, str) and items[0].most != items[0].least:
        items[0] = replace(items[0], most=items[0].least)
    return tuple(items)


def _is_setting(item: Item) -> bool:
    return item.what == "(?i)"


def _from_words(row: tuple[Item, ...]) -> tuple[Item, ...]:
    """A row from its first words on, if before them stand only its place in the line or a run of any length.

    That is cheaper, and it is needed: Vectorscan 5.4.12 loses lines that begin to match with such a run and go on with
    one of several words, as in `#[0-9]+ (?:first words|other words)`, unless they come first in a block.
    """
    if not row:
        return row
    is_bound = row[0].what == "^"
    for at in range(1, len(row)):
        begins, before = row[at], row[:at]
        plain = _words((begins,)) if isinstance(begins.what, Either) else _plain(row[at:])[0]
        if begins.least > 0 and plain >= (_WORD if is_bound else _MORE_WORDS):
            is_run = any(map(_varies, before)) and _words(before) <= 1
            settings = tuple(filter(_is_setting, before))
            return (*settings, *_trimmed_head(row[at:])) if is_bound or is_run else row
    return row


def _varies(item: Item) -> bool:
    """Whether an item is of no fixed length."""
    if item.most != item.least:
        return True
    return isinstance(item.what, Either) and any(_varies(each) for row in item.what.options for each in row)


def _words(row: tuple[Item, ...]) -> int:
    """The most plain characters that are together in a row, whichever of its options matches."""
    best = max((_plain(row[at:])[0] for at in range(len(row))), default=0)
    inside = (
        min(_words(option) for option in item.what.options)
        for item in row
        if isinstance(item.what, Either) and item.least > 0
    )
    return max([best, *inside])


def _plain(row: tuple[Item, ...]) -> tuple[int, bool]:
    """How many plain characters a row begins with at least, and whether there is nothing else in it."""
    count = 0
    for item in row:
        if isinstance(item.what, Either) and (item.least, item.most) == (1, 1):
            each = [_plain(option) for option in item.what.options]
            count += min(length for length, _ in each)
            if not all(whole for _, whole in each):
                return count, False
        elif count == 0 and item.least == 0:
            continue
        elif (item.least, item.most) == (1, 1) and is_plain(item):
            count += 1
        else:
            return count, False
    return count, True


def _eased_rows(either: Either) -> Either:
    """All that makes a finder cheaper, for the rows of a whole pattern."""
    rows: list[tuple[Item, ...]] = []
    for whole in either.options:
        row = _from_words(whole)
        if len(row) == 1 and isinstance(row[0].what, Either) and (row[0].least, row[0].most) == (1, 1):
            rows.append((replace(row[0], what=_eased_rows(row[0].what)),))
        else:
            rows.append(_eased_row(row, is_last=True))
    return Either(tuple(rows))


def _eased_row(row: tuple[Item, ...], *, is_last: bool) -> tuple[Item, ...]:
    """A row whose items need not be counted; the end of a line is only asked for where nothing follows."""
    lasts = [is_last and at == len(row) - 1 for at in range(len(row))]
    return tuple(_eased(item, is_last=last) for item, last in zip(row, lasts, strict=True) if last or item.what != "$")


def _eased(item: Item, *, is_last: bool) -> Item:
    if isinstance(item.what, Either):
        last = is_last and item.most == 1
        item = replace(item, what=Either(tuple(_eased_row(each, is_last=last) for each in item.what.options)))
    if item.most is None or item.most <= _MOST_COUNTED:
        return item
    return replace(item, least=min(item.least, 1), most=None)


def _takes_the_rest(item: Item) -> bool:
    """Whether what follows is always the end of the line."""
    if isinstance(item.what, Either):
        return (item.least, item.most) == (1, 1) and all(
            bool(row) and _takes_the_rest(row[-1]) for row in item.what.options
        )
    return item.is_open_ended


def _text(either: Either) -> str:
    return "|".join("".join(map(_item_text, row)) for row in either.options)


def _item_text(item: Item) -> str:
    text = item.what if isinstance(item.what, str) else f"{item.opening}{_text(item.what)})"
    if (item.least, item.most) == (1, 1):
        return text
    if item.most is None:
        return text + {0: "*", 1: "+"}.get(item.least, f"{{{item.least},}}")
    if item.most == item.least:
        return f"{text}{{{item.least}}}"
    return text + ("?" if (item.least, item.most) == (0, 1) else f"{{{item.least},{item.most}}}")
