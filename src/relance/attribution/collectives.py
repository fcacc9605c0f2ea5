"""What ranks that waited in a collective tell together: who was not with them, or that they were in different ones.

A time-out says that somebody is late, never who; each rank's own line is a consequence (signatures.md P001, 20.1).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from relance.attribution.clues import Clue
from relance.attribution.explanations import Explanation, Trust
from relance.attribution.symptoms import WAITED_IN_COLLECTIVE
from relance.domain.faults import FaultDomain, RestartHint
from relance.domain.verdicts import CaseFile, Strength, Suspect

DID_NOT_JOIN = "collective_rank_missing"
MISMATCH = "collective_mismatch"
_MOST_HEARD = 0.6
"""The share of all ranks that must have waited before the others are missed: logs are often incomplete."""
_FEW = 0.25
"""At most this share of those that tell can be the odd ones."""
_MANY_MS = 10_000_000_000
_GROUP = re.compile(r"\bPG GUID ([\w.-]+)|\[PG (\d+) Rank")
_TRANSFERS = frozenset({"SEND", "RECV", "RECVANYSOURCE", "COALESCED"})
"""What two ranks do with each other: the one sends where the other receives, and their numbers are the pair's."""


def collective_explanations(case: CaseFile, clues: tuple[Clue, ...]) -> list[Explanation]:
    """Different collectives at the same place in the program, else the ranks that the others waited for."""
    waits = [clue for clue in clues if clue.hit.symptom in WAITED_IN_COLLECTIVE and not clue.outlived]
    if not waits:
        return []
    return _mismatches(waits) or _pointers(case, waits)


def started_at(clue: Clue) -> datetime | None:
    """When the collective of a time-out began: the line's time less its limit (attribution.md 3.4)."""
    told = clue.hit.captures.get("timeout_ms", "")
    if not clue.timed or not told.isdecimal() or int(told) > _MANY_MS:
        return None
    return clue.at - timedelta(milliseconds=int(told))


def _mismatches(waits: Iterable[Clue]) -> list[Explanation]:
    """Ranks that were in different collectives under one number: the program's order differs, no link is at fault.

    Numbers count by group, so only lines of one group are held against each other, where they name theirs.
    """
    by_place: dict[tuple[str, str], dict[str, Clue]] = defaultdict(dict)
    for clue in waits:
        seen = clue.hit.captures
        if "seq" in seen and "op" in seen and seen["op"].upper() not in _TRANSFERS:
            by_place[_group_of(clue), seen["seq"]].setdefault(seen["op"], clue)
    found = [ops for ops in by_place.values() if len(ops) > 1]
    if not found:
        return []
    ops = max(found, key=len)
    odd = min(ops.values(), key=lambda clue: (started_at(clue) or clue.at, clue.hit.offset))
    seq = odd.hit.captures["seq"]
    return [
        Explanation(
            trust=Trust.ROOT,
            domain=FaultDomain.APPLICATION,
            cause=MISMATCH,
            hint=RestartHint.NO,
            confidence=0.85,
            because=f"ranks were in different collectives at number {seq}: {', '.join(sorted(ops))}",
            at=started_at(odd) or odd.at,
            clues=(odd, *(clue for clue in ops.values() if clue is not odd)),
        )
    ]


def _group_of(clue: Clue) -> str:
    """The group of processes whose collective a line is about, as c10d names it; empty where it does not."""
    named = _GROUP.search(clue.hit.excerpt)
    return clue.hit.captures.get("group") or (named[1] or named[2] if named else "")


def _pointers(case: CaseFile, waits: list[Clue]) -> list[Explanation]:
    late = _behind(waits) or _absent(case, waits)
    nodes = tuple(dict.fromkeys(node for rank in late if (node := case.rank_to_node.get(rank)) is not None))
    if not late or len(nodes) > max(1, len(case.nodes) // 2):
        return []
    named = ", ".join(str(rank) for rank in sorted(late)[:8])
    because = f"rank {named} had not joined the collective that the others waited in"
    first = min(waits, key=lambda clue: (started_at(clue) or clue.at, clue.hit.offset))
    return [
        Explanation(
            trust=Trust.POINTER,
            domain=FaultDomain.UNKNOWN,
            cause=DID_NOT_JOIN,
            hint=RestartHint.OK,
            confidence=0.6,
            because=because,
            at=started_at(first) or first.at,
            clues=(first,),
            suspects=tuple(Suspect(node=node, strength=Strength.WEAK, reason=because) for node in nodes),
        )
    ]


def _behind(waits: Iterable[Clue]) -> frozenset[int]:
    """The few ranks that had asked for fewer collectives than the others: nothing of theirs was pending (P002)."""
    asked: Mapping[int, int] = {
        clue.rank: int(told)
        for clue in waits
        if clue.rank is not None and (told := clue.hit.captures.get("enqueued", "")).isdecimal()
    }
    if len(asked) < 3:  # noqa: PLR2004 - of two ranks neither is the odd one
        return frozenset()
    usual, _ = max(Counter(asked.values()).items(), key=lambda item: (item[1], item[0]))
    behind = frozenset(rank for rank, count in asked.items() if count < usual)
    return behind if len(behind) <= max(1, int(_FEW * len(asked))) else frozenset()


def _absent(case: CaseFile, waits: Iterable[Clue]) -> frozenset[int]:
    """The ranks that did not wait, where most others did."""
    rules = {clue.hit.rule for clue in waits}
    told = {rank for finding in case.findings for rule in rules for rank in finding.ranks.get(rule, ())}
    told |= {clue.rank for clue in waits if clue.rank is not None}
    world = frozenset(case.rank_to_node)
    if not world or len(told & world) < _MOST_HEARD * len(world):
        return frozenset()
    return world - told
