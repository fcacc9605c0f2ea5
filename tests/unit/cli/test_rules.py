"""`relance rules lint` and `relance rules explain-line`, with rules of a site."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from relance.cli.main import main
from relance.domain.faults import Scope
from relance.rules.formats import Pack
from tests.unit.rules.packs import pack, rule

SOUND = rule("full", r"disk (?P<device>\w+) is full", hit=("disk a is full", "error: disk b is full again"))
SLOW = rule("slow", ".*the room is too hot", hit=("the room is too hot", "alarm: the room is too hot"))


@pytest.fixture
def in_force(monkeypatch: pytest.MonkeyPatch) -> list[Pack]:
    """The rules that the command finds: the last of this list."""
    held = [pack(SOUND)]
    monkeypatch.setattr("relance.cli.rules.pack_of", lambda _config, _paths=(): held[-1])
    return held


def run(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["rules", *words], input=text)


def test_lint_says_that_there_is_nothing_to_object_to(in_force: list[Pack]) -> None:
    told = run("lint")
    assert (told.exit_code, told.output) == (0, "1 rule: no objection\n"), len(in_force)


def test_lint_names_rule_field_and_remedy_and_fails(in_force: list[Pack]) -> None:
    in_force.append(pack(SOUND, SLOW))
    told = run("lint")
    assert told.exit_code == 1
    assert "it begins with anything at all" in told.output
    assert "2 rules: 1 objection" in told.output
    (problem,) = json.loads(run("lint", "--json").output)["problems"]
    assert (problem["rule"], problem["field"]) == ("slow", "pattern")


def test_lint_of_a_file_tells_of_its_rules_alone(in_force: list[Pack], tmp_path: Path) -> None:
    own = tmp_path / "site.yaml"
    own.touch()
    in_force.append(pack(SLOW, replace(SOUND, file=str(own))))
    told = run("lint", str(own))
    assert (told.exit_code, told.output) == (0, "1 rule: no objection\n")


def test_lint_with_cases_names_rules_that_know_one_alone(in_force: list[Pack], tmp_path: Path) -> None:
    in_force.append(pack(rule("full", r"disk \w+ is full", hit=("disk 3 is full", "disk 4 is full"))))
    for name, text in (("a", "disk 5 is full\n"), ("b", "step 1\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "expected.yaml").write_text("domain: storage\n")
        (tmp_path / name / "job.log").write_text(text)
    told = run("lint", "--corpus", str(tmp_path), "--json")
    assert told.exit_code == 1
    assert [each["rule"] for each in json.loads(told.output)["lone"]] == ["full"]
    assert f"its only hit is in {tmp_path / 'a'}" in run("lint", "--corpus", str(tmp_path)).output


def test_explain_line_says_where_a_rule_counts_and_what_it_takes(in_force: list[Pack]) -> None:
    told = run("explain-line", "the disk sda is full")
    assert told.exit_code == 0, len(in_force)
    assert "counts in logs of the kind application" in told.output
    assert "device = sda" in told.output


@pytest.mark.parametrize("words", [("explain-line",), ("explain-line", "-")])
def test_explain_line_reads_standard_input(in_force: list[Pack], words: tuple[str, ...]) -> None:
    (found,) = json.loads(run(*words, "--json", text="the disk sda is full\n").output)
    assert (found["rule"], found["counts"], found["captures"]) == (
        in_force[0].rules[0].id,
        [Scope.APPLICATION.value],
        {"device": "sda"},
    )


def test_explain_line_says_when_nothing_matches(in_force: list[Pack]) -> None:
    told = run("explain-line", "step 3")
    assert (told.exit_code, told.output.split(";")[0]) == (0, "no rule matches"), len(in_force)
