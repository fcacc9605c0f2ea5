"""Habits of workflows: how long their attempts take to start, and how long they pause, as far as they were seen.

A limit for silence that suits every job suits none: one that loads for an hour does so each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from relance.domain.progress import Progress
from relance.domain.records import JobRecord
from relance.ports.histories import History

_JOBS_LOOKED_AT: Final = 1000
_JOBS_OF_A_WORKFLOW: Final = 8
"""So many of its newest jobs tell of a workflow after a start of the server."""
_KEPT: Final = timedelta(days=14)
"""Progress is kept for so long (design 6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """The longest start and the longest pause of a workflow's attempts, in seconds; None: not known."""

    start_s: float | None = None
    pause_s: float | None = None

    def with_progress(self, progress: Progress) -> Habit:
        """With what one attempt shows. A pause counts that it got over by itself, and no other is known."""
        return Habit(
            start_s=_longer(self.start_s, progress.start_s), pause_s=_longer(self.pause_s, progress.longest_pause_s)
        )


@dataclass(slots=True)
class Habits:
    """The habits of all workflows, filled from what watchers hand over, and after a start from the history."""

    history: History
    _known: dict[tuple[str, str], Habit] = field(default_factory=dict)
    _asked: set[tuple[str, str]] = field(default_factory=set)
    _jobs: dict[str, tuple[JobRecord, ...]] = field(default_factory=dict)

    def note(self, record: JobRecord, progress: Progress) -> None:
        """Learn from what an attempt of a job shows now."""
        key = (record.job.cluster, record.workflow)
        self._known[key] = self._known.get(key, Habit()).with_progress(progress)

    async def of(self, record: JobRecord, now: datetime) -> Habit:
        """The habit of a job's workflow. Raises HistoryError."""
        key = (record.job.cluster, record.workflow)
        if key not in self._asked:
            for other in (await self._jobs_of(record.job.cluster, now)).get(record.workflow, ()):
                for attempt in other.attempts:
                    progress = await self.history.progress(attempt.attempt)
                    if progress is not None:
                        self.note(other, progress)
            self._asked.add(key)
        return self._known.get(key, Habit())

    async def _jobs_of(self, cluster: str, now: datetime) -> dict[str, tuple[JobRecord, ...]]:
        """The newest jobs of each workflow, as they were when this server was asked first."""
        if cluster not in self._jobs:
            found = await self.history.jobs(cluster, limit=_JOBS_LOOKED_AT, changed_since=now - _KEPT)
            self._jobs[cluster] = found
        grouped: dict[str, tuple[JobRecord, ...]] = {}
        for job in self._jobs[cluster]:
            of_workflow = grouped.get(job.workflow, ())
            if len(of_workflow) < _JOBS_OF_A_WORKFLOW:
                grouped[job.workflow] = (*of_workflow, job)
        return grouped


def _longer(known_s: float | None, new_s: float | None) -> float | None:
    return new_s if known_s is None else known_s if new_s is None else max(known_s, new_s)
