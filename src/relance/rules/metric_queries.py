"""Metric rules as PromQL: questions that only the series answer in which a rule may be met.

A question gives at least the series that the rule is met in; what it gives is decided on by `relance.rules.metrics`
over the samples of these series alone. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import isfinite, isnan

from relance.domain.faults import Role
from relance.rules.metric_rules import Condition, MetricRule, Test

ASK_LABEL = "relance_ask"
"""The label by which answers to several questions in one query are told apart: number of the question, of the name."""
DEFAULT_NODE_LABELS = ("Hostname", "node", "nodename", "instance")
LONG_S = 600.0
"""The past of counters that have to grow by more than one, and of values held against their peak."""
_DEVICE_LABELS = ("gpu", "device", "port", "mountpoint", "interface", "namespace", "pod", "container")
_ROUNDING = 0.999
"""A query is a little less strict than its rule, because servers count with rounding of their own."""
_MAJORITY = 0.79
_LARGEST_BIT = 52
_FEW, _DENSE = 3, 10
"""Of more values than a few, if they lie as close as this, their whole range is asked for: one look, not one each."""
_ASKED_OF_ALL = frozenset({Role.ROOT, Role.MAYBE, Role.CONTEXT, Role.CASCADE})
"""What holds at ordinary times, too (diagnostic: power caps, free memory), is asked only of nodes looked at closely."""


class Reach(Enum):
    """How much of the past a question reads."""

    NOW = "now"
    """The values of one time."""
    RECENT = "recent"
    """What came since the last look."""
    LONG = "long"
    """`LONG_S` of the past, or what came since the last look if that is longer; asked more rarely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """How a site's series are selected, and which labels may name the node: the first that a series has counts."""

    node_labels: tuple[str, ...] = DEFAULT_NODE_LABELS
    match: Mapping[str, str] = field(default_factory=dict)

    def selector(self, name: str, where: Mapping[str, str] | None = None) -> str:
        """The selector of a series by its name."""
        return f"{name}{self.braces(where or {})}"

    def braces(self, labels: Mapping[str, str], more: Iterable[str] = ()) -> str:
        """The part of a selector with the site's and these labels, and with matchers that are written already."""
        pairs = [f"{label}={quoted(value)}" for label, value in sorted({**self.match, **labels}.items())]
        return "{" + ",".join([*pairs, *more]) + "}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question for one or several rules over the same series, which differ only in what the local decision sees."""

    rules: tuple[MetricRule, ...]
    reach: Reach

    @property
    def names(self) -> frozenset[str]:
        """All series that are looked at."""
        return frozenset().union(*(rule.names for rule in self.rules))

    def is_possible(self, names: frozenset[str]) -> bool:
        """Whether a store with series of these names can answer with anything."""
        rule = self.rules[0]
        needed = [rule.series, rule.when.of]
        if rule.beneath is not None:
            needed += [rule.beneath.series, rule.beneath.when.of]
        return all(not names.isdisjoint(group) for group in needed if group)


def questions(rules: Iterable[MetricRule]) -> tuple[Question, ...]:
    """The questions to be asked of a whole cluster. That series vanish is not among them: see `presence`."""
    plain: list[Question] = []
    changes: dict[object, list[MetricRule]] = {}
    for rule in rules:
        test = rule.when.test
        if rule.role not in _ASKED_OF_ALL or test is Test.VANISHES:
            continue
        if test.is_moment:
            beneath = rule.beneath and (rule.beneath.series, rule.beneath.when)
            key = (rule.series, tuple(sorted(rule.where.items())), beneath, rule.device)
            changes.setdefault(key, []).append(rule)
        else:
            plain.append(Question(rules=(rule,), reach=_reach(rule)))
    together = [Question(rules=tuple(group), reach=Reach.RECENT) for group in changes.values()]
    return (*together, *plain)


def _reach(rule: MetricRule) -> Reach:
    test = rule.when.test
    if test is Test.GROWS:
        return Reach.RECENT if rule.when.limits[0] <= 1 else Reach.LONG
    if test is Test.GROWS_PER_MINUTE:
        return Reach.RECENT
    return Reach.LONG if test is Test.BELOW_PEAK else Reach.NOW


def expression(
    question: Question, number: int, names: frozenset[str], naming: Naming, window_s: float, poll_s: float
) -> str:
    """The PromQL of a question: one series for each node and device in which one of its rules may be met.

    `names` are those that the store has. `window_s` is the past that is read, `poll_s` the least time between samples.
    """
    rule = question.rules[0]
    parts = []
    for index, name in enumerate(rule.series):
        if name not in names:
            continue
        asked = _asked(rule, name, naming, window_s, poll_s)
        if rule.beneath is not None:
            also = rule.beneath
            levels = [_level(also.when, naming.selector(each), naming) for each in also.series if each in names]
            asked = f"({asked}) and on({_joined(_beside_labels(naming))}) ({' or '.join(levels)})"
        by = _joined((*naming.node_labels, *rule.device, ASK_LABEL))
        parts.append(f"max by ({by}) ({tagged(asked, f'{number}:{index}')})")
    return " or ".join(parts)


