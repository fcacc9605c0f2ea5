"""`relance rules`: what is recognised in logs, and whether the rules of a site do what they say."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from relance.cli.failures import ExitCode, FailureError
from relance.cli.packs import pack_of
from relance.cli.screens import Screen
from relance.domain.faults import FaultDomain, Scope
from relance.recovery import wordings
from relance.rules.formats import DerivedRule, Rule
from relance.rules.metric_rules import MetricRule
from relance.rules.pages import RESTARTS

_CONFIG = click.option(
    "--config", type=click.Path(path_type=Path), help="Settings whose own rules count too; default: $RELANCE_CONFIG."
)
_MOST_CHARS = 1 << 20
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


@click.group("rules")
def rules() -> None:
    """List, show and test the rules that recognise faults. Needs no server."""


@rules.command("list")
@click.option("--domain", type=click.Choice([item.value for item in FaultDomain]), help="Only this kind of cause.")
@click.option("--scope", type=click.Choice([item.value for item in Scope]), help="Only rules for this kind of log.")
@_CONFIG
@_JSON
def list_rules(*, domain: str | None, scope: str | None, config: Path | None, as_json: bool) -> None:
    """List the rules in force."""
    pack, screen = pack_of(config, ()), Screen(as_json=as_json)
    every: tuple[Rule | MetricRule | DerivedRule, ...] = (*pack.rules, *pack.metrics, *pack.derived)
    wanted = tuple(
        rule
        for rule in every
        if (domain is None or rule.domain.value == domain) and (scope is None or scope in _scopes(rule))
    )
    if as_json:
        screen.data(wanted)
        return
    screen.table(
        ("rule", "domain", "role", "restart", "scopes", "title"),
        (
            (rule.id, rule.domain.value, rule.role.value, rule.restart.value, ", ".join(_scopes(rule)), rule.title)
            for rule in wanted
        ),
        empty="no rule is like that",
        sentences=("scopes", "title"),
    )


def _scopes(rule: Rule | MetricRule | DerivedRule) -> tuple[str, ...]:
    """The kinds of log, or the other sources, in which a rule counts."""
    if isinstance(rule, Rule):
        return tuple(sorted(item.value for item in rule.scopes))
    return (rule.scope.value if isinstance(rule, DerivedRule) else Scope.METRICS.value,)


@rules.command("show")
@click.argument("rule_id", metavar="ID")
@_CONFIG
@_JSON
def show(*, rule_id: str, config: Path | None, as_json: bool) -> None:
    """Show one rule with its pattern and its examples."""
    pack, screen = pack_of(config, ()), Screen(as_json=as_json)
    rule = pack.by_id.get(rule_id)
    other = pack.derived_by_id.get(rule_id) or next((each for each in pack.metrics if each.id == rule_id), None)
    if rule is None and other is not None:
        _show_other(screen, other)
        return
    if rule is None:
        hint = "it is switched off in the settings" if rule_id in pack.off else "relance rules list"
        raise FailureError(f"no rule {rule_id!r} is in force", hint, ExitCode.NOT_FOUND)
    if as_json:
        screen.data(rule)
        return
    for name, text in _facts(rule):
        screen.fact(name, text)
    for title, examples in (("matches", rule.hit), ("does not match", rule.miss)):
        screen.line(f"{title}:")
        for example in examples:
            for line in example.splitlines():
                screen.line(f"  | {line}", "quiet")


@rules.command("test")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_CONFIG
@_JSON
def test(*, paths: tuple[Path, ...], config: Path | None, as_json: bool) -> None:
    """Try every rule on its own examples.

    All rules are tried: those shipped, those of the settings, and those of the files PATHS, which are only tried.

    Exit code 1 when a file cannot be used or an example does not do what it says.
    """
    from relance.rules.checking import check_pack

    pack, screen = pack_of(config, paths), Screen(as_json=as_json)
    problems = check_pack(pack)
    with_examples: tuple[Rule | MetricRule, ...] = (*pack.rules, *pack.metrics)
    if as_json:
        screen.data({"rules": len(with_examples), "problems": problems})
    else:
        for problem in problems:
            screen.line(str(problem), "bad")
        examples = sum(len(rule.hit) + len(rule.miss) for rule in with_examples)
        tried = f"{wordings.count(len(with_examples), 'rule')} with {wordings.count(examples, 'example')}"
        screen.line(f"{tried}: {wordings.count(len(problems), 'problem') if problems else 'all as they say'}")
    if problems:
        raise click.exceptions.Exit(int(ExitCode.ERROR))


@rules.command("lint")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--corpus",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder of labelled cases: rules that know one case alone are listed. May be given again.",
)
@_CONFIG
@_JSON
def lint(*, paths: tuple[Path, ...], corpus: tuple[Path, ...], config: Path | None, as_json: bool) -> None:
    """Say what a reviewer of rules would object to.

    That is slow patterns, bare words, doubles, and examples of one wording. With PATHS only the rules of those files
    are told about, held against all that are in force; else all are.

    Exit code 1 when there is anything.
    """
    from relance.cli.corpora import texts_of
    from relance.rules.linting import lint_pack, lone_rules

    pack, screen = pack_of(config, paths), Screen(as_json=as_json)
    meant = frozenset(map(str, paths))
    problems = tuple(each for each in lint_pack(pack) if not meant or each.file in meant)
    lone = lone_rules(pack, texts_of(corpus)) if corpus else ()
    lone = tuple(each for each in lone if not meant or pack.by_id[each.rule].file in meant)
    looked_at = sum(not meant or rule.file in meant for rule in pack.rules)
    if as_json:
        screen.data({"rules": looked_at, "problems": problems, "lone": lone})
    else:
        for problem in problems:
            screen.line(str(problem), "bad")
        for each in lone:
            screen.line(f"{each.rule}: its only hit is in {each.case}. Give it an example in another wording", "bad")
        found = len(problems) + len(lone)
        screen.line(
            f"{wordings.count(looked_at, 'rule')}: {wordings.count(found, 'objection') if found else 'no objection'}"
        )
    if problems or lone:
        raise click.exceptions.Exit(int(ExitCode.ERROR))


@rules.command("explain-line")
@click.argument("line", required=False)
@_CONFIG
@_JSON
def explain(*, line: str | None, config: Path | None, as_json: bool) -> None:
    """Say which rules match LINE, and where they count.

    For each it says in which logs it counts and what it takes from the line, or why it does not count there. Without
    LINE, or with a dash, the text is read from standard input: a traceback has several lines.
    """
    from relance.rules.explaining import explain_line

    pack, screen = pack_of(config, ()), Screen(as_json=as_json)
    text = sys.stdin.read(_MOST_CHARS) if line in (None, "-") else line
    found = explain_line(pack, text or "")
    if as_json:
        screen.data([
            {
                "rule": each.rule.id, "symptom": each.rule.symptom, "domain": each.rule.domain, "role": each.rule.role,
                "counts": each.counts, "captures": dict(each.captures), "note": each.note,
            }
            for each in found
        ])  # fmt: skip
        return
    if not found:
        screen.line("no rule matches; relance rules list shows what is recognised")
    elif not any(each.counts for each in found):
        screen.line("no rule counts on this line; these match it otherwise:")
    for each in found:
        where = f"in logs of the kind {', '.join(scope.value for scope in each.counts)}" if each.counts else each.note
        rule = each.rule
        screen.fact(
            rule.id, f"{rule.title} ({rule.domain.value}, {rule.role.value}; another try: {RESTARTS[rule.restart]})"
        )
        screen.line(f"  counts {where}" if each.counts else f"  does not count: {where}", "quiet")
        for name, value in each.captures.items():
            screen.line(f"  {name} = {value}", "quiet")


def _another_try(rule: Rule | MetricRule | DerivedRule) -> str:
    """In words, and as a file of rules has it."""
    return f"{RESTARTS[rule.restart]} (restart: {rule.restart.value})"


def _show_other(screen: Screen, rule: MetricRule | DerivedRule) -> None:
    """A rule that no pattern tells."""
    if screen.as_json:
        screen.data(rule)
        return
    screen.fact("rule", f"{rule.id}: {rule.title}")
    screen.fact(
        "says", f"{rule.domain.value}, {wordings.name(rule.symptom)}, as {rule.role.value}, weight {rule.weight:g}"
    )
    screen.fact("points at", rule.suspect.value)
    screen.fact("another try", _another_try(rule))
    screen.fact("in", ", ".join(_scopes(rule)))
    if isinstance(rule, MetricRule):
        limits = ", ".join(f"{each:g}" for each in rule.when.limits)
        screen.fact("series", ", ".join(rule.series))
        screen.fact("condition", f"{wordings.name(rule.when.test.value)} {limits}, for {rule.for_s:g} s")
    screen.fact("source", rule.source)


def _facts(rule: Rule) -> tuple[tuple[str, str], ...]:
    kinds = ("ignore_case", "fallback", "traceback", "table")
    return (
        ("rule", f"{rule.id}: {rule.title}"),
        ("pattern", rule.pattern),
        ("says", f"{rule.domain.value}, {wordings.name(rule.symptom)}, as {rule.role.value}, weight {rule.weight:g}"),
        ("points at", rule.suspect.value),
        ("another try", _another_try(rule)),
        ("in logs", ", ".join(sorted(item.value for item in rule.scopes))),
        ("kind", ", ".join(wordings.name(kind) for kind in kinds if getattr(rule, kind)) or "plain"),
        *((f"beside {', '.join(one.rules)}", one.role.value) for one in rule.beside),
        ("source", rule.source),
        *rule.details.items(),
    )
