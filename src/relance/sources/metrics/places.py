"""Which node a series is of: by its labels, in the scheduler's words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from relance.rules.metric_queries import Naming
from relance.sources.metrics.clients import Labels
from relance.sources.templates import node_in

_REMEMBERED_AT_MOST = 200_000


@dataclass(frozen=True, slots=True)
class Place:
    """A node, and the label with the value by which the store knows it. `known`: the scheduler has that node."""

    node: str
    label: str
    value: str
    known: bool


class Places:
    """Knows nodes by what labels say of them."""

    def __init__(self, naming: Naming, node_value: str = "{node}") -> None:
        self._labels = naming.node_labels
        self._template = node_value
        self._nodes: frozenset[str] = frozenset()
        self._short: dict[str, str | None] = {}
        self._remembered: dict[tuple[str, ...], Place | None] = {}
        self._doubted: set[str] = set()

    def know(self, nodes: Iterable[str]) -> None:
        """The nodes that the scheduler tells of now."""
        known = frozenset(nodes)
        if known == self._nodes:
            return
        self._nodes = known
        self._short = {}
        for node in known:
            short = _short(node)
            self._short[short] = None if short in self._short else node
        self._remembered = {}

    def doubt(self, node: str) -> None:
        """Two machines go by this name in the store: from now on no series is of this node."""
        self._doubted.add(node)
        self._remembered = {}

    def key(self, labels: Labels) -> tuple[str, ...]:
        """The labels of a series that may name its node."""
        return tuple([labels.get(label, "") for label in self._labels])

    def place(self, labels: Labels) -> Place | None:
        """The node of a series; None where no label names one, or where it is not known which of two it is."""
        key = self.key(labels)
        if key not in self._remembered:
            if len(self._remembered) >= _REMEMBERED_AT_MOST:
                self._remembered.clear()
            self._remembered[key] = self._find(key)
        return self._remembered[key]

    def _find(self, values: tuple[str, ...]) -> Place | None:
        told = [(label, value) for label, value in zip(self._labels, values, strict=True) if value]
        for label, value in told:
            node = self._known(value)
            if node is not None:
                return None if node in self._doubted else Place(node, label, value, known=True)
        return Place(self._inner(told[0][1]), *told[0], known=False) if told else None

    def _known(self, value: str) -> str | None:
        for text in (self._inner(value), _portless(value)):
            for name in (text, text.lower()):
                if name in self._nodes:
                    return name
        short = _short(self._inner(value))
        return self._short.get(short) or self._short.get(short.lower())

    def _inner(self, value: str) -> str:
        """The part of a value that the template says is the node's name."""
        inner = node_in(self._template, value)
        if inner:
            return _portless(inner)
        return node_in(self._template, _portless(value)) or _portless(value)


def by_label(known: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Labels with a value each, as the values of each label."""
    found: dict[str, list[str]] = {}
    for label, value in known:
        found.setdefault(label, []).append(value)
    return found


def port_of(value: str) -> str:
    """The port that a value ends with, empty where there is none."""
    host, colon, port = value.rpartition(":")
    return port if colon and port.isdigit() and host else ""


def _portless(value: str) -> str:
    host, colon, port = value.rpartition(":")
    return host if colon and port.isdigit() and host else value


def _short(name: str) -> str:
    """A host's name without its domain; an address stays as it is."""
    first = name.partition(".")[0]
    return name if first.isdigit() or ":" in name else first
