"""Hang: no progress although the attempt runs, on two levels (design 8).

Suspected is shown and never acted on. Confirmed needs an independent sign beside the silence, or a limit that the owner
or site has set. Of an attempt whose steps are not recognised nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from relance.detectors.evidence import CAUSES, said, time_of
from relance.detectors.rhythms import UNKNOWN, Rhythm
from relance.detectors.watched import Watched
from relance.domain.faults import Scope
from relance.domain.findings import Certainty, Finding, FindingKind, RuleHit, Sign
from relance.domain.keys import stable_id
from relance.domain.observations import Life, NodeSign, Observation
from relance.domain.progress import CheckpointSeen, Phase, PhaseSeen, Progress, StepSeen

NAME: Final = "hang"
PAUSE_TIMES: Final = 1.5
"""A pause of up to this many times the longest that the attempt got over by itself is no news."""
HITS_AT_MOST: Final = 10
SIGN_STEPS: Final = 2
"""A sign that training went on after for so many steps says nothing about a later silence."""
_ANNOUNCED: Final = frozenset(set(Phase) - {Phase.UNKNOWN, Phase.TRAINING})


@dataclass(frozen=True, slots=True, kw_only=True)
class HangState:
    """What the hang detector knows.

    `quiet_since` is the first watermark after the last sign of life; `alive` says that one came since the last
    watermark. `last` is the position of the last step in its log. `confirmed` are the signs under which a hang was
    told as confirmed.
    """

    version: int = 1
    quiet_since: datetime | None = None
    alive: bool = False
    phase: Phase = Phase.UNKNOWN
    rhythm: Rhythm = UNKNOWN
    last: str = "start"
    last_step_at: datetime | None = None
    signs: frozenset[Sign] = frozenset()
    hits: tuple[RuleHit, ...] = ()
    steps_since_sign: int = 0
    suspected: bool = False
    confirmed: frozenset[Sign] = frozenset()
    healed: int = 0
    """How often a suspected hang turned out to be none."""


def step(
    state: HangState, observation: Observation, now: datetime, watched: Watched, progress: Progress
) -> tuple[HangState, tuple[Finding, ...]]:
    """The state after an observation, and the findings that come of it. `now` is the watermark."""
    if isinstance(observation, StepSeen):
        return _after_step(state, observation), ()
    if isinstance(observation, (CheckpointSeen, PhaseSeen, Life)):
        return replace(state, alive=True), ()
    if isinstance(observation, RuleHit):
        return _after_hit(state, observation, watched), ()
    if isinstance(observation, NodeSign):
        return replace(state, signs=state.signs | {Sign.NODE_DOWN}, steps_since_sign=0), ()
    changed = state.alive or state.quiet_since is None or progress.phase is not state.phase or watched.is_paused
    seen = replace(state, alive=False, phase=progress.phase, quiet_since=now if changed else state.quiet_since)
    return _judge(seen, now, watched, progress)


def _after_step(state: HangState, seen: StepSeen) -> HangState:
    since_sign = state.steps_since_sign + 1
    over = since_sign >= SIGN_STEPS
    return replace(
        state,
        alive=True,
        rhythm=state.rhythm.after(seen),
        last=f"{seen.file}:{seen.offset}:{seen.step}",
        last_step_at=seen.at,
        signs=frozenset() if over else state.signs,
        hits=() if over else state.hits,
        steps_since_sign=since_sign,
        suspected=False,
        confirmed=frozenset(),
        healed=state.healed + state.suspected,
    )


def _after_hit(state: HangState, hit: RuleHit, watched: Watched) -> HangState:
    signs = watched.signs_of(hit)
    if not signs and not (hit.scope is Scope.KERNEL and hit.role in CAUSES):
        return state
    hits = (*state.hits, hit) if len(state.hits) < HITS_AT_MOST else state.hits
    return replace(state, signs=state.signs | signs, hits=hits, steps_since_sign=0)


def _judge(
    state: HangState, now: datetime, watched: Watched, progress: Progress
) -> tuple[HangState, tuple[Finding, ...]]:
    if watched.is_over(now) or state.quiet_since is None or _is_done(progress):
        return state, ()
    if not progress.steps_seen:
        return _judge_start(state, now, watched, progress)
    silence_s = _silence_s(state, now, watched)
    usual_s = state.rhythm.usual_s(progress)
    signs = _confirming(state, silence_s, watched, usual_s or 0.0)
    if signs - state.confirmed:
        told = replace(state, suspected=True, confirmed=state.confirmed | signs)
        return told, (_finding(state, now, watched, progress, signs),)
    if not state.suspected and silence_s >= _patience_s(usual_s, watched, progress):
        return replace(state, suspected=True), (_finding(state, now, watched, progress, frozenset()),)
    return state, ()


def _judge_start(
    state: HangState, now: datetime, watched: Watched, progress: Progress
) -> tuple[HangState, tuple[Finding, ...]]:
    """Before the first step: told once, as suspected, and only where steps are to be expected."""
    expected = watched.expects_steps or progress.phase is not Phase.UNKNOWN
    if state.suspected or not expected or state.quiet_since is None:
        return state, ()
    if (now - state.quiet_since).total_seconds() < watched.hang.start_limit_s:
        return state, ()
    return replace(state, suspected=True), (_finding(state, now, watched, progress, frozenset()),)


def _is_done(progress: Progress) -> bool:
    """Whether the last step has been made: what comes then, such as an export, has no steps."""
    return progress.total_steps is not None and progress.step is not None and progress.step >= progress.total_steps


def _silence_s(state: HangState, now: datetime, watched: Watched) -> float:
    """How long there has been no sign of life, in seconds; an announced phase has its own time first."""
    if state.quiet_since is None:
        return 0.0
    since = state.quiet_since
    if state.phase in _ANNOUNCED:
        since += timedelta(seconds=watched.hang.phase_limit_s)
    return (now - since).total_seconds()


def _patience_s(usual_s: float | None, watched: Watched, progress: Progress) -> float:
    """How long a silence is no news, in seconds."""
    limits = watched.hang
    if usual_s is None:  # the first steps take as long as they take
        return limits.phase_limit_s
    learned_s = min(PAUSE_TIMES * (progress.longest_pause_s or 0.0), limits.phase_limit_s)
    return max(limits.suspected_min_s, limits.suspected_medians * usual_s, learned_s)


def _confirming(state: HangState, silence_s: float, watched: Watched, usual_s: float) -> frozenset[Sign]:
    """The signs under which so long a silence is a hang for certain."""
    limits = watched.hang
    signs: frozenset[Sign] = frozenset()
    if silence_s >= max(limits.signed_min_s, limits.signed_medians * usual_s):
        signs |= state.signs
    if watched.hang_after_s is not None and silence_s >= watched.hang_after_s:
        signs |= {Sign.OWNER_LIMIT}
    return signs


def _finding(state: HangState, now: datetime, watched: Watched, progress: Progress, signs: frozenset[Sign]) -> Finding:
    certainty = Certainty.CONFIRMED if signs else Certainty.SUSPECTED
    quiet_since = state.quiet_since or now
    symptom_at = min(state.last_step_at, quiet_since) if state.last_step_at is not None else quiet_since
    names = ",".join(sorted(sign.value for sign in signs))
    return Finding(
        id=stable_id("f", watched.attempt, NAME, certainty.value, names, state.last),
        attempt=watched.attempt,
        detector=NAME,
        kind=FindingKind.HANG,
        certainty=certainty,
        symptom="hang" if progress.steps_seen else "start_hang",
        summary=_summary(state, now, progress, signs),
        first_evidence_at=min([symptom_at, *(time_of(hit) for hit in state.hits)]) if signs else symptom_at,
        symptom_at=symptom_at,
        hits=state.hits if signs else (),
        counts=_counts(state.hits) if signs else {},
        signs=signs,
        progress=progress,
    )


def _counts(hits: tuple[RuleHit, ...]) -> dict[str, int]:
    return {rule: sum(hit.rule == rule for hit in hits) for rule in {hit.rule for hit in hits}}


def _summary(state: HangState, now: datetime, progress: Progress, signs: frozenset[Sign]) -> str:
    silent_s = (now - (state.quiet_since or now)).total_seconds()
    after = f"after step {progress.step}" if progress.steps_seen else "and no first step"
    text = f"no progress for {silent_s:.0f} s {after}"
    if Sign.OWNER_LIMIT in signs:
        text += "; the owner's or site's limit is reached"
    if state.hits and signs - {Sign.OWNER_LIMIT}:
        text += f"; {said(state.hits[0])}"
    return text
