"""Crash: lines that show a failure, once it is clear that the training does not go on.

A log line may open an incident; it may not end a running job (design 8). So a frightening line is held back until the
attempt's process is proven dead, its steps stop, or it has ended; it is let go when training goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from relance.detectors.evidence import CAUSES, NOTHING, Evidence, leading, position_of, said, time_of, was_outlived
from relance.detectors.patience import quiet_from
from relance.detectors.rhythms import UNKNOWN, Rhythm
from relance.detectors.watched import Watched
from relance.domain.faults import FaultDomain, Role, Scope
from relance.domain.findings import Certainty, Finding, FindingKind, RuleHit, Sign
from relance.domain.keys import stable_id
from relance.domain.observations import Life, NodeSign, Observation, SeenUpTo
from relance.domain.progress import CheckpointSeen, PhaseSeen, Progress, StepSeen
from relance.domain.replacing import replace

NAME: Final = "crash"
STEPS_THAT_CLEAR: Final = 2
"""New highest steps after a line that show that training goes on; one may have been under way already."""
PROVEN_MEDIANS: Final = 2.5
PROVEN_MIN_S: Final = 0.5
PROVEN_MAX_S: Final = 1.5
"""After a proven death, how long other evidence is waited for, and a step that would contradict it."""
SILENCE_MEDIANS: Final = 3.0
SILENCE_MIN_S: Final = 2.0
SILENCE_MOST_S: Final = 60.0
"""Without a proven death, how long the steps must have stopped: in usual gaps, at least, and while these are not known
or the attempt is known to pause."""
PAUSE_TIMES: Final = 1.5
"""A pause of up to this many times the longest that the attempt got over by itself says nothing about a line in it."""
AGAIN_S: Final = 2.0
"""Between two findings of one attempt, so that what comes together is told together."""
FINDINGS_AT_MOST: Final = 8
"""Of one attempt; the first proof of a death is told in any case."""
_OPENING: Final = (Role.ROOT, Role.MAYBE, Role.CASCADE)
_DEATHS: Final = frozenset({Sign.PROCESS_DEATH, Sign.NODE_DOWN})
_BESIDE: Final = frozenset({Scope.METRICS, Scope.TRACES})
"""What metrics and traces tell is evidence of a crash; of them only a fault that befell a device opens one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashState:
    """What the crash detector knows.

    `opened_at` and `proven_at` are when the first line, and the first proof of a death, of the present window were
    read. `clear_steps` counts new highest steps since the last line that could open a window. `quiet_since` is the
    first watermark after the last step; `stepped` says that a step came since the last watermark. `noted` counts
    windows that were let go because training went on.
    """

    version: int = 1
    evidence: Evidence = NOTHING
    opened_at: datetime | None = None
    proven_at: datetime | None = None
    signs: frozenset[Sign] = frozenset()
    highest_step: int | None = None
    clear_steps: int = 0
    rhythm: Rhythm = UNKNOWN
    stepped: bool = False
    quiet_since: datetime | None = None
    last_step_at: datetime | None = None
    told: frozenset[str] = frozenset()
    told_at: datetime | None = None
    findings: int = 0
    proof_told: bool = False
    noted: int = 0

    @property
    def has_told(self) -> bool:
        """Whether a finding of the present window has been given."""
        return self.told_at is not None


def step(
    state: CrashState, observation: Observation, now: datetime, watched: Watched, progress: Progress
) -> tuple[CrashState, tuple[Finding, ...]]:
    """The state after an observation, and the findings that come of it. `now` is the watermark."""
    if isinstance(observation, RuleHit):
        alive_at = now if state.stepped else state.quiet_since
        late = was_outlived(observation, alive_at, state.rhythm.usual_s(progress))
        return state if late else _after_hit(state, observation, watched), ()
    if isinstance(observation, NodeSign):
        signs = state.signs | {Sign.NODE_DOWN}
        opened_at, proven_at = state.opened_at or observation.at, state.proven_at or observation.at
        return replace(state, opened_at=opened_at, proven_at=proven_at, signs=signs, clear_steps=0), ()
    if isinstance(observation, StepSeen):
        return _after_step(state, observation, progress), ()
    if isinstance(observation, (CheckpointSeen, PhaseSeen, Life)):
        return replace(state, rhythm=state.rhythm.marked(observation, progress.phase)), ()
    if isinstance(observation, SeenUpTo):
        if state.stepped or state.quiet_since is None:
            state = replace(state, stepped=False, quiet_since=quiet_from(now, state.last_step_at))
        return _tell(state, now, watched, progress) if _is_due(state, now, watched, progress) else (state, ())
    return state, ()


def _after_hit(state: CrashState, hit: RuleHit, watched: Watched) -> CrashState:
    signs = watched.signs_of(hit)
    proves = bool(signs & _DEATHS)
    opens = _opens(hit, watched)
    return replace(
        state,
        evidence=state.evidence.add(hit),
        signs=state.signs | signs if opens else state.signs,
        opened_at=state.opened_at or (hit.seen_at if opens else None),
        proven_at=state.proven_at or (hit.seen_at if proves else None),
        clear_steps=0 if opens else state.clear_steps,
    )


def _opens(hit: RuleHit, watched: Watched) -> bool:
    """Whether a hit by itself is a reason to think of a crash."""
    signs = watched.signs_of(hit)
    told = hit.scope not in _BESIDE or Sign.DEVICE in signs
    return (hit.role in _OPENING and told) or bool(signs & _DEATHS)


