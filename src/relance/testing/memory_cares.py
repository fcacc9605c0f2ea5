"""Reservations and drains of a cluster in memory, as Slurm shows them."""

from __future__ import annotations

from dataclasses import replace

from relance.domain.nodes import Drain, NodeChange, NodeSight, Reserve, Undrain, Unreserve
from relance.domain.views import Hold, JobState, NodeState, NodeView, Window
from relance.ports.clocks import Clock
from relance.testing.memory_clusters import MemoryCluster, RefusedError


class MemoryCare:
    """What keeps jobs off the nodes of a `MemoryCluster`. A test plays other people by changing it."""

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        """Begin with nothing kept out."""
        self.windows: dict[str, Window] = {}
        """Reservations by name."""
        self.drained: dict[str, str] = {}
        """The reason of each drained node."""
        self.planned: dict[str, str] = {}
        """Nodes whose power is about to change, and how."""
        self.may_drain = True
        """Whether the account is an administrator's."""
        self._cluster = cluster
        self._clock = clock
        self._kept: set[str] = set()

    def words(self, change: NodeChange) -> tuple[str, ...]:
        """The words of the command."""
        match change:
            case Reserve():
                return ("reserve", change.node, change.name, change.until.isoformat())
            case Unreserve():
                return ("unreserve", change.node, change.name)
            case Drain():
                return ("drain", change.node, change.reason)
            case Undrain():
                return ("undrain", change.node)

    def do(self, change: NodeChange) -> None:
        """Carry a change out. Raises RefusedError."""
        match change:
            case Reserve():
                if change.name in self.windows:
                    raise RefusedError("Duplicate reservation name")
                self.windows[change.name] = Window(
                    name=change.name,
                    starts_at=self._clock.now(),
                    ends_at=change.until,
                    nodes=(change.node,),
                    is_maintenance=True,
                )
            case Unreserve():
                if self.windows.pop(change.name, None) is None:
                    raise RefusedError("Requested reservation is invalid")
            case Drain() | Undrain():
                if not self.may_drain:
                    raise RefusedError("Invalid user id")
                self.drained.pop(change.node, None)
                if isinstance(change, Drain):
                    self.drained[change.node] = change.reason
        self.settle()

    def hold(self, raw_id: str) -> None:
        """Hold a waiting job. Raises RefusedError, UnknownJobError."""
        if self._cluster.job(raw_id).state is not JobState.PENDING:
            raise RefusedError("Job is no longer pending execution")
        self._cluster.hold(raw_id, Hold.ADMIN)

    def settle(self) -> None:
        """Bring the nodes' states up to what keeps jobs off them now."""
        now = self._clock.now()
        self.windows = {name: window for name, window in self.windows.items() if window.ends_at > now}
        reserved = {node for window in self.windows.values() for node in window.nodes}
        for node in self._kept - reserved - self.drained.keys():
            self._cluster.set_node(node, NodeState.IDLE)
        for node in reserved | self.drained.keys():
            state = NodeState.MAINTENANCE if node in reserved else NodeState.DRAINED
            self._cluster.set_node(node, state)
        self._kept = reserved | self.drained.keys()

    def shown(self) -> tuple[NodeView, ...]:
        """All nodes as the scheduler shows them."""
        self.settle()
        return tuple(
            replace(view, reason=self.drained[view.name], set_by="root") if view.name in self.drained else view
            for view in self._cluster.nodes()
        )

    def sight(self, name: str) -> NodeSight | None:
        """One node as it is read by itself; None: there is none of that name."""
        view = next((view for view in self.shown() if view.name == name), None)
        if view is None:
            return None
        return NodeSight(
            view=view,
            is_drained=name in self.drained,
            is_down=view.state is NodeState.DOWN,
            planned=self.planned.get(name, ""),
            windows=tuple(window for window in self.windows.values() if name in window.nodes),
        )
