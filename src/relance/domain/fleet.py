"""What policy may know of the world beyond the incident; a value with its age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from relance.domain.advice import Exclusion
from relance.domain.quiet_hours import Quiet
from relance.domain.views import JobView, NodeView, SchedulerFacts, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Where a job lies, as far as it is known: its partitions, and the file systems of its folder and its logs."""

    partitions: frozenset[str] = frozenset()
    file_systems: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """The shared incident of many jobs that failed at once. It holds what lies in its place, and nothing else.

    Its place is a file system, or a partition; neither: the whole cluster.
    """

    storm_id: str
    reason: str
    opened_at: datetime
    partition: str | None = None
    file_system: str | None = None
    incidents: tuple[str, ...] = ()
    """The incidents that opened it."""
    cleared_at: datetime | None = None
    cleared_by: str = ""
    canary: str | None = None
    """The attempt that was let through first after the storm cleared, as text."""
    canary_stepped: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it has not cleared."""
        return self.cleared_at is None

    @property
    def place(self) -> str:
        """Its place in words."""
        return place_words(self.partition, self.file_system)

    def covers(self, where: Whereabouts) -> bool:
        """Whether a job lies in its place."""
        if self.file_system is not None:
            return self.file_system in where.file_systems
        return self.partition is None or self.partition in where.partitions


def place_words(partition: str | None, file_system: str | None) -> str:
    """The place of a storm in words."""
    if file_system is not None:
        return f"on file system {file_system}"
    return f"in partition {partition}" if partition is not None else "on the whole cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """The cluster around an incident, as of the controller's last whole look.

    `job` is the job itself, None when the scheduler does not show it. `others` are the same user's other jobs, for the
    twin guard. `storm` is the one that concerns the job. `permit_free_at` is when the restart bucket gives the next one
    (None: now). `recoveries` is how many are under way on the cluster.
    """

    as_of: datetime | None
    facts: SchedulerFacts | None
    job: JobView | None
    others: tuple[JobView, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    storm: Storm | None = None
    permit_free_at: datetime | None = None
    recoveries: int = 0
    restarts_ahead: int = 0
    """How many other restarts of the cluster wait for a permit, and have waited for longer."""
    quiet: Quiet | None = None
    """The quiet hours that count for the job; None: there are none now."""
    windows: tuple[Window, ...] = ()
    array_tasks: int = 0
    """How many tasks of the job's array are known; 0 where it is none."""
    array_failures: Mapping[str, int] = field(default_factory=dict)
    """By fingerprint, how many other tasks of the job's array failed in that way."""
