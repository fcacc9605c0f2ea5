"""Slowdowns: how soon one is found, and how often a healthy training is taken for slow."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from bench.measures import Limit, Result, spread
from bench.step_times import AT, KINDS, Alarmed, Slowed, drawn, steps_of, steps_to_find, watched_healthy
from relance.detectors.paces import Fold, Pace
from relance.domain.limits import SlowdownLimits
from relance.domain.progress import StepSeen

_TRAININGS, _QUICK_TRAININGS = 300, 60
_WITHIN_STEPS = 60
_FOUND_SHARE = 0.97
_DAYS, _QUICK_DAYS = 3_000, 100
_LEAST_STEP_S, _MOST_STEP_S = 3.0, 60.0
_FAST_DAYS, _QUICK_FAST_DAYS = 60, 3
_FAST_STEP_S = 0.5
"""Some trainings of shorter steps beside those that the bar counts: they have many times as many."""
_ALARMS = 1
_UPPER_95 = (3.00, 4.74, 6.30, 7.75, 9.15, 10.51)
"""The largest mean of a Poisson count of which 0, 1, 2, ... are not too few, with 95 % confidence."""
_COST_US = 5.0
_COST_STEPS, _QUICK_COST_STEPS = 1_000_000, 100_000
_PROCESSES = 2
_CASES = {
    "bar": Slowed(),
    "steps of 1 s": Slowed(step_s=1.0),
    "steps of 20 s": Slowed(step_s=20.0),
    "each tenth step told": Slowed(every=10),
    "12 % slower": Slowed(share=0.12),
    "10 % slower": Slowed(share=0.10),
    "30 % slower, sigma 10 %": Slowed(share=0.3, sigma=0.1),
    "3 times": Slowed(share=2.0),
}


def measure(*, quick: bool) -> Result:
    """Generate trainings that turn slow and healthy ones, and count what is told of them."""
    trainings = range(_QUICK_TRAININGS if quick else _TRAININGS)
    days, fast_days = (_QUICK_DAYS, _QUICK_FAST_DAYS) if quick else (_DAYS, _FAST_DAYS)
    with multiprocessing.Pool(_PROCESSES) as pool:
        found = {
            name: pool.map(partial(steps_to_find, slowed=slowed), trainings, chunksize=8)
            for name, slowed in _CASES.items()
        }
        healthy = pool.map(
            partial(watched_healthy, days=1.0, least_step_s=_LEAST_STEP_S, most_step_s=_MOST_STEP_S),
            range(days),
            chunksize=8,
        )
        fast = pool.map(
            partial(watched_healthy, days=1.0, least_step_s=_FAST_STEP_S, most_step_s=_LEAST_STEP_S),
            range(fast_days),
            chunksize=1,
        )
    core_us, whole_us = _cost_us(_QUICK_COST_STEPS if quick else _COST_STEPS)
    alarms = sum(len(each.alarms) for each in healthy)
    early = sum(each is not None and each <= 0 for case in found.values() for each in case)
    return Result(
        name="slowdowns",
        measure="Steps that take 15 % longer at a noise of 5 %: found within 60; healthy trainings taken for slow",
        limits=(
            Limit(name="found_in_time", value=_in_time(found["bar"]), most=_FOUND_SHARE, unit="share", is_least=True),
            Limit(name="steps_to_find_p95", value=spread(_known(found["bar"])).p95, most=_WITHIN_STEPS, unit="steps"),
            Limit(name="false_alarms", value=alarms, most=_ALARMS, unit=f"in {days} job-days"),
            Limit(name="cost", value=round(whole_us, 2), most=_COST_US, unit="us a step"),
        ),
        figures={
            "steps_to_find": {name: _delays(case) for name, case in found.items()},
            "healthy": _figures(healthy),
            "healthy_with_short_steps": _figures(fast),
            "core_us_a_step": round(core_us, 2),
            "whole_us_a_step": round(whole_us, 2),
        },
        wrong=(f"{early} slowdowns were told before they came",) if early else (),
        conditions=(
            f"shipped limits; {len(trainings)} trainings a case that turn slow after 300 to 400 steps, normal noise of "
            f"5 % on a log scale; healthy: job-days on a virtual clock with steps of {_LEAST_STEP_S:g} to "
            f"{_MOST_STEP_S:g} s (short: {_FAST_STEP_S:g} to {_LEAST_STEP_S:g} s), each with noise of 1 to 8 % and one "
            f"of the kinds {', '.join(KINDS)}, a drift of up to 10 % a day, day and night of up to 8 %, saves, a slow "
            "warm-up, and stalls of up to 15 steps and 2 minutes, all drawn by the seed; the bound is a Poisson "
            "count's with 95 % confidence; cost: processor time, of the core alone and with a report of each step"
        ),
    )


def _known(found: Sequence[int | None]) -> list[float]:
    return [float(each) for each in found if each is not None and each > 0]


def _in_time(found: Sequence[int | None]) -> float:
    return sum(each is not None and 0 < each <= _WITHIN_STEPS for each in found) / len(found)


def _delays(found: Sequence[int | None]) -> dict[str, Any]:
    return {
        **spread(_known(found)).data,
        "within_60": round(_in_time(found), 3),
        "not_found": sum(each is None for each in found),
    }


def _figures(healthy: Sequence[Alarmed]) -> dict[str, Any]:
    alarms = sum(len(each.alarms) for each in healthy)
    upper = _UPPER_95[alarms] if alarms < len(_UPPER_95) else None
    return {
        "job_days": len(healthy),
        "steps": sum(each.steps for each in healthy),
        "alarms": alarms,
        "upper_95_a_job_day": None if upper is None else round(upper / len(healthy), 5),
        "alarms_by_kind": dict(Counter(each.training.kind for each in healthy for _ in each.alarms)),
        "seeds_with_alarms": [each.seed for each in healthy if each.alarms],
    }


def _cost_us(steps: int) -> tuple[float, float]:
    """Processor time for a step, in microseconds: of the core, and of the detector with the report that it is given."""
    training, chance = drawn(0, 5.0, 5.0)
    times_s = [took_s for (took_s, _), _ in zip(steps_of(training, chance, 1e9), range(steps), strict=False)]
    fold = Fold(Pace(), SlowdownLimits())
    begun = time.process_time()
    for step, took_s in enumerate(times_s, 1):
        fold.add(step, AT, 1, took_s)
    core_us = 1e6 * (time.process_time() - begun) / steps
    reports = [StepSeen(at=AT, step=step, step_time_s=took_s) for step, took_s in enumerate(times_s, 1)]
    pace, limits = Pace(), SlowdownLimits()
    begun = time.process_time()
    for first in range(0, steps, 1000):
        pace = pace.after_all(reports[first : first + 1000], limits)
    return core_us, 1e6 * (time.process_time() - begun) / steps
