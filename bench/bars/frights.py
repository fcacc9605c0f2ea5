"""Frightening lines while training goes on: caught, retried, restarted inside the job. Nothing may be done."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from bench.measures import Limit, Result
from bench.rigs import NO_STORM, Rig, Setup, rig
from relance.domain.stages import EndRunning
from relance.testing.clusters import Training

_RUNS, _QUICK_RUNS = 51, 6
_AT_A_TIME = 6
_STEPS, _STEP_S = 60, 0.2
_KINDS = ("caught", "retried", "restarted in the job")
_PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
_LIMIT_S = 120.0


def measure(*, quick: bool) -> Result:
    """Run trainings that frighten and get over it, under every consent and with short limits."""
    acted: list[str] = []
    seen: Counter[str] = Counter()
    setup = Setup(
        cluster={"nodes": 2 * _AT_A_TIME},
        site={
            "limits": {
                "settle_s": 0,
                "grace_after_boot_s": 0,
                "dead_rank_min_s": 5,
                "hang": {"suspected_min_s": 3},
                "storms": NO_STORM,
            }
        },
        end_running=frozenset(EndRunning),
    )
    runs = _QUICK_RUNS if quick else _RUNS
    with rig(setup) as made:
        for first in range(0, runs, _AT_A_TIME):
            numbers = range(first, min(first + _AT_A_TIME, runs))
            jobs = {number: _submit(made, number) for number in numbers}
            for number, job in jobs.items():
                made.wait_for_end(job, _LIMIT_S)
                seen[_KINDS[number % len(_KINDS)]] += 1
                acted += _actions(made, job, _KINDS[number % len(_KINDS)])
    return Result(
        name="frights",
        measure="frightening lines while training goes on: caught, retried, restarted in the job",
        limits=(Limit(name="actions", value=len(acted), most=0, unit=""),),
        figures={"runs": dict(seen), "actions": len(acted)},
        wrong=tuple(acted),
        conditions=(
            f"{runs} runs of 2 nodes x 1 rank; stage act, consent to end running attempts of every kind, settle time "
            "0, a dead rank after 5 s, a hang suspected after 3 s: as ready to act as it can be set"
        ),
    )


def _submit(made: Rig, number: int) -> int:
    kind = _KINDS[number % len(_KINDS)]
    name = f"fright-{number}"
    if kind == "caught":
        options = ("--frightening-at-step", str(_STEPS // 3))
        return made.cluster.submit(
            Training(name=name, nodes=2, ranks_per_node=1, steps=_STEPS, step_s=_STEP_S, options=options)
        )
    program = "retrying.py" if kind == "retried" else "restarting.py"
    argv = [sys.executable, str(_PROGRAMS / program), "--steps", str(_STEPS), "--step-s", str(_STEP_S)]
    answer = made.cluster.ask(
        "submit", name=name, argv=argv, nodes=2, work_dir=str(made.cluster.work_dir), output="%x-%j.out"
    )
    return int(answer["job_id"])


def _actions(made: Rig, job: int, kind: str) -> list[str]:
    """What was done to a job that was to be left alone."""
    found = [f"{kind}: {item.cause}: {item.summary}" for item in made.incidents(job) if item.times.act is not None]
    attempts = made.cluster.attempts(job)
    if len(attempts) > 1 or attempts[-1]["state"] != "COMPLETED":
        found.append(f"{kind}: job {job} had {len(attempts)} attempts and ended {attempts[-1]['state']}")
    return found
