"""The choice among explanations: order of trust, and what came first (20.1, 20.3, 20.7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from relance.attribution.clues import Clue, lead_s
from relance.attribution.explanations import Explanation, Trust
from relance.domain.faults import FaultDomain
from relance.domain.verdicts import CaseFile

_WITH_S = 10.0
"""A root row of a host this long after a program's root line still came with it: kernel logs and clocks are coarse."""
_NODE_WITH_S = 2.0
_LATE_S = 120.0
"""A host's row this long after an end without a cause of its own explains that end, on the same node (20.11)."""


def choose(host: tuple[Explanation, ...], node: tuple[Explanation, ...], own: tuple[Explanation, ...], case: CaseFile
           ) -> tuple[Explanation, ...]:  # fmt: skip
    """All explanations, the chosen one first, the next best second."""
    fresh = _fresh(own)
    root = next((item for item in fresh if item.trust is Trust.ROOT), None)
    hosts = _fresh(host)
    best = _host_first(hosts, root, fresh, case) or _node_first(_fresh(node), root) or _own_first(fresh, hosts)
    if best is None:
        return ()
    everything = [*host, *node, *own]
    rest = sorted((item for item in everything if item.cause != best.cause), key=lambda item: item.trust)
    return (best, *rest)


def _fresh(explanations: Iterable[Explanation]) -> tuple[Explanation, ...]:
    """Those that training did not go on after."""
    return tuple(item for item in explanations if item.first is None or not item.first.outlived)


def _host_first(
    host: tuple[Explanation, ...], root: Explanation | None, own: tuple[Explanation, ...], case: CaseFile
) -> Explanation | None:
    """A host's own root row in time before or with the first fault of the program; or late, where that has no cause."""
    rows = [item for item in host if item.trust is Trust.HOST]
    if root is not None and root.domain in (FaultDomain.APPLICATION, FaultDomain.USER):
        rows = [item for item in rows if _is_early(item, root)]
    elif own:
        rows = [item for item in rows if _is_early(item, own[0]) or _explains_late(item, own[0], case)]
    return min(rows, key=_when, default=None)


def _node_first(node: tuple[Explanation, ...], root: Explanation | None) -> Explanation | None:
    """A node that the scheduler lost, unless the program's own root line came before that."""
    for item in sorted(node, key=_when):
        if root is None or item.at is None or root.at is None:
            return item
        if (root.at - item.at).total_seconds() > -_NODE_WITH_S or not root.is_own:
            return item
    return None


def _own_first(own: tuple[Explanation, ...], host: tuple[Explanation, ...]) -> Explanation | None:
    """The job's own side: its first root line, a pointer, then a host's doubtful row, then what can be either."""
    died = any(item.first is not None and item.first.is_death for item in own)
    named = [item for item in own if not (died and _may_be_the_dead_peer(item))]
    weak = [item for item in host if item.trust is Trust.HOST_WEAK]
    ranked = sorted([*named, *weak], key=_rank)
    shared = next((item for item in weak if item.shared), None)
    if shared is not None and ranked and ranked[0].trust is Trust.POINTER:
        return shared  # that many nodes lost a service says more than who was missed meanwhile
    return ranked[0] if ranked else None


def _may_be_the_dead_peer(item: Explanation) -> bool:
    """A doubtful network row, where a process has died: without a sign of the network it is that process (20.11)."""
    return item.trust is Trust.MAYBE and item.domain is FaultDomain.INTERCONNECT


def _rank(item: Explanation) -> tuple[int, float]:
    return item.trust, _when(item)


def _when(item: Explanation) -> float:
    return item.at.timestamp() if item.at is not None else float("inf")


def _is_early(row: Explanation, fault: Explanation) -> bool:
    first, other = row.first, fault.first
    if first is not None and not first.timed:
        return True
    if first is None or other is None:
        return row.at is None or fault.at is None or (fault.at - row.at).total_seconds() > -_WITH_S
    return lead_s(first, other) > -_WITH_S


def _explains_late(row: Explanation, fault: Explanation, case: CaseFile) -> bool:
    """Whether a later row of a host says why a process on that host, or on a node not known, had ended."""
    first, other = row.first, fault.first
    if first is None:
        return False
    if other is None:
        late_s = (row.at - fault.at).total_seconds() if row.at and fault.at else 0.0
        return late_s <= _LATE_S
    same = other.node is None or other.node == first.node or _names(fault, first)
    return same and -lead_s(first, other) <= _LATE_S and first.node in (*case.nodes, None)


def _names(fault: Explanation, clue: Clue) -> bool:
    return any(suspect.node == clue.node for suspect in fault.suspects)


def merged(best: Explanation, others: tuple[Explanation, ...]) -> Explanation:
    """The chosen explanation, surer where another kind of evidence points at the same node."""
    named = {suspect.node for suspect in best.suspects}
    agree = any(
        item.trust is not best.trust and named & {suspect.node for suspect in item.suspects} for item in others
    )  # fmt: skip
    return replace(best, confidence=min(0.97, best.confidence + 0.05)) if agree else best
