"""Which node and rank a hit speaks of. A node is one of the allocation's, whatever the text says (design 7)."""

from __future__ import annotations

import re

from relance.attribution.symptoms import FROM_SCHEDULER
from relance.domain.faults import Scope
from relance.domain.findings import RuleHit
from relance.domain.verdicts import CaseFile

_NAMING = (Scope.SCHEDULER, Scope.DEVICE, Scope.NOTES)
"""The logs whose writers are no part of the job, and speak of nodes by name."""
_BOUNDARIES = ".-<:_"
_BEGINS = re.compile(r"\s{0,8}([A-Za-z][\w.-]*)(?::| ?\|) ")
"""A line that begins with the name of a host, as launchers over ssh write: it counts if it is one of the job's."""


def node_named(text: str | None, nodes: tuple[str, ...]) -> str | None:
    """The allocation's node that a piece of text names: itself, its full name, or one of its interfaces (`n3-ib0`)."""
    if not text:
        return None
    if text in nodes:
        return text
    matches = [node for node in nodes if text.startswith(node) and text[len(node)] in _BOUNDARIES]
    return max(matches, key=len, default=None)


def rank_of(hit: RuleHit) -> int | None:
    """The rank that logged a hit, or that the line is about."""
    if hit.rank is not None:
        return hit.rank
    return _number(hit, "task" if hit.symptom in FROM_SCHEDULER else "rank")


def node_of(hit: RuleHit, case: CaseFile) -> str | None:
    """The node that a hit happened on.

    The scheduler's own line is believed about the node that it names. Otherwise path and label come first, then the
    rank's place in the allocation, then a host in the line's prefix.
    """
    named = node_named(hit.captures.get("node"), case.nodes)
    if named is not None and (hit.symptom in FROM_SCHEDULER or hit.scope in _NAMING):
        return named
    if hit.node is not None:
        return node_named(hit.node, case.nodes) if case.nodes else hit.node
    host = node_named(hit.captures.get("host"), case.nodes)
    if host is not None and _is_of_task(hit):
        return host
    placed = _node_of_rank(rank_of(hit), case)
    if placed is not None:
        return placed
    if host is not None:
        return host
    begins = _BEGINS.match(hit.excerpt)
    if begins is not None and begins[1] in case.nodes:
        return begins[1]
    return case.nodes[0] if len(case.nodes) == 1 else None


def node_of_named_rank(hit: RuleHit, case: CaseFile) -> str | None:
    """The node of the rank that the text points at, which need not be the rank that wrote it."""
    return _node_of_rank(rank_named(hit), case)


def rank_named(hit: RuleHit) -> int | None:
    """The rank that the text points at, else the one that wrote it."""
    pointed = _number(hit, "rank")
    return pointed if pointed is not None else rank_of(hit)


def _is_of_task(hit: RuleHit) -> bool:
    """Whether the rank is only srun's number of the task, which is a rank only where a task is one."""
    return "rank" not in hit.captures and hit.captures.get("task") == str(hit.rank)


def _node_of_rank(rank: int | None, case: CaseFile) -> str | None:
    node = None if rank is None else case.rank_to_node.get(rank)
    return node if not case.nodes or node in case.nodes else None


def _number(hit: RuleHit, name: str) -> int | None:
    text = hit.captures.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None
