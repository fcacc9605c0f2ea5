"""How often Slurm is asked: intervals that grow while it answers slowly, and a budget for everything together."""

from __future__ import annotations

from relance.ports.clocks import Clock
from relance.telemetry.schedulers import SchedulerMeter

SLOW_S = 0.3
"""An answer that takes longer doubles its interval, each one again, until one is faster (operators.md 3)."""
MOST_TIMES, MOST_S = 8.0, 20.0
"""An interval grows to eight times its length, and not beyond 20 s unless its double is longer: a controller that says
nothing for 30 s counts as lost."""


class Interval:
    """When a kind of question is due again."""

    def __init__(self, kind: str, least_s: float, meter: SchedulerMeter) -> None:
        """A question of which none was asked yet is due at once."""
        self.kind = kind
        self._least_s = least_s
        self._meter = meter
        self._asked_s = float("-inf")
        self._slow = 0
        meter.interval(kind, least_s)

    @property
    def seconds(self) -> float:
        """The interval that is kept now."""
        if not self._slow:
            return self._least_s
        return min(self._least_s * min(2.0**self._slow, MOST_TIMES), max(MOST_S, 2 * self._least_s))

    def is_due(self, now_s: float) -> bool:
        """Whether the interval has passed."""
        return now_s - self._asked_s >= self.seconds

    def left_s(self, now_s: float) -> float:
        """In how many seconds it is due."""
        return max(0.0, self._asked_s + self.seconds - now_s)

    def asked(self, begun_s: float, answered_s: float) -> None:
        """It was asked, and answered at that time; both on the monotonic clock."""
        self._asked_s = begun_s
        self._slow = min(self._slow + 1, 30) if answered_s - begun_s > SLOW_S else 0
        self._meter.interval(self.kind, self.seconds)

    def hurry(self) -> None:
        """Make it due at once."""
        self._asked_s = float("-inf")


class Budget:
    """A bucket of tokens: `burst` at once, then `per_s` a second; whoever finds none waits in line."""

    def __init__(self, *, per_s: float, burst: float, clock: Clock, meter: SchedulerMeter) -> None:
        """Begin with a full bucket."""
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._meter = meter
        self._left = burst
        self._counted_s = clock.monotonic()

    async def take(self) -> None:
        """Return when the question may be asked."""
        wait_s = self._book()
        if wait_s > 0:
            self._meter.waited(wait_s)
            await self._clock.sleep(wait_s)

    def note(self) -> None:
        """A question was asked that may not wait: what comes after it does."""
        self._book()

    def _book(self) -> float:
        now_s = self._clock.monotonic()
        self._left = min(self._burst, self._left + (now_s - self._counted_s) * self._per_s)
        self._counted_s = now_s
        # Below zero are those who wait already.
        self._left = max(self._left - 1.0, -self._burst)
        return max(0.0, -self._left / self._per_s)
