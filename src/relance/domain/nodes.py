"""One node as it is read just before something is done to it, and what a person may have done to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.domain.requests import is_drain_reason, is_reservation
from relance.domain.views import NodeView, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSight:
    """A node, fresh.

    `is_drained` is whether its state keeps new jobs off it, whoever did that and whatever else it is; `is_down`
    whether it is lost or set down, also behind a plan. `planned` says
    why its state is somebody's plan, such as a reboot or a change of power, and is not to be changed (peers.md N2);
    empty: it is none. `windows` are the reservations that have it, also those that begin later.
    """

    view: NodeView
    is_drained: bool
    is_down: bool = False
    planned: str = ""
    windows: tuple[Window, ...] = ()

    def window(self, name: str) -> Window | None:
        """The reservation of that name."""
        return next((window for window in self.windows if window.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Keep new jobs off a node by a maintenance reservation of that name, from now until then."""

    node: str
    name: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreserve:
    """Delete the reservation of that name."""

    node: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Keep new jobs off a node by its state, with that reason."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrain:
    """Let new jobs onto a drained node; nothing else of its state is changed."""

    node: str


NodeChange = Reserve | Unreserve | Drain | Undrain


def is_ours(change: NodeChange) -> bool:
    """Whether a change bears a name or a reason that only we give; no other is ever made."""
    match change:
        case Reserve() | Unreserve():
            return is_reservation(change.name)
        case Drain():
            return is_drain_reason(change.reason)
        case Undrain():
            return True
