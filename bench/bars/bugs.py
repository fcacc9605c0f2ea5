"""A deterministic bug: at most three attempts, then a stop that names the traceback."""

from __future__ import annotations

from bench.measures import Limit, Result, spread
from bench.rigs import NO_STORM, Rig, Setup, rig
from relance.domain.events import IncidentEnd
from relance.domain.faults import Remedy
from relance.testing.clusters import Training

_VARIANTS = {"after a checkpoint": 14, "before any checkpoint": 6, "at the first step": 1}
_RUNS, _QUICK_RUNS = 3, 1
_LIMIT_S = 180.0


def measure(*, quick: bool) -> Result:
    """Run trainings that fail at the same step in every attempt."""
    attempts: dict[str, list[float]] = {}
    wrong: list[str] = []
    setup = Setup(
        cluster={"nodes": 4, "kill_wait_s": 1.0},
        site={
            "limits": {
                "settle_s": 0,
                "grace_after_boot_s": 0,
                "restarts": {"backoff_first_s": 1},
                "storms": NO_STORM,
            }
        },
    )
    with rig(setup) as made:
        for name, step in _VARIANTS.items():
            for number in range(_QUICK_RUNS if quick else _RUNS):
                count, problems = _run(made, f"bug-{step}-{number}", step)
                attempts.setdefault(name, []).append(count)
                wrong += [f"{name}: {sentence}" for sentence in problems]
    return Result(
        name="bugs",
        measure="deterministic bug: at most 3 attempts, then stop with the traceback named",
        limits=(Limit(name="attempts, max", value=max(max(each) for each in attempts.values()), most=3, unit=""),),
        figures={name: {"attempts": spread(each).data} for name, each in attempts.items()},
        wrong=tuple(wrong),
        conditions="a training of 4 nodes x 1 rank with a KeyError at a fixed step; settle time 0, back-off 1 s",
    )


def _run(made: Rig, name: str, step: int) -> tuple[int, list[str]]:
    job = made.cluster.submit(
        Training(name=name, ranks_per_node=1, steps=200, step_s=0.1, options=("--bug-at-step", str(step)))
    )
    made.wait_for_end(job, _LIMIT_S)
    last = made.incidents(job)[-1]
    problems: list[str] = []
    if last.action is not Remedy.STOP or last.end is not IncidentEnd.STOPPED:
        problems.append(f"advice {last.action}, end {last.end}")
    evidence = made.client.incident_story(last.id).evidence
    if not any("KeyError" in quote.text for quote in evidence):
        problems.append("the traceback is not among the evidence")
    return len(made.cluster.attempts(job)), problems
