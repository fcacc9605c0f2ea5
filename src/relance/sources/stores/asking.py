"""Asking a store at a bounded rate, in parts that it takes, and what is known of how it stands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from relance.domain.findings import Coverage, Sight
from relance.ports.clocks import Clock
from relance.sources.exchanges import (
    StoreAnswerError,
    StoreAwayError,
    StoreBusyError,
    StoreError,
    StoreRefusedError,
    StoreTooMuchError,
)
from relance.sources.stores.backs import Entry, LogStore, Page, Selection
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.times import span_ns
from relance.sources.turns import Turns

_FIRST_AWAY_S = 1.0
_LESSENED_AT_MOST = 20
"""In the time after which what is refused is asked again: that is from the most to the least. Other answers make it
more again, and what is of no use in any measure would be asked for without an end."""
_SKEW_TOLD_S = 5.0
_SKEW_MOST_S = 300.0
"""A store whose clock is further off is not to be trusted with silence: what it calls now is another time."""


class Asking:
    """A store that is asked for entries."""

    def __init__(self, store: LogStore, settings: StoreSourceSettings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._turns = Turns(settings.requests_per_s, clock)
        self._entries = settings.page_entries
        self._span_s = settings.span_s
        self._names = settings.query_names
        self._away_s = 0.0
        self._ahead_s = 0.0
        self._lessened: list[float] = []
        self._sight = Coverage(source=settings.name, sight=Sight.UNKNOWN, note="not asked yet")
        self.not_before = -math.inf
        """Not to be asked before this, by the monotonic clock: it is away, or wants to be left alone."""
        self.answered_at = -math.inf
        """When it last answered, by the monotonic clock."""

    @property
    def sight(self) -> Coverage:
        """How the store stands."""
        return self._sight

    @property
    def names_at_most(self) -> int:
        """How many names of jobs or nodes it takes in one query, as far as is known."""
        return self._names

    @property
    def span_ns(self) -> int:
        """About how long a time one query may be."""
        return span_ns(self._span_s)

    async def page(self, parts: Sequence[Selection], since_ns: int, until_ns: int) -> Page:
        """The oldest entries of several selections together, as of one. Raises StoreError."""
        pages = []
        for part in parts:
            await self._turns.take()
            began = self._clock.now()
            pages.append(await self._store.page(part, since_ns, until_ns, self._entries))
            self._answered(began)
        if len(pages) == 1:
            return pages[0]
        end = min((_end_of(page, until_ns) for page in pages), default=until_ns)
        entries = sorted((each for page in pages for each in page.entries if each.at_ns < end), key=_time_of)
        return Page(entries=tuple(entries), is_whole=end >= until_ns, up_to_ns=end)

    async def newest(self, wanted: Selection, since_ns: int, until_ns: int, at_most: int) -> tuple[Entry, ...]:
        """The newest entries. Raises StoreError."""
        await self._turns.take()
        began = self._clock.now()
        entries = await self._store.newest(wanted, since_ns, until_ns, min(at_most, self._entries))
        self._answered(began)
        return entries

    async def greet(self) -> None:
        """See whether it is there."""
        try:
            await self._turns.take()
            began = self._clock.now()
            await self._store.version()
        except StoreError as error:
            self.failed(error)
        else:
            self._answered(began)
            self.read_to(self._clock.now())

    def failed(self, error: StoreError) -> None:
        """Take in that it gave no answer, or one of no use: how it stands, and when to ask again."""
        now = self._clock.monotonic()
        if isinstance(error, StoreBusyError):
            self.not_before = now + error.again_in_s
            sight = Sight.LAGGING
        elif isinstance(error, StoreAwayError):
            self._away_s = min(max(2 * self._away_s, _FIRST_AWAY_S), self._settings.away_most_s)
            self.not_before = now + self._away_s
            self._span_s = max(self._span_s / 2, self._settings.span_least_s)  # it may have been asked for too much
            sight = Sight.MISSING
        else:
            sight = Sight.REFUSED if isinstance(error, StoreRefusedError) else Sight.MISSING
        self._sight = replace(self._sight, sight=sight, note=error.told)

    def can_ask_less(self, error: StoreError, names: int) -> bool:
        """Whether what was refused, or was too long an answer, is now asked for in smaller parts."""
        settings = self._settings
        if not isinstance(error, (StoreTooMuchError, StoreAnswerError)):
            return False
        now = self._clock.monotonic()
        self._lessened = [at for at in self._lessened if now - at < settings.refused_s]
        if len(self._lessened) >= _LESSENED_AT_MOST:
            return False
        self._lessened.append(now)
        if names > 1 and isinstance(error, StoreTooMuchError):
            self._names = max(min(self._names, names) // 2, 1)
        elif self._entries > settings.page_least:
            self._entries = max(self._entries // 4, settings.page_least)
        elif self._span_s > settings.span_least_s:
            self._span_s = max(self._span_s / 4, settings.span_least_s)
        else:
            return False
        return True

    @property
    def behind_s(self) -> float:
        """How far its clock is behind ours, at least; 0 where it is not, or does not tell."""
        return max(-self._ahead_s, 0.0)

    def read_to(self, at: datetime) -> None:
        """All that is followed was read to its end at a time."""
        off_s, note = abs(self._ahead_s), ""
        if off_s > _SKEW_TOLD_S:
            how = "ahead of" if self._ahead_s > 0 else "behind"
            note = f"its clock is {off_s:.0f} s {how} ours: set both by the same time servers"
        sight = Sight.LAGGING if off_s > _SKEW_MOST_S else Sight.SEEN
        up_to = at - timedelta(seconds=self.behind_s)
        self._sight = Coverage(source=self._settings.name, sight=sight, up_to=up_to, note=note)

    def is_behind(self) -> None:
        """It answers, but not all was read."""
        self._sight = replace(self._sight, sight=Sight.LAGGING, note="there is more in it than was read so far")

    async def close(self) -> None:
        """Give the connections back."""
        await self._store.close()

    def _answered(self, began: datetime) -> None:
        """It answered what was asked at a time; its own word of when that was is between then and now, if clocks agree.

        That word is of whole seconds.
        """
        settings = self._settings
        told = self._store.told_at
        if told is not None:
            behind_s = (began - told).total_seconds() - 1.0
            ahead_s = (told - self._clock.now()).total_seconds()
            self._ahead_s = -behind_s if behind_s > 0 else max(ahead_s, 0.0)
        self.answered_at = self._clock.monotonic()
        self._away_s = 0.0
        self._entries = min(self._entries * 2, settings.page_entries)
        self._span_s = min(self._span_s * 2, settings.span_s)


def _end_of(page: Page, until_ns: int) -> int:
    """Before this everything is in the page."""
    if page.is_whole:
        return until_ns
    if page.up_to_ns is not None:
        return page.up_to_ns
    return page.entries[-1].at_ns if page.entries else until_ns


def end_of(page: Page, since_ns: int, until_ns: int) -> int:
    """Before this everything is in the page; always later than `since_ns`, so that reading goes on."""
    return min(max(_end_of(page, until_ns), since_ns + 1), until_ns)


def _time_of(entry: Entry) -> int:
    return entry.at_ns
