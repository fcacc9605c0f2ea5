from __future__ import annotations

import re
from difflib import get_close_matches

import pytest

from relance.domain.faults import FaultDomain, RestartHint, Scope
from relance.domain.findings import Sign
from relance.rules.checking import check_pack
from relance.rules.formats import CAPTURES, PackError, Problem
from relance.rules.loading import load_pack
from relance.rules.pack import read_texts
from relance.rules.patterns import LineMatcher, Pattern
from tests.unit.rules.packs import packaged

RULE = """
  - id: my-rule
    title: A line of ours
    pattern: 'valve (?P<device>\\w+) is stuck'
    symptom: valve_stuck
    domain: hardware
    role: root
    suspect: self
    restart: no
    weight: 0.5
    scopes: [application]
    source: our runbook
    hit:
      - 'valve v7 is stuck'
    miss:
      - 'valve v7 is open'
"""
FILE = f"group: ours\nabout: Our lines.\nrules:\n{RULE}"


def problems(*files: str) -> tuple[Problem, ...]:
    with pytest.raises(PackError) as caught:
        load_pack({f"file{number}.yaml": text for number, text in enumerate(files)})
    return caught.value.problems


def test_a_rule_file_becomes_rules_with_the_words_of_the_domain() -> None:
    pack = load_pack({"ours.yaml": FILE})
    (rule,) = pack.rules
    assert (rule.id, rule.group, rule.file, rule.domain) == ("my-rule", "ours", "ours.yaml", FaultDomain.HARDWARE)
    assert (rule.restart, rule.scopes) == (RestartHint.NO, frozenset({Scope.APPLICATION}))
    assert pack.groups == {"ours": "Our lines."}
    assert check_pack(pack) == ()


def test_the_packaged_rules_load_and_their_examples_hold() -> None:
    assert check_pack(packaged()) == ()


def test_the_packaged_rules_cover_what_is_asked_of_them() -> None:
    ids = set(packaged().by_id)
    assert len(ids) >= 100
    assert ids >= {
        "srun-task-killed",
        "xid-79",
        "cuda-launch-failure",
        "nccl-timeout",
        "python-lookup",
        "in-job-restart",
    }
    assert packaged().signs(["srun-task-killed", "xid-79", "no-such-rule"]) == {Sign.PROCESS_DEATH, Sign.KERNEL}


def test_an_xid_counts_in_a_kernel_log_only() -> None:
    xids = [rule for rule in packaged().rules if "xid" in rule.id]
    assert len(xids) >= 15
    assert {scope for rule in xids for scope in rule.scopes} == {Scope.KERNEL}


def test_every_packaged_rule_says_where_it_is_from_and_misspells_no_capture_that_counts() -> None:
    """Names beyond those that the fusion reads are for people; one that is nearly such a name is a mistake."""
    for rule in packaged().rules:
        others = LineMatcher(Pattern(text=rule.pattern)).names - set(CAPTURES)
        near = {name: found for name in others if (found := get_close_matches(name, CAPTURES, cutoff=0.9))}
        assert near == {}, rule.id
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in others), rule.id
        assert rule.source, rule.id


def test_the_packaged_files_have_at_least_two_hits_for_most_rules() -> None:
    rules = packaged().rules
    assert sum(len(rule.hit) >= 2 for rule in rules) > 0.6 * len(rules)


def test_a_later_file_changes_weights_and_switches_rules_off() -> None:
    site = "group: site\nweights: {xid-31: 0.9}\noff: [tracker-failed]\n"
    pack = load_pack({**read_texts(), "site.yaml": site})
    assert pack.by_id["xid-31"].weight == 0.9
    assert "tracker-failed" not in pack.by_id
    assert pack.off == {"tracker-failed"}


def test_the_settings_change_weights_and_switch_rules_off_too() -> None:
    pack = load_pack(read_texts(), weights={"xid-31": 0.2}, off=["tracker-failed"])
    assert (pack.by_id["xid-31"].weight, "tracker-failed" in pack.by_id) == (0.2, False)
    with pytest.raises(PackError) as caught:
        load_pack(read_texts(), off=["gone"])
    assert str(caught.value).startswith("settings: gone: off: there is no such rule. ")


def test_a_switched_off_rule_can_be_replaced() -> None:
    own = FILE.replace("my-rule", "my-xid") + "off: [xid-31]\n"
    pack = load_pack({**read_texts(), "site.yaml": own})
    assert "my-xid" in pack.by_id


