"""Checking a pack: every example beside a rule is scanned as a log would be, and must match or not as it says."""

from __future__ import annotations

from datetime import UTC, datetime

from relance.domain.faults import Scope
from relance.domain.observations import LogBlock
from relance.rules.engines import Re2Engine
from relance.rules.formats import Pack, Problem, Rule
from relance.rules.metric_entries import check_metrics
from relance.rules.scanning import Scanner, ScanState

READ_AT = datetime(2026, 6, 1, tzinfo=UTC)
"""When examples and cases are taken to be read."""


def check_pack(pack: Pack) -> tuple[Problem, ...]:
    """What is wrong with the examples of a pack, in its order; nothing if all is well.

    A `hit` is tried with its rule alone, so that no rule of a site takes it away from a fallback; a `miss` with all of
    the pack, because a fallback may miss for the sake of another.
    """
    whole = Scanner(pack)
    problems: list[Problem] = []
    for rule in pack.rules:
        alone = Scanner(Pack(rules=(rule,)), engine=Re2Engine)
        for number, example in enumerate(rule.hit, 1):
            if not all(_counts(alone, rule, example, scope) for scope in rule.scopes):
                problems.append(_problem(rule, f"hit.{number}", "does not match", example))
        for number, example in enumerate(rule.miss, 1):
            if any(_counts(whole, rule, example, scope) for scope in rule.scopes):
                problems.append(_problem(rule, f"miss.{number}", "matches", example))
    return (*problems, *check_metrics(pack.metrics))


def _counts(scanner: Scanner, rule: Rule, example: str, scope: Scope) -> bool:
    """Whether the rule counts anywhere in the example."""
    block = LogBlock(file="example", offset=0, data=example.encode("utf-8"), scope=scope, read_at=READ_AT)
    return rule.id in scanner.scan(block, ScanState())[1].counts


def _problem(rule: Rule, field: str, message: str, example: str) -> Problem:
    shown = example if len(example) <= 100 else f"{example[:97]}..."  # noqa: PLR2004 - one line of a screen
    return Problem(
        file=rule.file,
        rule=rule.id,
        field=field,
        message=f"{message} {shown!r}",
        remedy="Correct the pattern, or the example if it is not what is meant",
    )
