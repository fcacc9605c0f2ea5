from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from relance.cli.failures import ExitCode
from relance.cli.main import VERBS, Verbs, main
from relance.rules import pack as rule_files
from relance.rules.pack import read_texts

OWN = """
group: site
about: Rules of this site.
rules:
  - id: site-licence
    title: The licence server does not answer
    pattern: "LICENCE ERROR: no answer from (?P<host>[a-z]+)"
    symptom: licence-missing
    domain: storage
    role: root
    suspect: none
    restart: wait
    weight: 0.9
    scopes: [application]
    source: ours
    hit: ["LICENCE ERROR: no answer from flexlm"]
    miss: ["LICENCE WARNING: slow answer from flexlm"]
"""


def run(*words: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, list(words), env=env)


def commands(group: click.Group, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found.append((*before, name))
        if isinstance(command, click.Group):
            found += commands(command, (*before, name))
    return found


def test_the_help_names_every_verb_and_every_exit_code() -> None:
    told = run("--help")
    assert told.exit_code == 0
    for verb in VERBS:
        assert f"  {verb} " in told.output
    assert "4 server unreachable" in " ".join(told.output.split())


@pytest.mark.parametrize("words", commands(main), ids=" ".join)
def test_every_verb_explains_itself(words: tuple[str, ...]) -> None:
    told = run(*words, "--help")
    assert told.exit_code == 0, told.output
    assert "Usage:" in told.output


@pytest.mark.parametrize("words", commands(main), ids=" ".join)
def test_every_option_has_its_sentence(words: tuple[str, ...]) -> None:
    command: click.Command | None = main
    for word in words:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, (words, parameter.name)


@pytest.mark.parametrize("verb", VERBS)
def test_the_line_in_the_help_is_about_the_verb_that_is_loaded(verb: str) -> None:
    group = Verbs("relance")
    command = group.get_command(click.Context(group), verb)
    assert command is not None
    assert command.name == verb


def test_rules_of_a_site_beside_the_shipped_ones_do_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = {"network.yaml": read_texts()["network.yaml"]}
    monkeypatch.setattr(rule_files, "read_texts", lambda: some)  # tests/unit/rules/test_loading.py tries all of them
    good = tmp_path / "good.yaml"
    good.write_text(OWN)
    told = run("rules", "test", str(good))
    assert told.exit_code == 0, told.output
    assert told.output.endswith("all as they say\n")


def test_a_rule_of_a_site_that_does_not_do_what_it_says_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = {"network.yaml": read_texts()["network.yaml"]}
    monkeypatch.setattr(rule_files, "read_texts", lambda: some)  # to try all of them takes seconds
    bad = tmp_path / "bad.yaml"
    bad.write_text(OWN.replace("no answer from flexlm", "nothing"))
    told = run("rules", "test", str(bad))
    assert told.exit_code == 1
    assert "site-licence" in told.output
    data = json.loads(run("rules", "test", str(bad), "--json").output)
    assert data["problems"][0]["rule"] == "site-licence"


def test_a_rule_file_that_cannot_be_used_is_refused_by_name(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(OWN.replace("weight: 0.9", "weight: heavy"))
    told = run("rules", "test", str(broken))
    assert told.exit_code == 1
    assert f"{broken}: site-licence: weight" in told.stderr


def test_settings_switch_rules_off_and_add_their_own(tmp_path: Path) -> None:
    own, settings = tmp_path / "own.yaml", tmp_path / "relance.yaml"
    own.write_text(OWN)
    settings.write_text(json.dumps({"rules": {"files": [str(own)], "off": ["cuda-out-of-memory"]}}))
    env = {"RELANCE_CONFIG": str(settings)}
    listed = {rule["id"] for rule in json.loads(run("rules", "list", "--json", env=env).output)}
    assert "site-licence" in listed
    assert "cuda-out-of-memory" not in listed
    gone = run("rules", "show", "cuda-out-of-memory", env=env)
    assert gone.exit_code == 3
    assert "switched off" in gone.stderr


def test_rules_are_listed_by_domain_and_shown_with_their_examples() -> None:
    rules = json.loads(run("rules", "list", "--domain", "hardware", "--scope", "kernel", "--json").output)
    assert rules
    assert {rule["domain"] for rule in rules} == {"hardware"}
    told = run("rules", "show", rules[0]["id"])
    assert told.exit_code == 0
    assert rules[0]["hit"][0].splitlines()[0] in told.output
    assert run("rules", "show", "no-such-rule").exit_code == 3


@pytest.mark.parametrize("role", ["up", "server", "watcher", "controller"])
def test_settings_that_cannot_be_used_end_a_role_with_a_sentence(role: str, tmp_path: Path) -> None:
    settings = tmp_path / "relance.yaml"
    settings.write_text("server: {port: many}\n")
    told = run(role, "--config", str(settings))
    assert told.exit_code == 1
    assert told.stderr.startswith(f"relance: {settings}: server.port: ")


def test_a_setting_given_on_the_command_line_needs_a_name_and_a_value() -> None:
    told = run("up", "--set", "server.port")
    assert told.exit_code == 2
    assert "NAME=VALUE" in told.stderr


def test_a_duration_beyond_all_calendars_is_refused() -> None:
    told = run("figures", "--last", "999999d")
    assert told.exit_code == ExitCode.USAGE
    assert "a hundred years" in told.output
