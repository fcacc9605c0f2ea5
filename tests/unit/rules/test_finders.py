from __future__ import annotations

import re

import pytest

from relance.rules.finders import Finder, finder
from relance.rules.hyperscans import HyperscanEngine
from relance.rules.patterns import Pattern
from relance.rules.trees import UnfitError
from tests.unit.rules.packs import packaged


def test_what_follows_a_match_is_left_out() -> None:
    assert finder(r"disk full: (?P<path>\S+)(?: .*)?") == Finder(
        text=r"disk full\x3a (?:[^\x09-\x0a\x0c-\x0d ])", is_exact=True
    )
    assert finder(r"lost .{0,40}$") == Finder(text="lost .*$", is_exact=False)
    assert finder(r"lost (?P<message>.*)$").text == "lost "


def test_what_stands_before_a_match_is_left_out() -> None:
    assert finder(r"\w*Error: x+").text == r"Error\x3a x"
    assert finder(r"\d+ lost").text == r"[0-9] lost"


def test_the_ends_of_a_word_and_of_a_line_are_kept() -> None:
    assert finder(r"\bNaN\b").text == r"\bNaN\b"
    assert finder(r"^red$").text == "^red$"


def test_no_class_takes_a_newline() -> None:
    assert finder(r"a[^b]c").text == r"a[^\x0ab]c"
    assert finder(r"a\sb\Wc").text == r"a[\x09\x0c-\x0d ]b[^\x0a0-9A-Z_a-z]c"
    assert finder(r"a[\s,]b").text == r"a[\x09\x0c-\x0d \x2c]b"


def test_long_gaps_are_not_counted_and_labels_not_looked_at() -> None:
    assert finder(r"peer .{0,80}gone") == Finder(text="peer .*gone", is_exact=False)
    assert finder(r"^ {0,6}(?:\w+: )?KeyError: ") == Finder(text=r"KeyError\x3a ", is_exact=False)
    assert finder(r"^\d{1,3} up") == Finder(text=r"^[0-9]{1,3} up", is_exact=True)


@pytest.mark.parametrize("pattern", [r"\pL+ lost", "[[:alpha:]] lost", r"\Qa.b\E", r"\n", "a**", "(a", "a)"])
def test_what_is_not_known_is_left_to_re2(pattern: str) -> None:
    with pytest.raises(UnfitError):
        finder(pattern)


def test_every_packaged_rule_is_found_by_hyperscan() -> None:
    left = [rule.id for rule in packaged().rules if not _is_taken(rule.pattern)]
    assert left == []


def test_every_packaged_rule_finds_its_own_examples() -> None:
    rules = [rule for rule in packaged().rules if not rule.traceback]
    unfound = [
        rule.id
        for rule in rules
        for example in rule.hit
        for line in example.splitlines()
        if re.search(Pattern(text=rule.pattern, ignore_case=rule.ignore_case).source, line.encode())
        and not re.search(_source(rule.pattern, ignore_case=rule.ignore_case), line.encode())
    ]
    assert unfound == []


def _is_taken(pattern: str) -> bool:
    try:
        finder(pattern)
    except UnfitError:
        return False
    return True


def _source(pattern: str, *, ignore_case: bool) -> bytes:
    return f"(?m{'i' if ignore_case else ''}:{finder(pattern).text})".encode("ascii")


def test_an_engine_takes_all_packaged_rules_into_one_database() -> None:
    patterns = [Pattern(text=rule.pattern, ignore_case=rule.ignore_case) for rule in packaged().rules[:40]]
    assert HyperscanEngine(patterns).left_to_re2 == ()
