"""What detectors are told of the attempt that they watch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from relance.domain.findings import RuleHit, Sign
from relance.domain.keys import AttemptKey
from relance.domain.limits import HangLimits

_SHIPPED = HangLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One attempt, with the facts and limits that bear on it. Times in seconds.

    `signs` gives, by the id of a rule, the independent signs that its hits are. `expects_steps` says that the attempt
    is known to report steps, because the job's earlier attempts did or its owner named a pattern. `has_incident` says
    that something is known to be wrong already, so that all evidence is wanted once the attempt is over. `is_paused`
    says that no progress is to be expected now: silence counts anew from when it goes on.
    """

    attempt: AttemptKey
    hang: HangLimits = _SHIPPED
    nodes: tuple[str, ...] = ()
    signs: Mapping[str, frozenset[Sign]] = field(default_factory=dict)
    ended_at: datetime | None = None
    hang_after_s: float | None = None
    durable_before: int | None = None
    expects_steps: bool = False
    has_incident: bool = False
    is_paused: bool = False

    def signs_of(self, hit: RuleHit) -> frozenset[Sign]:
        """The independent signs that a hit is."""
        return self.signs.get(hit.rule, frozenset())

    def is_over(self, now: datetime) -> bool:
        """Whether the attempt had ended by then."""
        return self.ended_at is not None and now >= self.ended_at
