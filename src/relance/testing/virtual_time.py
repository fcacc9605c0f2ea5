"""Time that jumps: an event loop in which waiting takes no time, for tests of anything that sleeps on it.

When every task waits, the clock is set to the earliest moment at which one of them goes on. Order and durations are
those of real time on an infinitely fast machine, and the same in every run. Several loops may share one time, one after
another: that is how a process that dies and is started again is played. Work beside the loop, in threads or over
sockets, takes no time either, where it is said that it is under way.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from selectors import SelectorKey
from typing import Any, TypeVar

T = TypeVar("T")


_GLANCE_S = 0.05
"""Real seconds that work beside the loop is waited for at a time."""


class NothingWillHappenError(Exception):
    """Every task waits for something that no clock brings."""


class VirtualTime:
    """The time that loops and clocks share."""

    def __init__(self, start: datetime = datetime(2026, 3, 1, 12, tzinfo=UTC)) -> None:
        """Begin at `start`, with the monotonic clock at 1000 s."""
        self._start = start
        self._passed_s = 0.0
        self._step = timedelta(0)

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return 1000.0 + self._passed_s

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return self._start + timedelta(seconds=self._passed_s) + self._step

    def pass_by(self, duration_s: float) -> None:
        """Let time go by."""
        self._passed_s += duration_s

    def step_wall_clock(self, by: timedelta) -> None:
        """Set the wall clock forward or back, as an administrator does; the monotonic clock does not notice."""
        self._step += by


class VirtualClock:
    """Implements `relance.ports.clocks.Clock` on a virtual time."""

    def __init__(self, time: VirtualTime) -> None:
        """Show this time."""
        self._time = time

    def now(self) -> datetime:
        return self._time.now()

    def monotonic(self) -> float:
        return self._time.monotonic()

    async def sleep(self, duration_s: float) -> None:
        await asyncio.sleep(duration_s)


def _never() -> bool:
    return False


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on a virtual time."""

    def __init__(self, time: VirtualTime, is_busy: Callable[[], bool] = _never) -> None:
        """Run on this time, which stands still while `is_busy`."""
        self._virtual = time
        super().__init__(_JumpingSelector(time, is_busy))

    def time(self) -> float:
        return self._virtual.monotonic()


def run_virtual(main: Coroutine[Any, Any, T], time: VirtualTime, is_busy: Callable[[], bool] = _never) -> T:
    """What `main` gives, run in a loop of its own on this time.

    While `is_busy` says that something beside the loop is at work, it is waited for, and no time passes.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(time, is_busy)) as runner:
        return runner.run(main)


class _JumpingSelector(selectors.BaseSelector):
    """Looks at the files without waiting; where the loop would wait, time passes instead."""

    def __init__(self, time: VirtualTime, is_busy: Callable[[], bool]) -> None:
        self._time = time
        self._is_busy = is_busy
        self._real = selectors.DefaultSelector()

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:  # noqa: ANN401 - as in the base
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> SelectorKey:  # noqa: ANN401 - as in the base
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:  # noqa: ANN401 - as in the base
        return self._real.modify(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        ready = self._real.select(0)
        if ready or timeout == 0:
            return ready
        if self._is_busy():
            return self._real.select(_GLANCE_S)
        if timeout is None:
            raise NothingWillHappenError
        self._time.pass_by(max(timeout, 0.0))
        return []

    def get_map(self) -> Mapping[Any, SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()
