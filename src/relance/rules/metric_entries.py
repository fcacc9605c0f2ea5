"""Metric rules as files have them: read, checked, and their examples made into samples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from relance.domain.faults import FaultDomain, RestartHint, Role, SuspectKind
from relance.domain.findings import Sign
from relance.rules.entries import Examples, Name, Text, Weight
from relance.rules.formats import Problem
from relance.rules.metric_rules import Beneath, Condition, MetricRule, Point, Series, Test
from relance.rules.metrics import evaluate

_SeriesNames = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[A-Za-z_:][\w:]*$", max_length=200)], ...], Field(min_length=1)
]
_Limits = Annotated[tuple[float, ...], Field(min_length=1)]
_START = 1_767_225_600.0
"""Examples begin at this time."""
_SHARES_ONLY = (Test.ABOVE, Test.BELOW, Test.BELOW_PEERS, Test.ABOVE_PEERS)


class ConditionEntry(BaseModel):
    """One condition: exactly one question, with `of` where it is asked of a share."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    above: float | None = None
    below: float | None = None
    equals: _Limits | None = None
    other_than: _Limits | None = None
    bits: _Limits | None = None
    below_peers: Annotated[float, Field(gt=0, lt=1)] | None = None
    above_peers: Annotated[float, Field(gt=0)] | None = None
    unlike_peers: bool | None = None
    changes: bool | None = None
    becomes: _Limits | None = None
    grows: Annotated[float, Field(ge=0)] | None = None
    grows_per_minute: Annotated[float, Field(gt=0)] | None = None
    below_peak: Annotated[float, Field(gt=0, lt=1)] | None = None
    vanishes: bool | None = None
    of: _SeriesNames | tuple[()] = ()

    @model_validator(mode="after")
    def _asks_one_question(self) -> ConditionEntry:
        asked = [test for test in Test if getattr(self, test.value) is not None]
        if len(asked) != 1:
            message = f"one question is wanted, of {', '.join(test.value for test in Test)}"
            raise ValueError(message)
        if self.of and asked[0] not in _SHARES_ONLY:
            message = "`of` goes with above, below, below_peers and above_peers"
            raise ValueError(message)
        return self

    def condition(self) -> Condition:
        """The condition."""
        test = next(test for test in Test if getattr(self, test.value) is not None)
        value = getattr(self, test.value)
        limits = value if isinstance(value, tuple) else () if isinstance(value, bool) else (float(value),)
        return Condition(test=test, limits=limits, of=self.of)


class BeneathEntry(BaseModel):
    """A level of another series."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    series: _SeriesNames
    when: ConditionEntry

    @model_validator(mode="after")
    def _is_plain(self) -> BeneathEntry:
        condition = self.when.condition()
        if not condition.test.is_level or condition.test.asks_peers or condition.of:
            message = "a plain level is wanted: above, below, equals, other_than or bits"
            raise ValueError(message)
        return self


class MetricEntry(BaseModel):
    """One metric rule as a file has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Name
    title: Text
    series: _SeriesNames
    when: ConditionEntry
    symptom: Name
    domain: FaultDomain
    role: Role
    suspect: SuspectKind
    restart: RestartHint
    weight: Weight
    source: Text
    hit: Examples
    miss: Examples
    where: Mapping[str, str] = Field(default_factory=dict)
    beneath: BeneathEntry | None = None
    for_s: Annotated[float, Field(ge=0, le=86_400)] = 0.0
    throughout: bool = False
    device: tuple[str, ...] = ("gpu", "device", "port")
    value_as: Name | None = None
    slow: bool = False
    signs: frozenset[Sign] = frozenset()
    isolate: bool = False
    is_time: bool = False


def metric_rule(entry: MetricEntry, group: str, file: str) -> MetricRule:
    """The rule that an entry of a file says."""
    plain: dict[str, Any] = {
        name: getattr(entry, name) for name in MetricEntry.model_fields if name not in ("when", "beneath")
    }
    also = entry.beneath
    beneath = None if also is None else Beneath(series=also.series, when=also.when.condition())
    return MetricRule(group=group, file=file, when=entry.when.condition(), beneath=beneath, **plain)


def check_metrics(rules: tuple[MetricRule, ...]) -> tuple[Problem, ...]:
    """What is wrong with the examples of metric rules: a `hit` must give one, a `miss` none."""
    problems: list[Problem] = []
    for rule in rules:
        for kind, examples, wanted in (("hit", rule.hit, True), ("miss", rule.miss, False)):
            for number, example in enumerate(examples, 1):
                try:
                    found = bool(evaluate((rule,), samples_of(example, rule), datetime.fromtimestamp(_START, UTC)))
                except ValueError as error:
                    problems.append(_problem(rule, f"{kind}.{number}", str(error)))
                    continue
                if found is not wanted:
                    said = "the condition is not met" if wanted else "the condition is met"
                    problems.append(_problem(rule, f"{kind}.{number}", said))
    return tuple(problems)


def samples_of(example: str, rule: MetricRule) -> tuple[Series, ...]:
    """The samples of an example, one a line: seconds, node, series if not the rule's first, labels, value.

    Raises:
        ValueError: A line that is none.
    """
    found: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[Point]] = {}
    for number, line in enumerate(example.splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if len(words) < 3 or not re.fullmatch(r"\d+(\.\d+)?", words[0]):  # noqa: PLR2004 - seconds, node, value
            message = f"line {number} is no sample: seconds, node, series, name=value, value are wanted"
            raise ValueError(message)
        middle = words[2:-1]
        labels = dict(word.split("=", 1) for word in middle if "=" in word)
        name = next((word for word in middle if "=" not in word), rule.series[0])
        key = (name, words[1], tuple(sorted({**rule.where, **labels}.items())))
        if name not in rule.series:
            key = (name, words[1], tuple(sorted(labels.items())))
        found.setdefault(key, []).append(Point(_START + float(words[0]), float(words[-1]), "example", number))
    return tuple(
        Series(name=name, node=node, labels=dict(labels), points=tuple(sorted(points)))
        for (name, node, labels), points in found.items()
    )


def _problem(rule: MetricRule, field: str, message: str) -> Problem:
    remedy = "Correct the condition, or the example if it is not what is meant"
    return Problem(file=rule.file, rule=rule.id, field=field, message=message, remedy=remedy)
