"""Tracking: marks folded into what is known of an attempt's progress.

A fold of plain values: the same marks in the same order give the same progress, in one go or over restarts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median

from relance.domain.progress import (
    CheckpointEvent,
    CheckpointSeen,
    Phase,
    PhaseSeen,
    Progress,
    ProgressMark,
    StepSeen,
)

WINDOW = 64
"""Step times that the median is taken of."""
WARM_UP_REPORTS = 3
"""First reports of an attempt, and after a step back, that say nothing of its usual pace: compilation, first reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressState:
    """An attempt's progress, and what the fold needs beside it.

    `times_s` are the last step times. `reports` counts distinct steps since the beginning or the last step back.
    `before` is the step that was reported before the last one: another rank may say it late. `stamp_step` and
    `stamp_at` are the last report with a time of its own, `paused` says that a save or an evaluation came since.
    """

    version: int = 1
    progress: Progress
    times_s: tuple[float, ...] = ()
    reports: int = 0
    before: int | None = None
    stamp_step: int | None = None
    stamp_at: datetime | None = None
    paused: bool = False


def start(as_of: datetime) -> ProgressState:
    """Nothing known yet."""
    return ProgressState(progress=Progress(as_of=as_of))


def track(state: ProgressState | None, mark: ProgressMark, as_of: datetime) -> ProgressState:
    """The state after one more mark. `as_of` is up to when the sources were read; it never goes back."""
    state = seen_up_to(state or start(as_of), as_of)
    if isinstance(mark, StepSeen):
        return _after_step(state, mark)
    if isinstance(mark, CheckpointSeen):
        return _after_checkpoint(state, mark)
    return _after_phase(state, mark)


def seen_up_to(state: ProgressState, as_of: datetime) -> ProgressState:
    """The same progress, known up to a later time."""
    latest = max(state.progress.as_of, as_of)
    return replace(state, progress=replace(state.progress, as_of=latest))


def _after_step(state: ProgressState, mark: StepSeen) -> ProgressState:
    progress = state.progress
    told_again = mark.step in (progress.step, state.before)
    latest_at = mark.at if progress.step_at is None else max(progress.step_at, mark.at)
    if told_again:
        return replace(state, progress=replace(progress, step_at=latest_at))
    back = progress.step is not None and mark.step < progress.step
    if back:
        state = replace(state, reports=0, stamp_step=None, stamp_at=None)
    state = _timed(replace(state, reports=state.reports + 1, before=progress.step), mark)
    saving = not back and _is_being_saved(progress, mark.step)
    first = progress.first_step is None
    pause_s = None if progress.step_at is None or back else (latest_at - progress.step_at).total_seconds()
    progress = replace(
        progress,
        phase=Phase.SAVING if saving else Phase.TRAINING,
        first_step=mark.step if first else progress.first_step,
        first_step_at=mark.at if first else progress.first_step_at,
        step=mark.step,
        step_at=latest_at,
        highest_step=mark.step if progress.highest_step is None else max(progress.highest_step, mark.step),
        total_steps=mark.total if mark.total is not None else progress.total_steps,
        steps_seen=progress.steps_seen + 1,
        median_step_s=median(state.times_s) if state.times_s else None,
        longest_pause_s=_longer(progress.longest_pause_s, pause_s),
        loss=_finite(mark.loss),
        grad_norm=_finite(mark.grad_norm),
    )
    return replace(state, progress=progress, paused=saving)


def _is_being_saved(progress: Progress, step: int) -> bool:
    """Whether the save under way is that of this step: one rank announces it before another reports the step."""
    begun = progress.checkpoint_begun
    return progress.phase is Phase.SAVING and begun is not None and step <= begun


def _timed(state: ProgressState, mark: StepSeen) -> ProgressState:
    """Take the step's time, as it says or by the times of two reports, unless it is no usual one."""
    time_s = mark.step_time_s
    stamp_step, stamp_at = state.stamp_step, state.stamp_at
    if time_s is None and stamp_step is not None and stamp_at is not None and mark.at > stamp_at and not state.paused:
        time_s = (mark.at - stamp_at).total_seconds() / max(1, mark.step - stamp_step)
    usual = time_s is not None and time_s > 0.0 and state.reports > WARM_UP_REPORTS
    times_s = (*state.times_s, time_s)[-WINDOW:] if usual and time_s is not None else state.times_s
    return replace(state, times_s=times_s, stamp_step=mark.step, stamp_at=mark.at, paused=False)


def _after_checkpoint(state: ProgressState, mark: CheckpointSeen) -> ProgressState:
    progress = state.progress
    stepping = Phase.TRAINING if progress.steps_seen else Phase.STARTING
    match mark.event:
        case CheckpointEvent.BEGUN:
            step = mark.step if mark.step is not None else progress.step
            begun = progress.checkpoint_begun if step is None else step
            progress = replace(progress, phase=Phase.SAVING, checkpoint_begun=begun)
        case CheckpointEvent.DURABLE:
            progress = replace(
                progress,
                phase=stepping if progress.phase is Phase.SAVING else progress.phase,
                checkpoint_durable=mark.step if mark.step is not None else progress.checkpoint_begun,
                checkpoint_durable_at=mark.at,
            )
        case CheckpointEvent.LOADED:
            progress = replace(progress, phase=Phase.STARTING, loaded_step=mark.step, started_cold=False)
        case CheckpointEvent.COLD:
            progress = replace(progress, phase=Phase.STARTING, started_cold=True)
    return replace(state, progress=progress, paused=True)


def _after_phase(state: ProgressState, mark: PhaseSeen) -> ProgressState:
    interrupts = mark.phase is not Phase.TRAINING
    progress = replace(state.progress, phase=mark.phase)
    return replace(state, progress=progress, paused=state.paused or interrupts)


def _longer(known_s: float | None, pause_s: float | None) -> float | None:
    if pause_s is None or known_s is None:
        return known_s if pause_s is None else pause_s
    return max(known_s, pause_s)


def _finite(value: float | None) -> float | None:
    """A number that JSON has; a NaN is told by the step and by rules, and is not known progress."""
    return value if value is not None and math.isfinite(value) else None
