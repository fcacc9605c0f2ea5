"""Silence: nodes that nobody heard of while the others waited for somebody (signatures.md Q013, Q014, 20.1e).

The absent one is the suspect, not those that complain; but absence of a source is never evidence alone (20.16), so it
counts only beside a line that says that somebody was waited for.
"""

from __future__ import annotations

from relance.attribution.clues import Clue
from relance.attribution.explanations import Explanation, Trust
from relance.attribution.suspicions import heard_nodes
from relance.attribution.symptoms import WAITED_FOR_OTHERS, WAITED_IN_COLLECTIVE, words
from relance.domain.faults import FaultDomain, RestartHint
from relance.domain.verdicts import CaseFile, Presence, Strength, Suspect

SILENT_NODE = "node_did_not_join"
SILENT_RANK = "silent_rank"
_EARLIER_S = 120.0
"""A rank that fell silent this long before the others is who they waited for."""
_MOST = 0.5


def silence_explanations(case: CaseFile, clues: tuple[Clue, ...]) -> list[Explanation]:
    """The nodes or ranks that were missed, if few were and the others said that they waited."""
    presence = case.presence
    waits = [clue for clue in clues if clue.hit.symptom in WAITED_FOR_OTHERS and not clue.outlived]
    inside = [clue for clue in clues if clue.hit.symptom in WAITED_IN_COLLECTIVE and not clue.outlived]
    if presence is None or not (waits or inside) or len(case.nodes) < 2:  # noqa: PLR2004 - one node waits for nobody
        return []
    cause, nodes = SILENT_NODE, _silent_nodes(case)
    if not waits and len(nodes) != 1:
        nodes = ()  # many ranks wait without a word in the log; that one whole node said nothing is rare
    before_all = bool(waits)
    waits = waits or inside
    if not nodes:
        cause, nodes = SILENT_RANK, _fell_silent(case, presence)
    if not nodes:
        return []
    named = ", ".join(nodes)
    because = f"nothing was heard of {named} while others waited: {words(waits[0].hit.symptom)}"
    signed = {clue.node for clue in clues if clue.of_host and clue.may_be_cause and not clue.outlived}
    return [
        Explanation(
            trust=Trust.POINTER if before_all else Trust.MAYBE,
            domain=FaultDomain.SYSTEM if signed & set(nodes) else FaultDomain.UNKNOWN,
            cause=cause,
            hint=RestartHint.EXCLUDE,
            confidence=0.65 if before_all else 0.45,
            because=because,
            at=waits[0].at,
            clues=(waits[0],),
            suspects=tuple(
                Suspect(
                    node=node,
                    strength=Strength.HARD if node in signed else Strength.WEAK,
                    reason=f"silent while the others waited{', and its own log tells of trouble' * (node in signed)}",
                )
                for node in nodes
            ),
        )
    ]


def _silent_nodes(case: CaseFile) -> tuple[str, ...]:
    known = heard_nodes(case)
    silent = tuple(node for node in case.nodes if node not in known)
    return silent if len(known) > 1 and 0 < len(silent) <= _MOST * len(case.nodes) else ()


def _fell_silent(case: CaseFile, presence: Presence) -> tuple[str, ...]:
    """The nodes of the few ranks whose last line is long before the last lines of the others."""
    ends = presence.last_at
    if len(ends) < 4:  # noqa: PLR2004 - of so few ranks most may be quiet by nature
        return ()
    last = max(ends.values())
    quiet = [rank for rank, at in ends.items() if (last - at).total_seconds() > _EARLIER_S]
    if not quiet or len(quiet) > max(1, len(ends) // 4):
        return ()
    return tuple(dict.fromkeys(case.rank_to_node[rank] for rank in sorted(quiet) if rank in case.rank_to_node))
