"""Clues: rule hits placed in time and on nodes, with the role that is left to them after all else is known.

A hit's role in the pack says what it could mean; what it does mean depends on what came before it (signatures.md 20).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.attribution.symptoms import FROM_SCHEDULER, PROCESS_DEATHS
from relance.domain.faults import Role, Scope
from relance.domain.findings import RuleHit

CAUSES = (Role.ROOT, Role.MAYBE)
HOST_SCOPES = (Scope.KERNEL, Scope.DEVICE, Scope.METRICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """A hit with its place. `timed` says that `at` was written in the log; else it is when the line was read."""

    hit: RuleHit
    at: datetime
    timed: bool
    node: str | None
    rank: int | None
    role: Role
    outlived: bool = False
    """Training went on long after it."""
    in_teardown: bool = False
    """It came after the shut-down had begun."""
    foreign: bool = False
    """It is of another node, or so old that it is of another attempt."""

    @property
    def may_be_cause(self) -> bool:
        """Whether it can still name a cause."""
        return self.role in CAUSES

    @property
    def of_host(self) -> bool:
        """Whether a kernel, a device manager or an exporter of metrics says it, which no program of the job can."""
        return self.hit.scope in HOST_SCOPES

    @property
    def of_scheduler(self) -> bool:
        """Whether the scheduler wrote it."""
        return self.hit.scope is Scope.SCHEDULER or self.hit.symptom in FROM_SCHEDULER

    @property
    def is_death(self) -> bool:
        """Whether it tells the end of a process."""
        return self.hit.symptom in PROCESS_DEATHS


def lead_s(first: Clue, other: Clue) -> float:
    """By how many seconds `first` precedes `other`; by the times of reading where a line has no time of its own."""
    if first.timed and other.timed:
        return (other.at - first.at).total_seconds()
    return (other.hit.seen_at - first.hit.seen_at).total_seconds()
