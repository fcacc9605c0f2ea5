"""Accusations: a peer that several nodes name, though no line says what is wrong with it (signatures.md 20.12).

A connection that broke tells of two ends, and who tells is seldom who is to blame. The end that many name is.
"""

from __future__ import annotations

from collections import defaultdict

from relance.attribution.addresses import address_book, peer_of
from relance.attribution.clues import Clue
from relance.attribution.explanations import Explanation, Trust
from relance.attribution.suspicions import heard_nodes
from relance.attribution.symptoms import ODD_ON_ONE_NODE, UNANSWERED, words
from relance.domain.faults import RestartHint, Role, SuspectKind
from relance.domain.verdicts import CaseFile, Strength, Suspect

_FEWEST = 2
_FEWEST_HEARD = 3


def accusation_explanations(case: CaseFile, clues: tuple[Clue, ...]) -> list[Explanation]:
    """The one node that at least two others name as the end that did not answer, or closed its connections."""
    book = address_book(case, clues)
    named: dict[str, list[Clue]] = defaultdict(list)
    for clue in clues:
        if clue.hit.suspect is not SuspectKind.PEER or clue.outlived or clue.role not in (Role.MAYBE, Role.CASCADE):
            continue
        peer = peer_of(clue, case, book)
        if peer is not None and peer != clue.node and clue.node is not None:
            named[peer].append(clue)
    by_node = {peer: {clue.node for clue in told} for peer, told in named.items()}
    most = max((len(nodes) for nodes in by_node.values()), default=0)
    accused = [peer for peer, nodes in by_node.items() if len(nodes) == most]
    if most < _FEWEST or len(accused) != 1:
        return []
    peer = accused[0]
    first = named[peer][0]
    silent = [clue for clue in named[peer] if clue.hit.symptom in UNANSWERED]
    hard = len({clue.node for clue in silent}) >= _FEWEST
    reason = f"{most} nodes name it: {words((silent or named[peer])[0].hit.symptom)}"
    return [
        Explanation(
            trust=Trust.POINTER,
            domain=first.hit.domain,
            cause=first.hit.symptom,
            hint=RestartHint.EXCLUDE if hard else RestartHint.OK,
            confidence=0.65 if hard else 0.5,
            because=f"{most} nodes name {peer}",
            at=first.at,
            clues=tuple(named[peer]),
            suspects=(Suspect(node=peer, strength=Strength.HARD if hard else Strength.WEAK, reason=reason),),
        )
    ]


def oddity_explanations(case: CaseFile, clues: tuple[Clue, ...]) -> list[Explanation]:
    """The one node of several that is set up in another way than all others, where they failed to work together."""
    if len(heard_nodes(case)) < _FEWEST_HEARD:
        return []
    found = []
    for symptom in sorted(ODD_ON_ONE_NODE):
        told = [clue for clue in clues if clue.hit.symptom == symptom and clue.node is not None]
        nodes = {clue.node for clue in told}
        if len(nodes) != 1:
            continue
        node = next(iter(nodes)) or ""
        reason = f"it alone says {words(symptom)}"
        found.append(
            Explanation(
                trust=Trust.POINTER,
                domain=told[0].hit.domain,
                cause=symptom,
                hint=RestartHint.EXCLUDE,
                confidence=0.6,
                because=f"{node} alone says {words(symptom)}",
                at=told[0].at,
                clues=tuple(told),
                suspects=(Suspect(node=node, strength=Strength.HARD, reason=reason),),
            )
        )
    return found
