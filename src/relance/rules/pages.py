"""The reference page of the rules, written from a pack."""

from __future__ import annotations

from collections.abc import Sequence

from relance.domain.faults import RestartHint, SuspectKind
from relance.rules.formats import CAPTURES, DerivedRule, Pack, Rule
from relance.rules.metric_rules import MetricRule

_SUSPECTS = {
    SuspectKind.SELF: "the node that logged it",
    SuspectKind.PEER: "the node that the line names",
    SuspectKind.BOTH: "either end",
    SuspectKind.RANK: "the node of the rank",
    SuspectKind.ALL: "a shared service",
    SuspectKind.NONE: "no node",
}
RESTARTS = {
    RestartHint.OK: "restart",
    RestartHint.EXCLUDE: "restart without the suspect",
    RestartHint.ONCE: "restart once, then stop",
    RestartHint.NO: "stop",
    RestartHint.WAIT: "wait, then restart",
    RestartHint.SCHEDULER: "somebody decided: nothing",
    RestartHint.NOTHING: "no say alone",
}
"""What a rule says of another try, in words."""
_HEAD = """\
# Rules

What Relance recognises in logs and metrics: {count} rules. Each is data: a pattern or a condition, what a hit may mean,
and lines that it must and must not match. `relance rules show ID` prints a rule whole, and
`relance rules explain-line LINE` says which match a line. [Write a rule](../how-to/write-a-rule.md) explains the
fields, and how a site adds rules, changes a weight or switches a rule off. What a hit *means* in the light of all
others is decided by attribution; a line may open an incident, it never ends a running job.

A pattern is RE2 syntax over bytes and is looked for within one line. *Where* says in which logs the rule counts: an Xid
that a program prints is not an Xid. *Weight* is how much a hit alone tells, from 0 to 1. Times without an offset are
read as UTC.
"""


def render(pack: Pack) -> str:
    """The page, in Markdown."""
    parts = [_HEAD.format(count=len(pack.rules) + len(pack.derived) + len(pack.metrics)), _captures()]
    for group, about in pack.groups.items():
        rules = [rule for rule in pack.rules if rule.group == group]
        if rules:
            parts.append(_table(group.capitalize(), about, [(_where(rule), rule) for rule in rules]))
    if pack.metrics:
        about = (
            "Conditions over samples of metrics: what is asked of which series. Such a sample is a sign, never a line."
        )
        parts.append(_table("Metrics", about, [(_asked(rule), rule) for rule in pack.metrics]))
    if pack.derived:
        about = "Computed from several lines, or read from a dump: no pattern tells them."
        parts.append(_table("Derived signs", about, [(rule.scope.value, rule) for rule in pack.derived]))
    return "\n".join(parts)


def _captures() -> str:
    rows = [f"| `{name}` | {meaning} |" for name, meaning in CAPTURES.items()]
    head = ["## Captures", "", "Named groups of a pattern, and what the scanner adds from labels and tracebacks.", ""]
    return "\n".join([*head, "| capture | meaning |", "| --- | --- |", *rows, ""])


def _table(name: str, about: str, rules: Sequence[tuple[str, Rule | DerivedRule | MetricRule]]) -> str:
    lines = [f"## {name}", "", about, ""]
    lines += ["| rule | what it is | symptom | domain | role | suspect | another try | weight | where |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    lines += [f"| `{rule.id}` | {' | '.join([_escaped(rule.title), *_cells(rule), where])} |" for where, rule in rules]
    return "\n".join([*lines, ""])


def _cells(rule: Rule | DerivedRule | MetricRule) -> list[str]:
    return [
        f"`{rule.symptom}`",
        rule.domain.value,
        rule.role.value,
        _SUSPECTS[rule.suspect],
        RESTARTS[rule.restart],
        f"{rule.weight:g}",
    ]


def _where(rule: Rule) -> str:
    return ", ".join(sorted(scope.value for scope in rule.scopes))


def _asked(rule: MetricRule) -> str:
    asked = rule.when.test.value.replace("_", " ")
    return f"`{rule.series[0]}` {asked} {', '.join(f'{each:g}' for each in rule.when.limits)}".strip()


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
