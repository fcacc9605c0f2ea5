"""Every alarm, every cap and every notice for operators has a runbook, and each is short enough for the night."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import relance
from relance.cli.main import main
from relance.cli.runbooks import sections
from relance.ports.notifiers import NoticeKind
from relance.recovery.health import RESERVED
from relance.watchdog.alarms import Subject

SOURCES = Path(relance.__file__).parent
FOR_OWNERS = {"parked", "restarted", "hang", "settings", "slow", "diverged", "asked"}


def test_every_notice_for_operators_has_one() -> None:
    assert {kind.value for kind in NoticeKind} - FOR_OWNERS <= set(sections())


def test_every_alarm_of_the_controller_has_one() -> None:
    told = (path.read_text() for path in (SOURCES / "controlling").glob("*.py"))
    subjects = {word for text in told for word in re.findall(r"_alarm\(\s*\"(\w+)\"", text)}
    assert subjects, "no alarm was found"
    assert subjects <= set(sections())


def test_every_alarm_of_the_watchdog_has_one() -> None:
    assert {f"watchdog.{subject.value}" for subject in Subject} <= set(sections())


def test_every_cap_that_is_none_of_a_source_s_has_one() -> None:
    assert set(RESERVED) <= set(sections())


@pytest.mark.parametrize("word", sections())
def test_each_says_what_it_means_and_what_to_do(word: str) -> None:
    body = sections()[word]
    assert body.startswith("**Means:**")
    assert "**Do:**" in body
    assert len(body) < 900, "too long for three in the morning"


def test_it_is_printed_without_a_server() -> None:
    done = CliRunner().invoke(main, ["runbook", "action-unknown"])
    assert done.exit_code == 0, done.output
    assert "never sent again on a guess" in done.output
    assert json.loads(CliRunner().invoke(main, ["runbook", "--json"]).stdout).keys() == sections().keys()


def test_a_word_without_one_is_said_with_those_that_are_near() -> None:
    done = CliRunner().invoke(main, ["runbook", "ledge"])
    assert (done.exit_code, "watchdog.ledger_old" in done.output) == (3, True)


def test_commands_in_runbooks_exist() -> None:
    verbs = set(main.list_commands(None)) - {"--help"}  # type: ignore[arg-type] # the list does not depend on it
    named = {verb for body in sections().values() for verb in re.findall(r"`relance ([a-z-]+)", body)}
    assert named <= verbs


def test_a_long_word_does_not_run_into_its_sentence() -> None:
    listed = CliRunner().invoke(main, ["runbook"]).output
    assert "approval_needed: at stage" in listed
    assert not re.search(r"(?m)^[\w.]+:\S", listed)
