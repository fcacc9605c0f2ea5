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
    """A job that is said to be slow, or ended, and one node of several that alone shows what makes slow."""
    slow = any(clue.hit.symptom in SLOW for clue in clues) or (case.course.slower or 0.0) >= _SLOWER
    ended = case.job is not None and case.job.state.is_failure
    signs = [
        # That steps go on does not speak against slowness; an end they do not explain.
        replace(clue, outlived=False)
        for clue in clues
        if clue.hit.scope is Scope.METRICS and _CAPTURE in clue.hit.captures and (slow or not clue.outlived)
    ]
    nodes = {clue.node for clue in signs if clue.node is not None}
    if not (slow or ended) or len(nodes) != 1 or len(case.nodes) < 2:  # noqa: PLR2004 - of one node none is odd
        return []
    first = min(signs, key=lambda clue: (clue.at, clue.hit.file, clue.hit.offset))
    (node,) = nodes
    kinds = sorted({words(clue.hit.symptom) for clue in signs})
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
            suspects=(Suspect(node=node, strength=Strength.HARD, reason=reason, device=first.hit.device),),
        )
    ]
