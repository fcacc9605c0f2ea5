"""Lint: what a reviewer would object to in a rule, and rules that know one case alone."""

from __future__ import annotations

import pytest

from relance.domain.faults import Role, Scope
from relance.rules.formats import Rule
from relance.rules.linting import LoneRule, lint_pack, lone_rules
from tests.unit.rules.packs import pack, rule

TWO_WORDINGS = ("the disk is full", "error: no room on the disk")


def objections(*rules: Rule) -> list[tuple[str, str, str]]:
    return [(problem.rule, problem.field, problem.message) for problem in lint_pack(pack(*rules))]


def test_a_sound_rule_has_no_objection() -> None:
    assert objections(rule("full", "disk.{0,20} is full", hit=TWO_WORDINGS)) == []


@pytest.mark.parametrize("pattern", [".*disk is full", ".+disk is full", "(?:.*|x)disk is full"])
def test_a_pattern_that_begins_with_anything_is_slow(pattern: str) -> None:
    assert ("full", "pattern", "it begins with anything at all") in objections(rule("full", pattern, hit=TWO_WORDINGS))


def test_a_pattern_without_a_word_that_must_be_there_is_slow() -> None:
    found = objections(rule("code", r"[A-Z]\d{3} (?:a|b|c)", hit=TWO_WORDINGS))
    assert found == [("code", "pattern", "no text of 5 bytes is in every line that it matches, so it is slow")]


@pytest.mark.parametrize("flag", ["traceback", "fallback"])
def test_a_rule_that_is_tried_on_few_lines_needs_no_such_word(flag: str) -> None:
    assert objections(rule("code", r"[A-Z]\d{3}", hit=TWO_WORDINGS, **{flag: True})) == []


@pytest.mark.parametrize("pattern", ["Timeout", r"\bexception\b", "FAILED"])
def test_a_bare_word_that_good_logs_are_full_of_names_no_cause(pattern: str) -> None:
    frightened = ("bare", "pattern", "a word that good logs are full of would name a cause")
    assert frightened in objections(rule("bare", pattern, hit=TWO_WORDINGS))
    assert frightened not in objections(rule("bare", pattern, hit=TWO_WORDINGS, role=Role.CASCADE))


def test_examples_that_differ_in_numbers_only_are_one_wording() -> None:
    made = rule("full", "disk.{0,20} is full", hit=("the disk 1 is full", "the disk  22 is full"))
    assert objections(made) == [("full", "hit", "all its examples are one wording")]


def test_two_rules_with_one_pattern_are_one_too_many_where_both_count() -> None:
    one = rule("one", "disk is full", hit=TWO_WORDINGS)
    other = rule("other", "disk is full", hit=TWO_WORDINGS)
    elsewhere = rule("third", "disk is full", hit=TWO_WORDINGS, scopes=frozenset({Scope.KERNEL}))
    assert objections(one, elsewhere) == []
    assert objections(one, other) == [("other", "pattern", "its pattern is that of one")]


def lone(rules: Rule, **cases: bytes) -> tuple[LoneRule, ...]:
    return lone_rules(pack(rules), {name: [(Scope.APPLICATION, text)] for name, text in cases.items()})


def test_a_rule_made_of_the_words_of_the_only_case_that_it_hits_is_lone() -> None:
    made = rule("full", "disk .{1,9}is full", hit=("the disk 7 is full",))
    assert lone(made, a=b"step 1\nthe disk 3 is full\n", b=b"step 1\n") == (LoneRule(rule="full", case="a"),)


def test_a_rule_with_an_example_in_other_words_knows_more_than_one_case() -> None:
    made = rule("full", "disk .{1,9}is full", hit=("the disk 7 is full", "ERROR: disk x is full again"))
    assert lone(made, a=b"the disk 3 is full\n", b=b"step 1\n") == ()


def test_a_rule_that_hits_in_two_cases_or_in_none_is_not_lone() -> None:
    made = rule("full", "disk .{1,9}is full", hit=("the disk 7 is full",))
    assert lone(made, a=b"the disk 3 is full\n", b=b"the disk 4 is full\n") == ()
    assert lone(made, a=b"step 1\n") == ()


def test_a_hit_in_a_log_where_the_rule_does_not_count_is_none() -> None:
    made = rule("full", "disk .{1,9}is full", hit=("the disk 7 is full",), scopes=frozenset({Scope.KERNEL}))
    assert lone(made, a=b"the disk 3 is full\n") == ()
