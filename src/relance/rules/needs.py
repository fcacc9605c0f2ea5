"""What a line must have so that a pattern can match it: texts, of which a search can choose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from relance.rules.finders import eased
from relance.rules.roughs import rough
from relance.rules.trees import ASSERTIONS, SETTING, Either, Item, is_plain, parsed, value_of

_POSIX_CLASS = re.compile(r"\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\\[])*\[:\^?\w+:\](?:\\.|\[:\^?\w+:\]|[^\]\\])*\]")
_UNICODE_CLASS = re.compile(r"\\[pP](?:\{[^}]*\}|.)")
_LEAST = 3
"""In bytes; shorter texts are in too many lines to look for."""


@dataclass(frozen=True, slots=True)
class Need:
    """Texts that are all in every line that matches in one way, whatever the case of their letters.

    To find the line it is enough to look for one of them.
    """

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way in which a line can match: a row of the pattern's tree; `folded` says that case does not count.

    Every such line has all the texts of one of `needs` (None where no text of three bytes is known beforehand).
    """

    row: tuple[Item, ...]
    folded: bool
    needs: tuple[Need, ...] | None

    def rough(self, at_most: int) -> str:
        """A pattern for stores that every such line matches; longer than wanted where that would lose the texts."""
        row = self.row
        text = rough(row, folded=self.folded)
        while len(text) > at_most and len(row) > 1 and _of_row(row[:-1], folded=self.folded) == self.needs:
            row = row[:-1]
            text = rough(row, folded=self.folded)
        return text


def ways(pattern: str, *, ignore_case: bool = False) -> tuple[Way, ...]:
    """The ways in which lines can match a pattern; each line that matches does so in one of them.

    Raises:
        UnfitError: The pattern has something that is not known here.
    """
    tree = eased(parsed(_UNICODE_CLASS.sub(".", _POSIX_CLASS.sub(".", pattern))))
    return tuple(
        Way(row=row, folded=folded, needs=_of_row(row, folded=folded))
        for row, folded in _rows(tree, folded=ignore_case)
    )


def _rows(either: Either, *, folded: bool) -> Iterator[tuple[tuple[Item, ...], bool]]:
    """The rows of a tree, with whether case counts; those of a group that is all there is in a row instead of it."""
    for row in either.options:
        if len(row) == 1 and isinstance(row[0].what, Either) and (row[0].least, row[0].most) == (1, 1):
            yield from _rows(row[0].what, folded=folded or row[0].opening == "(?i:")
        else:
            yield row, folded
        folded = folded or any(item.what == SETTING for item in row)  # it holds for the rows after it, too


def _of_either(either: Either, *, folded: bool) -> tuple[Need, ...] | None:
    found: dict[Need, None] = {}
    for row in either.options:
        of_row = _of_row(row, folded=folded)
        if of_row is None:
            return None
        folded = folded or any(item.what == SETTING for item in row)  # it holds for the options after it, too
        found |= dict.fromkeys(of_row)
    return tuple(found)


def _of_row(row: tuple[Item, ...], *, folded: bool) -> tuple[Need, ...] | None:
    """Of what each line has one that a row matches: its own texts, or those of the group in it that asks for most."""
    runs: list[tuple[bytes, bool]] = [(b"", folded)]
    groups: list[tuple[Need, ...]] = []
    for item in row:
        if item.what == SETTING:
            folded = True
            runs.append((b"", folded))
        elif isinstance(item.what, Either):
            inside = _of_either(item.what, folded=folded or item.opening == "(?i:") if item.least else None
            if inside is not None:
                groups.append(inside)
            runs.append((b"", folded))
        elif is_plain(item) and item.least:
            byte = bytes([value_of(item.what)])
            run = runs[-1][0] + byte * item.least
            runs[-1] = (run, folded)
            if item.most != item.least:
                runs.append((byte * item.least, folded))
        elif item.what not in ASSERTIONS:
            runs.append((b"", folded))
    own = tuple(dict.fromkeys(text for run in runs for text in _texts(run[0], folded=run[1])))
    ways = [*groups, *([(Need(own),)] if own else [])]
    return max(ways, key=_worth, default=None)


def _worth(way: tuple[Need, ...]) -> tuple[int, int]:
    """Long texts are rare; of equally long ones few are better than many."""
    return min(min(12, max(len(text) for text in need.texts)) for need in way), -len(way)


def _texts(run: bytes, *, folded: bool) -> Iterator[str]:
    """The parts of a run of bytes that stores can look for: characters that are shown, and whole ones only."""
    try:
        pieces = re.findall(r"[^\x00-\x08\x0a-\x1f\x7f]+", run.decode("utf-8")) if not folded else []
    except UnicodeDecodeError:
        pieces = []
    if not pieces:
        pieces = [each.decode("ascii") for each in re.findall(rb"[\t\x20-\x7e]+", run)]
    for piece in pieces:
        if len(piece.encode()) >= _LEAST:
            yield piece
