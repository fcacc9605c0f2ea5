r"""Prefilters: of the lines in a log store those that must travel, so that scanning them finds what scanning all would.

A prefilter is one pattern for the store (RE2 syntax, as Loki's `|~` and VictoriaLogs' `~` take it) that every line
matches on which a rule could count, a traceback could begin, a row of a failure table could stand, or a step could be
told. It lets pass too many lines and never too few:

- Rules are looked for by a text that is in each of their lines (`needs`), few texts for all of them (`covers`).
- A rule sees lines as they are after cleaning (`domain.log_texts`), a store as they came. So a line with an escape code
  or a NUL passes whatever else it has, and where one carriage return parts a line into several, a text is still whole.

Some lines mean something only with those after them. The exception that ends a traceback can be any line of its
writer, and a failure table's rows count where they stand right above each other. So a line that begins one of these
opens a passage: from there on its stream is to be delivered whole until the passage is over. Whoever delivers more
lines than are asked for changes nothing: what the pattern does not let pass counts for no rule by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import re2

from relance.domain.faults import Scope
from relance.domain.log_texts import LogText, line_end, line_start
from relance.rules.covers import Cover, cover, is_common
from relance.rules.formats import Pack
from relance.rules.needs import Need, Way, ways
from relance.rules.patterns import options
from relance.rules.tables import LINES, ROWS_THAT_COUNT
from relance.rules.tracebacks import MENTIONS, OpenTraceback, follow
from relance.rules.trees import UnfitError

WANTED_BYTES = 8 * 1024
"""A prefilter is made less selective if that makes it no longer than this."""
MOST_BYTES = 32 * 1024
"""Longest pattern of a prefilter; where more would be needed, all lines travel."""
_ROUGHS = (120, 100, 80, 60)
"""How long rough patterns are to be, one length after the other until all fits."""
_LONGEST_ROUGH = 260
"""Where one cannot be made shorter than this, texts must do, however common."""
_ODD_BYTES = r"[\x00\x1b]"
_QUOTED = str.maketrans({letter: f"\\{letter}" for letter in r"\.+*?()|[]{}^$"} | {"\t": r"\t"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """What of one stream is in the middle of something; a value that a checkpoint can hold.

    `rows` is how many lines after a row of a failure table are still to be delivered.
    """

    version: int = 1
    tracebacks: tuple[OpenTraceback, ...] = ()
    rows: int = 0

    @property
    def is_open(self) -> bool:
        """Whether the lines that follow in the stream are needed whole."""
        return bool(self.tracebacks) or self.rows > 0


NO_PASSAGE = Passage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefilter:
    """What must travel of the logs of one kind.

    `lines` is the pattern for the store; empty: all lines. `openings` is the part of it that opens passages; empty:
    nothing does. `unfit` names the rules on whose account all lines travel.
    """

    lines: str
    openings: str = ""
    unfit: tuple[str, ...] = ()

    def opening(self, lines: Sequence[bytes]) -> int | None:
        """The index of the first of these lines that opens a passage."""
        if not self.openings:
            return None
        search = _compiled(self.openings).search
        return next((at for at, line in enumerate(lines) if search(LogText(line).text)), None)

    def after(self, lines: Sequence[bytes], passage: Passage = NO_PASSAGE) -> Passage:
        """The passage that a stream is in after these lines of it, which follow those that gave `passage`."""
        if not self.openings:
            return NO_PASSAGE
        if not passage.is_open:
            first = self.opening(lines)
            if first is None:
                return NO_PASSAGE
            lines = lines[first:]
        text = LogText(b"".join(line.rstrip(b"\n") + b"\n" for line in lines)).text
        mentions = _starts(_compiled(_mentions()), text)
        _, still_open = follow(text, 0, passage.tracebacks, mentions)
        return Passage(
            tracebacks=tuple(replace(each, frame=None, own=False, tail=()) for each in still_open),
            rows=_rows_left(text, passage.rows),
        )


def prefilter(pack: Pack, scope: Scope, also: Sequence[str] = ()) -> Prefilter:
    """What must travel of logs of a kind.

    Args:
        pack: The rules in force, those of the site included.
        scope: The kind of log.
        also: Patterns (RE2 syntax, within one line) of other lines that are wanted: what tells of progress.
    """
    rules = [rule for rule in pack.rules if scope in rule.scopes and not rule.traceback]
    found: list[Way] = []
    unfit: list[str] = []
    for name, pattern, folded in [
        *((rule.id, rule.pattern, rule.ignore_case) for rule in rules),
        *((each, each, False) for each in (*also, *([_mentions()] if scope is Scope.APPLICATION else []))),
    ]:
        try:
            found += ways(pattern, ignore_case=folded)
        except UnfitError:
            unfit.append(name)
    rows = [ROWS_THAT_COUNT] if any(rule.table for rule in rules) else []
    lines = "" if unfit else _shortest(found, [_ODD_BYTES, *rows])
    openings = [_mentions(), *rows] if scope is Scope.APPLICATION else rows
    return Prefilter(lines=lines, openings="|".join(openings), unfit=tuple(unfit))


def _shortest(found: Sequence[Way], others: Sequence[str]) -> str:
    """The most selective pattern that is short, else the shortest; empty where that is too long."""
    lines = ""
    for length in _ROUGHS:
        needed: dict[Need, None] = {}
        roughs: dict[str, None] = {}
        for way in found:
            if way.needs is not None and not any(map(is_common, way.needs)):
                needed |= dict.fromkeys(way.needs)
                continue
            text = way.rough(length)
            if way.needs is None or len(text) <= _LONGEST_ROUGH:
                roughs[text] = None
            else:
                needed |= dict.fromkeys(way.needs)
        lines = "|".join([*others, *sorted(roughs), *_alternatives(cover(needed))])
        if len(lines.encode()) <= WANTED_BYTES:
            return lines
    return lines if len(lines.encode()) <= MOST_BYTES else ""


def _alternatives(found: Cover) -> list[str]:
    texts = "|".join(text.translate(_QUOTED) for text in found.texts)
    return [*([f"[{found.letters}]"] if found.letters else []), *([f"(?i:{texts})"] if texts else [])]


@lru_cache(maxsize=1)
def _mentions() -> str:
    return "|".join(pattern.text for pattern in MENTIONS)


@lru_cache(maxsize=16)
def _compiled(pattern: str) -> Any:  # noqa: ANN401 - google-re2 ships no types
    return re2.compile(f"(?m:{pattern})".encode("ascii"), options(captures=False))


def _starts(pattern: Any, text: bytes) -> list[int]:  # noqa: ANN401 - google-re2 ships no types
    """Where the lines start that match."""
    starts, position = [], 0
    while position < len(text) and (found := pattern.search(text, position)):
        starts.append(line_start(text, found.end() - 1))
        position = line_end(text, found.end() - 1) + 1
    return starts


def _rows_left(text: bytes, before: int) -> int:
    """How many lines after a text are still needed for the sake of rows of failure tables."""
    rows = _starts(_compiled(ROWS_THAT_COUNT), text)
    lines_after = text.count(b"\n", line_end(text, rows[-1]) + 1) if rows else text.count(b"\n")
    return max(0, (LINES if rows else before) - lines_after)
