"""Slowdown: steps take longer than this attempt's own usual ones, lastingly, and which node shows why.

Slow is not broken: it is told, never acted on (design 1). What metrics show of a node that explains it comes with the
finding, or in one after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from relance.detectors.evidence import said, time_of
from relance.detectors.paces import Pace, Slowness
from relance.detectors.watched import Watched
from relance.domain.faults import Scope
from relance.domain.findings import Certainty, Finding, FindingKind, RuleHit
from relance.domain.keys import stable_id
from relance.domain.observations import Observation, SeenUpTo
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Phase, PhaseSeen, Progress, StepSeen
from relance.domain.replacing import replace

NAME: Final = "slowdown"
CAPTURE: Final = "slow"
"""The capture of metric rules whose hits explain slowness."""
SIGN_BEFORE_S: Final = 900.0
"""A sign on a node this long before the steps grew longer may be why: metrics come late, and heat builds up."""
SIGNS_AT_MOST: Final = 16
FOLLOW_UPS_AT_MOST: Final = 2
"""Findings after the first of a slowdown, each with signs that it did not have."""
FINDINGS_AT_MOST: Final = 8
"""Of one attempt, so that one that is now slow and now is not is told of no more."""
_UNKNOWN: Final = Pace()
_ANEW: Final = frozenset({Phase.STARTING, Phase.COMPILING, Phase.LOADING})
_LOADS: Final = frozenset({CheckpointEvent.LOADED, CheckpointEvent.COLD})


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownState:
    """What the detector knows: the pace, signs that would explain slowness, and what was told with which of them.

    `healed` counts slowdowns that went away.
    """

    version: int = 1
    pace: Pace = _UNKNOWN
    signs: tuple[RuleHit, ...] = ()
    told: Slowness | None = None
    told_signs: frozenset[str] = frozenset()
    follow_ups: int = 0
    findings: int = 0
    healed: int = 0


def step(
    state: SlowdownState, observation: Observation, now: datetime, watched: Watched, progress: Progress
) -> tuple[SlowdownState, tuple[Finding, ...]]:
    """The state after an observation, and the findings that come of it. `now` is the watermark."""
    if isinstance(observation, StepSeen):
        return replace(state, pace=state.pace.after_all((observation,), watched.slowdown)), ()
    if isinstance(observation, PhaseSeen):
        return replace(state, pace=state.pace.interrupted(anew=observation.phase in _ANEW)), ()
    if isinstance(observation, CheckpointSeen):
        return replace(state, pace=state.pace.interrupted(anew=observation.event in _LOADS)), ()
    if isinstance(observation, RuleHit):
        return _after_hit(state, observation, watched), ()
    if not isinstance(observation, SeenUpTo):
        return state, ()
    if watched.is_paused:
        return replace(state, pace=state.pace.interrupted()), ()
    return (state, ()) if watched.is_over(now) else _judge(state, watched, progress)


def _after_hit(state: SlowdownState, hit: RuleHit, watched: Watched) -> SlowdownState:
    """Keep the newest hit of each rule, node and device, as many as there is room for."""
    if hit.scope is not Scope.METRICS or CAPTURE not in hit.captures or hit.node not in watched.nodes:
        return state
    others = [each for each in state.signs if _key(each) != _key(hit)]
    return replace(state, signs=(*others, hit)[-SIGNS_AT_MOST:])


def _judge(state: SlowdownState, watched: Watched, progress: Progress) -> tuple[SlowdownState, tuple[Finding, ...]]:
    slow, told = state.pace.slow, state.told
    if told is not None and slow != told:
        after = replace(state, told=None, told_signs=frozenset(), follow_ups=0, healed=state.healed + 1)
        return after, (_over(told, watched, progress),)
    if slow is None or state.findings >= FINDINGS_AT_MOST:
        return state, ()
    signs = _signs_since(slow, state.signs)
    keys = frozenset(map(_key, signs))
    if told is None:
        after = replace(state, told=slow, told_signs=keys, findings=state.findings + 1)
        return after, (_finding(slow, signs, watched, progress),)
    if keys <= state.told_signs or state.follow_ups >= FOLLOW_UPS_AT_MOST:
        return state, ()
    after = replace(state, told_signs=state.told_signs | keys, follow_ups=state.follow_ups + 1)
    return after, (_finding(slow, signs, watched, progress),)


def _signs_since(slow: Slowness, signs: tuple[RuleHit, ...]) -> tuple[RuleHit, ...]:
    since = slow.began_at - timedelta(seconds=SIGN_BEFORE_S)
    return tuple(hit for hit in signs if time_of(hit) >= since)


def _key(hit: RuleHit) -> str:
    return f"{hit.rule} {hit.node} {hit.device or ''}"


def _finding(slow: Slowness, signs: tuple[RuleHit, ...], watched: Watched, progress: Progress) -> Finding:
    why = f"; {said(signs[0])}" if signs else ""
    return Finding(
        id=stable_id("f", watched.attempt, NAME, slow.first_step, *sorted(map(_key, signs))),
        attempt=watched.attempt,
        detector=NAME,
        kind=FindingKind.SLOWDOWN,
        certainty=Certainty.CONFIRMED,
        symptom="slowdown",
        summary=f"{_words(slow)}{why}",
        first_evidence_at=min([slow.began_at, *(time_of(hit) for hit in signs)]),
        symptom_at=slow.began_at,
        hits=signs,
        counts={rule: sum(hit.rule == rule for hit in signs) for rule in {hit.rule for hit in signs}},
        progress=progress,
    )


def _over(told: Slowness, watched: Watched, progress: Progress) -> Finding:
    return Finding(
        id=stable_id("f", watched.attempt, NAME, "over", told.first_step),
        attempt=watched.attempt,
        detector=NAME,
        kind=FindingKind.SLOWDOWN,
        certainty=Certainty.CONFIRMED,
        symptom="slowdown_over",
        summary=f"steps take about {told.usual_s:.3g} s again, as before step {told.first_step}",
        first_evidence_at=progress.step_at or told.began_at,
        symptom_at=progress.step_at or told.began_at,
        progress=progress,
        over=True,
    )


def _words(slow: Slowness) -> str:
    longer = f"{slow.times:.1f} times as long" if slow.times >= 2 else f"{100 * (slow.times - 1):.0f} % longer"  # noqa: PLR2004 - as one says it
    return f"from step {slow.first_step} on steps take {longer}: {slow.step_s:.3g} s instead of {slow.usual_s:.3g} s"
