"""What lines reading progress needs, for sources that can leave the others where they are."""

from __future__ import annotations

import re
from typing import Final

from relance.progress.announcements import MARKS
from relance.progress.dialects import Dialect, Mark
from relance.progress.frameworks import DIALECTS, LEARNED, marks_of
from relance.progress.readers import ReaderState

LEARNABLE: Final = r"(?i:step|iter|batch|epoch|update)"
"""Lines from which steps may be learned, where only candidates arrive: those with a word for them."""
_NARROWER: Final = {
    "generic": r"(?:step|iter|iteration)s?[ =:#].*[Ll]oss[ =:]",
    "generic-loss-first": r"\bloss[ =:].*\bstep[ =:]",
    "epochs": r"[Ee]poch:? ?\[?\d",
    "transformers": r"%\|.*\[|\{'loss': ",
    "torchtitan": r"step: *[\d,]+ +loss:",
    "composer": r"\[batch=\d|Train (?:loss/train/total|throughput/\w+_per_sec): ",
    "composer-batches": r"Train (?:time/batch|loss/train/total|throughput/\w+_per_sec): ",
    "megatron": r"iteration +\d+/",
}
"""For these the literals alone would let too much pass."""


def wanted_patterns(own: str | None = None, state: ReaderState | None = None) -> tuple[str, ...]:
    """Patterns (RE2 syntax, within one line, letter case as it stands) of which each line that is needed matches one.

    They are for lines without colour codes and carriage returns.

    Args:
        own: A step pattern of the site or the job.
        state: Where reading stands: with a dialect that is known, fewer lines are needed. None: at its beginning.
    """
    name = None if state is None else state.dialect
    known = next((dialect for dialect in DIALECTS if dialect.name == name), None) if own is None else None
    steps: list[str] = []
    if own is not None:
        steps = [own]
    elif known is not None:
        steps = [pattern for each in DIALECTS if each.name in (known.name, known.yields_to) for pattern in _of(each)]
    else:
        steps = [pattern for dialect in DIALECTS for pattern in _of(dialect)]
        steps.append(LEARNABLE)
        if name == LEARNED and state is not None and state.learning.shape is not None:
            steps.append(state.learning.shape.pattern)
    marks = [_unnamed(mark.pattern) for mark in _marks(own, known)]
    return tuple(dict.fromkeys([*(_unnamed(each) for each in steps), *marks]))


def wanted_literals(dialect: str | None = None) -> tuple[bytes, ...]:
    """Literals, letter case as it stands, of which each step line of a dialect has one; None: of all dialects."""
    named = [each for each in DIALECTS if dialect in (None, each.name)]
    return tuple(dict.fromkeys(literal for each in named for literal in each.literals))


def _marks(own: str | None, known: Dialect | None) -> tuple[Mark, ...]:
    """The marks that count: those of any framework while its steps may still be recognised."""
    if own is not None or known is not None:
        return marks_of(known)
    return tuple(mark for marks in MARKS.values() for mark in marks)


def _of(dialect: Dialect) -> tuple[str, ...]:
    if dialect.name in _NARROWER:
        return (_NARROWER[dialect.name],)
    return tuple(re.escape(literal.decode("ascii")) for literal in dialect.literals)


def _unnamed(pattern: str) -> str:
    """The same pattern without names of groups, which may come twice in one that is made of many."""
    return re.sub(r"\(\?P<\w+>", "(?:", pattern)
