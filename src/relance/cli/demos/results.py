"""What the demonstration came to, as JSON data and as lines of text. Pure."""

from __future__ import annotations

from typing import Any

from relance.cli.demos import settings
from relance.cli.demos.acts import Act, Phase
from relance.cli.demos.plays import Scene
from relance.recovery.wordings import visible

MILESTONE_WORDS = {
    "detect": "found",
    "verdict": "judged",
    "advise": "advised",
    "act": "acted",
    "running": "runs",
    "first_step": "first step",
    "beyond": "new work",
    "over": "closed",
}
"""The milestones in the words of the screen."""


def result(scene: Scene) -> dict[str, Any]:
    """The one object that `--json` prints."""
    return {
        "ok": scene.is_good,
        "duration_s": round(scene.duration_s, 1),
        "roles": "apart" if scene.plan.apart else "up",
        "cluster": "slurm" if scene.plan.on_slurm else "simulated",
        "at_once": scene.plan.at_once,
        "stage_set_by": scene.person,
        "differs_from_defaults": {
            item.name: {"here": item.here, "default": item.usual}
            for item in settings.differences(at_once=scene.plan.at_once)
        },
        "faults": {act.fault.name.value: fault_result(act, scene.problems.get(act.fault.name)) for act in scene.acts},
    }


def fault_result(act: Act, problems: tuple[str, ...] | None) -> dict[str, Any]:
    """One fault: milestones in seconds from the injection, verdict, advice, outcome, `ok`. None: it is not over."""
    newest = act.newest
    found: dict[str, Any] = {
        "job": act.fault.job,
        "done": act.fault.done,
        "injected_at": act.broken_at.isoformat() if act.broken_at else None,
        "milestones_s": act.milestones,
        "verdict": verdict(act),
        "domain": newest.domain.value if newest and newest.domain else None,
        "cause": newest.cause if newest else None,
        "suspects": list(newest.suspects) if newest else [],
        "advice": newest.action.value if newest and newest.action else None,
        "excluded": sorted({node for item in act.incidents for node in item.excluded}),
        "outcome": outcome(act),
        "attempts": int(act.row["restart_count"]) + 1 if act.row else 0,
        "ok": problems is not None and not problems,
        "problems": list(problems) if problems is not None else ["it was not over"],
    }
    if act.fault.hang_after_s is not None:
        found["hang_after_s"] = act.fault.hang_after_s
    return found


def verdict(act: Act) -> str:
    """The verdict in one sentence; empty before it."""
    newest = act.newest
    if newest is None or newest.domain is None:
        return ""
    return visible(f"{newest.domain.value}: {newest.summary}")


def advice(act: Act) -> str:
    """The advice in a few words; empty before it, and while it only waits for more evidence."""
    newest = act.newest
    if newest is None or newest.action is None or newest.hold:
        return ""
    without = f" without {', '.join(newest.excluded)}" if newest.excluded else ""
    return newest.action.value.replace("_", " ").replace(" excluding", "") + without


def outcome(act: Act) -> str:
    """How it stands or ended, in a few words."""
    state = str(act.row["state"]).lower() if act.row else ""
    if act.phase is Phase.WAITING:
        return "waiting for its turn"
    newest = act.newest
    if newest is not None and newest.end is not None:
        end: str = newest.end.value.replace("_", " ")
        return f"{end}; the job is {state}" if act.phase is Phase.OVER else end
    if act.phase is Phase.OVER and act.fault.expectation.is_left_alone:
        return f"left alone; the job is {state}"
    return str(act.phase.value)


def milestone_line(act: Act) -> str:
    """The milestones that have happened, in the order of time."""
    found = sorted(act.milestones.items(), key=lambda item: item[1])
    return "  ".join(f"{MILESTONE_WORDS[name]} {value:.1f}" for name, value in found)
