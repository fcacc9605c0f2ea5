"""How far a fault of the program spread: on all ranks it is the program's, on one node's alone it is that node's.

The same fault on several nodes within seconds cannot come of them, and happens again (signatures.md 20.7, A048).
"""

from __future__ import annotations

from dataclasses import dataclass

from relance.attribution.clues import Clue
from relance.attribution.suspicions import is_widespread
from relance.attribution.symptoms import ON_ONE_NODE, OUT_OF_MEMORY
from relance.domain.faults import FaultDomain, RestartHint
from relance.domain.verdicts import CaseFile

_OWN = (FaultDomain.APPLICATION, FaultDomain.USER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What the spread of a group of like clues makes of what the pack says of one of them."""

    domain: FaultDomain
    hint: RestartHint
    on_one_node: bool = False
    """Only ranks of one node among several show it, so that this node is suspect."""


def spread_of(group: tuple[Clue, ...], case: CaseFile) -> Spread:
    """What to make of the first clue of a group, by where the others of it are."""
    hit = group[0].hit
    if hit.symptom in ON_ONE_NODE and _is_of_one_node(group, case):
        return Spread(domain=ON_ONE_NODE[hit.symptom], hint=RestartHint.EXCLUDE, on_one_node=True)
    again = hit.restart is RestartHint.ONCE and hit.domain in _OWN and hit.symptom not in OUT_OF_MEMORY
    if again and len(_nodes(group)) > 1 and is_widespread(group, case):
        return Spread(domain=hit.domain, hint=RestartHint.NO)
    return Spread(domain=hit.domain, hint=hit.restart)


def _is_of_one_node(group: tuple[Clue, ...], case: CaseFile) -> bool:
    """Whether several ranks show it, all of one node, where the job has other nodes too.

    What only one rank does (the first rank saves, logs, downloads) is not told apart by its node.
    """
    ranks = {clue.rank for clue in group if clue.rank is not None}
    nodes = _nodes(group)
    first = case.rank_to_node.get(0)
    several = len(ranks) > 1 or (len(ranks) == 1 and 0 not in ranks and len(case.rank_to_node) == len(case.nodes))
    return len(case.nodes) > 1 and len(nodes) == 1 and several and (first is None or first not in nodes)


def _nodes(group: tuple[Clue, ...]) -> frozenset[str]:
    return frozenset(clue.node for clue in group if clue.node is not None)
