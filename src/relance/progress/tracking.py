"""Tracking: marks folded into what is known of an attempt's progress.

A fold of plain values: the same marks in the same order give the same progress, in one go or over restarts.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
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
from relance.domain.replacing import replace

WINDOW = 64
"""Step times that the median is taken of."""
SAVES = 8
"""Durations of saves that the median is taken of."""
WARM_UP_REPORTS = 3
"""First reports of an attempt, and after a step back, that say nothing of its usual pace: compilation, first reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressState:
    """An attempt's progress, and what the fold needs beside it.

    `times_s` are the last step times. `reports` counts distinct steps since the beginning or the last step back.
    `before` is the step that was reported before the last one: another rank may say it late. `stamp_step` and
    `stamp_at` are the last report with a time of its own, `paused` says that a save or an evaluation came since.
    `saved` and `evaluated` say which of them was announced since the last step. `save_begun_at` is when the save began
    that is not known to be durable yet, `saves_s` are the last durations of saves.
    """

    version: int = 1
    progress: Progress
    times_s: tuple[float, ...] = ()
    reports: int = 0
    before: int | None = None
    stamp_step: int | None = None
    stamp_at: datetime | None = None
    paused: bool = False
    saved: bool = False
    evaluated: bool = False
    save_begun_at: datetime | None = None
    saves_s: tuple[float, ...] = ()


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


def track_steps(state: ProgressState, marks: Sequence[StepSeen], as_of: datetime) -> ProgressState:
    """The state after several steps, the same as after one after the other, at the cost of one."""
    state = seen_up_to(state, as_of)
    progress = state.progress
    if progress.phase is not Phase.TRAINING:
        for mark in marks:
            state = _after_step(state, mark)
        return state
    fold = _Fold(state)
    for mark in marks:
        fold.take(mark)
    return fold.state()


def with_start(state: ProgressState, started_at: datetime | None) -> ProgressState:
    """The state with the time from the attempt's start to its first step, once both are known."""
    progress = state.progress
    if started_at is None or progress.start_s is not None or progress.first_step_at is None:
        return state
    start_s = (progress.first_step_at - started_at).total_seconds()
    return replace(state, progress=replace(progress, start_s=start_s)) if start_s > 0.0 else state


def seen_up_to(state: ProgressState, as_of: datetime) -> ProgressState:
    """The same progress, known up to a later time."""
    if as_of <= state.progress.as_of:
        return state
    return replace(state, progress=replace(state.progress, as_of=as_of))


def _after_step(state: ProgressState, mark: StepSeen) -> ProgressState:
    progress = state.progress
    told_again = mark.step in (progress.step, state.before)
    latest_at = mark.at if progress.step_at is None else max(progress.step_at, mark.at)
    if told_again:
        progress = replace(progress, step_at=latest_at)
        return replace(state, progress=_with_more(progress, mark) if mark.step == progress.step else progress)
    back = progress.step is not None and mark.step < progress.step
    reports = 1 if back else state.reports + 1
    times_s = _times_with(state, mark, reports, back=back)
    saving = not back and _is_being_saved(progress, mark.step)
    first, before = progress.first_step is None, progress.step
    pause_s = None if progress.step_at is None or back else (latest_at - progress.step_at).total_seconds()
    told = mark.throughput is not None
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
        median_step_s=progress.median_step_s if times_s is state.times_s else median(times_s),
        longest_pause_s=_longer(progress.longest_pause_s, pause_s),
        longest_save_s=_longer(progress.longest_save_s, pause_s if state.saved else None),
        longest_evaluation_s=_longer(progress.longest_evaluation_s, pause_s if state.evaluated else None),
        loss=_finite(mark.loss),
        grad_norm=_finite(mark.grad_norm),
        throughput=_finite(mark.throughput) if told else progress.throughput,
        throughput_unit=mark.throughput_unit if told else progress.throughput_unit,
        is_learned=mark.is_learned,
    )
    return replace(
        state,
        progress=progress,
        times_s=times_s,
        reports=reports,
        before=before,
        stamp_step=mark.step,
        stamp_at=mark.at,
        paused=saving,
        saved=saving,
        evaluated=False,
    )


