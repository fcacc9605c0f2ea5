"""Isolation: nodes that showed a sign of failing while the job went on, and are left out of its next attempt.

Such a sign, a row of memory that waits to be remapped or a fault that the job outlived, justifies no kill. When the
attempt has ended for another reason and is started again, it costs little to do without that node. The evidence is not
about what ended it: where there is too little room the job runs on the node all the same.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from relance.attribution.explanations import Explanation
from relance.attribution.remedies import Prescription
from relance.attribution.symptoms import words
from relance.domain.faults import Remedy
from relance.domain.findings import FindingKind
from relance.domain.verdicts import CaseFile, Strength, Suspect

_FEW = 0.25
"""What more than this share of an attempt's nodes show is how the site is made, and no node's own."""


def isolated(case: CaseFile, best: Explanation) -> tuple[Suspect, ...]:
    """The nodes of the attempt that are to be left out beside those that are suspect already, the first sign of each.

    They count as weak evidence at its second time, so that they are left out now, and taken back where they are needed.
    """
    known = {suspect.node for suspect in best.suspects}
    found: dict[str, Suspect] = {}
    shown: dict[str, set[str]] = defaultdict(set)
    for finding in case.findings:
        if finding.kind is FindingKind.NODE_HEALTH:
            shown[finding.symptom] |= {hit.node for hit in finding.hits if hit.node is not None} | set(finding.isolate)
    most = max(1.0, _FEW * len(case.nodes))
    for finding in case.findings:
        if finding.kind is not FindingKind.NODE_HEALTH or len(shown[finding.symptom]) > most:
            continue
        for node in finding.isolate:
            if node in case.nodes and node not in known:
                reason = (
                    f"{words(finding.symptom)} since {finding.symptom_at:%Y-%m-%d %H:%M} UTC, while the job went on"
                )
                found.setdefault(
                    node,
                    Suspect(
                        node=node,
                        strength=Strength.WEAK,
                        reason=reason,
                        device=finding.hits[0].device if finding.hits else None,
                        before=(finding.first_evidence_at,),
                        isolated=True,
                    ),
                )
    return tuple(found.values())


def with_isolation(prescription: Prescription, nodes: tuple[Suspect, ...]) -> Prescription:
    """The remedy with these nodes left out, where it is a restart."""
    if not nodes or not prescription.remedy.restarts:
        return prescription
    names = ", ".join(suspect.node for suspect in nodes)
    reason = f"{prescription.reason}; {names} showed a sign of failing before, and is left out"
    return replace(prescription, remedy=Remedy.RESTART_EXCLUDING, reason=reason)
