"""How often an attempt's files are looked at and read, and how many bytes it may have."""

from __future__ import annotations

import math

from relance.sources.files.settings import FileSettings

_SLOWER = 1.5
"""After a read that found nothing, the next comes this much later."""


class Pace:
    """The pace of one attempt. All times are seconds of one monotonic clock."""

    def __init__(self, settings: FileSettings, now: float) -> None:
        self._settings = settings
        self._interval_s = settings.hot_s
        self._grew_at = now
        self._looked_at = -math.inf
        self._bytes = max(float(settings.read_bytes), settings.job_bytes_per_s)
        self._filled_at = now
        self.due = now
        """When the next read is due."""

    def told(self, now: float) -> None:
        """It was said that a read is due: do not say it again at once."""
        self.due = now + self._settings.hot_s

    def begin(self) -> None:
        """A read begins."""
        self.due = math.inf

    def end(self, now: float, *, grew: bool, network: bool) -> None:
        """A read has ended; `grew` says whether it found anything."""
        settings = self._settings
        hot_s = settings.network_hot_s if network else settings.hot_s
        if grew:
            self._grew_at, self._interval_s = now, hot_s
        else:
            most_s = settings.idle_s if now - self._grew_at >= settings.idle_after_s else settings.quiet_s
            self._interval_s = max(min(self._interval_s * _SLOWER, most_s), hot_s)
        self.due = now + self._interval_s

    def hurry(self) -> None:
        """There is more to read."""
        self.due = -math.inf

    def look_soon(self) -> None:
        """A path has changed: the next read looks."""
        self._looked_at = -math.inf

    def may_look(self, now: float, *, network: bool) -> bool:
        """Whether it is time to look at the paths."""
        return not network or now - self._looked_at >= self._settings.network_look_s

    def looked(self, now: float) -> None:
        """The paths were looked at."""
        self._looked_at = now

    def allowed_bytes(self, now: float) -> int:
        """How many bytes one read may give now."""
        most = max(float(self._settings.read_bytes), self._settings.job_bytes_per_s)
        self._bytes = min(self._bytes + (now - self._filled_at) * self._settings.job_bytes_per_s, most)
        self._filled_at = now
        return int(min(self._bytes, self._settings.read_bytes))

    def spent(self, size_bytes: int) -> None:
        """So many bytes were read."""
        self._bytes -= size_bytes


class Meter:
    """Counts the metadata calls on one network file system, so that all attempts together stay below a rate."""

    def __init__(self, per_s: float, now: float) -> None:
        self._per_s = per_s
        self._left = per_s
        self._filled_at = now

    def take(self, calls: int, now: float) -> bool:
        """Take so many calls, if they may be made now. More than a second's worth wait for a full second's."""
        self._left = min(self._left + (now - self._filled_at) * self._per_s, self._per_s)
        self._filled_at = now
        if self._left < min(calls, self._per_s):
            return False
        self._left -= calls
        return True
