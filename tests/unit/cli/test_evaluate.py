"""`relance evaluate`: scores of labelled cases, the wrong ones listed, and what makes it fail."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from relance.cli import diagnosing
from relance.cli.main import main
from tests.layers import ROOT

STEPS = "".join(f" iteration {number:8d}/ 1000 | elapsed time per iteration (ms): 900.0 |\n" for number in range(1, 40))
BUG = (
    "Traceback (most recent call last):\n"
    '  File "/home/ada/train.py", line 9, in main\n'
    "    total = sum(losses) / len(lossess)\n"
    "NameError: name 'lossess' is not defined\n"
)
XID = "[  100.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python, GPU has fallen off the bus.\n"
NODES = "nodes: [n1, n2]\nrank_to_node: [{ranks: 0-7, node: n1}, {ranks: 8-15, node: n2}]\n"
STOP = "domain: application\ndecision: stop\nsuspects: []\nfirst_evidence: {file: job.log, line: 43}\n"
EXCLUDE = (
    "domain: hardware\ndecision: restart_excluding\nsuspects: [n2]\nfirst_evidence: {file: dmesg-n2.log, line: 1}\n"
)


@pytest.fixture(scope="module")
def means() -> diagnosing.Means:
    return diagnosing.means_of(None)


@pytest.fixture(autouse=True)
def _one_scanner(means: diagnosing.Means, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosing, "means_of", lambda _config: means)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["evaluate", *words])


def report(*words: str, code: int = 0) -> dict[str, Any]:
    told = run(*words, "--json")
    assert told.exit_code == code, told.output + told.stderr
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def case(folder: Path, label: str, **logs: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "expected.yaml").write_text(label)
    (folder / "context.yaml").write_text(NODES)
    for name, text in logs.items():
        (folder / f"{name.replace('_', '-')}.log").write_text(text)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    case(tmp_path / "a-bug", STOP, job=STEPS + BUG)
    case(tmp_path / "deeper" / "b-gpu", EXCLUDE, job=STEPS, dmesg_n2=XID)
    return tmp_path


def test_right_answers_score_one(folder: Path) -> None:
    found = report(str(folder))
    scores = found["scores"]
    assert scores["cases"] == 2
    measures = ("decision", "domain", "suspect_recall", "suspect_precision", "first_evidence")
    assert {scores[name] for name in measures} == {1.0}
    assert (scores["acted_on_healthy"], scores["false_stops"], scores["hopeless_restarts"]) == (0, 0, 0)
    assert (found["wrong"], found["unreadable"]) == ([], [])


def test_the_page_names_every_key_in_its_order(folder: Path) -> None:
    page = (ROOT / "docs" / "reference" / "diagnose.md").read_text(encoding="utf-8")
    table = page.split("## The scores of `relance evaluate`", 1)[1]
    found = report(str(folder))
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(found)
    assert [name for name in found["scores"] if f"`{name}`" not in table] == []


def test_each_stated_confidence_has_its_number_and_how_many_were_right(folder: Path) -> None:
    case(folder / "c-wrong", EXCLUDE.replace("hardware", "storage"), job=STEPS, dmesg_n2=XID)
    levels = report(str(folder))["calibration"]
    assert sum(level["cases"] for level in levels) == 3
    assert sum(level["right"] for level in levels) == 2
    assert [level["confidence"] for level in levels] == sorted(level["confidence"] for level in levels)


def test_a_stop_where_a_restart_would_have_helped_is_a_false_stop_and_listed(tmp_path: Path) -> None:
    case(tmp_path / "a", "domain: application\ndecision: restart\n", job=STEPS + BUG)
    found = report(str(tmp_path))
    (wrong,) = found["wrong"]
    assert (wrong["case"], wrong["wrong"]) == ("a", ["decision", "false_stop"])
    assert (wrong["expected"]["decision"], wrong["answered"]["decision"]) == ("restart", "stop")
    assert found["scores"]["false_stops"] == 1


def test_an_act_on_a_healthy_job_is_counted_apart(tmp_path: Path) -> None:
    case(tmp_path / "a", "domain: none\ndecision: none\n", job=STEPS + BUG)
    scores = report(str(tmp_path))["scores"]
    assert (scores["acted_on_healthy"], scores["false_stops"]) == (1, 0)


def test_a_restart_of_a_hopeless_job_is_counted(tmp_path: Path) -> None:
    case(tmp_path / "a", "domain: application\ndecision: stop\n", job=STEPS, dmesg_n2=XID)
    found = report(str(tmp_path))
    assert found["scores"]["hopeless_restarts"] == 1
    assert found["scores"]["suspect_precision"] == 0.0


def test_an_answer_that_the_label_also_allows_is_right(tmp_path: Path) -> None:
    also = "also: {decisions: [stop], domains: [application]}\n"
    case(tmp_path / "a", f"domain: storage\ndecision: wait\n{also}", job=STEPS + BUG)
    scores = report(str(tmp_path))["scores"]
    assert (scores["decision"], scores["domain"]) == (1.0, 1.0)


@pytest.mark.parametrize(("line", "share"), [(45, 1.0), (41, 1.0), (46, 0.0)])
def test_first_evidence_may_be_two_lines_off(tmp_path: Path, line: int, share: float) -> None:
    case(tmp_path / "a", STOP.replace("43", str(line)), job=STEPS + BUG)
    assert report(str(tmp_path))["scores"]["first_evidence"] == share


def test_a_folder_may_be_a_case_itself_and_several_are_scored_apart_and_together(folder: Path) -> None:
    one, other = str(folder / "a-bug"), str(folder / "deeper")
    found = report(one, other)
    assert {name: scores["cases"] for name, scores in found["folders"].items()} == {one: 1, other: 1}
    assert found["scores"]["cases"] == 2


def test_a_case_counts_once_however_often_it_is_named(folder: Path) -> None:
    assert report(str(folder), str(folder / "a-bug"))["scores"]["cases"] == 2


def test_folds_hold_each_part_against_the_others(folder: Path) -> None:
    for number in range(4):
        case(folder / f"d-{number}", STOP, job=STEPS + BUG)
    folds = report(str(folder), "--folds", "3")["folds"]
    assert [(fold["fold"], fold["cases"], fold["right"], fold["expected"]) for fold in folds] == [
        (1, 2, 1.0, 1.0),
        (2, 2, 1.0, 1.0),
        (3, 2, 1.0, 1.0),
    ]
    assert report(str(folder / "a-bug"))["folds"] == [], "one case has no others"


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("domain: application\n", "expected.yaml: decision: a word is wanted"),
        ("- domain\n", "expected.yaml: a mapping with domain and decision is wanted"),
        ("domain: [\n", "expected.yaml: while parsing"),
        ("domain: applied\ndecision: stop\n", "expected.yaml: domain: 'applied' is none of "),
        ("domain: user\ndecision: halt\n", "expected.yaml: decision: 'halt' is none of restart, "),
        ("domain: user\ndecision: stop\nsuspects: n1\n", "expected.yaml: suspects: a list of words is wanted"),
    ],
)
def test_a_label_that_cannot_be_used_is_said_and_the_rest_is_scored(folder: Path, label: str, said: str) -> None:
    case(folder / "z", label, job=STEPS + BUG)
    found = report(str(folder), code=1)
    (broken,) = found["unreadable"]
    assert broken["case"] == "z"
    assert broken["why"].startswith(said)
    assert found["scores"]["cases"] == 2


def test_a_case_without_evidence_or_with_a_broken_context_cannot_be_read(folder: Path) -> None:
    case(folder / "y", STOP)
    (case(folder / "z", STOP, job=STEPS + BUG) / "context.yaml").write_text("nodes: 3\n")
    found = report(str(folder), code=1)
    assert [(broken["case"], broken["why"].split(":")[0]) for broken in found["unreadable"]] == [
        ("y", "there is no log to read"),
        ("z", f"cannot use {folder / 'z' / 'context.yaml'}"),
    ]


def test_people_get_a_table_and_each_wrong_answer_with_what_was_expected(folder: Path) -> None:
    case(folder / "c", EXCLUDE.replace("n2", "n1"), job=STEPS, dmesg_n2=XID)
    told = run(str(folder))
    assert told.exit_code == 0
    rows = dict(line.rsplit(None, 1) for line in told.output.splitlines() if line.startswith(("cases", "decision")))
    assert (rows["cases"], rows["decision"]) == ("3", "1.000")
    assert "suspects: n2; expected n1" in told.output
    assert told.stderr == "", "progress is for terminals"


def test_a_folder_without_cases_is_wrong_usage(tmp_path: Path) -> None:
    told = run(str(tmp_path))
    assert told.exit_code == 2
    assert "there is no labelled case" in told.stderr
