"""What detectors are told of the attempt that they watch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from relance.domain.findings import RuleHit, Sign
from relance.domain.keys import AttemptKey
from relance.domain.limits import DivergenceLimits, HangLimits, SlowdownLimits

_SHIPPED = HangLimits()
_SLOWDOWN = SlowdownLimits()
_DIVERGENCE = DivergenceLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Meanings:
    """What rules mean to detectors, by their ids: `Watched.signs` and `Watched.isolating` of all attempts."""

    signs: Mapping[str, frozenset[Sign]] = field(default_factory=dict)
    isolating: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One attempt, with the facts and limits that bear on it. Times in seconds.

    `signs` gives, by the id of a rule, the independent signs that its hits are. `expects_steps` says that the attempt
    is known to report steps, because the job's earlier attempts did or its owner named a pattern. `has_incident` says
    that something is known to be wrong already, so that all evidence is wanted once the attempt is over. `is_paused`
    says that no progress is to be expected now: silence counts anew from when it goes on. `start_before_s` and
    `pause_before_s` are the longest start and the longest pause that earlier attempts of the workflow got over.
    `isolating` are the ids of rules whose node is to be left out once the attempt has ended. `are_steps_shipped` says
    that its steps are read from a store to which an agent on the node sends them, as it sends the node's metrics.
    """

    attempt: AttemptKey
    hang: HangLimits = _SHIPPED
    slowdown: SlowdownLimits = _SLOWDOWN
    divergence: DivergenceLimits = _DIVERGENCE
    nodes: tuple[str, ...] = ()
    signs: Mapping[str, frozenset[Sign]] = field(default_factory=dict)
    started_at: datetime | None = None
    ended_at: datetime | None = None
    hang_after_s: float | None = None
    durable_before: int | None = None
    expects_steps: bool = False
    has_incident: bool = False
    is_paused: bool = False
    ranks_per_node: int | None = None
    start_before_s: float | None = None
    pause_before_s: float | None = None
    isolating: frozenset[str] = frozenset()
    are_steps_shipped: bool = False

    def signs_of(self, hit: RuleHit) -> frozenset[Sign]:
        """The independent signs that a hit is."""
        return self.signs.get(hit.rule, frozenset())

    def is_over(self, now: datetime) -> bool:
        """Whether the attempt had ended by then."""
        return self.ended_at is not None and now >= self.ended_at

    def node_of(self, hit: RuleHit) -> str | None:
        """The attempt's node that a hit is of: by its place, by a host that it names, or by its rank."""
        if hit.node is not None:
            return self._named(hit.node)
        named = self._named(hit.captures.get("node")) or self._named(hit.captures.get("host"))
        return named if named is not None or hit.rank is None else self._of_rank(hit.rank)

    def _named(self, name: str | None) -> str | None:
        """The attempt's node of that name, or of its first part."""
        if name is None or name in self.nodes:
            return name
        short = name.partition(".")[0]
        return short if short in self.nodes else None

    def _of_rank(self, rank: int) -> str | None:
        """By block distribution over the nodes, as launchers do it; None where that is not known."""
        index = rank // self.ranks_per_node if self.ranks_per_node else len(self.nodes)
        return self.nodes[index] if 0 <= index < len(self.nodes) else None
