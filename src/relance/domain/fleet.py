"""What policy may know of the world beyond the incident; a value with its age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from relance.domain.advice import Exclusion
from relance.domain.quiet_hours import Quiet
from relance.domain.views import JobView, NodeView, SchedulerFacts, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """A shared cause that is open: many jobs failed at once."""

    storm_id: str
    reason: str
    opened_at: datetime
    cleared_at: datetime | None = None
    canary: str | None = None
    """The attempt that was let through first after the storm cleared, as text."""
    canary_stepped: bool = False


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
