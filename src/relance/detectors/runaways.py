"""Runaways: whether loss or gradient norm is no number any more, or has risen far and does not come back.

A spike that heals is counted and no more. Mixed precision begins with gradients that overflow while its scale is
sought, and skips a step now and then; a level that shifts a little, as with other data, becomes the usual one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from relance.detectors.levels import UNKNOWN, Level, LevelFold
from relance.domain.limits import DivergenceLimits
from relance.domain.progress import StepSeen
from relance.domain.replacing import replace

SCALE_SOUGHT: Final = 64
"""Reports in which a gradient norm that was never a number may only mean that the loss scale is still sought: from 2^32
down, each tried twice, are 64 (Megatron-LM's defaults)."""
CALM: Final = 5
"""So many calm reports in a row after a spike: it has healed. As many with numbers: these have come back."""
FEWEST: Final = 8
"""A spike is not told of before so many reports, however far apart they are."""
LASTING: Final = 0.75
"""The share of the reports since the spike in which a figure has to be high still."""
STILL, BACK = 0.75, 0.5
"""A norm is high still from the one share of what begins a spike on, as a logarithm; loss and norm have come back below
the other."""
SPREADS: Final = 6.0
"""What is high is so many spreads above the usual level, whatever else is asked of it."""
LOSS_TIMES: Final = 2.0
"""A loss is high from so many times its level on, at least."""
RISEN: Final = 0.05
"""A norm that stays high counts if the loss has risen by as much with it, as a logarithm: else it is another norm."""
GIVEN_UP: Final = 4
"""After so many times the steps in which a spike heals, what is neither told nor calm is the new usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runaway:
    """What ran away, from which step on, and since when."""

    cause: str
    first_step: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Spike:
    """A spike under way: how many reports it has lasted, and in how many of them what was how."""

    first_step: int
    at: datetime
    reports: int = 0
    high_loss: int = 0
    high_norm: int = 0
    with_loss: int = 0
    risen_loss: int = 0
    calm: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What is known of loss and gradient norm.

    `had_norm` says that a gradient norm was a number before. `row` is how many reports in a row had no number, the
    first at `row_step` and `row_at`; `row_loss`: the loss was among them. `sound` is how many in a row had numbers.
    `healed` counts spikes that healed.
    """

    version: int = 1
    step: int | None = None
    before: int | None = None
    reports: int = 0
    had_norm: bool = False
    row: int = 0
    row_step: int = 0
    row_at: datetime | None = None
    row_loss: bool = False
    sound: int = 0
    loss: Level = UNKNOWN
    norm: Level = UNKNOWN
    spike: Spike | None = None
    runaway: Runaway | None = None
    healed: int = 0

    @property
    def trouble_step(self) -> int | None:
        """The first step of what ran away, or may be about to."""
        if self.runaway is not None:
            return self.runaway.first_step
        if self.row:
            return self.row_step
        return self.spike.first_step if self.spike is not None else None

    def after_all(self, steps: Iterable[StepSeen], limits: DivergenceLimits) -> Runs:
        """With several more reports: the same as with one after the other."""
        fold = Fold(self, limits)
        for seen in steps:
            fold.take(seen)
        return fold.runs()


class Fold:
    """Takes reports of steps, without a new value for each."""

    def __init__(self, runs: Runs, limits: DivergenceLimits) -> None:
        self._before_all = runs
        self._limits = limits
        self._times = math.log(max(limits.spike_times, 1.0))
        self._least_loss = min(self._times, math.log(LOSS_TIMES))
        self._step, self._before, self._reports = runs.step, runs.before, runs.reports
        self._had_norm = runs.had_norm
        self._row, self._row_step, self._row_at, self._row_loss = runs.row, runs.row_step, runs.row_at, runs.row_loss
        self._sound = runs.sound
        self._loss, self._norm = LevelFold(runs.loss), LevelFold(runs.norm)
        self._spike, self.runaway, self.healed = runs.spike, runs.runaway, runs.healed

    def take(self, seen: StepSeen) -> None:
        """One more report. A step that is told again, as other ranks do, says nothing."""
        step, loss, norm = seen.step, seen.loss, seen.grad_norm
        if (loss is None and norm is None) or step in (self._step, self._before):
            return
        if self._step is not None and step < self._step:
            self._row, self._sound, self._spike = 0, 0, None
        self._before, self._step = self._step, step
        self._reports += 1
        bad_loss = loss is not None and not math.isfinite(loss)
        bad_norm = norm is not None and not math.isfinite(norm)
        if bad_loss or bad_norm:
            self._take_no_number(seen, of_loss=bad_loss)
            return
        self._had_norm = self._had_norm or norm is not None
        self._row, self._sound = 0, self._sound + 1
        self._take_numbers(seen, loss or 0.0, norm or 0.0)
        if self.runaway is not None and self._spike is None and self._sound >= CALM:
            self.runaway = None

    def runs(self) -> Runs:
        """What is known after all that was taken."""
        return replace(
            self._before_all,
            step=self._step,
            before=self._before,
            reports=self._reports,
            had_norm=self._had_norm,
            row=self._row,
            row_step=self._row_step,
            row_at=self._row_at,
            row_loss=self._row_loss,
            sound=self._sound,
            loss=self._loss.state(),
            norm=self._norm.state(),
            spike=self._spike,
            runaway=self.runaway,
            healed=self.healed,
        )

    def _take_no_number(self, seen: StepSeen, *, of_loss: bool) -> None:
        if not of_loss and not self._had_norm and self._reports <= SCALE_SOUGHT:
            return
        self._sound = 0
        if not self._row:
            self._row_step, self._row_at, self._row_loss = seen.step, seen.at, False
        self._row += 1
        self._row_loss = self._row_loss or of_loss
        if self._row >= self._limits.without_number and self.runaway is None and self._row_at is not None:
            cause = "loss_nan" if self._row_loss else "grad_norm_nan"
            self.runaway = Runaway(cause=cause, first_step=self._row_step, at=self._row_at)

    def _take_numbers(self, seen: StepSeen, loss: float, norm: float) -> None:
        """Both are above zero where they are told and can be compared at all."""
        log_loss, log_norm = _log(loss), _log(norm)
        over_loss, over_norm = self._loss.excess(log_loss), self._norm.excess(log_norm)
        if self._spike is None and over_loss < self._least_loss and over_norm < self._times:
            self._learn(log_loss, log_norm)
            return
        most_loss, most_norm = self._high_loss(), max(self._times, SPREADS * self._norm.spread)
        ease = 1.0 if self._spike is None else STILL
        high_loss, high_norm = over_loss >= most_loss, over_norm >= ease * most_norm
        if self._spike is None and not (high_loss or high_norm):
            self._learn(log_loss, log_norm)
            return
        spike = self._spike or Spike(first_step=seen.step, at=seen.at)
        risen = over_loss >= max(RISEN, self._loss.spread)
        self._spike = spike = replace(
            spike,
            reports=spike.reports + 1,
            high_loss=spike.high_loss + high_loss,
            high_norm=spike.high_norm + high_norm,
            with_loss=spike.with_loss + (loss > 0.0),
            risen_loss=spike.risen_loss + risen,
            calm=0 if over_loss >= BACK * most_loss or over_norm >= BACK * most_norm else spike.calm + 1,
        )
        self._judge(spike, seen.step)

    def _learn(self, log_loss: float | None, log_norm: float | None) -> None:
        if log_loss is not None:
            self._loss.take(log_loss)
        if log_norm is not None:
            self._norm.take(log_norm)

    def _high_loss(self) -> float:
        """From how far above its level a loss is high, as a logarithm.

        A loss is a logarithm itself, as a rule, so that a factor is a sum: from 1 to 2.6 is a factor of 5.
        """
        as_sum = math.log1p(self._times / math.exp(min(self._loss.level, 50.0)))
        return max(self._least_loss, min(self._times, as_sum), SPREADS * self._loss.spread)

    def _judge(self, spike: Spike, step: int) -> None:
        lasted = step - spike.first_step
        if spike.calm >= CALM:
            self._spike, self.runaway = None, None
            self.healed += 1
            return
        if lasted < self._limits.heal_steps or spike.reports < FEWEST or self.runaway is not None:
            return
        many = LASTING * spike.reports
        with_loss = not spike.with_loss or spike.risen_loss >= LASTING * spike.with_loss
        cause = ""
        if spike.high_loss >= many:
            cause = "loss_diverged"
        elif spike.high_norm >= many and with_loss:
            cause = "grad_norm_diverged"
        if cause:
            self.runaway = Runaway(cause=cause, first_step=spike.first_step, at=spike.at)
        elif lasted >= GIVEN_UP * self._limits.heal_steps:
            self._spike = None
            self._loss.forget()
            self._norm.forget()


def _log(value: float) -> float | None:
    return math.log(value) if value > 0.0 else None
