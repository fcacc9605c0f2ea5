"""Doubts: what traces of a silent job show that a healthy pause shows, too.

While one rank saves, evaluates, compiles or reads data for all, the others wait, and traces say just that. Such a trace
is no better a sign than the picture of the GPUs, and counts no sooner.
"""

from __future__ import annotations

from typing import Final

from relance.detectors.watched import Watched
from relance.domain.faults import Role, Scope
from relance.domain.findings import RuleHit

OUTSTANDING_S: Final = 60.0
"""A collective that is outstanding for less may be one of a job at work: they take seconds at most."""
DEBUGGER: Final = "debugger"
"""What `doing` of a trace says of a rank that somebody is looking into."""
_BUSY: Final = frozenset({"save", "evaluation", "logging", "data", "compiling", "starting"})
"""What a rank may do for minutes while the others wait for it, by its stack."""
_ELSEWHERE: Final = frozenset({
    "fr_idle_rank", "fr_laggard", "fr_missing_rank", "fr_p2p_gap", "fr_state_mismatch", "ras_collective_stuck",
    "stack_minority",
})  # fmt: skip
"""A rank is not where the others wait; the first one may be saving or evaluating, the last one logs the loss."""
_OF_ITSELF: Final = frozenset({"ras_async_error"})
"""An error that a communicator reports is one, however unsure it is whose."""


def is_like_a_pause(hit: RuleHit, watched: Watched) -> bool:
    """Whether a trace shows nothing that a pause of a healthy job does not."""
    if hit.scope is not Scope.TRACES:
        return False
    if hit.symptom in _ELSEWHERE and not _ranks(hit).isdisjoint(_ends(watched)):
        return True
    if hit.captures.get("doing") in _BUSY:
        return True
    is_dump = hit.symptom.startswith("fr_")
    age_s = (hit.seen_at - hit.at).total_seconds() if is_dump and hit.at is not None else None
    if age_s is not None and age_s < OUTSTANDING_S:
        return True
    return hit.role is not Role.ROOT and age_s is None and hit.symptom not in _OF_ITSELF


def shows_debugger(hit: RuleHit) -> bool:
    """Whether somebody is looking into a rank with a debugger: then it stands still because it is meant to."""
    return hit.scope is Scope.TRACES and hit.captures.get("doing") == DEBUGGER


def _ranks(hit: RuleHit) -> frozenset[int]:
    told = {int(rank) for rank in hit.captures.get("ranks", "").split(",") if rank.isdecimal()}
    return frozenset(told if hit.rank is None else told | {hit.rank})


def _ends(watched: Watched) -> frozenset[int]:
    """The first rank, and the last where it is known how many there are."""
    world = (watched.ranks_per_node or 0) * len(watched.nodes)
    return frozenset({0, world - 1} if world > 1 else {0})
