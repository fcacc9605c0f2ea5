"""What a benchmark gives: a bar, whether it was held, and the figures behind it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

P95_FROM = 30
"""A 95th percentile of fewer values says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How a measured quantity is spread."""

    count: int
    median: float | None
    maximum: float | None
    p95: float | None

    @property
    def data(self) -> dict[str, float | int | None]:
        """As JSON data."""
        return {"count": self.count, "median": self.median, "max": self.maximum, "p95": self.p95}


def spread(values: Sequence[float]) -> Spread:
    """The spread of these values; the 95th percentile, by nearest rank, from 30 values up."""
    if not values:
        return Spread(count=0, median=None, maximum=None, p95=None)
    ordered = sorted(values)
    p95 = ordered[math.ceil(0.95 * len(ordered)) - 1] if len(ordered) >= P95_FROM else None
    return Spread(
        count=len(ordered),
        median=round(statistics.median(ordered), 3),
        maximum=round(ordered[-1], 3),
        p95=None if p95 is None else round(p95, 3),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A bar on one figure."""

    name: str
    value: float | None
    """What was measured; None: nothing was, which never holds a bar."""
    most: float
    """The limit: the most that the value may be, or the least where `is_least` says so."""
    unit: str = "s"
    is_least: bool = False

    @property
    def is_held(self) -> bool:
        """Whether the value is within the limit."""
        if self.value is None:
            return False
        return self.value >= self.most if self.is_least else self.value <= self.most

    @property
    def ratio(self) -> float | None:
        """Value over limit, or limit over value where that is the least; None where there is nothing to divide."""
        over, under = (self.most, self.value) if self.is_least else (self.value, self.most)
        return round(over / under, 3) if over is not None and under else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one benchmark came to."""

    name: str
    measure: str
    """What was measured, in the words of the table of bars."""
    limits: tuple[Limit, ...]
    figures: dict[str, Any] = field(default_factory=dict)
    """Spreads and counts, per fault or setting."""
    wrong: tuple[str, ...] = ()
    """What went wrong beside the figures; nothing may."""
    conditions: str = ""
    """What a reader has to know to judge it."""
    duration_s: float = 0.0
    is_quick: bool = False

    @property
    def is_held(self) -> bool:
        """Whether every bar was held and nothing went wrong."""
        return not self.wrong and all(limit.is_held for limit in self.limits)

    @property
    def data(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "measure": self.measure,
            "held": self.is_held,
            "quick": self.is_quick,
            "bars": [
                {
                    "name": limit.name,
                    "value": limit.value,
                    "least" if limit.is_least else "most": limit.most,
                    "unit": limit.unit,
                    "ratio": limit.ratio,
                    "held": limit.is_held,
                }
                for limit in self.limits
            ],
            "figures": self.figures,
            "wrong": list(self.wrong),
            "conditions": self.conditions,
            "duration_s": round(self.duration_s, 1),
        }
