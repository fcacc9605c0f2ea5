"""The demonstration, several times: how long from each fault to the first step of the new attempt."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from bench.machines import ROOT
from bench.measures import Limit, Result, spread

_RUNS, _QUICK_RUNS = 5, 1
_FIRST_STEP_S = 15.0
_LIMIT_S = 200.0
_STEPPING = ("kill", "hang", "node")


def measure(*, quick: bool) -> Result:
    """Run the demonstration, alternately in one process and in three, and read its own JSON."""
    runs = [_run(apart=bool(number % 2)) for number in range(_QUICK_RUNS if quick else _RUNS)]
    wrong = [
        f"run {number}, {name}: {'; '.join(fault['problems'])}"
        for number, run in enumerate(runs)
        for name, fault in run["faults"].items()
        if not fault["ok"]
    ]
    steps = {name: spread(_first_steps_s(runs, name)) for name in _STEPPING}
    figures: dict[str, Any] = {f"{name}: fault to first new step": each.data for name, each in steps.items()}
    for milestone in ("detect", "act", "running", "beyond"):
        figures[f"fault to {milestone}"] = {
            name: spread(_milestones_s(runs, name, milestone)).data for name in _STEPPING
        }
    figures["whole demonstration"] = spread([run["duration_s"] for run in runs]).data
    return Result(
        name="stories",
        measure="fault to first new step, demonstration, per fault",
        limits=tuple(
            Limit(name=f"{name}, max", value=each.maximum, most=_FIRST_STEP_S) for name, each in steps.items()
        ),
        figures=figures,
        wrong=tuple(wrong),
        conditions=(
            "`relance demo`, 4 nodes x 2 ranks per job; from the injection, but for the hang from its hang_after_s; "
            "every other run with server, watcher and controller as three processes"
        ),
    )


def _run(*, apart: bool) -> dict[str, Any]:
    argv = [sys.executable, "-m", "relance", "demo", "--json", *(["--apart"] if apart else [])]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    if not done.stdout:
        raise RuntimeError(f"the demonstration said nothing: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _first_steps_s(runs: list[dict[str, Any]], name: str) -> list[float]:
    hang_after_s = float(runs[0]["faults"][name].get("hang_after_s", 0.0))
    return [each - hang_after_s for each in _milestones_s(runs, name, "first_step")]


def _milestones_s(runs: list[dict[str, Any]], name: str, milestone: str) -> list[float]:
    """Where there is none, the demonstration itself says what went wrong."""
    found = [run["faults"][name]["milestones_s"].get(milestone) for run in runs]
    return [float(each) for each in found if each is not None]
