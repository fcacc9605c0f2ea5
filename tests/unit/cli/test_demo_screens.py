"""What the demonstration shows and prints."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from relance.cli.demos import screens
from relance.cli.demos.acts import Act, Phase
from relance.cli.demos.checks import problems
from relance.cli.demos.faults import FaultName
from relance.cli.demos.plays import Plan, Scene
from relance.cli.demos.results import result
from tests.unit.cli import acted

WRONG: dict[FaultName, tuple[str, ...]] = {FaultName.KILL: ("the job had 3 attempts, not 2 to 2",)}


def scene(*acts: Act, wrong: dict[FaultName, tuple[str, ...]] | None = None) -> Scene:
    """A scene with these acts; those that are over have been judged."""
    played = acts or tuple(acted.good_account(name).act for name in FaultName)
    judged: dict[FaultName, tuple[str, ...]] = {act.fault.name: () for act in played if act.phase is Phase.OVER}
    return Scene(
        plan=Plan(faults=tuple(act.fault for act in played), folder=Path("/tmp/demo")),
        acts=played,
        started_at=acted.after(-20),
        now=acted.after(60),
        url="http://127.0.0.1:8642",
        token_file=Path("/tmp/demo/state/admin-token"),
        person="mara",
        problems={**judged, **(wrong or {})},
    )


def shown(what: object, width: int = 120) -> str:
    """What a terminal of this width shows."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(what)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_the_screen_has_a_panel_per_fault_and_says_how_to_log_in() -> None:
    text = shown(screens.screen(scene()))
    assert all(acted.fault(name).title in text for name in FaultName)
    assert "http://127.0.0.1:8642/" in text
    assert "/tmp/demo/state/admin-token" in text
    assert "found 0.5" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = shown(screens.screen(scene()), width) + shown(screens.opening(scene()), width)
    assert max(len(line) for line in text.splitlines()) <= width


def test_on_a_low_terminal_only_what_goes_on_now_has_a_panel() -> None:
    active = replace(acted.good_account(FaultName.HANG).act, phase=Phase.BROKEN)
    acts = [acted.good_account(name).act for name in FaultName if name is not FaultName.HANG]
    text = shown(screens.screen(scene(*acts, active), 24), 80)
    assert len(text.splitlines()) <= 24
    assert text.count("\N{BOX DRAWINGS LIGHT ARC DOWN AND RIGHT}") == 1
    assert "a rank is killed  recovered; the job is completed" in text


def test_before_a_fault_the_panel_says_what_it_waits_for() -> None:
    text = shown(screens.screen(scene(Act(fault=acted.fault(FaultName.HANG)))))
    assert "waiting for its turn" in text


def test_the_opening_names_every_default_that_is_shortened() -> None:
    text = shown(screens.opening(scene()))
    for words in ("settle time", "hang", "dead rank", "TERM to KILL", "15 s", "mara has set stage act"):
        assert words in text


def test_a_terminal_gets_no_control_characters_from_a_log() -> None:
    act = acted.good_account().act
    evil = acted.incident(summary="rank 3 \x1b]0;evil\x07 was killed \x1b[2J")
    act = replace(act, story=acted.story(evil))
    assert "\x1b" not in shown(screens.screen(scene(act)))
    assert all("\x1b" not in line for line in screens.news(scene(Act(fault=act.fault)), scene(act)))


def test_the_end_says_what_came_out_wrong() -> None:
    text = shown(screens.ending(scene(wrong=WRONG)))
    assert "a rank is killed: the job had 3 attempts, not 2 to 2" in text
    assert "/tmp/demo" in text
    assert "All came out right" not in text
    assert "All came out right, in 80 s." in shown(screens.ending(scene()))


def test_news_are_told_once() -> None:
    act = acted.good_account().act
    before = scene(replace(act, phase=Phase.READY, broken_at=None, story=None))
    lines = "\n".join(screens.news(before, scene(act)))
    assert "SIGKILL to rank 3" in lines
    assert "found after 0.5 s" in lines
    assert "advice: restart" in lines
    assert "as it should be" in lines
    assert screens.news(scene(act), scene(act)) == []


def test_the_result_has_milestones_verdict_advice_and_outcome_per_fault() -> None:
    found = json.loads(json.dumps(result(scene())))
    assert found["ok"] is True
    assert set(found["faults"]) == {name.value for name in FaultName}
    kill = found["faults"]["kill"]
    assert kill["ok"] is True
    assert kill["milestones_s"]["first_step"] == 4.0
    assert kill["advice"] == "restart"
    assert kill["outcome"] == "recovered; the job is completed"
    assert found["faults"]["node"]["excluded"] == ["node002"]
    assert found["faults"]["scare"]["outcome"] == "left alone; the job is completed"
    assert found["faults"]["hang"]["hang_after_s"] == 6.0


def test_one_wrong_fault_makes_the_whole_result_wrong() -> None:
    found = result(scene(wrong=WRONG))
    assert found["ok"] is False
    assert found["faults"]["kill"]["problems"] == list(WRONG[FaultName.KILL])
    assert found["faults"]["hang"]["ok"] is True


def test_a_fault_that_is_not_over_is_not_right() -> None:
    act = replace(acted.good_account().act, phase=Phase.BROKEN)
    found = result(scene(act))
    assert found["ok"] is False
    assert found["faults"]["kill"]["problems"] == ["it was not over"]
    assert problems(replace(acted.good_account(), act=act))
