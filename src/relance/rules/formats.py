"""Rules as values: what a rule says, and the pack that holds all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import Beside, Sign
from relance.rules.metric_rules import MetricRule

CAPTURES = {
    "node": "name of the node that the line is about",
    "peer": "address or name of the other end",
    "rank": "global rank that the line is about",
    "task": "number, list or range of srun's tasks",
    "local_rank": "rank within its node",
    "gpu": "index of the device within its node",
    "pci": "PCI address of the device",
    "device": "name of another device: a NIC, a disk",
    "pid": "process id",
    "process": "name of the process",
    "signal": "name or number of the signal",
    "exit": "exit code; negative for a signal",
    "xid": "number of an Xid",
    "seq": "sequence number of the collective",
    "op": "kind of the collective",
    "exception": "class of the exception",
    "message": "its text",
    "error": "text of another error",
    "path": "file or folder that the line is about",
    "step": "training step or iteration",
    "address": "host and port",
    "host": "NCCL's own prefix, a label, or a failure table: a host as the text names it",
    "frame": "set from a traceback: file, line and function of the last frame that is the job's own code",
    "chained": "set from a traceback: `yes` if the exception came of another one before it",
    "time": "set from a failure table: when the process failed",
}
"""The named groups that are known by meaning; a rule may have others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One recognisable sign in a log.

    `pattern` is RE2 syntax over bytes and is looked for within one line, labels included. `weight`, from 0 to 1, is how
    much a hit alone tells. `scopes` are the kinds of log in which it counts. `hit` and `miss` are lines (or several)
    that it must and must not match.

    A `fallback` counts only on lines that no other rule matched; of several fallbacks the heaviest counts, of equal
    ones the first of the pack. A rule with `traceback` is tried on the last line of a Python traceback only, without
    its labels. A rule with `table` takes captures from the `name : value` lines right above its line. `beside` says
    what a hit becomes beside those of other rules. `details` are facts for people, such as a vendor's own words.
    """

    id: str
    title: str
    group: str
    pattern: str
    symptom: str
    domain: FaultDomain
    role: Role
    suspect: SuspectKind
    restart: RestartHint
    weight: float
    scopes: frozenset[Scope]
    source: str
    hit: tuple[str, ...]
    miss: tuple[str, ...]
    signs: frozenset[Sign] = frozenset()
    ignore_case: bool = False
    fallback: bool = False
    traceback: bool = False
    table: bool = False
    beside: tuple[Beside, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedRule:
    """A sign that no line tells by itself: it is computed from several, or read from a dump.

    The fields mean what they mean in a `Rule`; `scope` is where such hits count.
    """

    id: str
    title: str
    group: str
    symptom: str
    domain: FaultDomain
    role: Role
    suspect: SuspectKind
    restart: RestartHint
    weight: float
    scope: Scope
    source: str
    signs: frozenset[Sign] = frozenset()
    file: str = ""


@dataclass(frozen=True, kw_only=True)
class Pack:
    """All rules in force, in the order of their files; `off` names those that were switched off."""

    rules: tuple[Rule, ...]
    derived: tuple[DerivedRule, ...] = ()
    metrics: tuple[MetricRule, ...] = ()
    """Conditions over samples."""
    groups: dict[str, str] = field(default_factory=dict)
    """What each group is about, in the order of the files."""
    off: frozenset[str] = frozenset()

    @cached_property
    def by_id(self) -> dict[str, Rule]:
        """The rules by id."""
        return {rule.id: rule for rule in self.rules}

    def signs(self, rule_ids: Iterable[str]) -> frozenset[Sign]:
        """The independent signs that hits of these rules are; unknown ids count for nothing."""
        return frozenset(sign for each in rule_ids if each in self.by_id for sign in self.by_id[each].signs)

    @cached_property
    def derived_by_id(self) -> dict[str, DerivedRule]:
        """The derived rules by id."""
        return {rule.id: rule for rule in self.derived}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong in a rule file: where, what, and what to do about it."""

    file: str
    rule: str
    field: str
    message: str
    remedy: str

    def __str__(self) -> str:
        """One line for a person."""
        where = ": ".join(part for part in (self.file, self.rule, self.field) if part)
        return f"{where}: {self.message}. {self.remedy}"


class PackError(ValueError):
    """A rule file cannot be used; `problems` says why, one by one."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems
