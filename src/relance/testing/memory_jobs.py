"""What a cluster in memory is made of: its jobs, how fast it is, and what it did."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from relance.domain.views import JobState, JobView, PastAttempt

_AFTER_OK = re.compile(r"afterok:(\d+)(\([a-z]+\))?", re.ASCII)


class RefusedError(Exception):
    """The cluster does not do it; the text is Slurm's."""


class UnknownJobError(Exception):
    """There is no such job, or not any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """How fast the cluster is, in seconds; Slurm's defaults where it has one."""

    pass_s: float = 0.1
    """From when a job may start to its start."""
    completing_s: float = 0.3
    """How long an attempt that is ended takes to be gone."""
    requeue_delay_s: float = 121.0
    race_s: float = 1.0
    """An attempt started sooner after PENDING dies at launch (slurm.md 2)."""
    launch_failure_s: float = 0.2
    min_job_age_s: float = 300.0


@dataclass(slots=True, kw_only=True)
class MemoryJob:
    """A job, and what its view does not show."""

    view: JobView
    begin_at: datetime
    touched_at: datetime
    comment: str = ""
    pending_since: datetime | None = None
    completing_until: datetime | None = None
    after: JobState | None = None
    """What follows COMPLETING; PENDING for a requeue."""
    is_doomed: bool = False
    comes_back_held: bool = False
    past: list[PastAttempt] = field(default_factory=list)
    starts: list[tuple[datetime, tuple[str, ...], int]] = field(default_factory=list)
    """Every start: when, where, restart count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command that took effect: on what it did, and which jobs there were then."""

    at: datetime
    argv: tuple[str, ...]
    before: JobView
    others: tuple[JobView, ...]


def with_dependency(view: JobView, states: Mapping[str, JobState]) -> JobView:
    """A waiting job as its `afterok` leaves it: once called failed it stays so, whatever becomes of the other job."""
    found = _AFTER_OK.fullmatch(view.dependency)
    if found is None or found[2] == "(failed)" or found[1] not in states:
        return view
    state = states[found[1]]
    if state is JobState.COMPLETED:
        return replace(view, dependency="", reason="None")
    if state.is_over:
        return replace(view, dependency=f"afterok:{found[1]}(failed)", reason="DependencyNeverSatisfied")
    return replace(view, dependency=f"afterok:{found[1]}(unfulfilled)", reason="Dependency")
