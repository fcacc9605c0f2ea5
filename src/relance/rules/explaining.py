"""Explaining a line: which rules match it, in which logs they count, and why one that matches does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from relance.domain.faults import Scope
from relance.domain.observations import LogBlock
from relance.rules.checking import READ_AT
from relance.rules.formats import Pack, Rule
from relance.rules.patterns import LineMatcher, Pattern
from relance.rules.scanning import Scanner, ScanState


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRule:
    """One rule that matches a line. `counts` are the kinds of log in which it is a hit there; `note` says why not."""

    rule: Rule
    counts: tuple[Scope, ...]
    captures: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def explain_line(pack: Pack, text: str) -> tuple[LineRule, ...]:
    """Every rule whose pattern is in the text, those that count first, then in the order of the pack.

    The text may be several lines, such as a traceback.
    """
    scanner = Scanner(pack)
    data = text.encode("utf-8", "surrogateescape")
    hits = {
        scope: {hit.rule: hit for hit in scanner.scan(_block(data, scope), ScanState())[1].hits} for scope in Scope
    }  # fmt: skip
    found = []
    for rule in pack.rules:
        counts = tuple(scope for scope in Scope if rule.id in hits[scope])
        if counts:
            found.append(LineRule(rule=rule, counts=counts, captures=hits[counts[0]][rule.id].captures))
        elif _matches(rule, data):
            found.append(LineRule(rule=rule, counts=(), note=_why_not(rule)))
    return tuple(sorted(found, key=lambda item: not item.counts))


def _block(data: bytes, scope: Scope) -> LogBlock:
    return LogBlock(file="line", offset=0, data=data, scope=scope, read_at=READ_AT)


def _matches(rule: Rule, data: bytes) -> bool:
    matcher = LineMatcher(Pattern(text=rule.pattern, ignore_case=rule.ignore_case))
    return any(matcher.span(line) is not None for line in data.splitlines())


def _why_not(rule: Rule) -> str:
    if rule.traceback:
        return "it is tried on the last line of a Python traceback only"
    if rule.fallback:
        return "it counts only where no other rule matches"
    return "another rule of more weight counts instead"