def _with_more(progress: Progress, mark: StepSeen) -> Progress:
    """What a line tells of the last step that was not told with it."""
    return replace(
        progress,
        loss=progress.loss if mark.loss is None else _finite(mark.loss),
        grad_norm=progress.grad_norm if mark.grad_norm is None else _finite(mark.grad_norm),
        throughput=progress.throughput if mark.throughput is None else _finite(mark.throughput),
        throughput_unit=progress.throughput_unit if mark.throughput is None else mark.throughput_unit,
    )


def _is_being_saved(progress: Progress, step: int) -> bool:
    """Whether the save under way is that of this step: one rank announces it before another reports the step."""
    begun = progress.checkpoint_begun
    return progress.phase is Phase.SAVING and begun is not None and step <= begun


def _times_with(state: ProgressState, mark: StepSeen, reports: int, *, back: bool) -> tuple[float, ...]:
    """The step times with that of this step, as it says or by the times of two reports, unless it is no usual one."""
    time_s = mark.step_time_s
    if time_s is None and not state.paused and not back:
        time_s = _measured_s(state.stamp_step, state.stamp_at, mark)
    usual = time_s is not None and time_s > 0.0 and reports > WARM_UP_REPORTS
    return (*state.times_s, time_s)[-WINDOW:] if usual and time_s is not None else state.times_s


def _after_checkpoint(state: ProgressState, mark: CheckpointSeen) -> ProgressState:
    progress = state.progress
    stepping = Phase.TRAINING if progress.steps_seen else Phase.STARTING
    match mark.event:
        case CheckpointEvent.BEGUN:
            return _after_begin(state, mark)
        case CheckpointEvent.DURABLE:
            state = _timed_save(state, mark)
            progress = replace(
                state.progress,
                phase=stepping if progress.phase is Phase.SAVING else progress.phase,
                checkpoint_durable=_durable(progress, mark),
                checkpoint_durable_at=mark.at,
            )
        case CheckpointEvent.LOADED:
            progress = replace(progress, phase=Phase.STARTING, loaded_step=mark.step, started_cold=False)
        case CheckpointEvent.COLD:
            progress = replace(progress, phase=Phase.STARTING, started_cold=True)
    return replace(state, progress=progress, paused=True)


def _after_begin(state: ProgressState, mark: CheckpointSeen) -> ProgressState:
    progress = state.progress
    step = mark.step if mark.step is not None else progress.step
    begun = progress.checkpoint_begun if step is None else step
    goes_on = state.save_begun_at is not None and begun == progress.checkpoint_begun
    return replace(
        state,
        progress=replace(progress, phase=Phase.SAVING, checkpoint_begun=begun),
        paused=True,
        saved=True,
        save_begun_at=state.save_begun_at if goes_on else mark.at,
    )


def _durable(progress: Progress, mark: CheckpointSeen) -> int | None:
    if mark.step is not None:
        return mark.step
    return progress.checkpoint_begun if progress.checkpoint_begun is not None else progress.checkpoint_durable


def _timed_save(state: ProgressState, mark: CheckpointSeen) -> ProgressState:
    """Take how long a save took, where its begin is known and has another time."""
    begun_at = state.save_begun_at
    if begun_at is None or mark.step not in (None, state.progress.checkpoint_begun):
        return state
    state = replace(state, save_begun_at=None)
    took_s = (mark.at - begun_at).total_seconds()
    if took_s <= 0.0:
        return state
    saves_s = (*state.saves_s, took_s)[-SAVES:]
    progress = replace(state.progress, last_save_s=took_s, median_save_s=median(saves_s))
    return replace(state, progress=progress, saves_s=saves_s)


def _after_phase(state: ProgressState, mark: PhaseSeen) -> ProgressState:
    interrupts = mark.phase is not Phase.TRAINING
    evaluated = state.evaluated or mark.phase is Phase.EVALUATING
    progress = replace(state.progress, phase=mark.phase)
    return replace(state, progress=progress, paused=state.paused or interrupts, evaluated=evaluated)


def _measured_s(step: int | None, at: datetime | None, mark: StepSeen) -> float | None:
    """A step's time by the times of two reports."""
    if step is None or at is None or mark.at <= at:
        return None
    return (mark.at - at).total_seconds() / max(1, mark.step - step)


