"""Lint: rules that would be slow, frighten without need, say nothing new, or know only one case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from relance.domain.faults import Role, Scope
from relance.domain.observations import LogBlock
from relance.rules.checking import READ_AT
from relance.rules.formats import Pack, Problem, Rule
from relance.rules.literals import least_literal
from relance.rules.scanning import Scanner, ScanState

LEAST_LITERAL = 5
"""Bytes that must be in a line that a pattern matches: with fewer the engine looks at too much (performance.md 1)."""
_LONG = frozenset({Scope.APPLICATION, Scope.KERNEL})
"""The logs that grow to gigabytes; notes and answers of a scheduler are short."""
_CAUSES = (Role.ROOT, Role.MAYBE)
_TRIGGERS = frozenset({
    "abort", "aborted", "crash", "error", "errors", "exception", "fail", "failed", "failure", "fatal", "inf", "killed",
    "nan", "oom", "retry", "timeout", "warn", "warning",
})  # fmt: skip
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoneRule:
    """A rule whose only hit in all cases and examples is in one case."""

    rule: str
    case: str


def lint_pack(pack: Pack) -> tuple[Problem, ...]:
    """What a reviewer would object to, rule by rule; nothing if all is well."""
    found: list[Problem] = []
    for rule in pack.rules:
        found += _of_pattern(rule)
        found += _of_examples(rule)
    return (*found, *_same_patterns(pack))


def lone_rules(pack: Pack, corpus: Mapping[str, Iterable[tuple[Scope, bytes]]]) -> tuple[LoneRule, ...]:
    """The rules that know one case alone: their only hit is there, and their examples are that case's own words.

    Args:
        pack: The rules.
        corpus: The texts of each case, by its name, with the kind of log that each is.
    """
    scanner = Scanner(pack)
    hit_in: dict[str, set[str]] = {}
    words: dict[str, set[str]] = {}
    for case, texts in corpus.items():
        lines: set[str] = set()
        for scope, data in texts:
            for rule_id in _hits(scanner, scope, data):
                hit_in.setdefault(rule_id, set()).add(case)
            lines |= {_plain(line) for line in data.decode("utf-8", "replace").splitlines()}
        words[case] = lines
    lone = []
    for rule in pack.rules:
        cases = hit_in.get(rule.id, set())
        if len(cases) != 1:
            continue
        (case,) = cases
        if all(_plain(example) in words[case] for example in rule.hit):
            lone.append(LoneRule(rule=rule.id, case=case))
    return tuple(lone)


def _of_pattern(rule: Rule) -> list[Problem]:
    found = []
    if rule.pattern.startswith((".*", "(?:.*", ".+")):
        found.append(_problem(rule, "pattern", "it begins with anything at all", "Begin with what must be there"))
    looked_for = not rule.traceback and not rule.fallback and bool(rule.scopes & _LONG)
    if looked_for and least_literal(rule.pattern) < LEAST_LITERAL:
        message = f"no text of {LEAST_LITERAL} bytes is in every line that it matches, so it is slow"
        found.append(_problem(rule, "pattern", message, "Ask for a longer word, or for two in their order"))
    if rule.role in _CAUSES and rule.pattern.strip("\\b").lower() in _TRIGGERS:
        message = "a word that good logs are full of would name a cause"
        found.append(_problem(rule, "pattern", message, "Ask for the words around it"))
    return found


def _of_examples(rule: Rule) -> list[Problem]:
    if len({_plain(example) for example in rule.hit}) < 2 and rule.role in _CAUSES:  # noqa: PLR2004 - another wording
        message = "all its examples are one wording"
        return [_problem(rule, "hit", message, "Add a line in another wording, or with another prefix")]
    return []


def _same_patterns(pack: Pack) -> list[Problem]:
    first: dict[tuple[str, Scope], Rule] = {}
    found = []
    for rule in pack.rules:
        for scope in sorted(rule.scopes, key=lambda each: each.value):
            other = first.setdefault((rule.pattern, scope), rule)
            if other is not rule:
                message = f"its pattern is that of {other.id}"
                found.append(_problem(rule, "pattern", message, "Keep one of the two"))
                break
    return found


def _hits(scanner: Scanner, scope: Scope, data: bytes) -> Iterable[str]:
    block = LogBlock(file="case", offset=0, data=data, scope=scope, read_at=READ_AT)
    return scanner.scan(block, ScanState())[1].counts


def _plain(text: str) -> str:
    """A line without its numbers: the same words with other values are the same wording."""
    return " ".join(_NUMBERS.sub("N", text).split())


def _problem(rule: Rule, field: str, message: str, remedy: str) -> Problem:
    return Problem(file=rule.file, rule=rule.id, field=field, message=message, remedy=remedy)