@pytest.mark.parametrize(
    ("old", "new", "field", "message", "remedy"),
    [
        ("role: root", "role: rooot", "role", "input should be", "One of: root, maybe, cascade"),
        ("    role: root\n", "", "role", "field required", "Add it"),
        ("role: root", "role: root\n    colour: red", "colour", "extra inputs", "correct its spelling"),
        ("weight: 0.5", "weight: 5", "weight", "less than or equal to 1", "from 0 to 1"),
        ("weight: 0.5", "weight: -1", "weight", "greater than or equal to 0", "from 0 to 1"),
        ("scopes: [application]", "scopes: []", "scopes", "at least 1", "at least one"),
        ("id: my-rule", "id: My Rule", "id", "should match pattern", "small letters"),
        ("is stuck'\n    symptom", "is stuck('\n    symptom", "pattern", "no RE2 syntax", "escape"),
        ("pattern: 'valve", "pattern: '(?=valve", "pattern", "no RE2 syntax", "look-around"),
        (
            "pattern: 'valve (?P<device>\\w+) is stuck'",
            "pattern: 'x*'",
            "pattern",
            "every line",
            "at least one character",
        ),
        ("pattern: 'valve", "pattern: '\\Avalve", "pattern", "beyond one line", "ends"),
        ("pattern: 'valve", "pattern: 'välve", "pattern", "outside ASCII", "bytes of UTF-8"),
        ("weight: 0.5", "weight: 0.5\n    table: true\n    traceback: true", "table", "not for both", "one of the two"),
        ("title: A line of ours", "title: 7", "title", "valid string", "quotes"),
        ("weight: 0.5", "weight: 0.5\n    fallback: maybe", "fallback", "valid boolean", "true or false"),
    ],
)
def test_a_mistake_is_named_with_file_rule_field_and_remedy(
    old: str, new: str, field: str, message: str, remedy: str
) -> None:
    (problem,) = problems(FILE.replace(old, new))
    assert (problem.file, problem.field) == ("file0.yaml", field)
    assert problem.rule in {"my-rule", "My Rule"}
    assert message in problem.message
    assert remedy in problem.remedy
    assert str(problem).startswith(f"file0.yaml: {problem.rule}: {field}: ")


@pytest.mark.parametrize("kind", ["hit", "miss"])
def test_a_rule_without_examples_of_both_kinds_does_not_load(kind: str) -> None:
    without = FILE.replace(f"    {kind}:\n", "    gone:\n").replace("gone:", f"{kind}: []\n    source2:")
    fields = {problem.field for problem in problems(without)}
    assert kind in fields


def test_all_mistakes_of_all_files_are_told_at_once() -> None:
    found = problems(FILE.replace("role: root", "role: x").replace("weight: 0.5", "weight: 9"), "rules: 3\n")
    assert {(each.file, each.field) for each in found} == {
        ("file0.yaml", "role"),
        ("file0.yaml", "weight"),
        ("file1.yaml", "group"),
        ("file1.yaml", "rules"),
    }


def test_broken_yaml_and_a_key_that_is_there_twice_are_told_with_their_place() -> None:
    assert "line 3" in problems("group: ours\nrules: [\n")[0].message
    assert "'role' is there twice" in problems(FILE.replace("role: root", "role: root\n    role: maybe"))[0].message


def test_two_rules_of_one_id_are_refused() -> None:
    (problem,) = problems(FILE, FILE.replace("group: ours", "group: theirs"))
    assert (problem.file, problem.rule, problem.message) == (
        "file1.yaml",
        "my-rule",
        "there is a rule of this id in file0.yaml",
    )


def test_changing_a_rule_that_does_not_exist_is_refused() -> None:
    found = problems(FILE + "off: [gone]\nweights: {lost: 0.1}\n")
    assert {(each.field, each.message) for each in found} == {
        ("off", "there is no such rule"),
        ("weights", "there is no such rule"),
    }


def test_examples_that_do_not_hold_are_named_by_number() -> None:
    text = FILE.replace("- 'valve v7 is stuck'", "- 'valve v7 is stuck'\n      - 'valve is stuck'").replace(
        "is open", "is stuck"
    )
    found = check_pack(load_pack({"ours.yaml": text}))
    assert [(each.field, each.message) for each in found] == [
        ("hit.2", "does not match 'valve is stuck'"),
        ("miss.1", "matches 'valve v7 is stuck'"),
    ]
