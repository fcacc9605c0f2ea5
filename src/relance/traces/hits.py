"""Signs of traces made into hits of derived rules, which attribution takes like hits of lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Protocol

from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import RuleHit
from relance.traces.signs import TraceSign

SURE = 0.5
"""Below this confidence a root is only a maybe."""
MOST_RANKS = 8
"""A sign gives at most so many hits, one for each of its first ranks."""
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


class TraceRule(Protocol):
    """What is needed of a derived rule of the pack."""

    @property
    def id(self) -> str: ...
    @property
    def symptom(self) -> str: ...
    @property
    def domain(self) -> FaultDomain: ...
    @property
    def role(self) -> Role: ...
    @property
    def suspect(self) -> SuspectKind: ...
    @property
    def restart(self) -> RestartHint: ...
    @property
    def weight(self) -> float: ...
    @property
    def scope(self) -> Scope: ...


def hits_of(
    signs: Iterable[TraceSign], rules: Iterable[TraceRule], read_at: datetime, *, mask: Callable[[str], str]
) -> tuple[RuleHit, ...]:
    """The hits of derived rules that signs are, in the order of the signs; a sign without a rule is left out.

    A sign about ranks gives one hit for each of them where its rule suspects ranks, else one. The weight is the rule's
    times the sign's confidence, and a root of which the sign is not sure is a maybe. The hit's node is what the file's
    path tells of the first rank; a host that the trace names is a capture (`host`).

    Args:
        signs: What traces say.
        rules: The pack's derived rules.
        read_at: When the traces were read: the time of a sign that has none.
        mask: Takes secrets out of a text: sentences may quote a program's own words.
    """
    by_symptom: dict[str, TraceRule] = {}
    for rule in rules:
        if rule.scope is Scope.TRACES:
            by_symptom.setdefault(rule.symptom, rule)
    hits: list[RuleHit] = []
    for sign in signs:
        rule_of_it = by_symptom.get(sign.kind.value)
        if rule_of_it is None:
            continue
        named = sign.ranks[:MOST_RANKS] if rule_of_it.suspect is SuspectKind.RANK else ()
        hits += [_hit(sign, rule_of_it, rank, read_at, mask) for rank in named or (None,)]
    return tuple(hits)


def _hit(sign: TraceSign, rule: TraceRule, rank: int | None, read_at: datetime, mask: Callable[[str], str]) -> RuleHit:
    told = _captures(sign, rank)
    unsure = rule.role is Role.ROOT and sign.confidence < SURE
    return RuleHit(
        rule=rule.id,
        symptom=rule.symptom,
        domain=rule.domain,
        role=Role.MAYBE if unsure else rule.role,
        suspect=rule.suspect,
        restart=rule.restart,
        weight=round(rule.weight * sign.confidence, 4),
        scope=Scope.TRACES,
        seen_at=read_at,
        at=sign.at,
        rank=rank,
        node=sign.node if rank is None or rank == sign.ranks[0] else None,
        device=f"gpu{told['gpu']}" if "gpu" in told else None,
        file=sign.file,
        line=sign.line,
        excerpt=_CONTROLS.sub(" ", mask(sign.because)),
        captures={name: _CONTROLS.sub(" ", mask(value)) for name, value in told.items()},
    )


def _captures(sign: TraceSign, rank: int | None) -> Mapping[str, str]:
    found = dict(sign.details)
    found["confidence"] = f"{sign.confidence:.3g}"
    if rank is not None:
        found["rank"] = str(rank)
    if len(sign.ranks) > 1 or (sign.ranks and rank is None):
        found["ranks"] = ",".join(str(each) for each in sign.ranks[:64])
    if sign.group:
        found["group"] = sign.group
    if sign.seq is not None:
        found["seq"] = str(sign.seq)
    if sign.op:
        found["op"] = sign.op
    if sign.margin is not None:
        found["margin"] = f"{sign.margin:g}"
    first = not sign.ranks or rank is None or rank == sign.ranks[0]
    if sign.host is not None and first:
        found["host"] = sign.host
    if sign.gpu is not None and first:
        found["gpu"] = str(sign.gpu)
    return found
