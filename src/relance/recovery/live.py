"""What is only true now: the newest looks, progress and coverage, held in memory and given again by the agents."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from relance.domain.findings import Coverage
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import SightReport, WatcherBatch
from relance.domain.progress import Progress
from relance.domain.views import ClusterReport
from relance.recovery.desks import Desk
from relance.recovery.standings import GivenLease, holder_of

_LONGEST_WAY = timedelta(minutes=5)
"""No message is on its way for longer; a call that takes so long has failed and was made again."""


class Live:
    """The newest of everything that agents report. It is never the truth, only fresher than the history."""

    def __init__(self) -> None:
        """Begin knowing nothing."""
        self.reports: dict[str, ClusterReport] = {}
        self.progress: dict[AttemptKey, Progress] = {}
        self.coverage: dict[AttemptKey, tuple[Coverage, ...]] = {}
        self.reported_at: dict[str, datetime] = {}
        self.watched_at: dict[str, datetime] = {}
        self.followed: dict[str, int] = {}
        self.sights: dict[str, SightReport] = {}
        """How the sources of each cluster's watcher stand."""
        self.read_to_end: dict[AttemptKey, bool] = {}
        """Whether the watcher has said its last word of an attempt that has ended."""
        self.stored_at: dict[AttemptKey, datetime] = {}
        """When something that the watcher said of an attempt was stored last."""
        self.checkpoint_at: dict[AttemptKey, datetime] = {}
        """The same of a checkpoint."""
        self.leases: dict[str, GivenLease] = {}
        """The lease that was given last on each cluster."""
        self.stopped: dict[tuple[str, str], str] = {}
        """By cluster and controller, why it begins nothing; empty: nothing keeps it."""
        self.desks: tuple[Desk, ...] = ()
        """The outside providers that are asked, if any."""
        self._batch_at: dict[AttemptKey, tuple[str, datetime]] = {}

    def accept(self, report: ClusterReport, now: datetime) -> bool:
        """Take a report unless it is older than what is known; says whether it was taken."""
        known = self.reports.get(report.cluster)
        if known is not None:
            if known.session == report.session and report.sequence <= known.sequence:
                return False
            if known.session != report.session and _is_overtaken(report.as_of, known.as_of):
                return False
        # a controller whose clock is ahead may not make an old look pass for a fresh one
        self.reports[report.cluster] = replace(report, as_of=min(report.as_of, now))
        self.reported_at[report.cluster] = now
        self.stopped[report.cluster, holder_of(report.session)] = report.begins_nothing
        return True

    def stopped_on(self, cluster: str) -> str:
        """Why the controller that holds the lease, or the one that reported last, begins nothing; empty: it does."""
        given, report = self.leases.get(cluster), self.reports.get(cluster)
        if given is not None:
            return self.stopped.get((cluster, given.lease.holder), "")
        return report.begins_nothing if report is not None else ""

    def newest(self, batch: WatcherBatch) -> WatcherBatch:
        """Keep what a batch says of an attempt now; from one that was overtaken on its way, only what it found is left.

        Without this a late batch would take back steps that were seen, and have the watcher go on from an old place.
        """
        holder, at = self._batch_at.get(batch.attempt, ("", batch.as_of))
        if holder == batch.holder and _is_overtaken(batch.as_of, at):
            return replace(batch, progress=None, checkpoint=None, coverage=())
        self._batch_at[batch.attempt] = (batch.holder, batch.as_of)
        known = self.progress.get(batch.attempt)
        if batch.progress is not None and known is not None and _is_overtaken(batch.progress.as_of, known.as_of):
            batch = replace(batch, progress=None)
        if batch.progress is not None:
            self.progress[batch.attempt] = batch.progress
        self.coverage[batch.attempt] = batch.coverage
        return batch

    def forget(self, cluster: str, keep: Collection[JobKey]) -> None:
        """Drop what was said of a cluster's other jobs: the history has what is asked about them later."""
        said: tuple[dict[AttemptKey, Any], ...] = (
            self.progress,
            self.coverage,
            self.read_to_end,
            self.stored_at,
            self.checkpoint_at,
            self._batch_at,
        )
        for by_attempt in said:
            for key in [key for key in by_attempt if key.job.cluster == cluster and key.job not in keep]:
                del by_attempt[key]


def _is_overtaken(as_of: datetime, newest: datetime) -> bool:
    """Whether something is older than what is known; but for what is so much older that the clock must have stepped."""
    return timedelta(0) < newest - as_of <= _LONGEST_WAY


class Bell:
    """Wakes those who wait for the history to grow beyond a position."""

    def __init__(self) -> None:
        """Begin at position 0."""
        self._position = 0
        self._grown = asyncio.Event()

    def ring(self, position: int) -> None:
        """Say that the history has reached a position."""
        if position > self._position:
            self._position = position
            self._grown.set()
            self._grown = asyncio.Event()

    async def wait(self, after: int, timeout_s: float) -> int:
        """The position, as soon as it is beyond `after`, or after the time-out."""
        if self._position <= after:
            grown = self._grown
            try:
                async with asyncio.timeout(timeout_s):
                    await grown.wait()
            except TimeoutError:
                pass
        return self._position
