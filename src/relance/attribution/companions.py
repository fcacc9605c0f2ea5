"""Companions: what a hit becomes beside those of other rules, as the pack says (signatures.md 20.11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase

from relance.attribution.clues import Clue, lead_s

BESIDE_S = 60.0
"""Rows of one node within this time belong together."""


def beside_others(clues: tuple[Clue, ...]) -> tuple[Clue, ...]:
    """Each clue with the role that its companions leave to it; of several that apply the first said counts."""
    ours = tuple(clue for clue in clues if not clue.foreign)
    return tuple(_beside(clue, ours) if clue.hit.beside and not clue.foreign else clue for clue in clues)


def are_together(one: Clue, other: Clue) -> bool:
    """Whether two clues may be of one event on one node; what is not known of place or time does not part them.

    Lines of one output of the job belong together however far apart they are: it has retries of many minutes.
    """
    apart = one.node is not None and other.node is not None and one.node != other.node
    alike = one.hit.file == other.hit.file and not one.of_host
    far = not alike and one.timed and other.timed and abs(lead_s(one, other)) > BESIDE_S
    return not apart and not far


def _beside(clue: Clue, clues: Iterable[Clue]) -> Clue:
    others = [other for other in clues if other.hit.rule != clue.hit.rule and are_together(clue, other)]
    for one in clue.hit.beside:
        if any(fnmatchcase(other.hit.rule, pattern) for other in others for pattern in one.rules):
            return replace(clue, role=one.role)
    return clue
