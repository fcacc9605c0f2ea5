"""Growth of counters: what was added, whatever starts anew, jitters or is only away meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from relance.rules.metric_rules import Point

CLOCKS_S: Final = 60.0
"""By so much the clocks of a node and of the store may differ."""
_ANEW_SHARE: Final = 0.5
"""A counter that falls below this share of what it was began anew; some clocks and counters jitter by a little."""


def growth(pairs: Iterable[tuple[Point, Point]], *, is_time: bool = False) -> Iterator[tuple[Point, Point, float]]:
    """Each sample with the one before it, and by how much the counter has grown since the first.

    One that begins anew counts from nought. One that only goes back a little does not begin anew: only what is above
    its highest counts then. One that is back at what it was has only been away, as while its exporter started. Of a
    time of day (`is_time`) only a later one than the sample before is new: otherwise the clock was set that tells it.
    """
    grown = 0.0
    highest: float | None = None
    fell_from: float | None = None
    for before, point in pairs:
        highest = before.value if highest is None else highest
        if point.value < _ANEW_SHARE * highest:
            highest, fell_from = 0.0, highest
        was_away = fell_from is not None and point.value == fell_from
        if was_away or (is_time and point.value < before.at - CLOCKS_S):
            highest, fell_from = max(highest, point.value), None
            continue
        grown += max(point.value - highest, 0.0)
        highest = max(highest, point.value)
        yield before, point, grown
