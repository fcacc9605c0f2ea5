"""What a person could type after a verdict with hard evidence against a node; Relance never does it by itself. Pure."""

from __future__ import annotations

import shlex

from relance.domain.requests import RequestKind
from relance.domain.verdicts import Strength, Verdict
from relance.recovery import wordings
from relance.recovery.sites import ClusterRules

_FOR = "24h"
_REASON_CHARS = 120


def quarantines(verdict: Verdict | None, rules: ClusterRules) -> tuple[str, ...]:
    """A ready command for each node against which the evidence is hard, where the site lets people quarantine."""
    if verdict is None or RequestKind.RESERVE_NODES not in rules.requests:
        return ()
    return tuple(
        f"relance node quarantine {shlex.quote(suspect.node)} --for {_FOR}"
        f" --reason {shlex.quote(wordings.one_line(suspect.reason)[:_REASON_CHARS])}"
        for suspect in verdict.suspects
        if suspect.strength is Strength.HARD
    )
