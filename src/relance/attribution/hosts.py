"""Explanations by what hosts and the scheduler say of nodes: the most trusted answer to "who" (20.1, 20.11)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from relance.attribution.clues import Clue, lead_s
from relance.attribution.explanations import Explanation, Trust
from relance.attribution.suspicions import alike, is_local, is_shared, is_widespread, suspects_of
from relance.attribution.symptoms import ORDERS_OF_THE_DRIVER, words
from relance.domain.faults import FaultDomain, RestartHint, Role, SuspectKind
from relance.domain.verdicts import CaseFile, Strength, Suspect
from relance.domain.views import JobState, NodeState, NodeView

_COMPANION_S = 60.0
"""Rows of one node within this time belong together."""
_HOST_DOMAINS = frozenset({
    FaultDomain.HARDWARE, FaultDomain.INTERCONNECT, FaultDomain.STORAGE, FaultDomain.SYSTEM, FaultDomain.UNKNOWN,
})  # fmt: skip
_BROKEN = (NodeState.DOWN, NodeState.DRAINED)
_NAMELESS = frozenset({"node_failed"})
"""What the scheduler says to a job without the node: the one in its line is where the batch script ran."""
_AUTOMATIC = (None, "", "root", "slurm")
"""Who sets a node's state without being a person who plans; a health checker runs as root."""

_REASONS: tuple[tuple[re.Pattern[str], str, FaultDomain], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), cause, domain)
    for pattern, cause, domain in (
        (r"not responding", "node_unreachable", FaultDomain.HARDWARE),
        (r"unexpectedly rebooted", "node_rebooted", FaultDomain.HARDWARE),
        (r"kill task failed", "kill_task_failed", FaultDomain.SYSTEM),
        (r"(prolog|epilog) error", "prolog_failed", FaultDomain.SYSTEM),
        (r"low realmemory|gres/gpu count", "node_short", FaultDomain.HARDWARE),
        (r"\bnhc\b|health.?check|\bxid\b|\becc\b", "node_drained_by_check", FaultDomain.HARDWARE),
    )
)
"""What the scheduler and health checkers write as a node's reason (L022 to L029)."""


def host_explanations(case: CaseFile, clues: tuple[Clue, ...]) -> tuple[Explanation, ...]:
    """What the nodes' own logs say, one explanation a symptom, earliest first."""
    told = [
        clue for clue in clues
        if clue.of_host and clue.may_be_cause and clue.hit.domain in _HOST_DOMAINS
    ]  # fmt: skip
    rows = [clue for clue in told if clue.hit.symptom not in ORDERS_OF_THE_DRIVER]
    orders = [clue for clue in told if clue.hit.symptom in ORDERS_OF_THE_DRIVER]
    alone = [clue for clue in orders if not any(_are_companions(clue, row) for row in rows)]
    found: dict[str, Explanation] = {}
    for clue in sorted([*rows, *alone], key=lambda item: (item.outlived, item.role is Role.MAYBE, item.at)):
        if clue.hit.symptom not in found:
            found[clue.hit.symptom] = _of_row(clue, case, clues, orders)
    return tuple(found.values())


def node_explanations(case: CaseFile, clues: tuple[Clue, ...]) -> tuple[Explanation, ...]:
    """What the scheduler says of nodes: its lines in the job's output, its states and reasons of nodes."""
    told = [
        clue for clue in clues
        if clue.of_scheduler and clue.role is Role.ROOT and clue.hit.domain in _HOST_DOMAINS
    ]  # fmt: skip
    by_symptom: dict[str, Clue] = {}
    for clue in sorted(told, key=lambda item: (item.outlived, item.node is None, item.hit.suspect is SuspectKind.NONE)):
        by_symptom.setdefault(clue.hit.symptom, clue)
    found = [_of_statement(clue, case, clues) for clue in by_symptom.values()]
    found += [_of_state(view, case) for view in case.node_views if _is_lost(view, case)]
    job = case.job
    if not found and job is not None and job.state in (JobState.NODE_FAIL, JobState.BOOT_FAIL):
        cause = "node_failed" if job.state is JobState.NODE_FAIL else "boot_failed"
        found.append(
            Explanation(
                trust=Trust.NODE,
                domain=FaultDomain.HARDWARE,
                cause=cause,
                hint=RestartHint.EXCLUDE,
                confidence=0.7,
                because=f"the scheduler ended it as {job.state.value}, and does not say which node",
                at=job.ended_at,
            )
        )
    return _joined(_named(found))


def is_planned(view: NodeView) -> bool:
    """Whether a person or a plan took the node out: silence and loss there are expected, never a sign."""
    return view.state is NodeState.MAINTENANCE or view.set_by not in _AUTOMATIC


def is_expected(view: NodeView, case: CaseFile) -> bool:
    """Whether what the scheduler shows of a node is no evidence: a plan, or our own act, explains it."""
    return is_planned(view) or view.name in case.expected


