"""What the findings prove about life and death, and when the last line that bears on the cause was read (design 8)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.attribution.clues import Clue
from relance.attribution.hosts import is_expected
from relance.attribution.symptoms import IN_JOB_RESTARTS, IN_JOB_RESTARTS_OVER
from relance.domain.findings import Certainty, Finding, FindingKind, Sign
from relance.domain.stages import EndRunning
from relance.domain.verdicts import CaseFile
from relance.domain.views import NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Of what the attempt is proven dead or stuck, and since when."""

    kind: EndRunning
    at: datetime


def proof_of(case: CaseFile) -> Proof | None:
    """The best proof that the attempt cannot go on: a node lost, a process dead, or a confirmed hang."""
    found = [
        *_node_lost(case),
        *_by_sign(case.findings, Sign.PROCESS_DEATH, EndRunning.DEAD_RANK),
        *_hangs(case),
    ]
    return found[0] if found else None


def death_is_proven(case: CaseFile) -> bool:
    """Whether the launcher or the scheduler told that a process of the attempt ended."""
    return any(
        (Sign.PROCESS_DEATH in finding.signs or Sign.NODE_DOWN in finding.signs)
        and finding.kind is not FindingKind.NODE_HEALTH
        for finding in case.findings
    )


def last_root_at(clues: tuple[Clue, ...]) -> datetime | None:
    """When the newest first line of a rank or node that can name a cause was read; a repeat is nothing new."""
    firsts: dict[tuple[str | None, int | None, bool], datetime] = {}
    for clue in clues:
        if clue.may_be_cause:
            firsts.setdefault((clue.node, clue.rank, clue.of_host), clue.hit.seen_at)
    return max(firsts.values(), default=None)


def in_job_restart_at(clues: tuple[Clue, ...]) -> datetime | None:
    """When a restarter inside the job was last seen at work, if that was no earlier than the last root line."""
    seen = max((clue.hit.seen_at for clue in clues if clue.hit.symptom in IN_JOB_RESTARTS), default=None)
    given_up = any(clue.hit.symptom in IN_JOB_RESTARTS_OVER for clue in clues)
    last = last_root_at(clues)
    return None if seen is None or given_up or (last is not None and seen < last) else seen


def _node_lost(case: CaseFile) -> list[Proof]:
    lost = [
        Proof(kind=EndRunning.NODE_LOST, at=view.since or case.as_of)
        for view in case.node_views
        if view.name in case.nodes and view.state is NodeState.DOWN and not is_expected(view, case)
    ]
    return lost[:1] if lost else _by_sign(case.findings, Sign.NODE_DOWN, EndRunning.NODE_LOST)


def _by_sign(findings: tuple[Finding, ...], sign: Sign, kind: EndRunning) -> list[Proof]:
    """The first finding with that sign; what a job was seen to go on after proves nothing about it."""
    return [
        Proof(kind=kind, at=finding.first_evidence_at)
        for finding in findings
        if sign in finding.signs and finding.kind is not FindingKind.NODE_HEALTH
    ][:1]


def _hangs(case: CaseFile) -> list[Proof]:
    """A hang is proven when it is confirmed: what was saved after its last step and before does not deny it.

    That a node fell silent confirms nothing where a plan, or our own act, explains it.
    """
    expected = frozenset(view.name for view in case.node_views if is_expected(view, case))
    return [
        Proof(kind=EndRunning.HANG, at=finding.progress.as_of if finding.progress else finding.symptom_at)
        for finding in case.findings
        if finding.kind is FindingKind.HANG and finding.certainty is Certainty.CONFIRMED
        if not _rests_on(finding, expected)
    ][:1]


def _rests_on(finding: Finding, expected: frozenset[str]) -> bool:
    """Whether a hang is confirmed by the silence of nodes alone of which silence is expected."""
    if not finding.signs or not finding.signs <= {Sign.NODE_SILENT}:
        return False
    silent = frozenset(odd.node for odd in finding.odd)
    return bool(expected & silent) if silent else bool(expected)
