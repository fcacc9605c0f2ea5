"""Which nodes have metrics in the store, and which had them until not long ago. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from relance.rules.metric_queries import ASK_LABEL
from relance.rules.metric_rules import MetricRule
from relance.rules.metrics import VANISHED_S
from relance.sources.metrics.clients import Vector
from relance.sources.metrics.places import Places

GONE_S = VANISHED_S
"""A node whose last sample is this much older than those of others has gone silent, for the rules as here."""
_FORGOTTEN_S = 3600.0
_FEWEST_OTHERS = 2
_DEVICES_AT_MOST = 1024
"""No node has more; a picture has one entry for each."""
_MASS = 0.5
"""If more than this share of nodes go at once, the way of the metrics is broken, not the nodes."""


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

    @property
    def is_of_devices(self) -> bool:
        """Whether the series are those of GPUs."""
        return any("GPU" in name for name in self.rule.series)

    def take(self, answer: Vector, places: Places, now: float) -> None:
        """Learn from an answer to `metric_queries.presence`. A sample from the future is as good as one of now."""
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
        for node in [node for node, at in self.last.items() if now - at > _FORGOTTEN_S]:
            del self.last[node], self.labels[node]
            self.devices.pop(node, None)
        self.newest = max(self.last.values(), default=None)

    def is_there(self, node: str, now: float) -> bool:
        """Whether a node has fresh samples."""
        return now - self.last.get(node, float("-inf")) <= GONE_S

    def missing(self, nodes: Iterable[str], now: float) -> list[str]:
        """The nodes that have none."""
        return [node for node in nodes if not self.is_there(node, now)]

    def gone(self, nodes: Iterable[str], now: float) -> Gone:
        """Which of these nodes went silent while others went on."""
        silent = {node: at for node, at in self.last.items() if now - at > GONE_S}
        if len(silent) > _MASS * len(self.last):
            return Gone(mass=(len(silent), len(self.last)))
        alone = {}
        for node in nodes:
            at = silent.get(node)
            if at is not None and sum(1 for other in self.last.values() if other > at + GONE_S) >= _FEWEST_OTHERS:
                alone[node] = at
        return Gone(nodes=alone)
