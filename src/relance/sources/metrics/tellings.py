"""What was met, to whom it is told, and what was told already: each thing once to each attempt that it concerns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from relance.domain.findings import RuleHit
from relance.domain.keys import AttemptKey
from relance.domain.views import Assignment
from relance.ports.signals import Signal
from relance.rules.metric_rules import MetricRule, Test

Key = tuple[str, str, str | None]
"""Rule, node, device."""
GROWTH_QUIET_S = 600.0
"""A counter that has not grown for so long grows anew when it does."""
_MOMENT_KEPT_S = 3600.0
_AFTER_END_S = 60.0
"""A sign that came so soon after an attempt's end may still be of it."""
_QUEUED_AT_MOST = 1000
_HELD_AT_MOST = 50_000


def key_of(hit: RuleHit) -> Key:
    """What tells a hit apart from others at other times."""
    return hit.rule, hit.node or "", hit.device


@dataclass(slots=True)
class Condition:
    """One that was met: its hit with the time of the onset, and when it was last known to hold."""

    rule: MetricRule
    hit: RuleHit
    seen_at: float
    only: frozenset[AttemptKey] | None = None


@dataclass(slots=True)
class _Followed:
    assignment: Assignment
    queue: list[Signal] = field(default_factory=list)
    told: set[tuple[Key, int]] = field(default_factory=set)


class Tellings:
    """Conditions that hold, and the attempts that wait to be told of them."""

    def __init__(self, source: str, level_quiet_s: float) -> None:
        self._source = source
        self._level_quiet_s = level_quiet_s
        self._followed: dict[AttemptKey, _Followed] = {}
        self._on: dict[str, list[_Followed]] = {}
        self._held: dict[Key, Condition] = {}
        self._onsets: dict[Key, float] = {}
        self._held_until: dict[Key, float] = {}

    @property
    def nodes(self) -> Mapping[str, object]:
        """All nodes of followed attempts."""
        return self._on

    def on(self, node: str) -> list[Assignment]:
        """The attempts that hold a node."""
        return [each.assignment for each in self._on.get(node, ())]

    def follow(self, assignments: Sequence[Assignment]) -> None:
        """Follow exactly these. One that is new, or has begun since, is told what holds on its nodes."""
        known = self._followed
        self._followed = {}
        self._on = {}
        fresh = []
        for assignment in assignments:
            followed = known.get(assignment.attempt)
            if followed is None:
                followed = _Followed(assignment)
                fresh.append(followed)
            elif (followed.assignment.started_at, followed.assignment.nodes) != (
                assignment.started_at,
                assignment.nodes,
            ):
                fresh.append(followed)
            followed.assignment = assignment
            self._followed[assignment.attempt] = followed
            for node in assignment.nodes:
                self._on.setdefault(node, []).append(followed)
        if not fresh:
            return
        by_node: dict[str, list[Condition]] = {}
        for condition in self._held.values():
            by_node.setdefault(condition.hit.node or "", []).append(condition)
        for followed in fresh:
            for node in followed.assignment.nodes:
                for condition in by_node.get(node, ()):
                    self._tell(followed, condition)

    def holds(self, key: Key, seen_at: float) -> bool:
        """Whether a condition is known already to hold; then it does so still."""
        condition = self._held.get(key)
        if condition is None:
            return False
        condition.seen_at = max(condition.seen_at, seen_at)
        return True

    def meet(self, rule: MetricRule, hit: RuleHit, seen_at: float, only: frozenset[AttemptKey] | None = None) -> None:
        """Note that a condition is met, and tell those whom it concerns if it is new; `only` these attempts."""
        key, onset = key_of(hit), hit.when.timestamp()
        if rule.when.test.is_moment:
            if onset <= self._onsets.get(key, float("-inf")):
                return
            self._onsets[key] = onset
        elif self.holds(key, seen_at) or len(self._held) >= _HELD_AT_MOST:
            return
        condition = Condition(rule, hit, seen_at, only)
        self._held[key] = condition
        for followed in self._on.get(hit.node or "", ()):
            self._tell(followed, condition)

    def over(self, key: Key) -> None:
        """A condition is known to hold no longer."""
        self._held.pop(key, None)

    def held_until(self, key: Key) -> float:
        """When a condition held last that holds no longer, and was told."""
        return self._held_until.get(key, float("-inf"))

    def forget(self, now: float) -> None:
        """Let go of what has not held for a while: should it come again, it is told again."""
        self._held_until = {key: at for key, at in self._held_until.items() if now - at <= _MOMENT_KEPT_S}
        for key, condition in list(self._held.items()):
            test = condition.rule.when.test
            if test is Test.VANISHES:
                continue
            kept_s = _MOMENT_KEPT_S if test.is_moment else GROWTH_QUIET_S if test.is_growth else self._quiet(condition)
            if now - condition.seen_at > kept_s:
                del self._held[key]
                self._held_until[key] = condition.seen_at
                if test.is_moment:
                    self._onsets.pop(key, None)

    def queue(self, attempt: AttemptKey, signals: Iterable[Signal]) -> None:
        """Have an attempt told of something else."""
        followed = self._followed.get(attempt)
        if followed is not None:
            followed.queue += signals
            del followed.queue[:-_QUEUED_AT_MOST]

    def take(self, attempt: AttemptKey) -> tuple[Signal, ...]:
        """What an attempt was not told yet."""
        followed = self._followed.get(attempt)
        if followed is None or not followed.queue:
            return ()
        signals = tuple(followed.queue)
        followed.queue = []
        return signals

    def _quiet(self, condition: Condition) -> float:
        return max(self._level_quiet_s, min(condition.rule.for_s, 60.0))

    def _tell(self, followed: _Followed, condition: Condition) -> None:
        assignment, hit = followed.assignment, condition.hit
        if assignment.started_at is None or (condition.only is not None and assignment.attempt not in condition.only):
            return
        start, onset = assignment.started_at.timestamp(), hit.when.timestamp()
        if onset < start:
            if condition.rule.when.test.is_moment or condition.seen_at < start:
                return
            onset = start  # it held before, and holds still: for this attempt it begins with the attempt
        if assignment.ended_at is not None and onset > assignment.ended_at.timestamp() + _AFTER_END_S:
            return
        told = (key_of(hit), int(onset))
        if told in followed.told:
            return
        followed.told.add(told)
        rule, node, device = told[0]
        self.queue(
            assignment.attempt,
            [
                replace(
                    hit,
                    at=datetime.fromtimestamp(onset, UTC),
                    file=f"{self._source}/{rule}/{node}/{device or '-'}",
                    offset=int(onset),
                    line=None,
                )
            ],
        )
