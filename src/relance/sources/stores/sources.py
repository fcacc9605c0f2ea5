"""`StoreSource`: a log store as a source, with one pace for all attempts that are followed in it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

import structlog

from relance.domain.findings import Coverage
from relance.domain.keys import AttemptKey
from relance.domain.observations import Attachment
from relance.domain.views import Assignment
from relance.ports.clocks import Clock
from relance.ports.sources import Reading
from relance.rules.masking import mask_bytes
from relance.sources.exchanges import StoreError
from relance.sources.stores.backs import Entry, LogStore
from relance.sources.stores.gathering import Gathering
from relance.sources.stores.samples import Samples
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.times import ns_of, span_ns
from relance.sources.stores.wanted import Wanted

_LOG = structlog.get_logger("relance.sources.stores")
_TAIL_ENTRIES = 2000
_TAIL_S = 3600
_TAILS_AT_MOST = 64
"""Streams whose last lines are kept."""
_SOON_S = 0.05


class StoreSource:
    """Implements `relance.ports.sources.Source` over any log store.

    A task of its own looks at the store; it begins when something is followed first, and ends with `close`.
    """

    def __init__(
        self, store: LogStore, settings: StoreSourceSettings, wanted: Wanted | None = None, *, clock: Clock
    ) -> None:
        """Follow attempts in a store; without `wanted` all their lines travel."""
        self._settings = settings
        self._clock = clock
        wanted = wanted or Wanted()
        self._gathering = Gathering(store, settings, wanted, clock)
        self._samples = Samples(self._gathering, settings, wanted)
        self._looked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """The source's name in coverage and watermarks."""
        return self._settings.name

    def assign(self, assignments: Sequence[Assignment], positions: Mapping[AttemptKey, Mapping[str, object]]) -> None:
        """Follow exactly these attempts."""
        self._gathering.assign(assignments, positions)
        self._begin()

    def watch_folder(self, attempt: AttemptKey, path: str) -> None:
        """A store knows no folders."""

    def learn(self, attempt: AttemptKey, pattern: str) -> None:
        """Have lines of this pattern (RE2 syntax) travel, too: progress in a format that was learned."""
        self._gathering.learn(attempt, pattern)

    async def read(self, attempt: AttemptKey) -> Reading:
        """What was fetched and not read yet; never waits for the store."""
        following = self._gathering.followed.get(attempt)
        if following is None:
            return Reading(blocks=(), positions={}, coverage=())
        self._begin()
        await asyncio.sleep(0)
        return following.read(self._clock.now())

    async def tails(self, attempt: AttemptKey, at_most_bytes: int) -> tuple[Attachment, ...]:
        """The last lines of each stream of the job, all of them and not only those that travel, masked."""
        following = self._gathering.followed.get(attempt)
        if following is None or self._clock.monotonic() < self._gathering.asking.not_before:
            return ()  # who waits for a store that is away keeps others from being read
        labels, track = self._gathering.labels, following.own
        until = ns_of(self._clock.now()) + span_ns(self._settings.ahead_s)
        until = until if track.until_ns is None else min(until, track.until_ns)
        since = max(following.own_since_ns, track.floor_ns - span_ns(_TAIL_S))
        if until <= since:
            return ()
        try:
            wanted = labels.of_jobs([following.job_value], "")
            entries = await self._gathering.asking.newest(wanted, since, until, _TAIL_ENTRIES)
        except StoreError as error:
            _LOG.warning("last lines cannot be kept", source=self.name, reason=str(error))
            return ()
        streams: dict[str, list[Entry]] = {}
        for entry in entries:
            if labels.job_of(entry.labels):
                streams.setdefault(labels.name_of(entry.labels), []).append(entry)
        latest = sorted(streams.items(), key=lambda each: -each[1][-1].at_ns)[:_TAILS_AT_MOST]
        return tuple(_tail(name, lines, at_most_bytes) for name, lines in latest)

    async def changed(self, timeout_s: float) -> frozenset[AttemptKey]:
        """Attempts of which lines were fetched, and now and then those that are silent."""
        self._begin()
        end = self._clock.monotonic() + timeout_s
        while True:
            self._looked.clear()
            now = self._clock.monotonic()
            news = frozenset(key for key, following in self._gathering.followed.items() if following.is_news(now))
            if news or now >= end:
                for key in news:
                    self._gathering.followed[key].told_at = now
                return news
            waits = (
                asyncio.ensure_future(self._clock.sleep(end - now)),
                asyncio.ensure_future(self._looked.wait()),
            )
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    def sight(self) -> tuple[Coverage, ...]:
        """How the store stands."""
        return self._gathering.sight()

    async def close(self) -> None:
        """Look no more, and give the connections back."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        await self._gathering.asking.close()

    async def look(self) -> bool:
        """Look at the store once for all attempts; gives whether there is more to fetch at once."""
        more = await self._gathering.look()
        await self._samples.take(self._clock.monotonic(), ns_of(self._clock.now()))
        return more

    def _begin(self) -> None:
        if self._task is None and not self._closed:
            self._task = asyncio.get_running_loop().create_task(self._looking())

    async def _looking(self) -> None:
        while True:
            began = self._clock.monotonic()
            try:
                more = await self.look()
            except Exception:  # noqa: BLE001 - the task must go on: without it this source would be silent for good
                _LOG.exception("look failed", source=self.name)
                more = False
            self._looked.set()
            now = self._clock.monotonic()
            wait_s = max(_SOON_S if more else began + self._settings.poll_s - now, _SOON_S)
            await self._clock.sleep(max(wait_s, min(self._gathering.asking.not_before - now, 60.0)))


def _tail(name: str, entries: Sequence[Entry], at_most_bytes: int) -> Attachment:
    """The last whole lines of a stream that fit."""
    kept: list[bytes] = []
    left = at_most_bytes
    for entry in reversed(entries):
        line = mask_bytes(entry.line.rstrip(b"\n") + b"\n")
        left -= len(line)
        if left < 0:
            break
        kept.append(line)
    return Attachment(file=name, start_offset=0, data=b"".join(reversed(kept)))
