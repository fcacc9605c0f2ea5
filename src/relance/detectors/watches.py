"""All detectors over one attempt, in one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from relance.detectors import crashes, divergences, hangs, nodes, resumes, slowdowns
from relance.detectors.crashes import CrashState
from relance.detectors.divergences import DivergenceState
from relance.detectors.hangs import HangState
from relance.detectors.nodes import NodeState
from relance.detectors.pictures import NONE as NO_STANDSTILL
from relance.detectors.resumes import ResumeState
from relance.detectors.slowdowns import SlowdownState
from relance.detectors.watched import Watched
from relance.domain.findings import Finding
from relance.domain.observations import Observation
from relance.domain.progress import Progress, StepSeen
from relance.domain.replacing import replace

_NO_CRASH: Final = CrashState()
_NO_HANG: Final = HangState()
_NO_RESUME: Final = ResumeState()
_NO_NODE: Final = NodeState()
_NO_SLOWDOWN: Final = SlowdownState()
_NO_DIVERGENCE: Final = DivergenceState()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchState:
    """What all detectors know of one attempt; small, and part of its checkpoint."""

    version: int = 1
    crash: CrashState = _NO_CRASH
    hang: HangState = _NO_HANG
    resume: ResumeState = _NO_RESUME
    node: NodeState = _NO_NODE
    slowdown: SlowdownState = _NO_SLOWDOWN
    divergence: DivergenceState = _NO_DIVERGENCE


def watch(
    state: WatchState, observation: Observation, now: datetime, watched: Watched, progress: Progress
) -> tuple[WatchState, tuple[Finding, ...]]:
    """The state after an observation, and the findings that come of it.

    `now` is the watermark: the time up to which every source of the attempt was read, never the wall clock (design 3).
    `progress` has the observation folded in already.
    """
    crash, crash_findings = crashes.step(state.crash, observation, now, watched, progress)
    hang, hang_findings = hangs.step(state.hang, observation, now, watched, progress)
    resume, resume_findings = resumes.step(state.resume, observation, watched, progress)
    node, node_findings = nodes.step(state.node, observation, watched, progress)
    slowdown, slow_findings = slowdowns.step(state.slowdown, observation, now, watched, progress)
    divergence, run_away_findings = divergences.step(state.divergence, observation, now, watched, progress)
    changed = WatchState(
        crash=crash, hang=hang, resume=resume, node=node, slowdown=slowdown, divergence=divergence
    )  # fmt: skip
    found = (*crash_findings, *node_findings, *resume_findings, *hang_findings)
    return changed, (*found, *slow_findings, *run_away_findings)


SINGLE_STEPS: Final = 3
"""So many steps after anything else are to be given one by one; then they have cleared what steps can clear."""


def watch_steps(state: WatchState, steps: Sequence[StepSeen], watched: Watched) -> WatchState | None:
    """The state after several steps that follow on `SINGLE_STEPS` others: the same as after one after the other.

    None where one of these steps may mean more than that training goes on; then they are to be given one by one.
    """
    crash, hang, node = state.crash, state.hang, state.node
    if not steps or crash.opened_at or crash.evidence.hits or node.waiting or not hang.is_calm:
        return None
    highest, last_at, further = crash.highest_step, crash.last_step_at, 0
    node_highest, node_further = node.highest_step, 0
    for seen in steps:
        if highest is None or seen.step > highest:
            highest, last_at, further = seen.step, seen.at, further + 1
        if node_highest is None or seen.step > node_highest:
            node_highest, node_further = seen.step, node_further + 1
    slowdown, divergence = state.slowdown, state.divergence
    rhythm, last = crash.rhythm.after_all(steps), steps[-1]
    return replace(
        state,
        crash=replace(
            crash,
            stepped=True,
            rhythm=rhythm,
            highest_step=highest,
            last_step_at=last_at,
            clear_steps=crash.clear_steps + further,
        ),
        hang=replace(
            hang,
            alive=True,
            rhythm=rhythm if hang.rhythm == crash.rhythm else hang.rhythm.after_all(steps),
            last=f"{last.file}:{last.offset}:{last.step}",
            last_step_at=last.at,
            standstill=NO_STANDSTILL,
            steps_since_sign=hang.steps_since_sign + len(steps),
            confirmed=frozenset(),
        ),
        node=replace(node, highest_step=node_highest, steps=node.steps + node_further),
        slowdown=replace(slowdown, pace=slowdown.pace.after_all(steps, watched.slowdown)),
        divergence=replace(divergence, runs=divergence.runs.after_all(steps, watched.divergence)),
    )


def counted(state: WatchState, counts: Mapping[str, int]) -> WatchState:
    """The state with lines counted that rules matched and that were not given as hits."""
    return replace(state, crash=replace(state.crash, evidence=state.crash.evidence.count(counts)))


def shifted(state: WatchState, by: timedelta) -> WatchState:
    """The state with the times that durations are counted from moved, because the clock was set forward by so much."""
    crash, hang = state.crash, state.hang
    return replace(
        state,
        crash=replace(
            crash,
            opened_at=_moved(crash.opened_at, by),
            proven_at=_moved(crash.proven_at, by),
            quiet_since=_moved(crash.quiet_since, by),
            told_at=_moved(crash.told_at, by),
        ),
        hang=replace(hang, quiet_since=_moved(hang.quiet_since, by), standstill=NO_STANDSTILL),
    )


def _moved(at: datetime | None, by: timedelta) -> datetime | None:
    return at + by if at is not None else None