def _asked(rule: MetricRule, name: str, naming: Naming, window_s: float, poll_s: float) -> str:
    test, limits = rule.when.test, rule.when.limits
    series = naming.selector(name, rule.where)
    past = f"{series}[{_duration(window_s)}]"
    if test.is_moment:
        return f"changes({past}) > 0"
    if test is Test.GROWS:
        return f"increase({past}) >= {_number(limits[0] * _ROUNDING)} > 0"
    if test is Test.GROWS_PER_MINUTE:
        return f"increase({past}) >= {_number(limits[0] * poll_s / 60.0 * _ROUNDING)} > 0"
    if test is Test.BELOW_PEAK:
        if window_s > LONG_S:  # it is looked back: what fell and rose again counts, too
            return f"min_over_time({past}) < {_number(limits[0])} * max_over_time({past})"
        return f"{series} < {_number(limits[0])} * max_over_time({past})"
    value, everywhere = series, naming.selector(name)
    if test.asks_peers:
        return _differing(rule.when, value, everywhere, naming)
    return _level(rule.when, value, naming)


def _level(condition: Condition, value: str, naming: Naming) -> str:
    """A level of a series, or of its share of others."""
    test, limits = condition.test, condition.limits
    if test is Test.EQUALS:
        if len(limits) > _FEW and max(limits) - min(limits) <= _DENSE * len(limits):
            return f"({value} >= {_number(min(limits))} <= {_number(max(limits))})"
        return " or ".join(f"({value} == {_number(limit)})" for limit in limits)
    if test is Test.OTHER_THAN:
        return "(" + value + "".join(f" != {_number(limit)}" for limit in limits) + ")"
    if test is Test.BITS:
        bits = sorted({bit for limit in limits for bit in range(_LARGEST_BIT) if int(limit) >> bit & 1})
        return " or ".join(f"({value} and (floor({value} / {1 << bit}) % 2 == 1))" for bit in bits)
    sign = ">" if test is Test.ABOVE else "<"
    if not condition.of:
        return f"({value} {sign} {_number(limits[0])})"
    return f"({value} {sign} {_of(condition, naming, smallest=test is Test.ABOVE)})"


def _of(condition: Condition, naming: Naming, *, smallest: bool) -> str:
    """The limit as a share of other series beside."""
    labels = _joined(_beside_labels(naming))
    wholes = " or ".join(naming.selector(each) for each in condition.of)
    whole = f"{'min' if smallest else 'max'} by ({labels}) ({wholes})"
    return f"on({labels}) group_left() {_number(condition.limits[0])} * {whole}"


def _differing(condition: Condition, value: str, everywhere: str, naming: Naming) -> str:
    """A value that stands out of those of the same series everywhere."""
    middle = f"scalar(quantile(0.5, {everywhere}))"
    limit = _number(condition.limits[0]) if condition.limits else ""
    if condition.test is Test.UNLIKE_PEERS:
        # Where nearly all have one value, it is their median, too.
        agreed = f"count({everywhere} == {middle}) >= {_MAJORITY} * (count({everywhere}) - 1)"
        return f"({value} != {middle}) and on() ({agreed})"
    if condition.of:
        labels = _joined(_beside_labels(naming))
        wholes = " or ".join(naming.selector(each) for each in condition.of)
        value = f"({value} / on({labels}) group_left() max by ({labels}) ({wholes}))"
    if condition.test is Test.BELOW_PEERS:
        return f"{value} < {limit} * {middle}"
    return f"{value} > {limit} + {middle}"


def standing(name: str, naming: Naming) -> str:
    """How all series of a name stand: their median (`middle`), how many they are, how many have the median."""
    series = naming.selector(name)
    middle = f"quantile(0.5, {series})"
    return " or ".join((
        tagged(middle, "middle"),
        tagged(f"count({series})", "count"),
        tagged(f"count({series} == scalar({middle}))", "usual"),
    ))  # fmt: skip


def presence(names: Iterable[str], naming: Naming) -> str:
    """When each node's series of these names came last (`at`), and how many of them it has (`count`)."""
    by = _joined(naming.node_labels)
    series = [naming.selector(name) for name in names]
    last = " or ".join(tagged(f"timestamp({each})", str(number)) for number, each in enumerate(series))
    many = " or ".join(tagged(each, str(number)) for number, each in enumerate(series))
    return " or ".join((
        tagged(f"max by ({by}) ({last})", "at"),
        tagged(f"max by ({by}) (count by ({by}, {ASK_LABEL}) ({many}))", "count"),
    ))  # fmt: skip


def samples(names: Iterable[str], node_label: str, nodes: Iterable[str], naming: Naming, window_s: float) -> str:
    """All samples of the series of some names on some nodes, by the values of the label that names them."""
    matchers = (f"__name__=~{quoted('|'.join(sorted(names)))}", f"{node_label}=~{quoted(one_of(nodes))}")
    return f"{naming.braces({}, matchers)}[{_duration(window_s)}]"


def one_of(values: Iterable[str]) -> str:
    """A pattern that is one of these texts and nothing else."""
    return "|".join(
        "".join(each if each.isalnum() or each in "_-:/" or not each.isascii() else f"\\{each}" for each in text)
        for text in sorted(values)
    )


def tagged(query: str, tag: str) -> str:
    """A query whose series bear a tag, so that several of them fit into one."""
    return f'label_replace({query}, "{ASK_LABEL}", "{tag}", "", "")'


def quoted(text: str) -> str:
    """A text as PromQL has it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _beside_labels(naming: Naming) -> tuple[str, ...]:
    return (*naming.node_labels, *_DEVICE_LABELS)


def _joined(labels: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(labels))


def _number(value: float) -> str:
    if not isfinite(value):
        return "NaN" if isnan(value) else "Inf" if value > 0 else "-Inf"
    return repr(int(value)) if value == int(value) else repr(value)


def _duration(seconds: float) -> str:
    return f"{max(round(seconds), 1)}s"
