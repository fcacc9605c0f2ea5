"""The judgement of a case: whose fault it is, which nodes are suspect, and what would help (design 7)."""

from __future__ import annotations

from relance.domain.faults import FaultDomain, Remedy
from relance.domain.keys import stable_id
from relance.domain.verdicts import CaseFile, Verdict


def attribute(case: CaseFile) -> Verdict:
    """The verdict on a case file."""
    return Verdict(
        domain=FaultDomain.UNKNOWN,
        cause="unknown",
        summary="It cannot be told why the attempt failed.",
        remedy=Remedy.RESTART,
        remedy_reason="nothing speaks against another try",
        confidence=0.2,
        fingerprint=stable_id("fp", "unknown", case.attempt.job),
        restart_limit_without_progress=2,
    )
