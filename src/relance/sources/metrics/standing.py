"""How a store stands as a whole: since when it does not answer, and why; what it refuses; whether it lags. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from relance.domain.findings import Coverage, Sight
from relance.sources.exchanges import StoreAwayError, StoreBusyError, StoreError

_NOTES_AT_MOST = 3


class StoreStanding:
    """Kept by the source after each look."""

    def __init__(self, name: str, lags_after_s: float) -> None:
        self._name = name
        self._lags_after_s = lags_after_s
        self._whole_at: datetime | None = None
        self._failing_since: datetime | None = None
        self._failure: StoreError | None = None
        self._lag = ""
        self._notes: tuple[str, ...] = ()
        self.failures = 0
        """Looks in a row that came to nothing."""

    def failed(self, error: StoreError, now: datetime) -> None:
        """A look came to nothing."""
        self._failing_since = self._failing_since or now
        self._failure = error
        self.failures += 1

    def looked(self, now: datetime, lag: str, notes: tuple[str, ...]) -> None:
        """A whole look was made. `lag`: why what it gave is not of now; `notes`: what was not answered."""
        self._whole_at = now
        self._failing_since = self._failure = None
        self.failures = 0
        self._lag, self._notes = lag, notes

    @property
    def whole_at(self) -> datetime | None:
        """When the last whole look was made."""
        return self._whole_at

    @property
    def is_in_sight(self) -> bool:
        """Whether the last look was whole and of now."""
        return self._failure is None and not self._lag and self._whole_at is not None

    def coverage(self) -> Coverage:
        """How it stands now."""
        if self._failure is not None and self._failing_since is not None:
            busy = isinstance(self._failure, StoreBusyError)
            refused = not isinstance(self._failure, StoreAwayError | StoreBusyError)
            sight = Sight.LAGGING if busy else Sight.REFUSED if refused else Sight.MISSING
            since = self._failing_since.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            remedy = f"; {self._failure.remedy}" if self._failure.remedy else ""
            return self._covered(sight, f"since {since}: {self._failure}{remedy}")
        if self._whole_at is None:
            return self._covered(Sight.UNKNOWN, "not asked yet")
        return self._covered(
            Sight.LAGGING if self._lag else Sight.SEEN, self._lag or "; ".join(self._notes[:_NOTES_AT_MOST])
        )

    def _covered(self, sight: Sight, note: str) -> Coverage:
        return Coverage(source=self._name, sight=sight, up_to=self._whole_at, note=note[:1000])
