"""Which nodes a clue makes suspect, how strongly, and when none is (20.7, 20.9, 20.12, 20.13)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from relance.attribution.addresses import address_book, peer_of
from relance.attribution.clues import Clue, lead_s
from relance.attribution.devices import is_same, serial_of
from relance.attribution.places import node_named, node_of_named_rank
from relance.attribution.symptoms import OF_THE_HOST, OUT_OF_MEMORY, SAME_DEVICE_ONLY, UNANSWERED, words
from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import RuleHit
from relance.domain.verdicts import CaseFile, FleetSign, Strength, Suspect

WEAK_WINDOW = timedelta(days=7)
"""Weak evidence counts at its second time within this window (operators.md 3)."""
AT_ONCE_S = 10.0
"""Rows this close together are one event."""
_SHARE = 0.5
"""The share of a job's nodes from which on a row is nobody's in particular."""
_OTHER_OWNERS = 2
"""So many other owners with the same cause make it a shared one."""
_FLEET_WINDOW_S = 120.0
_OF_ONE_NODE = frozenset({FaultDomain.HARDWARE, FaultDomain.INTERCONNECT})
_SHARED_DOMAINS = frozenset({FaultDomain.STORAGE, FaultDomain.SYSTEM, FaultDomain.INTERCONNECT})


def alike(first: Clue, clues: Iterable[Clue]) -> tuple[Clue, ...]:
    """The clues with the same symptom as the first, at about the same time, one a node and rank; the first leads."""
    found: dict[tuple[str | None, int | None, str | None], Clue] = {}
    for clue in (first, *clues):
        near = abs(lead_s(first, clue)) <= AT_ONCE_S
        fresh = first.outlived or not clue.outlived
        if near and fresh and clue.hit.symptom == first.hit.symptom and clue.may_be_cause:
            found.setdefault((clue.node, clue.rank, clue.hit.device), clue)
    return tuple(found.values())


def is_widespread(group: tuple[Clue, ...], case: CaseFile) -> bool:
    """Whether a row shows on so many nodes or ranks at once that none of them can be its cause.

    Two nodes may both be broken, or be the two ends of one link: for hardware and links it takes more.
    """
    nodes = {clue.node for clue in group if clue.node is not None}
    ranks = {clue.rank for clue in group if clue.rank is not None}
    if group[0].hit.domain in _OF_ONE_NODE and len(nodes) <= 2:  # noqa: PLR2004 - one link has two ends
        return False
    many_nodes = len(nodes) >= 2 and len(nodes) >= _SHARE * len(case.nodes)  # noqa: PLR2004 - one node is one node
    per_node = max(1, len(case.rank_to_node) // max(1, len(case.nodes)))
    many_ranks = len(ranks) > per_node and len(ranks) >= _SHARE * len(case.rank_to_node)
    return many_nodes or many_ranks


def is_shared(group: tuple[Clue, ...], case: CaseFile) -> bool:
    """Whether a row is of a service that many use: it shows on many nodes at once, or on other owners' jobs, too."""
    hit = group[0].hit
    if hit.domain not in _SHARED_DOMAINS or hit.symptom in OF_THE_HOST:
        return False
    owners = {sign.owner for sign in case.fleet if _is_alike(sign, hit, case.as_of)}
    wide = is_widespread(group, case) and common_end(group, case, group) is None
    return wide or len(owners) >= _OTHER_OWNERS


def common_end(group: tuple[Clue, ...], case: CaseFile, others: Iterable[Clue]) -> str | None:
    """The one node that all reporters of a fault between two nodes name, if several others do (20.12)."""
    if group[0].hit.suspect not in (SuspectKind.PEER, SuspectKind.BOTH):
        return None
    partners = _partners(group, case, address_book(case, others))
    most = max((len(names) for names in partners.values()), default=0)
    busiest = [node for node, names in partners.items() if len(names) == most]
    return busiest[0] if len(busiest) == 1 and most > 1 else None


def is_local(group: tuple[Clue, ...], case: CaseFile) -> bool:
    """Whether a row about a shared service shows on one node only, while others of the job were heard to be at work.

    Then it is that node's way to the service that is broken (T001 to T012: self if alone, all if many nodes).
    """
    nodes = {clue.node for clue in group if clue.node is not None}
    if group[0].hit.suspect is not SuspectKind.ALL or len(nodes) != 1 or not case.nodes or not nodes <= set(case.nodes):
        return False
    return bool(heard_nodes(case) - nodes)


def heard_nodes(case: CaseFile) -> frozenset[str]:
    """The nodes of the job that wrote lines of its output, themselves or by their ranks."""
    if case.presence is None:
        return frozenset()
    by_rank = {case.rank_to_node[rank] for rank in case.presence.ranks if rank in case.rank_to_node}
    return (frozenset(by_rank) | case.presence.nodes) & frozenset(case.nodes)


def _is_alike(sign: FleetSign, hit: RuleHit, as_of: datetime) -> bool:
    near = abs((as_of - sign.at).total_seconds()) <= _FLEET_WINDOW_S
    return near and (sign.domain, sign.cause) == (hit.domain, hit.symptom)


