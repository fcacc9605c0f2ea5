"""Set aside: lines that look like faults and were not taken for the cause, each with the reason why.

An operator who knows the logs asks "and what about this line?" before any other question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from relance.attribution.clues import CAUSES, Clue
from relance.attribution.places import node_named
from relance.attribution.placing import clues_of
from relance.attribution.symptoms import NOT_FAULTS
from relance.domain.faults import FaultDomain, Remedy, Role
from relance.domain.findings import RuleHit
from relance.domain.verdicts import CaseFile, Verdict

MOST = 50
"""So many rows are listed; more are no longer read."""


class Reason(Enum):
    """Why a line does not count, the most telling first: where there are too many, the last ones go."""

    OUTLIVED = "outlived"
    """Training went on after it."""
    RECOVERED = "recovered"
    """A later line takes it back."""
    OTHER_NODE = "other_node"
    """It is of a node that the job did not run on."""
    EARLIER = "earlier"
    """It is older than the attempt."""
    HARMLESS = "harmless"
    """Nothing shows that the job was harmed by it."""
    DECIDED = "decided"
    """A person or the scheduler had decided already."""
    BESIDE = "beside"
    """A line beside it says better what happened."""
    OUTWEIGHED = "outweighed"
    """It could be a cause, and other evidence is earlier or stronger."""
    TEARDOWN = "teardown"
    """Noise of the shut-down."""
    CONSEQUENCE = "consequence"
    """It is what a fault elsewhere looks like from here."""
    DIAGNOSTIC = "diagnostic"
    """Advice or a counter, never a cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A line that was set aside. `count` is how many such lines there are in the same file, of the same node."""

    hit: RuleHit
    reason: Reason
    node: str | None = None
    count: int = 1


_RANKED = tuple(Reason)


def set_aside(cases: Sequence[CaseFile], verdict: Verdict, most: int = MOST) -> tuple[SetAside, ...]:
    """What was set aside for a verdict on these cases, at most so many rows, the most telling first.

    Of several runs a line is listed only if it was set aside in each that has it. Like lines of a file are one row.
    """
    shown = {_place(hit) for hit in verdict.evidence}
    symptoms = {verdict.cause, *(hit.symptom for hit in verdict.evidence)}
    reasons: dict[tuple[object, ...], tuple[Clue, Reason | None]] = {}
    for case in cases:
        for clue in clues_of(case):
            known = reasons.get(_place(clue.hit))
            if known is None or known[1] is not None:
                reasons[_place(clue.hit)] = clue, _reason(clue, case, verdict, symptoms)
    rows: dict[tuple[object, ...], SetAside] = {}
    for clue, reason in sorted((found for at, found in reasons.items() if at not in shown), key=_order):
        if reason is None:
            continue
        key = reason, clue.hit.symptom, clue.node or clue.hit.node, clue.hit.file
        held = rows.get(key)
        rows[key] = SetAside(
            hit=held.hit if held else clue.hit,
            reason=reason,
            node=clue.node or clue.hit.node,
            count=held.count + 1 if held else 1,
        )
    return tuple(sorted(rows.values(), key=lambda row: _RANKED.index(row.reason))[:most])


def _reason(clue: Clue, case: CaseFile, verdict: Verdict, symptoms: Iterable[str]) -> Reason | None:
    """Why a clue was not taken for the cause; None: it was, or it is nothing that frightens."""
    hit = clue.hit
    if hit.role is Role.TEARDOWN or clue.in_teardown:
        return Reason.TEARDOWN
    if hit.role is Role.DIAGNOSTIC:
        return Reason.DIAGNOSTIC
    if hit.role is Role.CASCADE:
        return Reason.OUTLIVED if clue.outlived else Reason.CONSEQUENCE
    if hit.role not in CAUSES or hit.symptom in NOT_FAULTS or hit.domain is FaultDomain.NONE:
        return None
    if clue.outlived:
        return Reason.OUTLIVED
    if clue.may_be_cause:
        return _of_possible(clue, verdict, symptoms)
    return _of_lowered(clue, case)


def _of_lowered(clue: Clue, case: CaseFile) -> Reason:
    """Why a line that could name a cause no longer may."""
    hit = clue.hit
    if clue.of_host and case.nodes and hit.node is not None and node_named(hit.node, case.nodes) is None:
        return Reason.OTHER_NODE
    if any(one.role is clue.role for one in hit.beside):
        return Reason.BESIDE
    started = case.job.started_at if case.job is not None else None
    if clue.of_host and clue.timed and started is not None and clue.at < started:
        return Reason.EARLIER
    return Reason.RECOVERED if clue.role is Role.CONTEXT else Reason.CONSEQUENCE


def _of_possible(clue: Clue, verdict: Verdict, symptoms: Iterable[str]) -> Reason | None:
    """Why a line that may name a cause is not the verdict's."""
    if verdict.domain is FaultDomain.NONE:
        return Reason.HARMLESS
    if clue.hit.symptom in symptoms:
        return None
    if verdict.remedy is Remedy.NONE and verdict.domain in (FaultDomain.USER, FaultDomain.SCHEDULER):
        return Reason.DECIDED
    return Reason.OUTWEIGHED


def _place(hit: RuleHit) -> tuple[object, ...]:
    return hit.rule, hit.file, hit.offset, hit.node, hit.rank


def _order(found: tuple[Clue, Reason | None]) -> tuple[str, int, str, str, int]:
    """By place: the time of reading has no say."""
    hit = found[0].hit
    return hit.file, hit.offset, hit.rule, hit.node or "", -1 if hit.rank is None else hit.rank
