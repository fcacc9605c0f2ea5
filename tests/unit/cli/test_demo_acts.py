"""An act moves on by what is seen, and not before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relance.cli.demos.acts import ACT_LIMIT_S, WARM_UP_LIMIT_S, Act, Look, Phase, broken, seen, submitted
from relance.cli.demos.faults import FaultName
from relance.cli.demos.outputs import AttemptOutput, attempts_in
from relance.domain.clocks import Milestones
from relance.domain.events import IncidentEnd
from relance.domain.faults import Remedy
from relance.domain.views import JobState
from relance.recovery.stories import JobStory
from tests.unit.cli import acted

RUNNING = acted.scheduler_row("RUNNING", restarts=0)


def look(row: dict[str, Any] | None = None, story: JobStory | None = None, *, step: int | None = None) -> Look:
    """What was seen; the job's own output is at this step, its newest checkpoint at 10."""
    output = AttemptOutput(loaded_step=0, first_step=1, last_step=step, saved_step=10) if step is not None else None
    return Look(row=row, story=story, output=output)


def warming(name: FaultName = FaultName.KILL) -> Act:
    """An act whose job was submitted."""
    return submitted(Act(fault=acted.fault(name)), 1, acted.after(-10))


def hit(name: FaultName = FaultName.KILL) -> Act:
    """An act whose fault has come at step 14."""
    known = acted.story(attempts=1, state=JobState.RUNNING, seen=acted.progress(14))
    return broken(seen(warming(name), look(RUNNING, known, step=14), acted.after(0)), acted.BROKEN_AT, "node002")


@pytest.mark.parametrize(
    ("step", "durable", "phase"),
    [(9, None, Phase.WARMING), (11, 10, Phase.WARMING), (14, 10, Phase.READY), (19, 10, Phase.WARMING)],
    ids=["no checkpoint", "too early", "in the window", "too near to the next checkpoint"],
)
def test_a_job_is_broken_a_few_steps_after_a_checkpoint(step: int, durable: int | None, phase: Phase) -> None:
    output = AttemptOutput(loaded_step=0, first_step=1, last_step=step, saved_step=durable)
    known = acted.story(attempts=1, state=JobState.RUNNING, seen=acted.progress(step, durable))
    assert seen(warming(), Look(row=RUNNING, story=known, output=output), acted.after(-5)).phase is phase


def test_a_job_that_has_to_know_its_own_pace_is_broken_later() -> None:
    def at_step(step: int, saved: int) -> Act:
        output = AttemptOutput(loaded_step=0, first_step=1, last_step=step, saved_step=saved)
        known = acted.story(attempts=1, state=JobState.RUNNING, seen=acted.progress(step, saved))
        return seen(warming(FaultName.SLOW), Look(row=RUNNING, story=known, output=output), acted.after(-5))

    assert at_step(34, 30).phase is Phase.WARMING
    assert at_step(46, 40).phase is Phase.READY


def test_a_slow_job_has_shown_all_when_nothing_is_advised_and_the_step_of_the_finding_is_kept() -> None:
    act = hit(FaultName.SLOW)
    opened = acted.incident(end=None, ended_at=None, action=None)
    found = seen(act, look(RUNNING, acted.story(opened, attempts=1, state=JobState.RUNNING), step=66), acted.after(13))
    advised = replace(opened, action=Remedy.NONE)
    later = look(RUNNING, acted.story(advised, attempts=1, state=JobState.RUNNING), step=68)
    assert (found.phase, found.found_step) == (Phase.BROKEN, 66)
    shown = seen(found, later, acted.after(14))
    assert (shown.phase, shown.found_step) == (Phase.MENDED, 66)


def test_a_job_is_not_broken_before_the_server_knows_of_its_steps() -> None:
    assert seen(warming(), look(RUNNING, None, step=14), acted.after(-5)).phase is Phase.WARMING


def test_an_act_is_not_over_while_an_incident_is_open() -> None:
    opened = acted.incident(end=None, ended_at=None)
    assert seen(hit(), look(acted.scheduler_row(), acted.story(opened)), acted.after(20)).phase is Phase.MENDED


def test_an_act_is_over_when_the_job_has_ended_and_the_incident_too() -> None:
    whole = look(acted.scheduler_row(), acted.story(acted.incident()))
    assert seen(hit(), whole, acted.after(20)).phase is Phase.OVER


def test_a_failed_job_is_not_over_before_its_incident_is_there() -> None:
    failed = acted.scheduler_row("FAILED", restarts=0)
    known = acted.story(attempts=1, state=JobState.FAILED)
    assert seen(hit(FaultName.BUG), look(failed, known), acted.after(1)).phase is Phase.BROKEN


def test_a_failed_restart_is_not_over_before_its_own_incident_is_there() -> None:
    first = acted.incident(end=IncidentEnd.RELAPSED, times=Milestones())
    known = acted.story(first, state=JobState.FAILED)
    assert seen(hit(FaultName.BUG), look(acted.scheduler_row("FAILED"), known), acted.after(9)).phase is not Phase.OVER


def test_a_fright_is_shown_when_training_has_gone_on() -> None:
    act = hit(FaultName.SCARE)
    assert seen(act, look(RUNNING, step=20), acted.after(1)).phase is Phase.BROKEN
    assert seen(act, look(RUNNING, step=24), acted.after(2)).phase is Phase.MENDED


def test_a_job_that_never_warms_up_is_overdue() -> None:
    act = seen(warming(), look(RUNNING), acted.after(WARM_UP_LIMIT_S - 9))
    assert act.phase is Phase.OVER
    assert "could not be broken" in act.overdue


def test_an_act_that_does_not_end_is_overdue() -> None:
    act = seen(hit(), look(RUNNING), acted.after(ACT_LIMIT_S + 1))
    assert act.phase is Phase.OVER
    assert "not over" in act.overdue


def test_milestones_count_from_the_fault_and_end_with_the_last_incident() -> None:
    last = acted.incident(ended_at=acted.after(12.5), times=Milestones())
    act = replace(hit(), story=acted.story(acted.incident(), last))
    assert act.milestones == {
        "detect": 0.5,
        "verdict": 0.6,
        "advise": 0.6,
        "act": 2.0,
        "running": 4.5,
        "first_step": 4.0,
        "beyond": 6.0,
        "over": 12.5,
    }


def test_attempts_are_told_apart_in_a_job_s_own_output() -> None:
    lines = [
        "0: WARNING: could not find the metadata file /c/latest_checkpointed_iteration.txt",
        "0:     will not load any checkpoints and will start from random",
        "7:  [2026-03-01 12:00:01.000000] iteration        1/      75 | consumed samples:           32 | x",
        "7:  [2026-03-01 12:00:03.000000] iteration       12/      75 | consumed samples:           32 | x",
        "0:   [2026-03-01 12:00:03.000000] successfully saved checkpoint from iteration      10 to /c [ t 1/1, p 1/1 ]",
        "srun: error: node002: task 3: Killed",
        "0:  loading checkpoint from /c at iteration 10",
        "0:   successfully loaded checkpoint from /c [ t 1/1, p 1/1 ] at iteration 10",
        "7:  [2026-03-01 12:00:09.000000] iteration       11/      75 | consumed samples:           32 | x",
    ]
    assert attempts_in("\n".join(lines)) == (
        AttemptOutput(loaded_step=0, first_step=1, last_step=12, saved_step=10),
        AttemptOutput(loaded_step=10, first_step=11, last_step=11),
    )