def suspects_of(group: tuple[Clue, ...], case: CaseFile, others: tuple[Clue, ...]) -> tuple[Suspect, ...]:
    """The nodes that a group of like clues makes suspect. `others` are all clues, for a second sign on a node."""
    first = group[0]
    kind = first.hit.suspect
    if first.hit.symptom in OUT_OF_MEMORY and first.hit.restart is not RestartHint.EXCLUDE:
        return ()
    if first.hit.symptom in SAME_DEVICE_ONLY:
        return _one_each(((clue, clue.node) for clue in group if clue.hit.device), case, others)[:1]
    if kind is SuspectKind.ALL and is_local(group, case):
        heard = heard_nodes(case)
        found = _one_each(((clue, clue.node) for clue in group), case, others)
        return tuple(replace(item, strength=Strength.WEAK if item.node in heard else Strength.HARD) for item in found)
    named = kind is SuspectKind.PEER and (first.of_scheduler or "peer" not in first.hit.captures)
    if kind is SuspectKind.SELF or named:
        return _one_each(((clue, clue.node) for clue in group), case, others)
    if kind is SuspectKind.RANK:
        ranks = ((clue, node_of_named_rank(clue.hit, case) or clue.node) for clue in group)
        return _one_each(ranks, case, others)
    if kind in (SuspectKind.PEER, SuspectKind.BOTH):
        return _of_links(group, case, others)
    return ()


def strength_of(clue: Clue, node: str, others: tuple[Clue, ...]) -> Strength:
    """How strongly a clue points at a node: a root row that asks for exclusion, or two kinds of log that agree."""
    hint = clue.hit.restart is RestartHint.EXCLUDE
    if clue.role is Role.ROOT and hint:
        return Strength.HARD
    second = any(
        other.node == node and other.may_be_cause and other.hit.scope is not clue.hit.scope
        and not other.outlived and other.hit.restart is RestartHint.EXCLUDE
        for other in others
    )  # fmt: skip
    if not second and hint and clue.hit.scope is not Scope.APPLICATION:
        second = any(_misses(other, node) for other in others)
    return Strength.HARD if second else Strength.WEAK


def _misses(clue: Clue, node: str) -> bool:
    """Whether a rank of another node says that this node did not answer."""
    named = node_named(clue.hit.captures.get("peer"), (node,)) is not None
    return clue.hit.symptom in UNANSWERED and not clue.outlived and clue.node != node and named


def before(clue: Clue, node: str, serial: str | None, case: CaseFile) -> tuple[datetime, ...]:
    """When a node was suspected earlier, within the window; a fault that may be the program's needs the same device."""
    device = clue.hit.device
    same_device = clue.hit.symptom in SAME_DEVICE_ONLY
    since = case.as_of - WEAK_WINDOW
    history = [(suspect, at) for _, suspect, at in case.node_history]
    history += [(suspect, item.ended_at or case.as_of) for item in case.earlier for suspect in item.suspects]
    times = {
        at
        for suspect, at in history
        if since <= at <= case.as_of
        and (is_same(suspect, node, device, serial) if same_device else suspect.node == node)
    }
    return tuple(sorted(times))


def _one_each(
    pairs: Iterable[tuple[Clue, str | None]], case: CaseFile, others: tuple[Clue, ...]
) -> tuple[Suspect, ...]:
    """One suspect a node; the first clue on it speaks."""
    found: dict[str, Suspect] = {}
    for clue, node in pairs:
        if node is not None and node not in found:
            found[node] = _suspect(clue, node, case, others)
    return tuple(found.values())


def _suspect(clue: Clue, node: str, case: CaseFile, others: tuple[Clue, ...]) -> Suspect:
    device, serial = clue.hit.device, serial_of(node, clue.hit.device, others)
    what = words(clue.hit.symptom) + (f" on {device}" if device else "")
    return Suspect(
        node=node,
        strength=strength_of(clue, node, others),
        reason=f"{what}{_source(clue)}",
        device=device,
        serial=serial,
        before=before(clue, node, serial, case),
    )


def _source(clue: Clue) -> str:
    if clue.of_host:
        return ", says the node's own log"
    return f", says rank {clue.rank}" if clue.rank is not None else ""


def _of_links(group: tuple[Clue, ...], case: CaseFile, others: tuple[Clue, ...]) -> tuple[Suspect, ...]:
    """Faults between two nodes: the end that occurs with many partners, else the one with a sign of its own.

    With neither, both ends are suspect, but weakly: there may be no spares for two.
    """
    book = address_book(case, others)
    partners = _partners(group, case, book)
    spokesman = {
        node: next(clue for clue in group if node in (clue.node, peer_of(clue, case, book))) for node in partners
    }  # fmt: skip
    most = max((len(names) for names in partners.values()), default=0)
    busiest = [node for node, names in partners.items() if len(names) == most]
    signed = [
        node for node in partners if any(clue.of_host and clue.node == node and clue.may_be_cause for clue in others)
    ]  # fmt: skip
    chosen = busiest if len(busiest) == 1 else signed or busiest
    found = tuple(_suspect(spokesman[node], node, case, others) for node in sorted(chosen))
    certain = len(chosen) == 1 or bool(signed)
    return found if certain else tuple(replace(suspect, strength=Strength.WEAK) for suspect in found)


def _partners(group: tuple[Clue, ...], case: CaseFile, book: Mapping[str, str]) -> Mapping[str, set[str]]:
    """With whom each node was seen in a fault between two nodes."""
    partners: dict[str, set[str]] = defaultdict(set)
    for clue in group:
        ends = {peer_of(clue, case, book)}
        both = ends | {clue.node}
        for node in both if clue.hit.suspect is SuspectKind.BOTH else ends:
            if node is not None:
                partners[node] |= {other for other in both if other is not None and other != node}
    return partners
