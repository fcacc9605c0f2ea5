"""What the double keeps: streams by tenant, each line once, and the answers that are made of them."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter
from typing import Any

from relance.testing.loki_double.logql import LogQuery, MetricQuery, grouped

_LEVEL = re.compile(r"\b(trace|debug|info|warn|warning|error|err|critical|fatal)\b", re.IGNORECASE)
_LEVELS = {"warning": "warn", "err": "error"}
_SERVICE_LABELS = ("service", "app", "application", "name", "container", "job")

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Shelf:
    """The streams of one tenant; the lines of each by time, those of one time as they came."""

    streams: dict[Labels, list[tuple[int, int, str, str]]] = field(default_factory=dict)
    known: set[tuple[Labels, int, str]] = field(default_factory=set)
    _numbers: count[int] = field(default_factory=count)

    def put(self, labels: Mapping[str, str], at_ns: int, line: str) -> None:
        """Keep a line, if it is not there already."""
        key = tuple(sorted(with_service(labels).items()))
        if (key, at_ns, line) in self.known:
            return
        self.known.add((key, at_ns, line))
        insort(self.streams.setdefault(key, []), (at_ns, next(self._numbers), line, level_of(line)))

    def names(self, since_ns: int, until_ns: int) -> list[Labels]:
        """The streams with a line in that time."""
        return [labels for labels, lines in self.streams.items() if any(since_ns <= at <= until_ns for at, *_ in lines)]


def with_service(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels with the one that is added where it is missing."""
    found = next((labels[name] for name in _SERVICE_LABELS if labels.get(name)), "unknown_service")
    return {"service_name": found, **labels}


def level_of(line: str) -> str:
    """The level that is detected in a line."""
    found = _LEVEL.search(line)
    return "unknown" if found is None else _LEVELS.get(found[1].lower(), found[1].lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of a log query."""

    since_ns: int
    until_ns: int
    limit: int
    is_forward: bool
    is_categorized: bool


def streams_answer(shelf: Shelf, query: LogQuery, asked: Asked) -> dict[str, Any]:
    """The data of an answer with streams, in no order of time."""
    found: list[tuple[int, int, str, Labels, Labels, str]] = []
    for labels, lines in shelf.streams.items():
        if not query.selects(dict(labels)):
            continue
        for at, number, line, level in lines:
            if asked.since_ns <= at < asked.until_ns:
                kept = query.run(line, {**dict(labels), "detected_level": level})
                if kept is not None:
                    found.append((at, number, line, labels, tuple(sorted(kept.items())), level))
    found.sort(key=itemgetter(0, 1), reverse=not asked.is_forward)
    streams: dict[Labels, list[list[Any]]] = {}
    for at, _, line, labels, kept_labels, level in found[: asked.limit]:
        if asked.is_categorized:
            value = [str(at), line, {"structuredMetadata": {"detected_level": level}}]
            streams.setdefault(labels, []).append(value)
        else:
            streams.setdefault(kept_labels, []).append([str(at), line])
    result = [{"stream": dict(labels), "values": values} for labels, values in reversed(streams.items())]
    data: dict[str, Any] = {"resultType": "streams", "result": result, "stats": {"summary": {"totalLinesProcessed": 0}}}
    return {**data, "encodingFlags": ["categorize-labels"]} if asked.is_categorized else data


def matrix_answer(shelf: Shelf, query: MetricQuery, since_ns: int, until_ns: int, step_s: float) -> dict[str, Any]:
    """The data of an answer with series over a time."""
    step_ns = max(int(step_s * 1e9), 1)
    first, last = since_ns // step_ns * step_ns, until_ns // step_ns * step_ns
    series: dict[Labels, list[list[Any]]] = {}
    for at in range(first, last + 1, step_ns):
        for labels, value in sorted(_values(shelf, query, at).items()):
            series.setdefault(labels, []).append([_seconds(at), f"{value:g}"])
    result = [{"metric": dict(labels), "values": values} for labels, values in series.items()]
    return {"resultType": "matrix", "result": result, "stats": {}}


def vector_answer(shelf: Shelf, query: MetricQuery, at_ns: int) -> dict[str, Any]:
    """The data of an answer with series at one time."""
    values = sorted(_values(shelf, query, at_ns).items())
    result = [{"metric": dict(labels), "value": [_seconds(at_ns), f"{value:g}"]} for labels, value in values]
    return {"resultType": "vector", "result": result, "stats": {}}


def _values(shelf: Shelf, query: MetricQuery, at_ns: int) -> dict[Labels, float]:
    since, found = at_ns - int(query.range_s * 1e9), dict[Labels, float]()
    unwrapped = next((stage.text for stage in query.log.stages if stage.kind == "unwrap"), "")
    for labels, lines in shelf.streams.items():
        if not query.log.selects(dict(labels)):
            continue
        for at, _, line, level in lines:
            kept = query.log.run(line, {**dict(labels), "detected_level": level}) if since < at <= at_ns else None
            if kept is None or (unwrapped and unwrapped not in kept):
                continue
            key = grouped(kept, query.by)
            found[key] = max(found.get(key, 0.0), float(kept[unwrapped])) if unwrapped else found.get(key, 0.0) + 1
    return found


def _seconds(at_ns: int) -> float | int:
    return at_ns // 10**9 if at_ns % 10**9 == 0 else at_ns / 1e9
