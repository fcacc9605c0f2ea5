"""Evidence: the hits of a disturbance, as many as a finding may carry, and counts for the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from relance.domain.faults import Role, Scope
from relance.domain.findings import MAX_HITS, RuleHit
from relance.domain.replacing import replace

CAUSES: Final = (Role.ROOT, Role.MAYBE)
"""The roles that can name a cause."""
HITS_OF_A_RULE: Final = 6
"""So many hits of one rule are kept beside the first of each rank and node."""
LONG_BYTES: Final = 64 * 1024
BYTES: Final = 224 * 1024
"""All hits together, as they are stored: beyond the first, texts are cut short, beyond the second hits are only counted
(design 13: 256 KiB of detector state)."""
LATE_S: Final = 120.0
LATE_GAPS: Final = 3.0
"""So long after a fault steps may be read that were made before it: logs lag, and metrics are told of a while later."""
RANKS_AT_MOST: Final = 8192
ADDRESSES_AT_MOST: Final = 64
_ADDRESS: Final = "address "
_WRITER: Final = re.compile(r"([A-Za-z][\w.-]{0,80}\d[\w.-]{0,80}):? ")
"""The host that a line of a kernel begins with, where the logs of many nodes were put into one."""
_TELLING: Final = (Role.ROOT, Role.MAYBE, Role.CASCADE, Role.CONTEXT)
"""The roles of rows that tell of their rank: a time-out's rank waited, a rank without one may be who was waited for."""
_HIT_BYTES: Final = 600
"""A hit without its texts, as it is stored."""
_ESCAPED: Final = 6
"""A character outside ASCII, as JSON writes it."""
_SHORT_EXCERPT_BYTES: Final = 120
_SHORT_CAPTURES_BYTES: Final = 80
_ORDER: Final = {Role.ROOT: 0, Role.MAYBE: 1, Role.CASCADE: 2, Role.CONTEXT: 3, Role.TEARDOWN: 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Hits in the order in which they were read; `counts` has every hit of every rule, also of those left out.

    `ranks` has the ranks that each rule was seen of, up to `RANKS_AT_MOST` in all.
    """

    hits: tuple[RuleHit, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    ranks: Mapping[str, frozenset[int]] = field(default_factory=dict)
    firsts: frozenset[str] = frozenset()
    """For which rank or node, and role, the first hit is here."""
    size_bytes: int = 0

    def add(self, hit: RuleHit) -> Evidence:
        """With one more hit: counted, and kept if it is a first or there is room."""
        counts = {**self.counts, hit.rule: self.counts.get(hit.rule, 0) + 1}
        counted = replace(self, counts=counts, ranks=self._ranks_with(hit))
        new = self._new_of(hit)
        if not new and (len(self.hits) >= MAX_HITS or self._kept(hit.rule) >= HITS_OF_A_RULE):
            return counted
        roomy = counted if len(self.hits) < MAX_HITS else _without_one(counted)
        if len(roomy.hits) >= MAX_HITS:
            return counted
        kept = hit if roomy.size_bytes + _size(hit) <= LONG_BYTES else _shortened(hit)
        if roomy.size_bytes + _size(kept) > BYTES:
            return counted
        return replace(
            roomy, hits=(*roomy.hits, kept), firsts=roomy.firsts | new, size_bytes=roomy.size_bytes + _size(kept)
        )

    def count(self, counts: Mapping[str, int]) -> Evidence:
        """With so many more lines of each rule that were counted and not given as hits."""
        if not counts:
            return self
        sums = {rule: self.counts.get(rule, 0) + counts.get(rule, 0) for rule in {**self.counts, **counts}}
        return replace(self, counts=sums)

    def only(self, wanted: Callable[[RuleHit], bool]) -> Evidence:
        """With the hits that are wanted, and their counts."""
        hits = tuple(hit for hit in self.hits if wanted(hit))
        rules = {hit.rule for hit in hits}
        return Evidence(
            hits=hits,
            counts={rule: count for rule, count in self.counts.items() if rule in rules},
            ranks={rule: ranks for rule, ranks in self.ranks.items() if rule in rules},
            firsts=frozenset(key for hit in hits for key in _first_of(hit)),
            size_bytes=sum(_size(hit) for hit in hits),
        )

    def _new_of(self, hit: RuleHit) -> frozenset[str]:
        new = _first_of(hit) - self.firsts
        if any(key.startswith(_ADDRESS) for key in new):
            return new if sum(key.startswith(_ADDRESS) for key in self.firsts) < ADDRESSES_AT_MOST else frozenset()
        return new

    def _kept(self, rule: str) -> int:
        return sum(hit.rule == rule for hit in self.hits)

    def _ranks_with(self, hit: RuleHit) -> Mapping[str, frozenset[int]]:
        known = self.ranks.get(hit.rule, frozenset())
        if hit.rank is None or hit.rank in known or hit.role not in _TELLING:
            return self.ranks
        if sum(len(ranks) for ranks in self.ranks.values()) >= RANKS_AT_MOST:
            return self.ranks
        return {**self.ranks, hit.rule: known | {hit.rank}}


def leading(hits: tuple[RuleHit, ...]) -> RuleHit | None:
    """The hit that best names the disturbance: causes before consequences, then the heavier, then the earlier one."""
    return min(hits, key=lambda hit: (_ORDER.get(hit.role, 5), -hit.weight), default=None)


def said(hit: RuleHit) -> str:
    """One line for people: where, and what the log says."""
    where = hit.node or (f"rank {hit.rank}" if hit.rank is not None else "")
    lines = [line.strip() for line in hit.excerpt.splitlines() if line.strip()]
    text = lines[-1][:300] if lines else hit.symptom
    return f"{where}: {text}" if where else text


def time_of(hit: RuleHit) -> datetime:
    """When a hit happened, as far as can be told: no line was written after it was read."""
    return min(hit.when, hit.seen_at)


def was_outlived(hit: RuleHit, alive_at: datetime | None, usual_s: float | None) -> bool:
    """Whether training went on long after what metrics or traces tell of: after a restart they are told again.

    `alive_at` is when the last sign of life was read, `usual_s` how long one usually is in coming.
    """
    if alive_at is None or hit.scope not in (Scope.METRICS, Scope.TRACES):
        return False
    told_at = hit.seen_at if hit.scope is Scope.TRACES else time_of(hit)
    return (alive_at - told_at).total_seconds() > LATE_S + LATE_GAPS * (usual_s or 0.0)


def position_of(hit: RuleHit) -> str:
    """What tells one piece of evidence from another, for ever."""
    return f"{hit.rule}@{hit.file}:{hit.offset}"


def _without_one(evidence: Evidence) -> Evidence:
    """Without the last hit that is not the first of anything, to make room for one that is."""
    seen: set[str] = set()
    spare = -1
    for index, hit in enumerate(evidence.hits):
        keys = _first_of(hit)
        spare = spare if keys - seen else index
        seen |= keys
    if spare < 0:
        return evidence
    hits = evidence.hits[:spare] + evidence.hits[spare + 1 :]
    return replace(evidence, hits=hits, size_bytes=evidence.size_bytes - _size(evidence.hits[spare]))


def _first_of(hit: RuleHit) -> frozenset[str]:
    if hit.role not in CAUSES:
        return _of_collective(hit)
    kernel = f" {hit.rule}" if hit.scope is Scope.KERNEL else ""
    keys = [f"{hit.role.value} rank {hit.rank}"] if hit.rank is not None else []
    keys += [f"{hit.role.value} node {hit.node}{kernel}"] if hit.node is not None else []
    writer = _WRITER.match(hit.excerpt) if kernel else None
    keys += [f"{hit.role.value} writer {writer[1]}{kernel}"] if writer is not None else []
    return frozenset(keys or [f"{hit.role.value} anywhere"])


def _of_collective(hit: RuleHit) -> frozenset[str]:
    """A collective that ranks were in, or a rank that waited for none: who disagrees shows by these (F011, P024).

    And who an address is, by which others may speak of it later.
    """
    seen = hit.captures
    if hit.symptom == "nccl_address" and "address" in seen:
        return frozenset({f"{_ADDRESS}{seen['address']}"})
    keys = [f"op {seen.get('seq')} {seen['op']} {seen.get('numel_in', '')}"] if "op" in seen else []
    if "enqueued" in seen and seen["enqueued"] == seen.get("completed"):
        keys.append(f"idle {hit.rank}")
    return frozenset(keys)


def _size(hit: RuleHit) -> int:
    texts = (hit.excerpt, hit.file, *hit.captures, *hit.captures.values())
    return _HIT_BYTES + sum(_stored(text) for text in texts)


def _stored(text: str) -> int:
    return len(text) if text.isascii() else _ESCAPED * len(text)


def _shortened(hit: RuleHit) -> RuleHit:
    """The end of the excerpt, and as many captures as are short."""
    chars = _SHORT_EXCERPT_BYTES if hit.excerpt.isascii() else _SHORT_EXCERPT_BYTES // _ESCAPED
    captures: dict[str, str] = {}
    left = _SHORT_CAPTURES_BYTES
    for name, value in hit.captures.items():
        size = _stored(name) + _stored(value)
        if size <= left:
            captures[name] = value
            left -= size
    return replace(hit, excerpt=hit.excerpt[-chars:], captures=captures)


NOTHING: Final = Evidence()
"""No evidence."""
