"""Sentences for people."""

from __future__ import annotations

from relance.domain.faults import FaultDomain
from relance.domain.verdicts import Verdict


def faults_sentence(verdict: Verdict) -> str:
    """Whose fault it is, as one of the five sentences of operators.md 2a."""
    if verdict.domain in (FaultDomain.USER, FaultDomain.SCHEDULER):
        return "The scheduler or a person decided."
    return "It cannot be told whose fault it is."
