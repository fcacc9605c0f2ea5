"""Odd ones out: the nodes that do something else than the others in a hang, and by which signs that shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from relance.detectors.watched import Watched
from relance.domain.faults import Scope
from relance.domain.findings import OddNode, RuleHit, Sign
from relance.domain.observations import Activity, OddDevice

AT_MOST: Final = 4
"""So many nodes are named."""
_OF_A_HOST: Final = frozenset({Sign.KERNEL, Sign.DEVICE, Sign.NODE_DOWN})
"""What a host says of itself counts unless most hosts say so; the others only where few are named."""
_OF_ITSELF: Final = frozenset({Sign.KERNEL, Sign.DEVICE})
_NAMING: Final = _OF_A_HOST | {Sign.NODE_SILENT, Sign.COLLECTIVE, Sign.STACKS}
_FEW: Final = 0.25
_CROWD: Final = 8
_BOTH_ENDS: Final = 2
_SAID: Final = {
    Sign.KERNEL: "its kernel tells of a fault",
    Sign.DEVICE: "its metrics tell of a fault",
    Sign.NODE_DOWN: "the scheduler lost it",
    Sign.NODE_SILENT: "its telemetry went silent",
    Sign.COLLECTIVE: "its ranks are not where the others wait",
    Sign.STACKS: "its stacks differ",
    Sign.GPU_SIGNATURE: "its GPUs do something else",
}
_DOES: Final = {
    Activity.IDLE: "its GPUs idle while the others wait",
    Activity.SPINNING: "its GPUs wait while the others idle",
    Activity.SILENT: "the metrics of its GPUs ended",
}


def is_few(nodes: int, watched: Watched) -> bool:
    """Whether so many nodes are few of the attempt's: what more of them show is nobody's in particular."""
    return 0 < nodes <= max(1.0, _FEW * len(watched.nodes))


def is_crowd(nodes: int, watched: Watched) -> bool:
    """Whether so many nodes tell of a fault of their own that it is one of what they share, such as their network."""
    return nodes > _BOTH_ENDS and (nodes >= _CROWD or 2 * nodes >= len(watched.nodes))


def odd_nodes(
    hits: Iterable[RuleHit], devices: Iterable[OddDevice], watched: Watched, troubled: int = 0
) -> tuple[OddNode, ...]:
    """The nodes that stand out, those by most signs first; few, or none. Words of the job itself name none.

    `troubled` is how many nodes told of faults of their own.
    """
    named: dict[Sign, set[str]] = defaultdict(set)
    for hit in hits:
        node = watched.node_of(hit)
        if node is not None and (hit.node is not None or hit.scope is not Scope.APPLICATION):
            for sign in watched.signs_of(hit) & _NAMING:
                named[sign].add(node)
    named[Sign.GPU_SIGNATURE] = {each.node for each in devices if each.node in watched.nodes}
    crowd = is_crowd(troubled, watched)
    telling = {
        sign: nodes
        for sign, nodes in named.items()
        if is_few(len(nodes), watched) or (sign in _OF_A_HOST and not is_crowd(len(nodes), watched))
    }
    if crowd:
        telling = {sign: nodes for sign, nodes in telling.items() if sign not in _OF_ITSELF}
    found = {node: frozenset(sign for sign, ones in telling.items() if node in ones) for node in watched.nodes}
    odd = [OddNode(node=node, by=by) for node, by in found.items() if by]
    odd.sort(key=lambda each: (not each.by & _OF_A_HOST, -len(each.by), each.node))
    return tuple(odd[:AT_MOST])


def words(odd: tuple[OddNode, ...], devices: Iterable[OddDevice]) -> str:
    """A sentence on who stands out; empty where nobody does."""
    does = {each.node: _DOES[each.activity] for each in devices if each.activity in _DOES}
    told = []
    for each in odd:
        signs = sorted(each.by, key=lambda sign: (sign not in _OF_A_HOST, sign.value))
        said = [does.get(each.node, _SAID[sign]) if sign is Sign.GPU_SIGNATURE else _SAID[sign] for sign in signs]
        told.append(f"{each.node} stands out: {', '.join(said)}")
    return "; ".join(told)
