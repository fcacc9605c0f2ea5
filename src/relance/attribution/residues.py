"""Memory of a device that somebody else holds: a left-over of one node, unless all nodes or the job itself hold it.

A program that needs too much sees its own memory told by process number as well, on every node (signatures.md A001).
"""

from __future__ import annotations

from dataclasses import replace

from relance.attribution.clues import Clue
from relance.domain.faults import Role

_RESIDUE = "gpu_memory_residue"


def without_own_memory(clues: tuple[Clue, ...]) -> tuple[Clue, ...]:
    """Clues in which memory that the job itself holds, or that several of its nodes miss, speaks against no node."""
    own = {
        (clue.node, pid)
        for clue in clues
        if clue.hit.symptom != _RESIDUE and (pid := clue.hit.captures.get("pid")) is not None
    }
    held = [clue for clue in clues if clue.hit.symptom == _RESIDUE and clue.may_be_cause]
    everywhere = len({clue.node for clue in held if clue.node is not None}) > 1

    def left(clue: Clue) -> Clue:
        its_own = (clue.node, clue.hit.captures.get("pid")) in own
        return replace(clue, role=Role.CONTEXT) if clue in held and (everywhere or its_own) else clue

    return tuple(left(clue) for clue in clues) if held else clues
