"""Divergences: how soon a loss that ran away is told, and how often a healthy training is taken for one."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from functools import partial

from bench.losses import AT, KINDS, WAYS, Training, healthy, ran_away
from bench.measures import Limit, Result, spread
from relance.detectors.runaways import Runs
from relance.domain.limits import DivergenceLimits
from relance.domain.progress import StepSeen

_TRAININGS, _QUICK_TRAININGS = 200, 40
_HEALTHY, _QUICK_HEALTHY = 1_000, 100
_STEPS = 10_000
_LIMITS = DivergenceLimits()
_WITHIN_STEPS = {
    way: _LIMITS.without_number if way == "no number" else _LIMITS.heal_steps + 15
    for way in WAYS
}  # fmt: skip
"""A spike is told of when it has not healed in its time, and a few reports later where noise blurs its begin."""
_FOUND_SHARE = 0.95
_OF = ("pretraining", "half_precision", "other_data")
"""Kinds whose losses say enough: one of fine-tuning may vary tenfold from step to step."""
_COST_US = 10.0
_COST_STEPS, _QUICK_COST_STEPS = 300_000, 50_000


def measure(*, quick: bool) -> Result:
    """Generate trainings that run away and healthy ones, and count what is told of them."""
    seeds = range(_QUICK_TRAININGS if quick else _TRAININGS)
    count = _QUICK_HEALTHY if quick else _HEALTHY
    with multiprocessing.Pool(2) as pool:
        found = {way: pool.map(partial(ran_away, way=way), seeds, chunksize=4) for way in WAYS}
        sound = pool.map(partial(healthy, steps=_STEPS), range(count), chunksize=4)
    limits = []
    for way, runs in found.items():
        told = [each.told_step for each in runs if each.kind in _OF]
        in_time = sum(step is not None and 0 < step <= _WITHIN_STEPS[way] for step in told) / len(told)
        limits.append(Limit(name=way, value=round(in_time, 3), most=_FOUND_SHARE, unit="share in time", is_least=True))
    wrong = [each for each in sound if each.told is not None]
    cost_us = _cost_us(_QUICK_COST_STEPS if quick else _COST_STEPS)
    early = sum(each.told_step is not None and each.told_step <= 0 for runs in found.values() for each in runs)
    return Result(
        name="divergences",
        measure="A loss or gradient norm that runs away: told in time; healthy trainings with spikes that heal",
        limits=(
            *limits,
            Limit(name="false_alarms", value=len(wrong), most=0, unit=f"in {count} healthy trainings"),
            Limit(name="cost", value=round(cost_us, 2), most=_COST_US, unit="us a step"),
        ),
        figures={
            "steps_to_tell": {
                way: spread([float(each.told_step) for each in runs if each.told_step is not None]).data
                for way, runs in found.items()
            },
            "not_told": {way: dict(Counter(r.kind for r in runs if r.told is None)) for way, runs in found.items()},
            "healthy_steps": count * _STEPS,
            "spikes_that_healed": sum(each.healed for each in sound),
            "false_alarms": [(each.seed, each.kind, each.told.cause) for each in wrong if each.told is not None],
        },
        wrong=(f"{early} were told before they came",) if early else (),
        conditions=(
            f"shipped limits; {len(seeds)} trainings a way that run away after 400 to 1,100 steps; healthy ones of "
            f"{_STEPS} steps of the kinds {', '.join(KINDS)}, with a spike of the norm by 3 to 2,000 times that heals "
            "within 35 steps about every 1,500 steps, all drawn by the seed; in time is within 5 steps of losses that "
            f"are no numbers, {_LIMITS.heal_steps + 15} of others, of all kinds but fine-tuning"
        ),
    )


def _cost_us(steps: int) -> float:
    training = Training(0)
    reports = []
    for step in range(1, steps + 1):
        loss, norm = training.step(step)
        reports.append(StepSeen(at=AT, step=step, loss=loss, grad_norm=norm))
    runs, begun = Runs(), time.process_time()
    for first in range(0, steps, 1000):
        runs = runs.after_all(reports[first : first + 1000], _LIMITS)
    return 1e6 * (time.process_time() - begun) / steps
