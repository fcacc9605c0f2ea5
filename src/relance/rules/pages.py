"""The reference page of the rules, written from a pack."""

from __future__ import annotations

from relance.domain.faults import RestartHint, SuspectKind
from relance.rules.formats import CAPTURES, DerivedRule, Pack, Rule

_SUSPECTS = {
    SuspectKind.SELF: "the node that logged it",
    SuspectKind.PEER: "the node that the line names",
    SuspectKind.BOTH: "either end",
    SuspectKind.RANK: "the node of the rank",
    SuspectKind.ALL: "a shared service",
    SuspectKind.NONE: "no node",
}
_RESTARTS = {
    RestartHint.OK: "restart",
    RestartHint.EXCLUDE: "restart without the suspect",
    RestartHint.ONCE: "restart once, then stop",
    RestartHint.NO: "stop",
    RestartHint.WAIT: "wait, then restart",
    RestartHint.SCHEDULER: "somebody decided: nothing",
    RestartHint.NOTHING: "no say alone",
}
_HEAD = """\
# Rules

What Relance recognises in logs. Each rule is data: a pattern, what a hit may mean, and lines that it must and must not
match. [Write a rule](../how-to/write-a-rule.md) explains the fields, and how a site adds rules, changes a weight or
switches a rule off. What a hit *means* in the light of all others is decided by attribution; a line may open an
incident, it never ends a running job.

A pattern is RE2 syntax over bytes and is looked for within one line. *Where* says in which logs the rule counts: an Xid
that a program prints is not an Xid. *Weight* is how much a hit alone tells, from 0 to 1. Times without an offset are
read as UTC.
"""


def render(pack: Pack) -> str:
    """The page, in Markdown."""
    parts = [_HEAD, _captures()]
    for group, about in pack.groups.items():
        rules = [rule for rule in pack.rules if rule.group == group]
        if rules:
            parts.append(_group(group, about, rules))
    if pack.derived:
        parts.append(_derived(pack.derived))
    return "\n".join(parts)


def _captures() -> str:
    rows = [f"| `{name}` | {meaning} |" for name, meaning in CAPTURES.items()]
    head = ["## Captures", "", "Named groups of a pattern, and what the scanner adds from labels and tracebacks.", ""]
    return "\n".join([*head, "| capture | meaning |", "| --- | --- |", *rows, ""])


def _group(name: str, about: str, rules: list[Rule]) -> str:
    lines = [f"## {name.capitalize()}", "", about, ""]
    lines += [
        "| rule | symptom | domain | role | suspect | another try | weight |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_row(rule) for rule in rules]
    lines.append("")
    for rule in rules:
        lines += _section(rule)
    return "\n".join(lines)


def _derived(rules: tuple[DerivedRule, ...]) -> str:
    lines = ["## Derived signs", "", "Computed from several lines, or read from a dump: no pattern tells them.", ""]
    lines += ["| rule | what it is | symptom | domain | role | suspect | another try | weight | source |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    lines += [
        f"| `{rule.id}` | {rule.title} | {' | '.join(_cells(rule))} | {rule.source} |" for rule in rules
    ]  # fmt: skip
    return "\n".join([*lines, ""])


def _row(rule: Rule) -> str:
    return f"| {' | '.join([f'[`{rule.id}`](#{rule.id})', *_cells(rule)])} |"


def _cells(rule: Rule | DerivedRule) -> list[str]:
    return [
        f"`{rule.symptom}`",
        rule.domain.value,
        rule.role.value,
        _SUSPECTS[rule.suspect],
        _RESTARTS[rule.restart],
        f"{rule.weight:g}",
    ]


def _section(rule: Rule) -> list[str]:
    where = ", ".join(sorted(scope.value for scope in rule.scopes))
    told = " ".join([f"{rule.title}. Where: {where}. Source: {rule.source}.", *_notes(rule)])
    lines = [f"pattern:  {rule.pattern}", *_shown("match:    ", rule.hit), *_shown("no match: ", rule.miss)]
    return [f"### {rule.id}", "", told, "", "```text", *lines, "```", ""]


def _notes(rule: Rule) -> list[str]:
    notes = []
    if rule.ignore_case:
        notes.append("Letters match in either case.")
    if rule.fallback:
        notes.append("Counts only on lines that no other rule matches.")
    if rule.traceback:
        notes.append("Tried on the last line of a Python traceback only.")
    if rule.table:
        notes.append("Takes host, rank and time from the lines of the failure table above it.")
    notes += [f"Beside {', '.join(f'`{each}`' for each in one.rules)} it is {one.role.value}." for one in rule.beside]
    notes += [f"{name.replace('-', ' ').capitalize()}: {text}." for name, text in rule.details.items()]
    if rule.signs:
        names = ", ".join(f"`{sign.value}`" for sign in sorted(rule.signs, key=lambda each: each.value))
        notes.append(f"An independent sign: {names}.")
    return notes


def _shown(label: str, examples: tuple[str, ...]) -> list[str]:
    """Each example after its label; further lines of one stand below its first."""
    indent = "\n" + " " * len(label)
    return [label + example.rstrip("\n").replace("\n", indent) for example in examples]