class _Fold:
    """The fold of steps while training goes on: what `_after_step` does, without a new value for each."""

    def __init__(self, state: ProgressState) -> None:
        progress = state.progress
        self._before_all = state
        self._reports, self._before, self._paused = state.reports, state.before, state.paused
        self._stamp_step, self._stamp_at = state.stamp_step, state.stamp_at
        self._times_s = deque(state.times_s, WINDOW)
        self._step, self._step_at, self._highest = progress.step, progress.step_at, progress.highest_step
        self._first: StepSeen | None = None
        self._last: StepSeen | None = None
        self._total, self._seen, self._pause_s = progress.total_steps, 0, progress.longest_pause_s
        self._first_pause_s: float | None = None
        """The pause before the first new step: what was announced before it belongs to it."""
        self._loss, self._norm = progress.loss, progress.grad_norm
        self._rate, self._unit = progress.throughput, progress.throughput_unit

    def take(self, mark: StepSeen) -> None:
        step, at = mark.step, mark.at
        step_at = self._step_at
        latest_at = at if step_at is None or at > step_at else step_at
        if step in (self._step, self._before):
            self._step_at = latest_at
            if step == self._step:
                self._loss = self._loss if mark.loss is None else _finite(mark.loss)
                self._norm = self._norm if mark.grad_norm is None else _finite(mark.grad_norm)
                self._take_rate(mark)
            return
        back = self._step is not None and step < self._step
        if back:
            self._reports, self._stamp_step, self._stamp_at = 0, None, None
        self._reports += 1
        self._time(mark)
        self._before = self._step
        if step_at is not None and not back:
            pause_s = (latest_at - step_at).total_seconds()
            self._pause_s = _longer(self._pause_s, pause_s)
            if self._first is None:
                self._first_pause_s = pause_s
        if self._first is None:
            self._first = mark
        self._last = mark
        self._loss, self._norm = _finite(mark.loss), _finite(mark.grad_norm)
        self._take_rate(mark)
        self._step, self._step_at = step, latest_at
        self._highest = step if self._highest is None or step > self._highest else self._highest
        self._total = mark.total if mark.total is not None else self._total
        self._seen += 1

    def _take_rate(self, mark: StepSeen) -> None:
        if mark.throughput is not None:
            self._rate, self._unit = _finite(mark.throughput), mark.throughput_unit

    def _time(self, mark: StepSeen) -> None:
        time_s = mark.step_time_s
        if time_s is None and not self._paused:
            time_s = _measured_s(self._stamp_step, self._stamp_at, mark)
        if time_s is not None and time_s > 0.0 and self._reports > WARM_UP_REPORTS:
            self._times_s.append(time_s)
        self._stamp_step, self._stamp_at, self._paused = mark.step, mark.at, False

    def state(self) -> ProgressState:
        """The state after all that was taken."""
        before = self._before_all
        progress = replace(
            before.progress,
            step_at=self._step_at,
            loss=self._loss,
            grad_norm=self._norm,
            throughput=self._rate,
            throughput_unit=self._unit,
        )
        if self._first is None or self._last is None:
            return replace(before, progress=progress)
        is_first = progress.first_step is None
        times_s = tuple(self._times_s)
        progress = replace(
            progress,
            first_step=self._first.step if is_first else progress.first_step,
            first_step_at=self._first.at if is_first else progress.first_step_at,
            step=self._step,
            highest_step=self._highest,
            total_steps=self._total,
            steps_seen=progress.steps_seen + self._seen,
            median_step_s=median(times_s) if times_s else None,
            longest_pause_s=self._pause_s,
            longest_save_s=_longer(progress.longest_save_s, self._first_pause_s if before.saved else None),
            longest_evaluation_s=_longer(
                progress.longest_evaluation_s, self._first_pause_s if before.evaluated else None
            ),
            is_learned=self._last.is_learned,
        )
        return replace(
            before,
            progress=progress,
            times_s=times_s,
            reports=self._reports,
            before=self._before,
            stamp_step=self._stamp_step,
            stamp_at=self._stamp_at,
            paused=self._paused,
            saved=False,
            evaluated=False,
        )


def _longer(known_s: float | None, pause_s: float | None) -> float | None:
    if pause_s is None or known_s is None:
        return known_s if pause_s is None else pause_s
    return max(known_s, pause_s)


def _finite(value: float | None) -> float | None:
    """A number that JSON has; a NaN is told by the step and by rules, and is not known progress."""
    return value if value is not None and math.isfinite(value) else None
