"""A circuit breaker: what failed several times in a row is left alone for a while, then tried with one question."""

from __future__ import annotations

from enum import Enum

from relance.ports.clocks import Clock

ERRORS = 3
"""So many errors in a row, and it is left alone."""
FIRST_PAUSE_S = 60.0
LONGEST_PAUSE_S = 1800.0
"""The pause doubles up to here, each time that the question that tried it failed, too."""


class BreakerState(Enum):
    """Whether something is used."""

    CLOSED = "asked"
    """Everything is put to it."""
    PROBING = "tried"
    """One question is on its way; the answer decides."""
    OPEN = "left_alone"
    """Nothing is put to it until the pause is over."""


class Breaker:
    """Counts errors in a row. Durations are of the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        """Begin closed."""
        self._clock = clock
        self._errors = 0
        self._pause_s = FIRST_PAUSE_S
        self._open_until: float | None = None
        self._probing = False

    @property
    def state(self) -> BreakerState:
        """What would be done with a question now."""
        if self._open_until is None:
            return BreakerState.CLOSED
        return BreakerState.PROBING if self._probing else BreakerState.OPEN

    @property
    def left_alone_s(self) -> float:
        """For how much longer it is left alone, in seconds; 0 where the next question goes to it."""
        if self._open_until is None:
            return 0.0
        return max(0.0, self._open_until - self._clock.monotonic())

    def admits(self) -> bool:
        """Whether a question may be put now. A yes while it is open is the one that tries it: tell how it went."""
        if self._open_until is None:
            return True
        if self._probing or self.left_alone_s > 0:
            return False
        self._probing = True
        return True

    def succeeded(self) -> None:
        """An answer came: everything is forgiven."""
        self._errors = 0
        self._pause_s = FIRST_PAUSE_S
        self._open_until = None
        self._probing = False

    def failed(self) -> None:
        """No answer that can be used came. Questions that were on their way when it opened change nothing more."""
        if self._probing:
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            self._leave_alone()
            return
        self._errors += 1
        if self._open_until is None and self._errors >= ERRORS:
            self._leave_alone()

    def withdrawn(self) -> None:
        """A question was taken back before it could be told how it went: another may try."""
        self._probing = False

    def _leave_alone(self) -> None:
        self._probing = False
        self._open_until = self._clock.monotonic() + self._pause_s
