"""Hang: no progress although the attempt runs, on two levels (design 8).

Suspected is shown and never acted on. Confirmed needs an independent sign beside the silence, or a limit that the owner
or site has set. Of an attempt whose steps are not recognised nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from relance.detectors.doubts import is_like_a_pause, shows_debugger
from relance.detectors.evidence import CAUSES, position_of, said, time_of, was_outlived
from relance.detectors.oddities import is_few, odd_nodes, words
from relance.detectors.patience import allowed_s, lasting_s, learned_s, patience_s, picture_s, quiet_from, start_s
from relance.detectors.pictures import NONE, Standstill
from relance.detectors.rhythms import UNKNOWN, Rhythm
from relance.detectors.watched import Watched
from relance.domain.faults import Role, Scope
from relance.domain.findings import Certainty, Finding, FindingKind, RuleHit, Sign
from relance.domain.keys import stable_id
from relance.domain.observations import DevicePicture, Life, NodeSign, Observation
from relance.domain.progress import CheckpointSeen, Phase, PhaseSeen, Progress, StepSeen
from relance.domain.replacing import replace

NAME: Final = "hang"
HITS_AT_MOST: Final = 10
SILENT_AT_MOST: Final = 64
"""So many nodes whose telemetry went silent are told apart."""
SIGN_STEPS: Final = 2
"""A sign that training went on after for so many steps says nothing about a later silence."""
SCRAPE_S: Final = 60.0
"""So long before a node fell silent its last sample may have been taken: sites scrape every 15 to 60 s."""
PICTURES_LATE_S: Final = 300.0
PICTURES_AFTER_S: Final = 120.0
"""GPUs are looked at only once a hang is suspected: their picture counts from the last step on if it was there so soon
after that, or after the suspicion."""
_HARD: Final = frozenset({Sign.PROCESS_DEATH, Sign.NODE_DOWN, Sign.KERNEL, Sign.DEVICE})
"""What is no part of anybody's save or first step."""
_DEATHS: Final = frozenset({Sign.PROCESS_DEATH, Sign.NODE_DOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class HangState:
    """What the hang detector knows.

    `quiet_since` is the first watermark after the last sign of life; `alive` says that one came since the last
    watermark. `last` is the position of the last step in its log. `signs` are those since the last steps; of these
    `like_a_save` are the ones that a save by one rank shows, too. `silent` are the nodes whose telemetry ended.
    `standstill` is what the GPUs show since the last step. `confirmed` are the signs under which a hang was told as
    confirmed.
    """

    version: int = 1
    quiet_since: datetime | None = None
    alive: bool = False
    phase: Phase = Phase.UNKNOWN
    rhythm: Rhythm = UNKNOWN
    last: str = "start"
    last_step_at: datetime | None = None
    signs: frozenset[Sign] = frozenset()
    like_a_save: frozenset[Sign] = frozenset()
    silent: frozenset[str] = frozenset()
    troubled: frozenset[str] = frozenset()
    """Nodes that told of faults of their own."""
    is_debugged: bool = False
    """Whether a trace shows somebody at work in a rank with a debugger."""
    hits: tuple[RuleHit, ...] = ()
    standstill: Standstill = NONE
    steps_since_sign: int = 0
    suspected: bool = False
    lasting: bool = False
    """Whether it was told that the suspected hang lasts."""
    confirmed: frozenset[Sign] = frozenset()
    healed: int = 0
    """How often a suspected hang turned out to be none."""

    @property
    def is_calm(self) -> bool:
        """Whether further steps change nothing but what they are counted by."""
        return not (self.suspected or self.hits or self.signs or self.like_a_save or self.silent or self.is_debugged)


def step(
    state: HangState, observation: Observation, now: datetime, watched: Watched, progress: Progress
) -> tuple[HangState, tuple[Finding, ...]]:
    """The state after an observation, and the findings that come of it. `now` is the watermark."""
    if isinstance(observation, StepSeen):
        return _after_step(state, observation, progress), ()
    if isinstance(observation, (CheckpointSeen, PhaseSeen, Life)):
        return replace(state, alive=True, rhythm=state.rhythm.marked(observation, progress.phase)), ()
    if isinstance(observation, RuleHit):
        alive_at = now if state.alive else state.quiet_since
        late = was_outlived(observation, alive_at, state.rhythm.usual_s(progress))
        return state if late else _after_hit(state, observation, watched), ()
    if isinstance(observation, DevicePicture):
        return replace(state, standstill=state.standstill.after(observation)), ()
    if isinstance(observation, NodeSign):
        return replace(state, signs=state.signs | {Sign.NODE_DOWN}, steps_since_sign=0), ()
    changed = state.alive or state.quiet_since is None or progress.phase is not state.phase or watched.is_paused
    quiet_since = quiet_from(now, state.last_step_at) if changed else state.quiet_since
    seen = replace(state, alive=False, phase=progress.phase, quiet_since=quiet_since)
    return _judge(seen, now, watched, progress)


def _after_step(state: HangState, seen: StepSeen, progress: Progress) -> HangState:
    since_sign = state.steps_since_sign + 1
    over = since_sign >= SIGN_STEPS
    return replace(
        state,
        alive=True,
        rhythm=state.rhythm.after(seen, progress.phase),
        last=f"{seen.file}:{seen.offset}:{seen.step}",
        last_step_at=seen.at,
        signs=frozenset() if over else state.signs,
        like_a_save=frozenset() if over else state.like_a_save,
        silent=frozenset() if over else state.silent,
        troubled=frozenset() if over else state.troubled,
        is_debugged=state.is_debugged and not over,
        hits=() if over else state.hits,
        standstill=NONE,
        steps_since_sign=since_sign,
        suspected=False,
        lasting=False,
        confirmed=frozenset(),
        healed=state.healed + state.suspected,
    )


def _after_hit(state: HangState, hit: RuleHit, watched: Watched) -> HangState:
    signs = watched.signs_of(hit)
    node = watched.node_of(hit)
    if hit.scope is Scope.METRICS and node is None:
        return state  # of a node that is none of the attempt's
    if Sign.NODE_SILENT in signs and _went_on_beyond(state, time_of(hit)):
        return state
    of_host = hit.scope is Scope.KERNEL and hit.role in CAUSES
    if not signs and not of_host and not (hit.scope is Scope.METRICS and hit.role is Role.ROOT):
        return state
    if shows_debugger(hit):
        return replace(state, is_debugged=True, steps_since_sign=0)
    doubtful = is_like_a_pause(hit, watched)
    known = any(position_of(each) == position_of(hit) and each.rank == hit.rank for each in state.hits)
    silent = {node} if node is not None and Sign.NODE_SILENT in signs else frozenset()
    troubled = {node} if node is not None and (of_host or Sign.DEVICE in signs) else frozenset()
    return replace(
        state,
        signs=state.signs | signs,
        like_a_save=state.like_a_save | (signs - state.signs) if doubtful else state.like_a_save - signs,
        silent=state.silent | silent if len(state.silent) < SILENT_AT_MOST else state.silent,
        troubled=state.troubled | troubled if len(state.troubled) < SILENT_AT_MOST else state.troubled,
        hits=state.hits if known or len(state.hits) >= HITS_AT_MOST else (*state.hits, hit),
        steps_since_sign=0,
    )


def _went_on_beyond(state: HangState, silent_at: datetime) -> bool:
    """Whether steps were made for long after the last sample of a node: then its exporter has ended, not the node."""
    if state.last_step_at is None:
        return False
    made_at = min(state.last_step_at, state.quiet_since or state.last_step_at)
    return (made_at - silent_at).total_seconds() > SCRAPE_S


def _judge(
    state: HangState, now: datetime, watched: Watched, progress: Progress
) -> tuple[HangState, tuple[Finding, ...]]:
    if watched.is_over(now) or state.quiet_since is None or _is_done(progress):
        return state, ()
    if not progress.steps_seen:
        return _judge_start(state, now, watched, progress)
    silence_s = (now - state.quiet_since).total_seconds() - allowed_s(state.phase, watched, progress)
    if silence_s < 0.0:
        return state, ()
    signs = _confirming(state, silence_s, now, watched, progress)
    if signs - state.confirmed:
        told = replace(state, suspected=True, lasting=True, confirmed=state.confirmed | signs)
        return told, (_finding(state, now, watched, progress, signs),)
    patience = patience_s(state.rhythm, state.healed, watched, progress)
    if state.lasting or silence_s < patience:
        return state, ()
    lasts = silence_s >= max(patience, lasting_s(state.rhythm, state.healed, watched, progress))
    if state.suspected and not lasts:
        return state, ()
    told = replace(state, suspected=True, lasting=lasts)
    return told, (_finding(told, now, watched, progress, frozenset()),)


def _judge_start(
    state: HangState, now: datetime, watched: Watched, progress: Progress
) -> tuple[HangState, tuple[Finding, ...]]:
    """Before the first step: told once, as suspected, and only where steps are to be expected."""
    expected = watched.expects_steps or progress.phase is not Phase.UNKNOWN
    if state.suspected or not expected or state.quiet_since is None:
        return state, ()
    if (now - state.quiet_since).total_seconds() < start_s(watched):
        return state, ()
    told = replace(state, suspected=True, lasting=True)
    return told, (_finding(told, now, watched, progress, frozenset()),)


def _is_done(progress: Progress) -> bool:
    """Whether the last step has been made: what comes then, such as an export, has no steps."""
    return progress.total_steps is not None and progress.step is not None and progress.step >= progress.total_steps


def _confirming(
    state: HangState, silence_s: float, now: datetime, watched: Watched, progress: Progress
) -> frozenset[Sign]:
    """The signs under which so long a silence is a hang for certain."""
    limits = watched.hang
    usual_s = state.rhythm.usual_s(progress)
    signed_s = max(limits.signed_min_s, limits.signed_medians * (usual_s or 0.0))
    signs: frozenset[Sign] = frozenset()
    if silence_s >= signed_s:
        signs |= state.signs & _HARD
    if not state.is_debugged and not state.standstill.has_work(now):
        signs |= _soft(state, silence_s, now, watched, progress)
    if progress.is_learned:  # what was learned to be steps may have been something else that counts
        signs &= _DEATHS
    if watched.hang_after_s is not None and silence_s >= watched.hang_after_s:
        signs |= {Sign.OWNER_LIMIT}
    return signs


def _soft(state: HangState, silence_s: float, now: datetime, watched: Watched, progress: Progress) -> frozenset[Sign]:
    """The signs that say where a job stands, not that anything broke: none of them counts against GPUs that compute."""
    limits = watched.hang
    usual_s = state.rhythm.usual_s(progress)
    soft_s = max(limits.signed_min_s, limits.signed_medians * (usual_s or 0.0))
    soft_s += limits.phase_limit_s if usual_s is None else 0.0
    signs: frozenset[Sign] = frozenset()
    if silence_s >= max(soft_s, learned_s(state.rhythm, state.healed, watched)):
        signs |= state.signs - _HARD - state.like_a_save
        if not is_few(len(state.silent), watched) or _may_be_deaf(state, now, watched):
            signs -= {Sign.NODE_SILENT}
    picture_limit_s = picture_s(watched, progress)
    if silence_s >= picture_limit_s:
        signs |= state.like_a_save
        if _stood_s(state, silence_s, now, watched, progress) >= picture_limit_s:
            signs |= {Sign.GPU_SIGNATURE}
    return signs


def _may_be_deaf(state: HangState, now: datetime, watched: Watched) -> bool:
    """Whether the silence of the steps and that of a node may be one: both come by an agent on that node.

    Only GPUs that are seen not to work say that the job is silent, and not its agent.
    """
    return watched.are_steps_shipped and state.standstill.lasts_since(now) is None


def _stood_s(state: HangState, silence_s: float, now: datetime, watched: Watched, progress: Progress) -> float:
    """For how long the GPUs' pictures show a standstill, as far as it is part of the silence, in seconds."""
    since = state.standstill.lasts_since(now)
    if since is None:
        return 0.0
    patience = patience_s(state.rhythm, state.healed, watched, progress)
    late_s = max(PICTURES_LATE_S, patience + PICTURES_AFTER_S)
    return min(silence_s, (now - since + timedelta(seconds=late_s)).total_seconds())


def _finding(state: HangState, now: datetime, watched: Watched, progress: Progress, signs: frozenset[Sign]) -> Finding:
    certainty = Certainty.CONFIRMED if signs else Certainty.SUSPECTED
    quiet_since = state.quiet_since or now
    symptom_at = min(state.last_step_at, quiet_since) if state.last_step_at is not None else quiet_since
    passing = not signs and not state.lasting
    names = ",".join(sorted(sign.value for sign in signs)) or ("" if passing else "lasting")
    naming = [hit for hit in state.hits if not is_like_a_pause(hit, watched)]
    odd = odd_nodes(naming, state.standstill.odd, watched, len(state.troubled)) if progress.steps_seen else ()
    shown = next((hit for hit in state.hits if watched.signs_of(hit) & signs), None)
    parts = (_said(state, now, progress, signs), said(shown) if shown else "", words(odd, state.standstill.odd))
    return Finding(
        id=stable_id("f", watched.attempt, NAME, certainty.value, names, state.last),
        attempt=watched.attempt,
        detector=NAME,
        kind=FindingKind.HANG,
        certainty=certainty,
        symptom="hang" if progress.steps_seen else "start_hang",
        summary="; ".join(filter(None, parts)),
        first_evidence_at=min([symptom_at, *(time_of(hit) for hit in state.hits)]) if signs else symptom_at,
        symptom_at=symptom_at,
        hits=state.hits if signs else (),
        counts=_counts(state.hits) if signs else {},
        signs=signs,
        progress=progress,
        odd=odd,
        is_passing=passing,
    )


def _counts(hits: tuple[RuleHit, ...]) -> dict[str, int]:
    return {rule: sum(hit.rule == rule for hit in hits) for rule in {hit.rule for hit in hits}}


def _said(state: HangState, now: datetime, progress: Progress, signs: frozenset[Sign]) -> str:
    silent_s = (now - (state.quiet_since or now)).total_seconds()
    after = f"after step {progress.step}" if progress.steps_seen else "and no first step"
    text = f"no progress for {silent_s:.0f} s {after}"
    if Sign.OWNER_LIMIT in signs:
        text += "; the owner's or site's limit is reached"
    if Sign.GPU_SIGNATURE in signs:
        text += "; all GPUs wait or idle without working"
    return text
