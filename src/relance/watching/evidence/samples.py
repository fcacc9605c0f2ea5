"""Samples collected into series: only those that a rule asks about, and no more than fit into a bounded room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from relance.rules.metric_rules import Point, Series
from relance.watching.evidence.naming import known_node
from relance.watching.evidence.values import LAST_SECOND

MOST_SAMPLES = 250_000
"""All samples that are kept: about 40 MiB."""
MOST_SERIES = 50_000
_NODE_LABELS = (
    "Hostname", "hostname", "node", "nodename", "host", "kubernetes_node", "kube_node", "exported_node",
    "exported_instance", "instance",
)  # fmt: skip
Labels = tuple[tuple[str, str], ...]
"""Labels in the order of their names."""
_Key = tuple[str, str | None, Labels]


@dataclass(slots=True)
class Samples:
    """Series in the making. `full` says that samples were left out, because there were too many."""

    wanted: frozenset[str]
    full: bool = False
    count: int = 0
    _points: dict[_Key, list[tuple[float | None, int, Point]]] = field(default_factory=dict)
    _shown: dict[_Key, str] = field(default_factory=dict)
    _places: dict[str, str] = field(default_factory=dict)

    def place(self, told: str | None, nodes: tuple[str, ...], node: str | None) -> str | None:
        """The node that a series is of: the one it names, as the attempt calls it, else its file's."""
        if not told:
            return node
        if told not in self._places and len(self._places) < MOST_SERIES:
            self._places[told] = known_node(told, nodes) or told
        return self._places.get(told, told)

    def add(self, name: str, labels: Labels, node: str | None, sample: tuple[float | None, int], point: Point) -> None:
        """Keep a sample, with its time in seconds since 1970 (None: not told) and the number of its scrape.

        One whose time is no time of any cluster is left out.
        """
        if sample[0] is not None and not 0.0 <= sample[0] <= LAST_SECOND:
            return
        key = (name, node, labels)
        held = self._points.get(key)
        if self.count >= MOST_SAMPLES or (held is None and len(self._points) >= MOST_SERIES):
            self.full = True
            return
        if held is None:
            held = self._points[key] = []
        elif len(held) > 1 and held[-1][2].value == held[-2][2].value == point.value and held[-1][0] is not None:
            # Of a run of equal values its first and its last sample tell all.
            held[-1] = (*sample, point)
            return
        held.append((*sample, point))
        self.count += 1

    def call(self, name: str, shown: str) -> None:
        """Remember what a file calls a series."""
        for key in self._points:
            if key[0] == name:
                self._shown.setdefault(key, shown)

    def series(self) -> tuple[Series, ...]:
        """The series. One whose samples do not all bear times is in the order of its scrapes."""
        found: list[Series] = []
        for key, held in self._points.items():
            name, node, labels = key
            timed = all(at is not None for at, _, _ in held)
            points: Iterable[Point]
            if timed:
                points = sorted({point.at: point for _, _, point in held}.values())
            else:
                ordered = sorted(held, key=lambda each: (each[1], each[2].file, each[2].line))
                points = (point._replace(at=float(number)) for number, (_, _, point) in enumerate(ordered))
            found.append(
                Series(
                    name=name,
                    node=node,
                    labels=dict(labels),
                    points=tuple(points),
                    shown=self._shown.get(key, name),
                    timed=timed,
                )
            )
        return tuple(sorted(found, key=lambda each: (each.name, each.node or "", sorted(each.labels.items()))))


def node_label(labels: Mapping[str, str]) -> str | None:
    """The node that the labels of a series name, without a port."""
    for name in _NODE_LABELS:
        value = labels.get(name)
        if value:
            host, colon, port = value.rpartition(":")
            return host if colon and port.isdigit() and host else value
    return None
