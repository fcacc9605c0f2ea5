"""Explaining a line: which rules match, where they count, and why one that matches does not."""

from __future__ import annotations

from relance.domain.faults import Scope
from relance.rules.explaining import explain_line
from tests.unit.rules.packs import pack, rule


def test_a_rule_that_counts_is_told_with_its_logs_and_captures() -> None:
    made = rule("full", r"disk (?P<device>\w+) is full", scopes=frozenset({Scope.APPLICATION, Scope.KERNEL}))
    (found,) = explain_line(pack(made), "[rank3]: the disk sda is full")
    assert (found.rule.id, found.counts) == ("full", (Scope.APPLICATION, Scope.KERNEL))
    assert found.captures["device"] == "sda"
    assert found.note == ""


def test_a_line_that_nothing_matches_has_no_rule() -> None:
    assert explain_line(pack(rule("full", "disk is full")), "step 3 of 9") == ()


def test_a_traceback_is_judged_by_its_last_line() -> None:
    made = rule("missing-key", r"^KeyError: ", traceback=True)
    text = 'Traceback (most recent call last):\n  File "/home/ada/t.py", line 3, in f\n    g()\nKeyError: 3\n'
    (found,) = explain_line(pack(made), text)
    assert found.counts == (Scope.APPLICATION,)
    (alone,) = explain_line(pack(made), "KeyError: 3")
    assert (alone.counts, alone.note) == ((), "it is tried on the last line of a Python traceback only")


def test_a_fallback_gives_way_to_any_other_rule() -> None:
    rest = rule("any-error", "ERROR: ", fallback=True)
    found = explain_line(pack(rest, rule("full", "disk is full")), "ERROR: the disk is full")
    assert [(each.rule.id, bool(each.counts)) for each in found] == [("full", True), ("any-error", False)]
    assert found[1].note == "it counts only where no other rule matches"
    assert [each.rule.id for each in explain_line(pack(rest), "ERROR: what")] == ["any-error"]


def test_bytes_that_are_no_text_are_taken_as_they_are() -> None:
    (found,) = explain_line(pack(rule("full", "disk is full")), "\udcff the disk is full")
    assert found.rule.id == "full"
