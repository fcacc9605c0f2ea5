"""Which rules could hit with the sources that a site has, and which never can, for what is missing. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from relance.bootstrap.proofs.rows import RuleGroup
from relance.domain.faults import Scope
from relance.rules.formats import Pack
from relance.rules.metric_rules import MetricRule

_KINDS = {
    Scope.APPLICATION: "output of jobs",
    Scope.KERNEL: "kernel logs",
    Scope.TRACES: "collected traces",
    Scope.DEVICE: "logs of device managers",
    Scope.SCHEDULER: "logs of the scheduler",
    Scope.NOTES: "notes and outputs of commands",
}
"""Kinds of logs; of several that a rule may be asked of, the first is the one to provide."""
_ORDER = (*_KINDS, Scope.METRICS)
_FIXES = {
    Scope.APPLICATION: "add a source of logs to the settings (logs)",
    Scope.KERNEL: "name them in the settings: kernel_log beside logs of kind files, or kernel_match of a store",
    Scope.TRACES: "let evidence of suspected hangs be collected (evidence), or give dumps to `relance diagnose`",
}
_BY_HAND = "nothing to mend: no watcher reads such files; give them to `relance diagnose`"
_FAMILIES = (
    ("DCGM_FI_PROF_", "DCGM's profiling fields"),
    ("DCGM_", "DCGM's exporter"),
    ("node_infiniband_", "node_exporter's infiniband collector"),
    ("node_", "node_exporter"),
    ("kube_", "kube-state-metrics"),
    ("container_", "cAdvisor"),
)
_OTHER = "other exporters"
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What there is to be asked.

    `scopes` are kinds of logs with a source that delivers, `lost` those whose sources do not. `series` are the names in
    all metric stores that answer; None: no metric store is in the settings. `metrics_lost`: one does not answer.
    """

    scopes: frozenset[Scope]
    lost: frozenset[Scope] = frozenset()
    series: frozenset[str] | None = None
    metrics_lost: bool = False


def outlook(pack: Pack, sources: Sources) -> tuple[RuleGroup, ...]:
    """All rules in groups: first those that can hit, then those that never can, by what is missing."""
    asked = [(rule.id, rule.scopes) for rule in pack.rules]
    asked += [(rule.id, frozenset({rule.scope})) for rule in pack.derived]
    can: dict[Scope, list[str]] = {}
    never: dict[Scope, list[str]] = {}
    for rule, scopes in asked:
        met = scopes & sources.scopes
        (can if met else never).setdefault(_first(met or scopes), []).append(rule)
    groups = [_group(_KINDS[scope], rules) for scope, rules in can.items()]
    groups += [_never(scope, rules, sources) for scope, rules in never.items()]
    groups += _of_metrics(pack.metrics, sources)
    return tuple(sorted(groups, key=lambda group: (not group.can_hit, -len(group.rules), group.needs)))


def missing_series(rule: MetricRule, names: Collection[str]) -> tuple[str, ...]:
    """What a rule asks of and is not there: of each question the first of the names under which it may be."""
    beneath = (rule.beneath.series, rule.beneath.when.of) if rule.beneath else ()
    questions = (rule.series, rule.when.of, *beneath)
    return tuple(question[0] for question in questions if question and not set(question) & set(names))


def _of_metrics(rules: Collection[MetricRule], sources: Sources) -> Iterable[RuleGroup]:
    if not rules:
        return
    if sources.series is None or (sources.metrics_lost and not sources.series):
        why = "no metric store is in the settings" if sources.series is None else "the metric store does not answer"
        remedy = "add one to the settings (metrics)" if sources.series is None else "see its row above"
        ids = tuple(sorted(rule.id for rule in rules))
        yield RuleGroup(needs="metrics", can_hit=False, rules=ids, means=f"never hit: {why}", remedy=remedy)
        return
    lacks = {rule.id: missing_series(rule, sources.series) for rule in rules}
    if can := [rule for rule, missing in lacks.items() if not missing]:
        yield _group("metrics", can)
    families: dict[str, dict[str, tuple[str, ...]]] = {}
    for rule, missing in lacks.items():
        if missing:
            families.setdefault(_family(missing[0]), {})[rule] = missing
    for family, of_rules in families.items():
        series = sorted({name for missing in of_rules.values() for name in missing})
        more = f" and {len(series) - _SHOWN} more" if len(series) > _SHOWN else ""
        yield RuleGroup(
            needs=f"metrics of {family}", can_hit=False, rules=tuple(sorted(of_rules)),
            means=f"never hit: the store has no {', '.join(series[:_SHOWN])}{more}",
            remedy="if these devices are here, have the exporter give these series and the store scrape it",
            lacks=tuple(series),
        )  # fmt: skip


def _family(series: str) -> str:
    return next((family for start, family in _FAMILIES if series.startswith(start)), _OTHER)


def _group(kind: str, rules: Collection[str]) -> RuleGroup:
    return RuleGroup(needs=kind, can_hit=True, rules=tuple(sorted(rules)), means="can hit")


def _never(scope: Scope, rules: Collection[str], sources: Sources) -> RuleGroup:
    lost = scope in sources.lost
    why = "their source does not deliver" if lost else "no source gives them"
    remedy = "see its row above" if lost else _FIXES.get(scope, _BY_HAND)
    return RuleGroup(
        needs=_KINDS[scope], can_hit=False, rules=tuple(sorted(rules)), means=f"never hit: {why}", remedy=remedy
    )


def _first(scopes: Collection[Scope]) -> Scope:
    return min(scopes, key=_ORDER.index)