def _of_row(clue: Clue, case: CaseFile, clues: tuple[Clue, ...], orders: Iterable[Clue]) -> Explanation:
    group = alike(clue, clues)
    domain, symptom = clue.hit.domain, clue.hit.symptom
    shared = is_shared(group, case)
    suspects = () if shared or is_widespread(group, case) else suspects_of(group, case, clues)
    ordered = [order for order in orders if any(_are_companions(order, item) for item in group)]
    if ordered:
        names = {order.node for order in ordered}
        suspects = tuple(_ordered(item) if item.node in names else item for item in suspects)
    root = clue.role is Role.ROOT
    return Explanation(
        trust=Trust.HOST if root or ordered else Trust.HOST_WEAK,
        domain=domain,
        cause=symptom,
        hint=RestartHint.EXCLUDE if ordered or is_local(group, case) else clue.hit.restart,
        confidence=(0.9 if root or ordered else 0.5) * _weighed(clue),
        because=f"the log of node {clue.node} itself says {words(symptom)}"
        if clue.node
        else f"a host's log says {words(symptom)}",
        at=clue.at,
        clues=(*group, *ordered),
        suspects=suspects,
        shared=shared,
    )


def _of_statement(clue: Clue, case: CaseFile, clues: tuple[Clue, ...]) -> Explanation:
    group = alike(clue, clues)
    shared = is_shared(group, case)
    return Explanation(
        trust=Trust.NODE,
        domain=clue.hit.domain,
        cause=clue.hit.symptom,
        hint=clue.hit.restart,
        confidence=0.85 * _weighed(clue),
        because=f"the scheduler says {words(clue.hit.symptom)}",
        at=clue.at,
        clues=group,
        suspects=() if shared else suspects_of(group, case, clues),
        shared=shared,
    )


def _of_state(view: NodeView, case: CaseFile) -> Explanation:
    cause, domain = next(
        ((cause, domain) for pattern, cause, domain in _REASONS if pattern.search(view.reason)),
        ("node_down", FaultDomain.HARDWARE),
    )
    reason = f"the scheduler lost it: {view.reason or view.state.value}"
    return Explanation(
        trust=Trust.NODE,
        domain=domain,
        cause=cause,
        hint=RestartHint.EXCLUDE,
        confidence=0.85,
        because=f"the scheduler shows node {view.name} as {view.state.value}: {view.reason or 'no reason given'}",
        at=view.since or (case.job.ended_at if case.job else None),
        suspects=(Suspect(node=view.name, strength=Strength.HARD, reason=reason),),
    )


def _is_lost(view: NodeView, case: CaseFile) -> bool:
    """Whether the scheduler lost a node of this attempt while it ran, without anybody's plan."""
    if view.name not in case.nodes or view.state not in _BROKEN or is_expected(view, case):
        return False
    known = any(pattern.search(view.reason) for pattern, _, _ in _REASONS)
    if view.state is NodeState.DRAINED and not known:
        return False
    started = case.job.started_at if case.job else None
    return view.since is None or started is None or view.since >= started


def _named(found: list[Explanation]) -> list[Explanation]:
    """That a node failed, which the scheduler's word to the job does not name, with the nodes that it lost."""
    lost = {
        suspect.node: suspect
        for item in found
        if item.domain is FaultDomain.HARDWARE and item.cause not in _NAMELESS
        for suspect in item.suspects
        if suspect.strength is Strength.HARD
    }
    return [
        replace(item, suspects=tuple(lost[node] for node in sorted(lost)))
        if item.cause in _NAMELESS and not item.suspects and not item.shared
        else item
        for item in found
    ]


def _joined(found: list[Explanation]) -> tuple[Explanation, ...]:
    """Several nodes lost for the same reason are one explanation with several suspects."""
    joined: dict[str, Explanation] = {}
    for item in found:
        known = joined.get(item.cause)
        if known is None:
            joined[item.cause] = item
            continue
        names = {suspect.node for suspect in known.suspects}
        more = tuple(suspect for suspect in item.suspects if suspect.node not in names)
        joined[item.cause] = Explanation(
            trust=known.trust, domain=known.domain, cause=known.cause, hint=known.hint, confidence=known.confidence,
            because=f"{known.because}; {item.because}", at=known.at, clues=known.clues,
            suspects=(*known.suspects, *more),
        )  # fmt: skip
    return tuple(joined.values())


def _are_companions(one: Clue, other: Clue) -> bool:
    return one.node == other.node and abs(lead_s(one, other)) <= _COMPANION_S


def _ordered(suspect: Suspect) -> Suspect:
    return Suspect(
        node=suspect.node, strength=Strength.HARD, reason=f"{suspect.reason}; the driver asks for a reset or reboot",
        device=suspect.device, before=suspect.before,
    )  # fmt: skip


def _weighed(clue: Clue) -> float:
    """A factor from the row's own weight: a doubtful row makes a doubtful verdict."""
    return 0.6 + 0.4 * min(1.0, max(0.0, clue.hit.weight))
