"""All detectors over one attempt, in one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from relance.detectors import crashes, hangs, nodes, resumes
from relance.detectors.crashes import CrashState
from relance.detectors.hangs import HangState
from relance.detectors.nodes import NodeState
from relance.detectors.resumes import ResumeState
from relance.detectors.watched import Watched
from relance.domain.findings import Finding
from relance.domain.observations import Observation
from relance.domain.progress import Progress

_NO_CRASH: Final = CrashState()
_NO_HANG: Final = HangState()
_NO_RESUME: Final = ResumeState()
_NO_NODE: Final = NodeState()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchState:
    """What all detectors know of one attempt; small, and part of its checkpoint."""

    version: int = 1
    crash: CrashState = _NO_CRASH
    hang: HangState = _NO_HANG
    resume: ResumeState = _NO_RESUME
    node: NodeState = _NO_NODE


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
    changed = WatchState(crash=crash, hang=hang, resume=resume, node=node)
    return changed, (*crash_findings, *node_findings, *resume_findings, *hang_findings)


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
        hang=replace(hang, quiet_since=_moved(hang.quiet_since, by)),
    )


def _moved(at: datetime | None, by: timedelta) -> datetime | None:
    return at + by if at is not None else None
