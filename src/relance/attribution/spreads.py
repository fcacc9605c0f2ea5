"""How far a fault of the program spread: on all ranks it is the program's, on one node's alone it is that node's.

The same fault on several nodes within seconds cannot come of them, and happens again (signatures.md 20.7, A048). And a
fault that is the program's as a rule is the GPU's where the same GPU has it again and again, and no other (20.9).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from relance.attribution.clues import CAUSES, Clue, lead_s
from relance.attribution.suspicions import AT_ONCE_S, common_end, is_widespread
from relance.attribution.symptoms import (
    DEVICE_MEMORY,
    MISTAKEN_EXCEPTIONS,
    MISTAKES,
    OF_THE_HOST,
    ON_ONE_NODE,
    OUT_OF_MEMORY,
    SAME_DEVICE_ONLY,
    TORN,
    words,
)
from relance.domain.faults import FaultDomain, RestartHint
from relance.domain.verdicts import CaseFile, Strength, Suspect

_BEGINNING_S = 1800.0
"""So long a job may prepare before its first step; later a step would have been told in words not known here."""
_FEW_STEPS = 5
_OWN = (FaultDomain.APPLICATION, FaultDomain.USER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What the spread of a group of like clues makes of what the pack says of one of them.

    `wide` says that none of the places can be the cause. `suspects` are the nodes that only the spread makes suspect.
    """

    domain: FaultDomain
    hint: RestartHint
    wide: bool = False
    suspects: tuple[Suspect, ...] = ()
    confirmable: bool = False


def spread_of(group: tuple[Clue, ...], case: CaseFile, clues: Iterable[Clue]) -> Spread:
    """What to make of the first clue of a group, by where the others of it are."""
    hit = group[0].hit
    everything = tuple(clues)
    if hit.symptom in SAME_DEVICE_ONLY and (one_gpu := _same_device(hit.symptom, everything)):
        return Spread(domain=FaultDomain.HARDWARE, hint=RestartHint.EXCLUDE, suspects=one_gpu)
    if hit.symptom in ON_ONE_NODE and _is_of_one_node(group, case):
        reason = f"only its ranks show {words(hit.symptom)}"
        # A node's own set-up stays as it is; what it sees of a shared file system may come right by itself.
        hard = ON_ONE_NODE[hit.symptom] is FaultDomain.SYSTEM
        strength = Strength.HARD if hard else Strength.WEAK
        found = tuple(Suspect(node=node, strength=strength, reason=reason) for node in sorted(_nodes(group)))
        return Spread(domain=ON_ONE_NODE[hit.symptom], hint=RestartHint.EXCLUDE, suspects=found)
    wide = is_widespread(group, case) and common_end(group, case, everything) is None
    if wide and hit.symptom in OF_THE_HOST:
        # No other node is better: the hosts are set up like that, or the program asks for too much.
        return Spread(domain=hit.domain, hint=RestartHint.NO, wide=True)
    if hit.restart is RestartHint.ONCE and hit.domain in _OWN and _is_certain_to_repeat(group, case, everything):
        confirmable = not _is_at_the_beginning(group[0], case)
        return Spread(domain=hit.domain, hint=RestartHint.NO, wide=wide, confirmable=confirmable)
    torn = hit.symptom in TORN and case.progress is not None and not case.progress.steps_seen
    hint = RestartHint.NO if torn and hit.restart is RestartHint.ONCE else hit.restart
    return Spread(domain=hit.domain, hint=hint, wide=wide)


def _is_certain_to_repeat(group: tuple[Clue, ...], case: CaseFile, clues: tuple[Clue, ...]) -> bool:
    """Whether a fault of the program comes again: a mistake by its kind, on several nodes at once, or at the beginning.

    Memory that ran out may suffice the next time, unless it did not for several ranks in the first steps. That of
    devices is asked for by the program alone, so that it ran out on several nodes at once is no chance.
    """
    first = group[0]
    together = [
        clue
        for clue in clues
        if clue.hit.domain in _OWN
        and clue.hit.role in CAUSES
        and not clue.outlived
        and abs(lead_s(first, clue)) <= AT_ONCE_S
    ]
    everywhere = len(_nodes(group)) > 1 and is_widespread(group, case)
    everywhere = everywhere or (not _nodes(group) and len(_nodes(tuple(together))) > 1)
    beginning = _is_at_the_beginning(first, case)
    if first.hit.symptom in OUT_OF_MEMORY:
        logs = {clue.hit.file for clue in together if clue.hit.symptom == first.hit.symptom}
        several = everywhere or len({clue.rank for clue in group if clue.rank is not None}) > 1 or len(logs) > 1
        stepped = case.progress is not None and case.progress.steps_seen > 0
        at_once = everywhere and stepped and first.hit.symptom in DEVICE_MEMORY
        return at_once or (several and (beginning or _has_hardly_begun(case, timed=first.timed)))
    return everywhere or beginning or _is_mistake(first)


def _is_mistake(clue: Clue) -> bool:
    """Whether a fault is one that the same code meets again with the same data."""
    if clue.hit.symptom in MISTAKES:
        return True
    named = clue.hit.captures.get("exception", "").rpartition(".")[2]
    return clue.hit.symptom == "python_exception" and named in MISTAKEN_EXCEPTIONS


def _has_hardly_begun(case: CaseFile, *, timed: bool) -> bool:
    """Whether it made a few steps at most; without any, only where no time says how long it ran."""
    if case.progress is None or case.progress.steps_seen > _FEW_STEPS:
        return False
    return bool(case.progress.steps_seen) or not timed


def _is_at_the_beginning(clue: Clue, case: CaseFile) -> bool:
    """Whether a fault came soon after the job's output began, and before any step."""
    began = case.presence.first_at if case.presence is not None else None
    if began is None or not clue.timed or case.progress is None or case.progress.steps_seen:
        return False
    return 0 <= (clue.at - began).total_seconds() <= _BEGINNING_S


def _same_device(symptom: str, clues: Iterable[Clue]) -> tuple[Suspect, ...]:
    """The node whose one GPU had the fault under several processes, while no other GPU had it."""
    told: dict[tuple[str | None, str | None], set[str]] = {}
    for clue in clues:
        elsewhere = clue.node is None and clue.hit.node is not None
        if clue.hit.symptom == symptom and clue.of_host and not elsewhere:
            told.setdefault((clue.node, clue.hit.device), set()).add(clue.hit.captures.get("pid", ""))
    if len(told) != 1:
        return ()
    ((node, device), processes) = next(iter(told.items()))
    if node is None or device is None or len(processes - {""}) < 2:  # noqa: PLR2004 - again is twice
        return ()
    reason = f"{words(symptom)} on {device} under {len(processes)} processes, and on no other GPU"
    return (Suspect(node=node, strength=Strength.HARD, reason=reason, device=device),)


def _is_of_one_node(group: tuple[Clue, ...], case: CaseFile) -> bool:
    """Whether ranks of one node show it, where the job has other nodes too.

    What only one rank does (the first rank saves, logs, downloads) is not told apart by its node.
    """
    ranks = {clue.rank for clue in group if clue.rank is not None}
    nodes = _nodes(group)
    first = case.rank_to_node.get(0)
    sure = group[0].hit.symptom in OF_THE_HOST and 0 not in ranks
    several = sure or len(ranks) != 1 or (0 not in ranks and len(case.rank_to_node) == len(case.nodes))
    return len(case.nodes) > 1 and len(nodes) == 1 and several and (first is None or first not in nodes)


def _nodes(group: tuple[Clue, ...]) -> frozenset[str]:
    return frozenset(clue.node for clue in group if clue.node is not None)
