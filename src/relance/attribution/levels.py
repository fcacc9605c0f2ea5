"""Confidence: one of five levels, each with what came of it on labelled cases.

The fusion's own weighing only orders; what a level is worth was counted: so many answers of it were right in domain and
decision. The counts are measured by `scripts/calibrate.py` over the cases of this repository.
"""

from __future__ import annotations

from dataclasses import dataclass

from relance.attribution.calibrated import COUNTS
from relance.domain.verdicts import Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A level of confidence: from which weight on it is given, how many of `of` answers were right, and what is stated.

    `stated` never falls from a lower level to a higher: levels that would are counted together.
    """

    name: str
    least: float
    right: int
    of: int
    stated: float

    @property
    def basis(self) -> Basis:
        """What an answer of this level rests on."""
        return Basis(level=self.name, right=self.right, of=self.of)


_LEAST = {"very low": 0.0, "low": 0.45, "fair": 0.6, "high": 0.75, "very high": 0.82}


def _levels() -> tuple[Level, ...]:
    pools: list[list[str]] = []
    for name in _LEAST:
        pools.append([name])
        while len(pools) > 1 and _share(pools[-2]) > _share(pools[-1]):
            pools[-2:] = [[*pools[-2], *pools[-1]]]
    return tuple(
        Level(name=name, least=_LEAST[name], right=COUNTS[name][0], of=COUNTS[name][1], stated=round(_share(pool), 2))
        for pool in reversed(pools)
        for name in reversed(pool)
    )


def _share(names: list[str]) -> float:
    """The share of right answers, drawn towards a half where few were counted (rule of succession)."""
    return (sum(COUNTS[name][0] for name in names) + 1) / (sum(COUNTS[name][1] for name in names) + 2)


LEVELS: tuple[Level, ...] = _levels()
"""From the surest down."""


def level_of(weight: float) -> Level:
    """The level of an explanation's weight, from 0 to 1."""
    return next(level for level in LEVELS if weight >= level.least)
