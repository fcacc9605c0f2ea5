"""How a store stands as a whole: since when it does not answer, and why; what it refuses; whether it lags. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from relance.domain.faults import Scope
from relance.domain.findings import Coverage, Sight
from relance.sources.exchanges import StoreBusyError, StoreError, StoreRefusedError

_NOTES_AT_MOST = 3
_AGAIN_MOST_S = 60.0
"""The longest wait that we choose ourselves before a store that gave no answer is asked again."""
_DOUBLINGS_AT_MOST = 10
"""More of them lead beyond any wait that there is, and at some time beyond what a float holds."""


class StoreStanding:
    """Kept by the source after each look."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._has_looked = False
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

    def again_in_s(self, poll_s: float) -> float:
        """How long to wait after a look that came to nothing, in seconds: ever longer, or as long as the store asks."""
        asked_s = self._failure.again_in_s if isinstance(self._failure, StoreBusyError) else 0.0
        doublings = min(max(self.failures - 1, 0), _DOUBLINGS_AT_MOST)
        return max(asked_s, min(poll_s * 2.0**doublings, _AGAIN_MOST_S))

    def looked(self, up_to: datetime | None, lag: str, notes: tuple[str, ...]) -> None:
        """A whole look was made. `up_to`: how far it saw; `lag`: why that is not until now; `notes`: what lacks."""
        self._has_looked = True
        if not lag or self._whole_at is None:
            self._whole_at = up_to
        self._failing_since = self._failure = None
        self.failures = 0
        self._lag, self._notes = lag, notes

    def coverage(self) -> Coverage:
        """How it stands now."""
        if self._failure is not None and self._failing_since is not None:
            busy = isinstance(self._failure, StoreBusyError)
            refused = isinstance(self._failure, StoreRefusedError)
            sight = Sight.LAGGING if busy else Sight.REFUSED if refused else Sight.MISSING
            since = self._failing_since.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            return self._covered(sight, f"since {since}: {self._failure.told}")
        if not self._has_looked:
            return self._covered(Sight.UNKNOWN, "not asked yet")
        return self._covered(
            Sight.LAGGING if self._lag else Sight.SEEN, self._lag or "; ".join(self._notes[:_NOTES_AT_MOST])
        )

    def _covered(self, sight: Sight, note: str) -> Coverage:
        return Coverage(source=self._name, sight=sight, up_to=self._whole_at, note=note[:1000], scope=Scope.METRICS)
