"""Which lines are wanted of a store, where not all of them are to travel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from relance.domain.faults import Scope
from relance.progress import wanted_patterns
from relance.rules.formats import Pack
from relance.rules.pushdown import Prefilter, prefilter


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What must travel of jobs' own logs and of kernel logs; None: everything.

    `progress` is a pattern (RE2 syntax) of the lines that tell of progress in a known way; it is part of what `own`
    lets pass. Of jobs of which none comes, samples of all lines are read; empty: of none.
    """

    own: Prefilter | None = None
    kernel: Prefilter | None = None
    progress: str = ""

    def prefilter(self, scope: Scope) -> Prefilter | None:
        """The prefilter of a kind of log; None: all lines are wanted."""
        found = self.kernel if scope is Scope.KERNEL else self.own
        return found if found is not None and found.lines else None

    def lines(self, scope: Scope, also: Sequence[str]) -> str:
        """The pattern for the store, `also` included; empty: all lines."""
        found = self.prefilter(scope)
        if found is None:
            return ""
        alternatives = "|".join(f"(?:{each})" for each in (found.lines, *also))
        return f"(?m:{alternatives})"  # an entry may have several lines


def wanted_of(pack: Pack) -> Wanted:
    """What must travel for the sake of these rules, and of progress in the known ways."""
    progress = wanted_patterns()
    return Wanted(
        own=prefilter(pack, Scope.APPLICATION, progress),
        kernel=prefilter(pack, Scope.KERNEL),
        progress="|".join(f"(?:{each})" for each in progress),
    )


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:  # noqa: ANN401 - google-re2 ships no types
    """A pattern as stores understand it, on the bytes of one line."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1 if pattern.isascii() else re2.Options.Encoding.UTF8
    options.log_errors = False
    options.never_capture = True
    return re2.compile(pattern.encode(), options)


def is_usable(pattern: str) -> bool:
    """Whether a pattern can be asked for."""
    try:
        compiled(pattern)
    except (re2.error, re.error):
        return False
    return True
