"""Losses and gradient norms of generated trainings: healthy ones with spikes that heal, and ones that run away."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from relance.detectors.runaways import Fold, Runaway, Runs
from relance.domain.limits import DivergenceLimits
from relance.domain.progress import StepSeen

AT = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = ("pretraining", "half_precision", "fine_tuning", "other_data")
"""What the training is like: a loss that falls by a power of the steps; the same with a loss scale that is sought at
first and overflows now and then; a small loss that varies widely; and data that change some times."""
WAYS = ("no number", "far up", "up by three times", "norm and loss")
"""How a training runs away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of a training: its kind, what was told first and at which step, and how many spikes healed."""

    seed: int
    kind: str
    told: Runaway | None
    told_step: int | None
    healed: int


class Training:
    """Loss and gradient norm of a training, step by step, drawn by a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.kind = KINDS[seed % len(KINDS)]
        is_small = self.kind == "fine_tuning"
        self._floor = chance.uniform(0.02, 0.8) if is_small else chance.uniform(1.5, 2.6)
        self._fall = chance.uniform(0.5, 2.0) if is_small else chance.uniform(7.0, 10.0)
        self._sigma = chance.uniform(0.2, 0.7) if is_small else chance.uniform(0.005, 0.05)
        self._norm = chance.uniform(0.1, 2.0)
        self._norm_sigma = chance.uniform(0.05, 0.4)
        self._scale_steps = chance.randrange(10, 50) if self.kind == "half_precision" else 0
        self._shift = 1.0
        self._spike_left, self._spike_steps, self._spike = 0, 1, 0.0

    def step(self, step: int) -> tuple[float, float]:
        """Loss and norm of a healthy step."""
        chance = self.chance
        loss = self._floor + self._fall * (1.0 + step / 20.0) ** -0.6
        norm = self._norm * (1.0 + 8.0 * math.exp(-step / 50.0))
        if self.kind == "other_data" and chance.random() < 1 / 3000:
            self._shift = chance.uniform(0.75, 1.35)
        if not self._spike_left and chance.random() < 1 / 1500:  # some twenty in a long run (PaLM)
            self._spike_left = self._spike_steps = chance.randrange(1, 36)
            self._spike = math.log(chance.uniform(3.0, 2000.0))
        if self._spike_left:
            high = self._spike * self._spike_left / self._spike_steps
            self._spike_left -= 1
            norm *= math.exp(high)
            loss *= 1.0 + 0.1 * high
        loss *= self._shift * math.exp(self._sigma * chance.gauss(0.0, 1.0))
        norm *= math.exp(self._norm_sigma * chance.gauss(0.0, 1.0))
        if step <= self._scale_steps or (self.kind == "half_precision" and chance.random() < 1 / 700):
            norm = math.inf
        return loss, norm

    def run_away(self, way: str, loss: float, norm: float) -> tuple[float, float]:
        """The same in a training that has run away."""
        if way == "no number":
            return math.nan, math.nan
        if way == "far up":
            return loss * 6.0, norm * 30.0
        if way == "up by three times":
            return loss * 3.0, norm
        return loss * 1.3, norm * 12.0


def healthy(seed: int, steps: int) -> Ran:
    """A healthy training of so many steps, and what is told of it."""
    return _ran(seed, steps, None, 0)


def ran_away(seed: int, way: str) -> Ran:
    """A training that runs away after some steps; `told_step` counts from there."""
    begun = 400 + seed % 700
    found = _ran(seed, begun + 400, way, begun)
    return replace(found, told_step=None if found.told_step is None else found.told_step - begun + 1)


def _ran(seed: int, steps: int, way: str | None, begun: int) -> Ran:
    training, fold = Training(seed), Fold(Runs(), DivergenceLimits())
    for step in range(1, steps + 1):
        loss, norm = training.step(step)
        if way is not None and step >= begun:
            loss, norm = training.run_away(way, loss, norm)
        fold.take(StepSeen(at=AT, step=step, loss=loss, grad_norm=norm))
        if fold.runaway is not None:
            return Ran(seed=seed, kind=training.kind, told=fold.runaway, told_step=step, healed=fold.healed)
    return Ran(seed=seed, kind=training.kind, told=None, told_step=None, healed=fold.healed)