def _after_step(state: CrashState, seen: StepSeen, progress: Progress) -> CrashState:
    """Only a step beyond the highest counts as going on: older ones may come out of a buffer when a process ends."""
    further = state.highest_step is None or seen.step > state.highest_step
    state = replace(
        state,
        stepped=True,
        rhythm=state.rhythm.after(seen, progress.phase),
        highest_step=seen.step if further else state.highest_step,
        last_step_at=seen.at if further else state.last_step_at,
        clear_steps=state.clear_steps + further,
    )
    if state.clear_steps < STEPS_THAT_CLEAR or not (state.opened_at or state.evidence.hits):
        return state
    return replace(
        state,
        evidence=state.evidence.only(_outlasts_steps),
        opened_at=None,
        proven_at=None,
        signs=frozenset(),
        told_at=None,
        proof_told=False,
        noted=state.noted + (state.opened_at is not None),
    )


def _outlasts_steps(hit: RuleHit) -> bool:
    """Whether a hit may matter although steps follow: a host's, what the scheduler announces, who an address is."""
    return hit.scope is Scope.KERNEL or hit.domain is FaultDomain.SCHEDULER or hit.symptom == "nccl_address"


def _is_due(state: CrashState, now: datetime, watched: Watched, progress: Progress) -> bool:
    """Whether to tell now."""
    if state.opened_at is None:
        wanted = watched.has_incident and watched.is_over(now) and not state.has_told
        return wanted and any(hit.role is not Role.DIAGNOSTIC for hit in state.evidence.hits)
    proof = state.proven_at is not None and not state.proof_told
    if not state.has_told:
        return watched.is_over(now) or _is_proven(state, now, progress) or _is_silent(state, now, progress)
    if proof:
        return watched.is_over(now) or _is_proven(state, now, progress)
    if state.findings >= FINDINGS_AT_MOST or not (_decisive(state, watched).keys() - state.told):
        return False
    return state.told_at is not None and (now - state.told_at).total_seconds() >= AGAIN_S


def _is_proven(state: CrashState, now: datetime, progress: Progress) -> bool:
    if state.proven_at is None:
        return False
    usual_s = state.rhythm.usual_s(progress) or 0.0
    wait_s = min(max(PROVEN_MEDIANS * usual_s, PROVEN_MIN_S), PROVEN_MAX_S)
    return (now - state.proven_at).total_seconds() >= wait_s


def _is_silent(state: CrashState, now: datetime, progress: Progress) -> bool:
    """Whether the steps have stopped; of an attempt without recognised steps that cannot be said."""
    if state.opened_at is None or state.quiet_since is None or not progress.steps_seen:
        return False
    since = max(state.opened_at, state.quiet_since)
    usual_s = state.rhythm.usual_s(progress)
    if usual_s is None:
        wait_s = SILENCE_MOST_S
    else:
        learned_s = min(PAUSE_TIMES * (progress.longest_pause_s or 0.0), SILENCE_MOST_S)
        wait_s = max(SILENCE_MEDIANS * usual_s, SILENCE_MIN_S, learned_s)
    return (now - since).total_seconds() >= wait_s


def _decisive(state: CrashState, watched: Watched) -> dict[str, RuleHit]:
    """The pieces of evidence that are worth a finding of their own, each by what it is, with the hit that shows it."""
    found: dict[str, RuleHit] = {}
    for hit in state.evidence.hits:
        if hit.scope in (Scope.KERNEL, Scope.METRICS) and hit.role in CAUSES:
            found.setdefault(f"{hit.scope.value} {hit.node}", hit)
        elif hit.scope in _BESIDE:
            continue
        elif hit.role is Role.ROOT:
            found.setdefault(f"root {hit.rank}", hit)
        if watched.signs_of(hit) & _DEATHS:
            found.setdefault("death", hit)
    return found


def _tell(
    state: CrashState, now: datetime, watched: Watched, progress: Progress
) -> tuple[CrashState, tuple[Finding, ...]]:
    decisive = _decisive(state, watched)
    hits = state.evidence.hits
    opening = tuple(hit for hit in hits if _opens(hit, watched))
    certainty = Certainty.CONFIRMED if state.signs & _DEATHS else Certainty.SUSPECTED
    new = [decisive[key] for key in decisive if key not in state.told]
    shown = (*new, *opening, *hits)
    anchor = position_of(shown[0]) if shown else str(state.opened_at)
    lead = leading(opening or hits)
    first = min((time_of(hit) for hit in opening), default=state.opened_at or now)
    symptom_at = min(state.last_step_at, now) if state.last_step_at is not None else first
    finding = Finding(
        id=stable_id("f", watched.attempt, NAME, certainty.value, anchor),
        attempt=watched.attempt,
        detector=NAME,
        kind=FindingKind.CRASH,
        certainty=certainty,
        symptom=lead.symptom if lead is not None else "node_down",
        summary=said(lead) if lead is not None else "a node of the attempt is lost",
        first_evidence_at=first,
        symptom_at=symptom_at,
        hits=hits,
        counts=state.evidence.counts,
        ranks=state.evidence.ranks,
        signs=state.signs,
        progress=progress,
    )
    after = replace(
        state,
        told=state.told | decisive.keys(),
        told_at=now,
        findings=state.findings + 1,
        proof_told=state.proof_told or state.proven_at is not None,
    )
    return after, (finding,)
