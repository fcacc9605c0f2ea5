"""First evidence: where the cause first shows, which is seldom where it is loudest (signatures.md 20.3)."""

from __future__ import annotations

from collections.abc import Iterable

from relance.attribution.clues import Clue
from relance.attribution.explanations import Explanation
from relance.attribution.symptoms import PRECURSORS, PROCESS_DEATHS, PROCESS_EXITS
from relance.domain.faults import FaultDomain, Role, Scope
from relance.domain.findings import RuleHit

SHOWN = 6
"""So many hits decide, for people to read."""
_OF_NODES = frozenset({FaultDomain.HARDWARE, FaultDomain.INTERCONNECT, FaultDomain.STORAGE, FaultDomain.SYSTEM})
_OWN = frozenset({FaultDomain.APPLICATION, FaultDomain.USER})
_SAME_EVENT_S = 120.0
_WRITTEN_TOGETHER_S = 1.0
"""Lines of one file this close in time are in the order in which they stand: ranks write side by side."""


def evidence_of(best: Explanation, others: Iterable[Explanation], clues: tuple[Clue, ...]) -> tuple[RuleHit, ...]:
    """The few hits that decide, the one where the cause first shows in front."""
    if best.first is None:
        return _on_suspects(best, clues)
    alike = [clue for clue in best.clues[1:] if clue.of_host or not best.first.of_host or clue.role is Role.ROOT]
    agreeing = [*alike, *(clue for clue in clues if clue not in best.clues and _agrees(clue, best))]
    first = _earliest(best.first, agreeing)
    hits = [first.hit]
    for clue in (best.first, *agreeing, *(item.clues[0] for item in others if item.clues and _shares(item, best))):
        if clue.hit not in hits:
            hits.append(clue.hit)
    return tuple(hits[:SHOWN])


def _on_suspects(best: Explanation, clues: Iterable[Clue]) -> tuple[RuleHit, ...]:
    """The lines that bear out what the scheduler says of a node."""
    named = {suspect.node for suspect in best.suspects}
    told = [clue for clue in clues if clue.may_be_cause and clue.node in named and not clue.outlived]
    ordered = sorted(told, key=lambda clue: (clue.hit.scope is Scope.NOTES, clue.at, clue.hit.file, clue.hit.offset))
    return tuple(clue.hit for clue in ordered[:SHOWN])


def _agrees(clue: Clue, best: Explanation) -> bool:
    """Whether a clue shows the same fault: the same end of a process, or the same kind of fault in the same place."""
    first = best.first
    if first is None or clue.outlived or clue.hit is first.hit:
        return False
    if first.is_death:
        return _is_same_end(clue, first)
    if clue.hit.symptom in PRECURSORS.get(best.cause, ()):
        return clue.hit.file == first.hit.file
    if clue.of_host and clue.hit.symptom == best.cause and clue.node == first.node:
        return True
    if not clue.may_be_cause or clue.hit.scope is Scope.NOTES:
        return False
    own = clue.hit.domain in _OWN and best.domain in _OWN
    of_nodes = clue.hit.domain in _OF_NODES and best.domain in _OF_NODES and clue.role is Role.ROOT
    same = clue.hit.symptom == best.cause and (best.domain not in _OF_NODES or clue.of_host or clue.role is Role.ROOT)
    return (own or of_nodes or same) and _is_there(clue, best)


def _is_same_end(clue: Clue, death: Clue) -> bool:
    """Whether a clue tells the end of the same process, in words of its own."""
    if clue.hit.symptom not in PROCESS_EXITS | PROCESS_DEATHS or clue.hit.file != death.hit.file:
        return False
    ours, its = death.hit.captures, clue.hit.captures
    if "pid" in ours and "pid" in its:
        return ours["pid"] == its["pid"]
    other_rank = clue.rank is not None and death.rank is not None and clue.rank != death.rank
    return not other_rank and clue.node == death.node


def _is_there(clue: Clue, best: Explanation) -> bool:
    """Whether a clue is on one of the suspects, or of the same many, at about the same time."""
    suspects = {suspect.node for suspect in best.suspects}
    first = best.first
    if suspects and clue.node not in suspects and not (clue.node is None and clue.role is Role.ROOT):
        return False
    return (
        first is None or not (clue.timed and first.timed) or abs((clue.at - first.at).total_seconds()) <= _SAME_EVENT_S
    )


def _earliest(first: Clue, agreeing: Iterable[Clue]) -> Clue:
    """The first of those by time; where times cannot be compared, the program's own line before a host's."""
    chosen = first
    for clue in agreeing:
        apart_s = (chosen.at - clue.at).total_seconds() if clue.timed and chosen.timed else 0.0
        one_end = clue.is_death and chosen.is_death
        if clue.hit.file == chosen.hit.file and (one_end or abs(apart_s) <= _WRITTEN_TOGETHER_S):
            earlier = clue.hit.offset < chosen.hit.offset
        elif clue.timed and chosen.timed:
            earlier = apart_s > 0
        else:
            earlier = chosen.of_host and not clue.of_host
        chosen = clue if earlier else chosen
    return chosen


def _shares(item: Explanation, best: Explanation) -> bool:
    named = {suspect.node for suspect in best.suspects}
    return bool(named & {suspect.node for suspect in item.suspects})
