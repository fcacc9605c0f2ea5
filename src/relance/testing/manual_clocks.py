"""A clock that stands still until it is told to go on."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta


class ManualClock:
    """Implements `relance.ports.clocks.Clock`; `advance` moves both its clocks and wakes who slept long enough."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic = 1000.0
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []
        self._count = 0

    def now(self) -> datetime:
        """The time it was told."""
        return self._now

    def monotonic(self) -> float:
        """Seconds that it was moved on, from a thousand."""
        return self._monotonic

    async def sleep(self, duration_s: float) -> None:
        """Wait until it was moved on so far."""
        if duration_s <= 0:
            await asyncio.sleep(0)
            return
        self._count += 1
        event = asyncio.Event()
        heapq.heappush(self._sleepers, (self._monotonic + duration_s, self._count, event))
        await event.wait()

    def advance(self, duration_s: float) -> datetime:
        """Move on, and give the new time."""
        self._now += timedelta(seconds=duration_s)
        self._monotonic += duration_s
        while self._sleepers and self._sleepers[0][0] <= self._monotonic:
            heapq.heappop(self._sleepers)[2].set()
        return self._now

    def step(self, duration_s: float) -> None:
        """Set the wall clock alone, as an administrator does."""
        self._now += timedelta(seconds=duration_s)
