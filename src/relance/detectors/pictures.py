"""Standstill by the GPUs' picture: all of an attempt wait in a collective, or none has work, picture after picture.

It is the same picture as that of a save or an evaluation by one rank, so that it counts only for much longer than any
pause took.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from relance.domain.observations import Activity, DevicePicture, OddDevice

UNBROKEN: Final = timedelta(seconds=300)
"""Between two pictures that are further apart anything may have happened."""
FRESH: Final = timedelta(seconds=180)
"""A picture that is older says nothing about now; sites look every 15 to 60 s, and stores lag."""
ODD_AT_MOST: Final = 16
_STANDING: Final = (Activity.SPINNING, Activity.IDLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """Pictures in a row that show no work: since when, and which GPUs are odd in every one of them.

    `since` and `at` are the times of the first and the last picture; None: no such picture is known. `worked_at` is the
    time of the last picture where that one shows work.
    """

    since: datetime | None = None
    at: datetime | None = None
    odd: tuple[OddDevice, ...] = ()
    worked_at: datetime | None = None

    def after(self, picture: DevicePicture) -> Standstill:
        """With one more picture."""
        last_at = self.at or self.worked_at
        if last_at is not None and picture.at <= last_at:
            return self
        known = sum(picture.counts.get(activity, 0) for activity in _STANDING)
        if picture.counts.get(Activity.WORKING, 0):
            return Standstill(worked_at=picture.at)
        if known and picture.counts.get(Activity.SILENT, 0) > known:
            return NONE
        if not known:
            return self
        if self.since is None or self.at is None or picture.at - self.at > UNBROKEN:
            return Standstill(since=picture.at, at=picture.at, odd=picture.odd[:ODD_AT_MOST])
        odd = tuple(each for each in self.odd if each in picture.odd)
        return Standstill(since=self.since, at=picture.at, odd=odd)

    def lasts_since(self, now: datetime) -> datetime | None:
        """Since when it lasts, if it still does."""
        return self.since if self.at is not None and abs(now - self.at) <= FRESH else None

    def has_work(self, now: datetime) -> bool:
        """Whether some GPU of the attempt was just seen to work: then somebody is alive in it."""
        return self.worked_at is not None and abs(now - self.worked_at) <= FRESH


NONE: Final = Standstill()
"""No standstill is known."""
