"""What was written at a site, what a watcher delivered of it, and what it told its server."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from relance.domain.findings import Coverage, Finding, Sight
from relance.domain.keys import AttemptKey
from relance.domain.observations import Attachment, WatcherBatch
from relance.domain.progress import StepSeen
from relance.domain.views import Assignment
from relance.ports.backends import Assignments
from relance.ports.clocks import Clock
from relance.ports.signals import Signals, SignalSource
from relance.ports.sources import Reading, Source
from relance.testing.scripted_backends import ScriptedBackend
from relance.testing.virtual_time import VirtualClock, VirtualTime


@dataclass(slots=True)
class Books:
    """What was written and what came of it, for each attempt.

    `kept` is how much of `delivered` is behind the checkpoint that the server has: what came later is read again by a
    watcher that is started anew. Steps are those that come as signals.
    """

    written: dict[AttemptKey, list[tuple[float, bytes]]] = field(default_factory=dict)
    delivered: dict[AttemptKey, list[bytes]] = field(default_factory=dict)
    kept: dict[AttemptKey, int] = field(default_factory=dict)
    exported: dict[AttemptKey, list[tuple[float, int]]] = field(default_factory=dict)
    steps: dict[AttemptKey, list[int]] = field(default_factory=dict)

    def write(self, attempt: AttemptKey, at: float, line: bytes) -> None:
        """A line was written."""
        self.written.setdefault(attempt, []).append((at, line))

    def export(self, attempt: AttemptKey, at: float, step: int) -> None:
        """A step came into the metric store."""
        self.exported.setdefault(attempt, []).append((at, step))

    def deliver(self, attempt: AttemptKey, reading: Reading) -> None:
        """Lines were read."""
        came = self.delivered.setdefault(attempt, [])
        for block in reading.blocks:
            came += block.data[block.overlap :].splitlines()

    def hear(self, attempt: AttemptKey, signals: Signals) -> None:
        """Signals were taken."""
        told = self.steps.setdefault(attempt, [])
        told += [each.step for each in signals.signals if isinstance(each, StepSeen)]

    def keep(self, attempt: AttemptKey) -> None:
        """What was read so far is behind a checkpoint."""
        self.kept[attempt] = len(self.delivered.get(attempt, ()))

    def die(self) -> None:
        """The watcher is gone, and what it had read beyond its checkpoints with it."""
        for attempt, came in self.delivered.items():
            del came[self.kept.get(attempt, 0) :]

    def lost(self, until: float) -> int:
        """How many of the lines written up to a time were not delivered, and of how many jobs a newest step is."""
        lines = sum(
            (Counter(line for at, line in lines if at <= until) - Counter(self.delivered.get(attempt, ()))).total()
            for attempt, lines in self.written.items()
        )
        newest = {attempt: max(step for at, step in told if at <= until) for attempt, told in self.exported.items()}
        return lines + sum(max(self.steps.get(attempt, ()), default=0) < step for attempt, step in newest.items())

    def count(self, since: float, until: float) -> int:
        """How many lines were written in between."""
        return sum(since <= at < until for lines in self.written.values() for at, _ in lines)

    @property
    def repeated(self) -> int:
        """How many lines came once more than they were written, and how many steps were told again."""
        lines = sum(
            (Counter(came) - Counter(line for _, line in self.written.get(attempt, ()))).total()
            for attempt, came in self.delivered.items()
        )
        return lines + sum(len(told) - len(set(told)) for told in self.steps.values())


class Server(ScriptedBackend):
    """A server that names the same attempts all the time, keeps their checkpoints, and what it was told last."""

    def __init__(self, clock: Clock, books: Books) -> None:
        """Begin without attempts."""
        super().__init__(clock)
        self.wanted: tuple[Assignment, ...] = ()
        self.findings: dict[str, Finding] = {}
        self.batches: dict[AttemptKey, WatcherBatch] = {}
        """The last of each attempt."""
        self._checkpoints: dict[AttemptKey, str] = {}
        self._time = clock
        self._books = books

    async def assignments(self, cluster: str) -> Assignments:
        self._there()
        return Assignments(assignments=self.wanted, position=1, as_of=self._time.now())

    async def checkpoint(self, attempt: AttemptKey) -> str | None:
        self._there()
        return self._checkpoints.get(attempt)

    async def submit(self, batch: WatcherBatch) -> None:
        self._there()
        self.batches[batch.attempt] = batch
        self.findings |= {finding.id: finding for finding in batch.findings}
        if batch.checkpoint is not None:
            self._checkpoints[batch.attempt] = batch.checkpoint
            self._books.keep(batch.attempt)

    async def wait(self, after: int, timeout_s: float) -> int:
        await self._time.sleep(timeout_s)
        return after

    @property
    def says_away(self) -> bool:
        """Whether people are told that something cannot be seen: of a source as a whole, or of each attempt."""
        told = self.sights[-1] if self.sights else None
        if told is not None:
            return any(each.sight is not Sight.SEEN for each in (*told.logs, *told.signals))
        last = self.batches.values()
        return bool(last) and all(any(each.sight is not Sight.SEEN for each in batch.coverage) for batch in last)


class Work:
    """What is under way in threads and over sockets: while it is, no time passes."""

    def __init__(self) -> None:
        self.count = 0

    @contextlib.contextmanager
    def at(self) -> Iterator[None]:
        """One more thing is under way."""
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """One of these only waits for its time."""
        self.count -= 1
        try:
            yield
        finally:
            self.count += 1


class WorkersClock(VirtualClock):
    """The clock of something whose work is counted: while it sleeps it does not work."""

    def __init__(self, time: VirtualTime, work: Work) -> None:
        """Show this time."""
        super().__init__(time)
        self._work = work

    async def sleep(self, duration_s: float) -> None:
        with self._work.off():
            await super().sleep(duration_s)


class BookedLogs:
    """A source of logs, what it delivers being booked."""

    def __init__(self, inner: Source, books: Books, work: Work) -> None:
        """Book what this one delivers; `work` is told while it reads."""
        self._work = work
        self._inner = inner
        self._books = books

    @property
    def name(self) -> str:
        return self._inner.name

    def assign(self, assignments: Sequence[Assignment], positions: Mapping[AttemptKey, Mapping[str, object]]) -> None:
        self._inner.assign(assignments, positions)

    def watch_folder(self, attempt: AttemptKey, path: str) -> None:
        self._inner.watch_folder(attempt, path)

    def learn(self, attempt: AttemptKey, pattern: str) -> None:
        self._inner.learn(attempt, pattern)

    async def read(self, attempt: AttemptKey) -> Reading:
        with self._work.at():
            reading = await self._inner.read(attempt)
        self._books.deliver(attempt, reading)
        return reading

    async def tails(self, attempt: AttemptKey, at_most_bytes: int) -> tuple[Attachment, ...]:
        return await self._inner.tails(attempt, at_most_bytes)

    async def changed(self, timeout_s: float) -> frozenset[AttemptKey]:
        return await self._inner.changed(timeout_s)

    def sight(self) -> tuple[Coverage, ...]:
        return self._inner.sight()

    async def close(self) -> None:
        await self._inner.close()


class BookedSignals:
    """A source of signals, what it tells being booked."""

    def __init__(self, inner: SignalSource, books: Books, work: Work) -> None:
        """Book what this one tells; `work` is told while it asks."""
        self._inner = inner
        self._books = books
        self._work = work

    @property
    def name(self) -> str:
        return self._inner.name

    def assign(self, assignments: Sequence[Assignment], closely: frozenset[AttemptKey]) -> None:
        self._inner.assign(assignments, closely)

    async def look(self) -> None:
        with self._work.at():
            await self._inner.look()

    def take(self, attempt: AttemptKey) -> Signals:
        signals = self._inner.take(attempt)
        self._books.hear(attempt, signals)
        return signals

    def sight(self) -> tuple[Coverage, ...]:
        return self._inner.sight()

    async def close(self) -> None:
        await self._inner.close()
