"""Slow and still: what monitors and metrics say of a job that made no error and no way.

Slow is not broken: without a sign on a node it is nobody's fault. But a job that is slow where one node alone shows why
is better off without that node (signatures.md M016 to M028, T034).
"""

from __future__ import annotations

from dataclasses import replace

from relance.attribution.clues import Clue
from relance.attribution.explanations import Explanation, Trust
from relance.attribution.symptoms import NO_PROGRESS, SLOW, STANDSTILLS, words
from relance.domain.faults import FaultDomain, RestartHint, Scope
from relance.domain.findings import Finding, FindingKind
from relance.domain.verdicts import CaseFile, Strength, Suspect

_CAPTURE = "slow"
_SLOWER = 1.3
"""So many times longer than before is slow: the wandering of a healthy job's steps stays below (numbers.md)."""


def standstill_explanations(case: CaseFile, clues: tuple[Clue, ...]) -> list[Explanation]:
    """A job that stands still: the GPUs of most nodes wait or idle, or a monitor says that nothing goes on."""
    if case.job is not None and case.job.state.is_over:
        return []
    told = [clue for clue in clues if clue.hit.symptom in NO_PROGRESS and not clue.outlived]
    signs = [clue for clue in clues if clue.hit.symptom in STANDSTILLS and not (clue.outlived or clue.foreign)]
    nodes = {clue.node for clue in signs if clue.node is not None}
    if not told and (not nodes or 2 * len(nodes) < len(case.nodes)):
        return []
    because = (
        "a monitor says that it made no progress"
        if told
        else f"the GPUs of {len(nodes)} nodes wait without working: {words(signs[0].hit.symptom)}"
    )
    shown = tuple(told or signs)
    return [
        Explanation(
            trust=Trust.HANG,
            domain=FaultDomain.UNKNOWN,
            cause="hang_no_progress",
            hint=RestartHint.NOTHING,
            confidence=0.5,
            because=because,
            at=shown[0].at,
            clues=shown,
        )
    ]


def slowness_explanations(case: CaseFile, clues: tuple[Clue, ...]) -> list[Explanation]:
    """A job that is slow, or ended, and one node of several that alone shows what makes slow."""
    slow = is_slow(case, clues)
    ended = case.job is not None and case.job.state.is_failure
    signs = [clue for clue in _signs(clues) if slow or not clue.outlived]
    # That steps go on does not speak against slowness; an end they do not explain.
    signs = [replace(clue, outlived=False) for clue in signs]
    nodes = {clue.node for clue in signs if clue.node is not None}
    if not (slow or ended) or len(nodes) != 1 or len(case.nodes) < 2:  # noqa: PLR2004 - of one node none is odd
        return []
    first = min(signs, key=lambda clue: (clue.at, clue.hit.file, clue.hit.offset))
    (node,) = nodes
    kinds = sorted({words(clue.hit.symptom) for clue in signs})
    # Of a job that goes on no node is left out; a suspicion counts when it comes again (design 1).
    strength = Strength.WEAK if not ended and slowdown_of(case.findings) is not None else Strength.HARD
    reason = f"it alone shows {' and '.join(kinds[:3])} while the job was slow"
    return [
        Explanation(
            trust=Trust.HANG,
            domain=first.hit.domain,
            cause=first.hit.symptom,
            hint=RestartHint.EXCLUDE,
            confidence=0.6,
            because=f"only {node} shows {' and '.join(kinds[:3])}",
            at=first.at,
            clues=(first, *(clue for clue in signs if clue is not first)),
            suspects=(Suspect(node=node, strength=strength, reason=reason, device=first.hit.device),),
        )
    ]


def is_slow(case: CaseFile, clues: tuple[Clue, ...]) -> bool:
    """Whether the job is slow: by what a detector told of it, by the course of its log, or by a monitor's word."""
    told = slowdown_of(case.findings) is not None or (case.course.slower or 0.0) >= _SLOWER
    return told or any(clue.hit.symptom in SLOW for clue in clues)


def explains_slowness(explanation: Explanation) -> bool:
    """Whether an explanation is one of slowness by what metrics show of a node."""
    first = explanation.first
    return first is not None and explanation.trust is Trust.HANG and _is_sign(first)


def slowdown_of(findings: tuple[Finding, ...]) -> Finding | None:
    """The newest word on a slowdown, unless that is that it is over."""
    return _newest(findings, FindingKind.SLOWDOWN)


def divergence_of(findings: tuple[Finding, ...]) -> Finding | None:
    """The newest word on a loss that ran away, unless that is that it has come back."""
    return _newest(findings, FindingKind.DIVERGENCE)


def told_slowness(finding: Finding, case: CaseFile, clues: tuple[Clue, ...]) -> Explanation:
    """A job that is slow and goes on: nothing is done about it, and a node is named if it alone shows why."""
    found = next(iter(slowness_explanations(case, clues)), None)
    if found is not None:
        because = f"{finding.summary.partition(';')[0]}, and {found.because}"
        return replace(found, trust=Trust.EXIT, hint=RestartHint.NOTHING, because=because)
    signs = tuple(replace(clue, outlived=False) for clue in _signs(clues))
    because = finding.summary.partition(";")[0]
    nodes = {clue.node for clue in signs if clue.node is not None}
    many = f"{len(nodes)} nodes show {words(signs[0].hit.symptom)}, so that none stands out" if nodes else ""
    because += f"; {many or 'no node evidence'}"
    return Explanation(
        trust=Trust.EXIT,
        domain=FaultDomain.UNKNOWN,
        cause=finding.symptom,
        hint=RestartHint.NOTHING,
        confidence=0.6,
        because=because,
        clues=signs[:1],
    )


def slowness_reason(explanation: Explanation) -> str:
    """Why nothing is done about a job that is slow."""
    if not explanation.suspects:
        return "no node evidence: slow is not broken, so its owner is told"
    names = " and ".join(suspect.node for suspect in explanation.suspects)
    return f"slow is not broken, so its owner is told; {names} is to be looked at"


def _signs(clues: tuple[Clue, ...]) -> list[Clue]:
    """What metrics show of nodes that makes slow."""
    return [clue for clue in clues if _is_sign(clue)]


def _is_sign(clue: Clue) -> bool:
    return clue.hit.scope is Scope.METRICS and _CAPTURE in clue.hit.captures


def _newest(findings: tuple[Finding, ...], kind: FindingKind) -> Finding | None:
    """The newest of a kind, a further word on the same after the first; None where that says that it is over."""
    found = [item for item in findings if item.kind is kind]
    newest = max(found, key=lambda item: (item.symptom_at, len(item.hits), item.id), default=None)
    return None if newest is None or newest.over else newest
