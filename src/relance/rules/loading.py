"""Rule files to a pack: read, checked field by field, and refused by name with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from relance.domain.findings import Beside
from relance.rules.entries import CodeEntry, DerivedEntry, FileEntry, RuleEntry
from relance.rules.formats import DerivedRule, Pack, PackError, Problem, Rule
from relance.rules.metric_entries import MetricEntry, metric_rule
from relance.rules.metric_rules import MetricRule
from relance.rules.patterns import PatternError, checked
from relance.rules.xids import as_rule

_Model = TypeVar("_Model", bound=BaseModel)
_AnyRule = TypeVar("_AnyRule", Rule, DerivedRule, MetricRule)
_EveryRule = Rule | DerivedRule | MetricRule


_SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where PyYAML has it: the packaged rules are read ten times as fast."""


class _Loader(_SAFE_LOADER):  # type: ignore[misc] # which of the two is known at run time only
    """YAML as people mean it: `no` and `on` are words, and a key that is there twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - as the base has it
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if twice := next((key for at, key in enumerate(keys) if key in keys[:at]), None):
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice!r} is there twice", node.start_mark)
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        return made


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] in {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))

_REMEDIES = {
    "missing": "Add it; docs/how-to/write-a-rule.md shows a whole rule",
    "extra_forbidden": "Take it out, or correct its spelling",
    "string_type": "Put the text in quotes",
    "string_pattern_mismatch": "Use small letters and digits, with - or _ between words",
    "too_short": "Give at least one; a rule without examples of both kinds does not load",
    "string_too_short": "Write something",
    "tuple_type": "Write a list: one per line, each after a dash",
    "frozen_set_type": "Write a list: [application]",
    "less_than_equal": "Use a number from 0 to 1",
    "greater_than_equal": "Use a number from 0 to 1",
    "bool_parsing": "Write true or false",
    "bool_type": "Write true or false",
}


SETTINGS = "settings"
"""The name under which changes that come from no file are told of."""


def load_pack(texts: Mapping[str, str], *, weights: Mapping[str, float] | None = None, off: Sequence[str] = ()) -> Pack:
    """The pack of all rules in these files; a file may also change the weight of any rule or switch it off.

    Args:
        texts: The text of each file, by its name.
        weights: Other weights from 0 to 1 by rule id, from the settings; they outrank the files'.
        off: Ids of rules that are to be left out, from the settings.

    Raises:
        PackError: With everything that is wrong in any file, not only the first thing.
    """
    problems: list[Problem] = []
    files = {name: file for name, text in texts.items() if (file := _file(name, text, problems)) is not None}
    rules: dict[str, Rule] = {}
    derived: dict[str, DerivedRule] = {}
    metrics: dict[str, MetricRule] = {}
    known = (rules, derived, metrics)
    for name, file in files.items():
        for rule in _rules(name, file, problems):
            _keep(rule, rules, known, problems)
        for each in _derived(name, file, problems):
            _keep(each, derived, known, problems)
        for one in _metrics(name, file, problems):
            _keep(one, metrics, known, problems)
    changes = {name: (file.weights, file.off) for name, file in files.items()}
    changes[SETTINGS] = (weights or {}, tuple(off))
    new_weights, left_out = _changes(changes, {*rules, *derived, *metrics}, problems)
    if problems:
        raise PackError(tuple(problems))
    groups = {file.group: file.about for file in reversed(files.values())}
    return Pack(
        rules=tuple(_weighed(rule, new_weights) for rule in rules.values() if rule.id not in left_out),
        derived=tuple(_weighed(rule, new_weights) for rule in derived.values() if rule.id not in left_out),
        metrics=tuple(_weighed(rule, new_weights) for rule in metrics.values() if rule.id not in left_out),
        groups=dict(reversed(groups.items())),
        off=frozenset(left_out),
    )


def _file(name: str, text: str, problems: list[Problem]) -> FileEntry | None:
    try:
        data = yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())
        remedy = "Correct the YAML; a pattern is best in single quotes, a dash alone needs quotes"
        problems.append(Problem(file=name, rule="", field="", message=f"it is no YAML: {said}", remedy=remedy))
        return None
    try:
        return FileEntry.model_validate(data if data is not None else {})
    except ValidationError as error:
        problems.extend(_problems(error, name, ""))
        return None


def _rules(name: str, file: FileEntry, problems: list[Problem]) -> Iterator[Rule]:
    for at, data in enumerate((*file.rules, *_of_codes(name, file, problems))):
        entry = _entry(RuleEntry, name, at, data, problems)
        if entry is None or not _is_sound(entry, name, problems):
            continue
        fields = {field: getattr(entry, field) for field in RuleEntry.model_fields}
        fields["beside"] = tuple(Beside(rules=each.rules, role=each.role) for each in entry.beside)
        yield Rule(group=file.group, file=name, **fields)


def _of_codes(name: str, file: FileEntry, problems: list[Problem]) -> Iterator[dict[str, Any]]:
    """The rules of a table of codes."""
    for at, data in enumerate(file.codes):
        entry = _entry(CodeEntry, name, at, data, problems)
        if entry is not None:
            yield as_rule(entry, file.kinds)


def _derived(name: str, file: FileEntry, problems: list[Problem]) -> Iterator[DerivedRule]:
    for at, data in enumerate(file.derived):
        entry = _entry(DerivedEntry, name, at, data, problems)
        if entry is not None:
            fields = {field: getattr(entry, field) for field in DerivedEntry.model_fields}
            yield DerivedRule(group=file.group, file=name, **fields)


def _metrics(name: str, file: FileEntry, problems: list[Problem]) -> Iterator[MetricRule]:
    for at, data in enumerate(file.metrics):
        entry = _entry(MetricEntry, name, at, data, problems)
        if entry is not None:
            yield metric_rule(entry, file.group, name)


def _entry(kind: type[_Model], file: str, at: int, data: object, problems: list[Problem]) -> _Model | None:
    """One entry of a file, if it is whole."""
    given = data.get("id") if isinstance(data, dict) else None
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        problems.extend(_problems(error, file, given if isinstance(given, str) else f"rule {at + 1}"))
        return None


def _is_sound(entry: RuleEntry, file: str, problems: list[Problem]) -> bool:
    try:
        checked(entry.pattern, ignore_case=entry.ignore_case)
    except PatternError as error:
        problems.append(Problem(file=file, rule=entry.id, field="pattern", message=str(error), remedy=error.remedy))
        return False
    if entry.table and entry.traceback:
        message, remedy = "a rule is for a traceback or for a table, not for both", "Set one of the two"
        problems.append(Problem(file=file, rule=entry.id, field="table", message=message, remedy=remedy))
        return False
    return True


def _keep(
    rule: _AnyRule,
    kept: dict[str, _AnyRule],
    known: tuple[Mapping[str, Rule], Mapping[str, DerivedRule], Mapping[str, MetricRule]],
    problems: list[Problem],
) -> None:
    """Keep a rule whose id is new; another of the same id is a problem."""
    first = known[0].get(rule.id) or known[1].get(rule.id) or known[2].get(rule.id)
    if first is not None:
        problems.append(_twice(rule, first))
        return
    kept[rule.id] = rule


def _problems(error: ValidationError, file: str, rule: str) -> list[Problem]:
    found = []
    for each in error.errors():
        field = ".".join(str(part) for part in each["loc"])
        remedy = _REMEDIES.get(each["type"], "Correct the value")
        if each["type"] == "enum":
            remedy = f"One of: {each['ctx']['expected']}".replace("'", "").replace(" or ", ", ")
        found.append(Problem(file=file, rule=rule, field=field, message=_said(each["msg"]), remedy=remedy))
    return found


def _said(message: str) -> str:
    return message[:1].lower() + message[1:]


def _twice(rule: _EveryRule, first: _EveryRule) -> Problem:
    message = f"there is a rule of this id in {first.file}"
    remedy = "Give it another id; to replace a rule, name it under `off` and add yours"
    return Problem(file=rule.file, rule=rule.id, field="id", message=message, remedy=remedy)


def _changes(
    changes: Mapping[str, tuple[Mapping[str, float], tuple[str, ...]]],
    rules: Collection[str],
    problems: list[Problem],
) -> tuple[dict[str, float], set[str]]:
    """Weights and rules to leave out, of all files; a name that no rule has is a problem."""
    weights: dict[str, float] = {}
    off: set[str] = set()
    remedy = "Correct the id; docs/reference/rules.md has those of the packaged rules"
    for name, (new_weights, left_out) in changes.items():
        for field, ids in (("weights", new_weights), ("off", left_out)):
            problems.extend(
                Problem(file=name, rule=each, field=field, message="there is no such rule", remedy=remedy)
                for each in ids
                if each not in rules
            )
        weights |= new_weights
        off |= set(left_out)
    return weights, off


def _weighed(rule: _AnyRule, weights: Mapping[str, float]) -> _AnyRule:
    return replace(rule, weight=weights[rule.id]) if rule.id in weights else rule
