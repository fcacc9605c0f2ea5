"""Figures over incidents: times to detect, act and recover per kind of fault, and counts. Pure.

Terms are those of design 9; a spread gives the mean beside the percentiles, because public figures are means.
Percentiles are by nearest rank, so each of them is a value that was measured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from relance.domain.clocks import (
    Milestones,
    time_to_action_s,
    time_to_detect_s,
    time_to_progress_s,
    time_to_step_s,
)
from relance.domain.incidents import Incident


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How a duration is spread, in seconds; None where nothing was measured."""

    count: int
    mean_s: float | None
    median_s: float | None
    p90_s: float | None
    p99_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFigures:
    """The durations of one kind of fault. `kind` is the verdict's cause."""

    kind: str
    domain: str
    incidents: int
    detect: Spread
    """MTTD: symptom to finding."""
    act: Spread
    """Time to action: symptom to the scheduler's acceptance."""
    step: Spread
    """MTTR: symptom to the new attempt's first step."""
    progress: Spread
    """Symptom to the first step beyond the highest before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many incidents have this name as their end, domain, or advised action."""

    name: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of all incidents opened since `since`."""

    since: datetime | None
    as_of: datetime
    incidents: int
    open: int
    whole: KindFigures
    kinds: tuple[KindFigures, ...]
    ends: tuple[Count, ...]
    domains: tuple[Count, ...]
    actions: tuple[Count, ...]


NOT_JUDGED = "not_judged"
"""The kind and domain of an incident without a verdict."""


def figures(incidents: Iterable[Incident], since: datetime | None, now: datetime) -> Figures:
    """The figures of these incidents, kinds with most incidents first."""
    every = tuple(incidents)
    kinds: dict[tuple[str, str], list[Incident]] = {}
    for incident in every:
        kinds.setdefault(_kind(incident), []).append(incident)
    rows = [_kind_figures(kind, domain, group) for (kind, domain), group in kinds.items()]
    return Figures(
        since=since,
        as_of=now,
        incidents=len(every),
        open=sum(incident.is_open for incident in every),
        whole=_kind_figures("all", "all", every),
        kinds=tuple(sorted(rows, key=lambda row: (-row.incidents, row.kind))),
        ends=counts(incident.end.value for incident in every if incident.end is not None),
        domains=counts(_kind(incident)[1] for incident in every),
        actions=counts(incident.advice.action.value for incident in every if incident.advice is not None),
    )


def spread(values: Iterable[float | None]) -> Spread:
    """The spread of the known values."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return Spread(count=0, mean_s=None, median_s=None, p90_s=None, p99_s=None)
    return Spread(
        count=len(known),
        mean_s=sum(known) / len(known),
        median_s=_percentile(known, 0.5),
        p90_s=_percentile(known, 0.9),
        p99_s=_percentile(known, 0.99),
    )


def counts(names: Iterable[str]) -> tuple[Count, ...]:
    """How often each name comes, the most frequent first."""
    return tuple(Count(name=name, number=number) for name, number in Counter(names).most_common())


def _percentile(values: list[float], share: float) -> float:
    return values[max(0, math.ceil(share * len(values)) - 1)]


def _kind(incident: Incident) -> tuple[str, str]:
    if incident.verdict is None:
        return NOT_JUDGED, NOT_JUDGED
    return incident.verdict.cause, incident.verdict.domain.value


def _kind_figures(kind: str, domain: str, incidents: Iterable[Incident]) -> KindFigures:
    group = tuple(incidents)

    def over(term: Callable[[Milestones], float | None]) -> Spread:
        return spread(term(incident.times) for incident in group)

    return KindFigures(
        kind=kind,
        domain=domain,
        incidents=len(group),
        detect=over(time_to_detect_s),
        act=over(time_to_action_s),
        step=over(time_to_step_s),
        progress=over(time_to_progress_s),
    )
