"""Step times of generated trainings: healthy ones of many kinds, drawn by a seed, and ones that turn slow."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from relance.detectors.paces import Fold, Pace, Slowness
from relance.domain.limits import SlowdownLimits

DAY_S = 86_400.0
AT = datetime(2026, 1, 1, tzinfo=UTC)
"""Stands for the time of every line: the detector's core only passes it on."""
KINDS = ("plain", "lengths", "wander", "modes", "bursts")
"""What the noise is like: normal; lengths of sequences that vary widely; the same, but wandering slowly, as a network
shared with others does; two kinds of steps in a mixture; and a step now and then that takes many times as long."""
_LONGEST_STEP_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthy:
    """A healthy training's parameters; times in seconds, spreads and drifts as logarithms."""

    kind: str
    step_s: float
    sigma: float
    lengths: float
    wander: float
    wander_steps: float
    mode_share: float
    mode: float
    burst_share: float
    drift_a_day: float
    season: float
    season_phase: float
    save_every: int
    save_s: float
    warm_up_steps: int
    warm_up: float
    hiccups_a_day: float


def drawn(seed: int, least_step_s: float, most_step_s: float) -> tuple[Healthy, random.Random]:
    """A healthy training by its seed, and the chance that goes with it."""
    chance = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    return Healthy(
        kind=kind,
        step_s=math.exp(chance.uniform(math.log(least_step_s), math.log(most_step_s))),
        sigma=chance.uniform(0.01, 0.08),
        lengths=chance.uniform(0.1, 0.4) if kind == "lengths" else 0.0,
        wander=chance.uniform(0.01, 0.05) if kind == "wander" else 0.0,
        wander_steps=math.exp(chance.uniform(math.log(20.0), math.log(2000.0))),
        mode_share=chance.uniform(0.02, 0.5) if kind == "modes" else 0.0,
        mode=math.log(chance.uniform(1.3, 2.0)),
        burst_share=chance.uniform(0.001, 0.02) if kind == "bursts" else 0.0,
        drift_a_day=chance.uniform(-0.1, 0.1),
        season=chance.uniform(0.0, 0.08),
        season_phase=chance.uniform(0.0, 2.0 * math.pi),
        save_every=chance.randrange(50, 2000),
        save_s=chance.uniform(2.0, 300.0),
        warm_up_steps=chance.randrange(3, 40),
        warm_up=chance.uniform(0.2, 2.0),
        hiccups_a_day=chance.uniform(0.0, 10.0),
    ), chance


def steps_of(training: Healthy, chance: random.Random, days: float) -> Iterator[tuple[float, float]]:
    """The steps of a training over so many days: how long each took, and the pause after it."""
    now_s, step, wander, hiccup_left, hiccup, calm_until_s = 0.0, 0, 0.0, 0, 0.0, 0.0
    keep = math.exp(-1.0 / training.wander_steps)
    push = training.wander * math.sqrt(1.0 - keep * keep)
    base, ceiling = math.log(training.step_s), 3.0 * training.step_s + _LONGEST_STEP_S
    gauss, rnd = chance.gauss, chance.random
    while now_s < days * DAY_S:
        step += 1
        x = base + training.sigma * gauss(0.0, 1.0) + training.drift_a_day * now_s / DAY_S
        x += training.season * math.sin(2.0 * math.pi * now_s / DAY_S + training.season_phase)
        if training.lengths:
            x += training.lengths * gauss(0.0, 1.0)
        elif push:
            wander = keep * wander + push * gauss(0.0, 1.0)
            x += wander
        elif training.mode_share:
            x += training.mode if rnd() < training.mode_share else 0.0
        elif training.burst_share and rnd() < training.burst_share:
            x += chance.paretovariate(1.5) - 1.0
        if step < training.warm_up_steps:
            x += training.warm_up * (1.0 - step / training.warm_up_steps)
        if hiccup_left:
            hiccup_left, x = hiccup_left - 1, x + hiccup
        elif now_s > calm_until_s and rnd() < training.hiccups_a_day / DAY_S * training.step_s:
            # A stall of the file system or a neighbour: up to 15 steps and two minutes, up to 2.7 times as long.
            hiccup_left = min(chance.randrange(1, 16), max(1, int(120.0 / training.step_s)))
            hiccup, calm_until_s = chance.uniform(0.1, 1.0), now_s + 1800.0
        took_s = min(math.exp(min(x, base + 7.0)), ceiling)
        pause_s = training.save_s if step % training.save_every == 0 else 0.0
        now_s += took_s + pause_s
        yield took_s, pause_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarmed:
    """What came of a healthy training: its kind, how many steps it made, and what was wrongly told of it."""

    seed: int
    training: Healthy
    steps: int
    alarms: tuple[Slowness, ...]


def watched_healthy(seed: int, days: float, least_step_s: float, most_step_s: float) -> Alarmed:
    """A healthy training, and what the shipped limits make of it."""
    training, chance = drawn(seed, least_step_s, most_step_s)
    fold, step, alarms = Fold(Pace(), SlowdownLimits()), 0, list[Slowness]()
    for took_s, _ in steps_of(training, chance, days):
        step += 1
        fold.add(step, AT, 1, took_s)
        if fold.slow is not None and (not alarms or alarms[-1] != fold.slow):
            alarms.append(fold.slow)
    return Alarmed(seed=seed, training=training, steps=step, alarms=tuple(alarms))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed:
    """A training that turns slow: by what share, how noisy it is, how long a step takes, how often it reports."""

    share: float = 0.15
    sigma: float = 0.05
    step_s: float = 2.0
    every: int = 1


def steps_to_find(seed: int, slowed: Slowed, most: int = 400) -> int | None:
    """How many steps after it turned slow it is found; 0 or less: before. None: not within `most` steps."""
    chance = random.Random(seed)
    slow_from = 300 + chance.randrange(100)
    fold, took_s = Fold(Pace(), SlowdownLimits()), 0.0
    for step in range(1, slow_from + most):
        one_s = slowed.step_s * math.exp(slowed.sigma * chance.gauss(0.0, 1.0))
        took_s += one_s * (1.0 + slowed.share if step >= slow_from else 1.0)
        if step % slowed.every:
            continue
        fold.add(step, AT, slowed.every, took_s)
        took_s = 0.0
        if fold.slow is not None:
            return step - slow_from + 1
    return None
