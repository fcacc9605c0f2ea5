"""What is only true now: the newest looks, progress and coverage, held in memory and given again by the agents."""

from __future__ import annotations

import asyncio
from datetime import datetime

from relance.domain.findings import Coverage
from relance.domain.keys import AttemptKey
from relance.domain.progress import Progress
from relance.domain.views import ClusterReport


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

    def accept(self, report: ClusterReport, now: datetime) -> bool:
        """Take a report unless it is older than what is known; says whether it was taken."""
        known = self.reports.get(report.cluster)
        if known is not None:
            if known.session == report.session and report.sequence <= known.sequence:
                return False
            if known.session != report.session and report.as_of < known.as_of:
                return False
        self.reports[report.cluster] = report
        self.reported_at[report.cluster] = now
        return True

    def forget(self, keep: frozenset[AttemptKey]) -> None:
        """Drop progress and coverage of attempts that nobody asks about any more."""
        for key in [key for key in self.progress if key not in keep]:
            del self.progress[key]
        for key in [key for key in self.coverage if key not in keep]:
            del self.coverage[key]


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
