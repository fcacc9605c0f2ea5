"""The JSON of `relance diagnose`: what its page of the documentation promises is what is there."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from relance.attribution.setaside import Reason
from relance.cli.diagnosing import Diagnosis, Means, diagnosis_of, means_of
from relance.cli.diagnosis_reports import outcome, report_of, would_help
from relance.cli.evidence_files import context_beside, files_of
from relance.domain.views import JobState
from relance.watching.evidence import Context
from tests.layers import ROOT
from tests.unit.attribution.cases import FAILED

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LOG = "".join(f"2026-05-02 11:00:{number:02d} iteration {number:8d}/ 1000 | loss: 2.5 |\n" for number in range(1, 40))
XID = "[  100.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python, GPU has fallen off the bus.\n"
NEIGHBOUR = "[  100.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=77, name=other, GPU has fallen off the bus.\n"
SACCT = {
    "jobs": [
        {
            "job_id": 17, "name": "train", "user": "ada", "partition": "gpu", "nodes": "n[1-2]",
            "state": {"current": ["FAILED"], "reason": "None"},
            "exit_code": {"return_code": {"number": 1, "set": True}, "signal": {"id": {"set": False, "number": 0}}},
            "time": {"submission": 1777719000, "start": 1777719600, "end": 1777719660}, "steps": [],
        }
    ]
}  # fmt: skip
PAGE = (ROOT / "docs" / "reference" / "diagnose.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def means() -> Means:
    return means_of(None)


@pytest.fixture(scope="module")
def found(means: Means, tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    folder = tmp_path_factory.mktemp("case")
    (folder / "job.log").write_text(LOG)
    (folder / "dmesg-n2.log").write_text(XID)
    (folder / "dmesg-n9.log").write_text(NEIGHBOUR)
    (folder / "sacct.json").write_text(json.dumps(SACCT))
    (folder / "train.yaml").write_text("lr: 0.1\n")
    (folder / "context.yaml").write_text("nodes: [n1, n2]\nrank_to_node: [{ranks: 0-7, node: n1}]\n")
    given, _ = context_beside((folder,))
    return diagnosis_of(files_of((folder,)), given, means, NOW)


@pytest.fixture(scope="module")
def report(found: Diagnosis) -> dict[str, Any]:
    return report_of(found)


def keys_of(section: str) -> list[str]:
    """The keys that the tables of a section of the page name, in their order."""
    body = PAGE.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    rows = body.split("| reason | meaning |")[0]
    return re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)


def test_the_page_names_every_key_in_its_order_and_no_other(report: dict[str, Any]) -> None:
    assert keys_of("Top level") == list(report)
    assert keys_of("`suspects[]`") == list(report["suspects"][0])
    assert keys_of("`first_evidence` and `evidence[]`") == list(report["evidence"][0])
    assert keys_of("`first_evidence` and `evidence[]`")[:5] == list(report["first_evidence"])
    assert keys_of("`ignored[]`") == list(report["ignored"][0])
    assert keys_of("`progress`") == list(report["progress"])
    assert list(report["coverage"][0]) == list(report["left_out"][0]) == ["source", "sight", "note"]
    assert list(report["runner_up"]) == ["domain", "cause", "because"]
    assert list(report["basis"]) == ["level", "right", "of"]


def test_the_page_has_every_reason_to_set_a_line_aside() -> None:
    table = PAGE.split("| reason | meaning |", 1)[1].split("\n## ", 1)[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [reason.value for reason in Reason]


def test_outcome_symptom_and_cause_are_three_things(report: dict[str, Any]) -> None:
    assert report["outcome"] == "failed (exit code 1)"
    assert report["cause"] == "gpu_fell_off_bus"
    assert (report["domain"], report["decision"]) == ("hardware", "restart_excluding")
    assert report["symptom"] == "gpu_fell_off_bus"


def test_a_suspect_has_node_device_confidence_and_reason(report: dict[str, Any]) -> None:
    (suspect,) = report["suspects"]
    assert (suspect["node"], suspect["device"]) == ("n2", "0000:3b:00")
    assert suspect["confidence"] == report["confidence"]
    assert "says the node's own log" in suspect["because"]


def test_the_first_evidence_is_a_line_that_can_be_looked_up(report: dict[str, Any]) -> None:
    first = report["first_evidence"]
    assert (first["file"], first["line"]) == ("dmesg-n2.log", 1)
    assert "Xid" in first["text"]


def test_a_row_of_a_node_of_others_is_set_aside_and_said(report: dict[str, Any]) -> None:
    rows = [row for row in report["ignored"] if row["reason"] == "other_node"]
    assert [(row["file"], row["node"], row["count"]) for row in rows] == [("dmesg-n9.log", "n9", 1)]


def test_the_explanation_says_whose_fault_where_and_what_to_do(report: dict[str, Any]) -> None:
    told = report["explanation"]
    assert told.startswith("It is a node, not your code: n2")
    assert "It first shows in dmesg-n2.log, line 1 (n2)." in told
    assert told.endswith("Start it again, without n2, and have n2 looked at.")


def test_files_that_are_no_evidence_are_listed_apart(report: dict[str, Any]) -> None:
    assert [item["source"] for item in report["left_out"]] == ["train.yaml"]
    assert {"job.log", "dmesg-n2.log", "sacct.json"} <= {item["source"] for item in report["coverage"]}


@pytest.mark.parametrize(
    ("state", "code", "signal", "said"),
    [
        (JobState.FAILED, 1, 0, "failed (exit code 1)"),
        (JobState.FAILED, 0, 9, "failed (signal 9)"),
        (JobState.NODE_FAIL, 0, 0, "node_fail"),
        (JobState.RUNNING, None, None, "running"),
        (JobState.UNKNOWN, 1, None, "unknown"),
    ],
)
def test_an_outcome_is_the_schedulers_word(state: JobState, code: int | None, signal: int | None, said: str) -> None:
    assert outcome(replace(FAILED, state=state, exit_code=code, exit_signal=signal)) == said


def test_without_a_schedulers_answer_the_outcome_is_unknown() -> None:
    assert outcome(None) == "unknown"


def test_a_loss_that_is_no_number_is_none_in_json(found: Diagnosis) -> None:
    gone = replace(found, progress=replace(found.progress, loss=float("nan")))
    assert json.loads(json.dumps(report_of(gone), allow_nan=False))["progress"]["loss"] is None


def test_where_the_evidence_suffices_nothing_more_would_help(report: dict[str, Any]) -> None:
    assert report["would_help"] == []


def test_where_it_cannot_be_told_it_is_said_what_would_help(means: Means, tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("srun: error: n2: task 3: Killed\n")
    found = diagnosis_of(files_of((tmp_path,)), Context(), means, NOW)
    assert report_of(found)["domain"] == "unknown"
    told = " ".join(would_help(found))
    assert "dmesg-NODE.log" in told
    assert "sacct -j JOB --json" in told
    assert "context.yaml" in told
    assert "output" not in told, "that is there"


def test_of_files_that_tell_nothing_it_is_not_said_that_all_is_well(means: Means, tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("hello\n")
    report = report_of(diagnosis_of(files_of((tmp_path,)), Context(), means, NOW))
    assert (report["cause"], report["decision"]) == ("nothing_recognised", "none")
    assert str(report["explanation"]).startswith("It cannot be told")
    assert report["would_help"]


STEPS = "".join(f"0: 2026-11-28 03:02:{second:02} INFO step {second}/50 loss 2.5\n" for second in range(0, 50, 5))


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (STEPS, "Nothing wrong was seen, and nothing says how the job ended."),
        (f"{STEPS}0: 2026-11-28 03:02:50 INFO step 50/50 loss 2.4\n", "Nothing was wrong."),
    ],
    ids=["it just stops", "the last step was made"],
)
def test_of_a_log_that_just_stops_it_is_not_said_that_all_is_well(
    text: str, start: str, means: Means, tmp_path: Path
) -> None:
    (tmp_path / "job.log").write_text(text)
    report = report_of(diagnosis_of(files_of((tmp_path,)), Context(), means, NOW))
    assert (report["cause"], report["decision"]) == ("healthy", "none")
    assert str(report["explanation"]).startswith(start)
    assert bool(report["would_help"]) is start.endswith("ended.")
