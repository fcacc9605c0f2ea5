"""Threads for work that may block for ever: one that hangs is not waited for, and replaced, up to a bound."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from relance.ports.clocks import Clock

_STOP: Final = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One piece of blocking work on one thing, named by `key`; `mount` names what it would hang on."""

    key: str
    mount: object
    work: Callable[[], object]


class Errand:
    """Units that one thread does in order. What is done can be taken at any time."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = tuple(units)
        self.finished = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._current: Unit | None = None
        self._stopped = False
        self._abandoned = False
        self._results: list[tuple[str, object]] = []

    def run(self) -> None:
        """Work; called in a thread."""
        for unit in self.units:
            with self._lock:
                if self._abandoned:
                    break
                self._current = unit
            try:
                result = unit.work()
            except Exception as error:  # noqa: BLE001 - handed over to the loop, which raises it
                result = error
            with self._lock:
                self._results.append((unit.key, result))
                self._current = None
        with self._lock:
            self._stopped = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self.finished.set)

    def abandon(self) -> Unit | None:
        """Do not begin another unit; gives the one that a thread is still at work on."""
        with self._lock:
            self._abandoned = True
            return self._current

    def take(self) -> tuple[list[tuple[str, object]], Unit | None]:
        """The results so far, each given once, and the unit that a thread is at work on.

        A unit that failed has its exception as its result.
        """
        with self._lock:
            taken, self._results = self._results, []
            return taken, self._current

    @property
    def hangs(self) -> Unit | None:
        """The unit that a thread is still at work on although nobody waits."""
        with self._lock:
            return self._current if self._abandoned else None

    @property
    def is_stopped(self) -> bool:
        """Whether no thread works on it any more."""
        with self._lock:
            return self._stopped


class Lanes:
    """A bounded number of daemon threads, so that one that hangs does not keep the process from ending either."""

    def __init__(self, clock: Clock, *, threads: int, at_most: int) -> None:
        """Use `threads` threads, and one more for each that hangs: `at_most` in all."""
        self._clock = clock
        self._wanted = threads
        self._at_most = at_most
        self._queue: queue.SimpleQueue[Errand | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._hanging: list[Errand] = []
        self._waiting: dict[Errand, float] = {}
        self._minding: asyncio.Task[None] | None = None

    def begin(self, units: Sequence[Unit]) -> Errand:
        """Have the units done by a thread."""
        errand = Errand(units)
        self._queue.put(errand)
        self._grow()
        return errand

    async def wait(self, errand: Errand, limit_s: float) -> None:
        """Return when the errand is done, or when the time is up: then no further unit of it is begun."""
        self._waiting[errand] = self._clock.monotonic() + limit_s
        if self._minding is None or self._minding.done():
            self._minding = asyncio.create_task(self._mind(), name="relance-files-limit")
        try:
            await errand.finished.wait()
        finally:
            del self._waiting[errand]
            if errand.abandon() is not None:
                with self._lock:
                    self._hanging.append(errand)
                self._grow()

    async def _mind(self) -> None:
        """Wake those whose time is up; one task for all, since nearly all errands are done long before."""
        while self._waiting:
            now = self._clock.monotonic()
            for errand, end in self._waiting.items():
                if end <= now:
                    errand.finished.set()
            left = [end for end in self._waiting.values() if end > now]
            await self._clock.sleep(min(left) - now if left else 0)

    def close(self) -> None:
        """Let the threads end; those that hang end when they can."""
        if self._minding is not None:
            self._minding.cancel()
        with self._lock:
            count = self._count
        for _ in range(count):
            self._queue.put(_STOP)

    def _grow(self) -> None:
        with self._lock:
            if self._count < min(self._allowed(), self._at_most):
                self._count += 1
                threading.Thread(target=self._work, name="relance-files", daemon=True).start()

    def _allowed(self) -> int:
        self._hanging = [errand for errand in self._hanging if not errand.is_stopped]
        return self._wanted + len(self._hanging)

    def _work(self) -> None:
        while (errand := self._queue.get()) is not _STOP:
            errand.run()
            with self._lock:
                if self._count > self._allowed():  # it hung, and was replaced
                    self._count -= 1
                    return
        with self._lock:
            self._count -= 1
