"""Time, passed in. `SystemClock` is the one place that reads the machine's clocks."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A wall clock, a monotonic clock and a way to wait."""

    def now(self) -> datetime:
        """The time in UTC; may step."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow; for durations inside one process, never stored."""
        ...

    async def sleep(self, duration_s: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        """The machine's time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """The machine's monotonic clock, in seconds."""
        return time.monotonic()

    async def sleep(self, duration_s: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(duration_s)
