"""The watchdog's clock, and the one place of this package that reads it; its tests pass times instead."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Clock:
    """The time of this machine."""

    def now(self) -> datetime:
        """The time, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that also pass while this process is stopped or the machine sleeps: a read grows old meanwhile."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)
