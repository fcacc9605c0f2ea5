"""From bulk answers of a store to what rules are asked of: series of few nodes, and how all others stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from relance.rules.metric_queries import ASK_LABEL
from relance.rules.metric_rules import Point, Series
from relance.rules.metrics import PEERS_STEP_S, Standing
from relance.sources.metrics.clients import Labels, Matrix
from relance.sources.metrics.places import Places


def series_of(matrix: Matrix, places: Places) -> list[Series]:
    """The series of an answer, each with its node; one without a node or samples is left out."""
    found = []
    for labels, times, values in zip(matrix.labels, matrix.times, matrix.values, strict=True):
        place = places.place(labels)
        if place is None or not times:
            continue
        points = [Point(at, value, "", 0) for at, value in zip(times, values, strict=True)]
        inner = {name: value for name, value in labels.items() if name != "__name__"}
        found.append(Series(name=labels.get("__name__", ""), node=place.node, labels=inner, points=tuple(points)))
    return found


def standings_of(matrix: Matrix) -> dict[int, Standing]:
    """How the series of one name stood, by step; from the answers to `metric_queries.standing`."""
    told: dict[str, dict[int, float]] = {}
    for labels, times, values in zip(matrix.labels, matrix.times, matrix.values, strict=True):
        steps = [int(at // PEERS_STEP_S) for at in times]
        told[labels.get(ASK_LABEL, "")] = dict(zip(steps, values, strict=True))
    middles, counts, usual = told.get("middle", {}), told.get("count", {}), told.get("usual", {})
    return {
        step: Standing(count=int(counts.get(step, 0)), middle=middle, usual=middle, usual_count=int(usual.get(step, 0)))
        for step, middle in middles.items()
    }


def since(series: Iterable[Series], at: float) -> list[Series]:
    """The series without what came before a time; without those of which nothing is left."""
    left = [replace(each, points=tuple(point for point in each.points if point.at >= at)) for each in series]
    return [each for each in left if each.points]


def device_of(labels: Labels, names: Sequence[str]) -> str | None:
    """The device of a series as hits name it: the first of these labels that it has."""
    name = next((name for name in names if labels.get(name)), None)
    if name is None:
        return None
    return f"gpu{labels[name]}" if name in ("gpu", "GPU") else labels[name]
