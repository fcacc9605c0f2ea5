"""Turns: how often a store is asked, whoever asks."""

from __future__ import annotations

from relance.ports.clocks import Clock


class Turns:
    """So many turns a second, a few of them at once."""

    def __init__(self, per_s: float, clock: Clock) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s)
        self._left = self._most
        self._filled_at = clock.monotonic()
        self._clock = clock

    async def take(self) -> None:
        """Wait for the next turn."""
        while True:
            now = self._clock.monotonic()
            self._left = min(self._most, self._left + (now - self._filled_at) * self._per_s)
            self._filled_at = now
            if self._left >= 1.0 - 1e-9:
                self._left -= 1.0
                return
            await self._clock.sleep((1.0 - self._left) / self._per_s)
