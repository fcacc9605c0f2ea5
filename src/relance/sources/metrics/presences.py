"""Which nodes have metrics in the store, and which had them until not long ago. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from relance.rules.metric_queries import ASK_LABEL
from relance.rules.metric_rules import MetricRule
from relance.rules.metrics import VANISHED_S
from relance.sources.metrics.clients import Vector
from relance.sources.metrics.places import Places, port_of

GONE_S = VANISHED_S
"""A node whose last sample is this much older than those of others has gone silent, for the rules as here."""
_FORGOTTEN_S = 3600.0
_FEWEST_OTHERS = 2
_DEVICES_AT_MOST = 1024
"""No node has more; a picture has one entry for each."""
_MASS = 0.5
"""If more than this share of nodes go at once, the way of the metrics is broken, not the nodes."""
_LATELY_S = 1800.0
_FEW, _FEW_SHARE = 2, 0.1
"""If more nodes than these were silent lately, agents are being restarted: then silence says nothing of a node."""
_TWICE = 2
"""Two machines of one name have to be seen side by side so many times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """Nodes that went silent alone; `mass` says how many of how many did, where it was too many to be the nodes."""

    nodes: Mapping[str, float] = field(default_factory=dict)
    mass: tuple[int, int] | None = None


class Presence:
    """The nodes that have the series of one rule."""

    def __init__(self, rule: MetricRule) -> None:
        self.rule = rule
        self.names: tuple[str, ...] = ()
        """Those of its series that the store has."""
        self.last: dict[str, float] = {}
        """When the last sample of each node came, in seconds since 1970."""
        self.devices: dict[str, int] = {}
        """How many series of one name each node has."""
        self.labels: dict[str, tuple[str, str]] = {}
        """The label and value by which the store knows each node."""
        self.newest: float | None = None
        self._silent_at: dict[str, float] = {}
        """When nodes were last known to be silent, also those that have come back since."""
        self._rows: dict[str, dict[tuple[str, ...], float]] = {}
        """The last sample of each node by all labels that may name it."""
        self._double: dict[str, int] = {}

    @property
    def is_of_devices(self) -> bool:
        """Whether the series are those of GPUs."""
        return any("GPU" in name for name in self.rule.series)

    def take(self, answer: Vector, places: Places, now: float) -> None:
        """Learn from an answer to `metric_queries.presence`. A sample from the future is as good as one of now."""
        rows: dict[str, dict[tuple[str, ...], float]] = {}
        for labels, value in zip(answer.labels, answer.values, strict=True):
            place = places.place(labels)
            if place is None:
                continue
            if labels.get(ASK_LABEL) == "count":
                if math.isfinite(value):
                    self.devices[place.node] = min(max(int(value), 0), _DEVICES_AT_MOST)
            elif value == value:  # noqa: PLR0124 - no number is no time
                at = min(value, now)
                self.last[place.node] = max(at, self.last.get(place.node, at))
                self.labels[place.node] = (place.label, place.value)
                rows.setdefault(place.node, {})[places.key(labels)] = at
        self._compare(rows, places)
        for node in [node for node, at in self.last.items() if now - at > _FORGOTTEN_S]:
            del self.last[node], self.labels[node]
            self.devices.pop(node, None)
        self._silent_at |= {node: now for node in self.last if not self.is_there(node, now)}
        self._silent_at = {node: at for node, at in self._silent_at.items() if now - at <= _LATELY_S}
        self.newest = max(self.last.values(), default=None)

    def _compare(self, rows: Mapping[str, Mapping[tuple[str, ...], float]], places: Places) -> None:
        """Doubt nodes by whose name several machines go: their series lie about ours.

        An exporter that has moved has two rows for a while, of which one alone goes on.
        """
        for node, row in rows.items():
            before = self._rows.get(node, {})
            moving = [key for key, at in row.items() if at > before.get(key, at)]
            ports = [tuple(map(port_of, key)) for key in moving]
            seen = self._double.pop(node, 0) + 1 if len(set(ports)) < len(ports) else 0
            if seen >= _TWICE:
                places.doubt(node)
                for known in (self.last, self.labels, self.devices):
                    known.pop(node, None)
            elif seen:
                self._double[node] = seen
        self._rows = {node: dict(row) for node, row in rows.items()}

    def is_there(self, node: str, now: float) -> bool:
        """Whether a node has fresh samples."""
        return now - self.last.get(node, float("-inf")) <= GONE_S

    def missing(self, nodes: Iterable[str], now: float) -> list[str]:
        """The nodes that have none."""
        return [node for node in nodes if not self.is_there(node, now)]

    def gone(self, nodes: Iterable[str], now: float, others: Iterable[Presence] = ()) -> Gone:
        """Which of these nodes went silent while others went on; one that other series tell of did not."""
        silent = {node: at for node, at in self.last.items() if now - at > GONE_S}
        if len(silent) > _MASS * len(self.last):
            return Gone(mass=(len(silent), len(self.last)))
        if len(self._silent_at.keys() | silent.keys()) > max(_FEW, _FEW_SHARE * len(self.last)):
            return Gone()
        alone = {}
        beside = [each for each in others if each is not self and each.names]
        for node in nodes:
            at = silent.get(node)
            if at is None or any(each.is_there(node, now) for each in beside):
                continue
            if sum(1 for other in self.last.values() if other > at + GONE_S) >= _FEWEST_OTHERS:
                alone[node] = at
        return Gone(nodes=alone)
