"""Gathering: one look at a store for all attempts that are followed in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from relance.domain.faults import Scope
from relance.domain.findings import Coverage
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.views import Assignment
from relance.ports.clocks import Clock
from relance.sources.exchanges import StoreAwayError, StoreBusyError, StoreError, StoreRefusedError
from relance.sources.stores.asking import Asking, end_of
from relance.sources.stores.backs import Entry, LogStore, Selection
from relance.sources.stores.batches import Batch, Seat, batches_of, parts_of, value_of
from relance.sources.stores.following import Following
from relance.sources.stores.labels import Labels
from relance.sources.stores.passages import Named, Passages
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.times import ns_of, span_ns
from relance.sources.stores.tracks import Track
from relance.sources.stores.wanted import Wanted, compiled, is_usable

_LEARNED_AT_MOST = 8
_DIVISIONS_AT_MOST = 12
"""In one look; enough to find one job of thousands. A store that refuses all is not asked much more for it."""


class Gathering:
    """What is followed in a store, and how it is fetched.

    Args:
        store: The store.
        settings: How it is read.
        wanted: Which lines are to travel.
        clock: The time.
    """

    def __init__(self, store: LogStore, settings: StoreSourceSettings, wanted: Wanted, clock: Clock) -> None:
        self.followed: dict[AttemptKey, Following] = {}
        self.asking = Asking(store, settings, clock)
        self.labels = Labels(settings)
        self._settings = settings
        self._wanted = wanted
        self._clock = clock
        self._learned: dict[AttemptKey, tuple[str, ...]] = {}

    def assign(self, assignments: Sequence[Assignment], positions: Mapping[AttemptKey, Mapping[str, object]]) -> None:
        """Follow exactly these attempts."""
        now = self._clock.now()
        before, self.followed = self.followed, {}
        for assignment in assignments:
            key = assignment.attempt
            known = before.get(key)
            if known is None:
                known = Following(assignment, positions.get(key), self.labels, self._settings, now)
                known.progress_at = self._clock.monotonic()  # a sample has its turn when none came for a while
            self.followed[key] = known
        begins: dict[JobKey, list[tuple[int, datetime]]] = {}
        for assignment in assignments:
            following, key = self.followed[assignment.attempt], assignment.attempt
            if key.restart_count and assignment.started_at is not None:
                following.assignment = assignment
                begins.setdefault(key.job, []).append((key.restart_count, following.begins_at(now)))
        for assignment in assignments:
            key = assignment.attempt
            later = [at for count, at in begins.get(key.job, ()) if count > key.restart_count]
            self.followed[key].update(assignment, min(later, default=None))
        self._learned = {key: learned for key, learned in self._learned.items() if key in self.followed}

    def learn(self, attempt: AttemptKey, pattern: str) -> None:
        """Have lines of this pattern (RE2 syntax) travel, too, for one attempt."""
        known = self._learned.get(attempt, ())
        if attempt in self.followed and pattern not in known and is_usable(pattern):
            self._learned[attempt] = (*known, pattern)[-_LEARNED_AT_MOST:]

    def sight(self) -> tuple[Coverage, ...]:
        """How the store stands."""
        return (self.asking.sight,)

    async def look(self) -> bool:
        """Fetch what is new of all attempts; gives whether there is more to fetch at once."""
        if self._clock.monotonic() < self.asking.not_before:
            return False
        began = self._clock.now()
        batches = batches_of(self._seats(), self._settings, self.asking.names_at_most)
        if not batches:
            await self._greet()
            return False
        whole, more, answered = 0, False, 0
        left, divisions = list(reversed(batches)), 0
        while left:
            batch = left.pop()
            try:
                is_whole = await self._fetch(batch)
            except StoreError as error:
                if self.asking.can_ask_less(error, len(batch.names)):
                    more, answered = True, answered + 1
                    continue
                is_away = isinstance(error, StoreAwayError | StoreBusyError)
                if not is_away and len(batch.seats) > 1 and divisions < _DIVISIONS_AT_MOST:
                    divisions += 1  # what the store cannot tell of one job is not to keep it from telling of others
                    left += reversed(batch.halves())
                    continue
                self._note([batch, *batches] if is_away else [batch], error, is_away=is_away)
                if is_away:
                    return False
            else:
                whole, more, answered = whole + is_whole, more or not is_whole, answered + 1
        if whole:  # one job that writes more than is read, or is refused, says nothing of the store
            self.asking.read_to(began)
        elif answered:
            self.asking.is_behind()
        return more

    async def _greet(self) -> None:
        """See now and then whether a store is there of which nothing is wanted now."""
        now = self._clock.monotonic()
        waits = any(track.retry_at > now for following in self.followed.values() for track in following.tracks)
        if not waits and now - self.asking.answered_at >= self._settings.idle_s:
            await self.asking.greet()

    def patterns_of(self, following: Following) -> tuple[str, ...]:
        """Patterns of lines that are wanted of one attempt beside those of all."""
        own = following.assignment.progress_pattern
        usable = (own,) if own is not None and is_usable(own) else ()
        return (*usable, *self._learned.get(following.assignment.attempt, ()))

    def _seats(self) -> Iterable[tuple[Scope, str, Seat]]:
        now = self._clock.monotonic()
        for following in self.followed.values():
            if not following.has_room:
                continue
            own, kernel = following.own, following.kernel
            if not own.is_over and own.retry_at <= now:
                also = self.patterns_of(following)
                lines = "" if following.reads_all else self._wanted.lines(Scope.APPLICATION, also)
                yield Scope.APPLICATION, lines, Seat(following, own, (following.job_value,))
            nodes = following.assignment.nodes
            if kernel is not None and nodes and not kernel.is_over and kernel.retry_at <= now:
                values = tuple(dict.fromkeys(self.labels.node_value(node) for node in nodes))
                yield Scope.KERNEL, self._wanted.lines(Scope.KERNEL, ()), Seat(following, kernel, values)

    def _note(self, batches: Iterable[Batch], error: StoreError, *, is_away: bool) -> None:
        self.asking.failed(error)
        for seat in (seat for batch in batches for seat in batch.seats):
            seat.track.trouble = str(error)
            if type(error) is StoreRefusedError and seat.track is seat.following.own:
                # a pattern that only this store does not take: then all lines have to travel
                seat.following.reads_all = bool(self.patterns_of(seat.following))
            if not is_away:
                seat.track.retry_at = self._clock.monotonic() + self._settings.refused_s

    async def _fetch(self, batch: Batch) -> bool:
        """Fetch what is new for a batch; gives whether the store was read to its end. Raises StoreError."""
        settings = self._settings
        began_ns = ns_of(self._clock.now())
        ahead_ns = began_ns + span_ns(settings.ahead_s)
        since, is_first = batch.since_ns, True
        reach = {seat: seat.track.floor_ns for seat in batch.seats}
        run: dict[Seat, Passages] = {}
        sizes: dict[Seat, int] = {}
        for _ in range(settings.pages_at_once):
            until = max(min(ahead_ns, since + self.asking.span_ns), since + 1)
            page = await self.asking.page(self._parts(batch.scope, tuple(batch.names), batch.lines), since, until)
            end = end_of(page, since, until)
            now_ns = began_ns - span_ns(self.asking.behind_s)  # lines bear times of the site's clocks, not of ours
            sure_ns = now_ns - span_ns(settings.delay_s)
            found = self._named(batch, page.entries, end)
            # who was left out once has a gap until the next look, whatever room there is by now
            fed = [seat for seat in batch.seats if reach[seat] >= since and (is_first or seat.following.has_room)]
            for seat in fed:
                seat.track.is_filtered = bool(batch.lines)
                sizes[seat] = sizes.get(seat, 0) + len(found.get(seat, ()))
                reach[seat] = await self._take(batch, seat, found.get(seat, []), (since, end, sure_ns), run)
                _mark_read(seat.track, reach[seat], now_ns, sure_ns)
            since, is_first = end, False
            if not fed or end >= ahead_ns or (page.is_whole and end >= now_ns):
                break
        is_whole = all(reach[seat] >= now_ns or seat.track.is_over for seat in batch.seats)
        loudest = max(sizes, key=lambda seat: sizes[seat])
        loudest.track.is_apart = not is_whole  # others should not wait for it
        return is_whole

    async def _take(
        self, batch: Batch, seat: Seat, entries: list[Named], window: tuple[int, int, int], run: dict[Seat, Passages]
    ) -> int:
        """Have a track take its entries of a page, passages whole; gives before when all of them are taken.

        `window` is from when on the page is, before when, and before when nothing more will come. Raises StoreError.
        """
        since, end, sure = window
        track, prefilter = seat.track, self._wanted.prefilter(batch.scope) if batch.lines else None
        if track is seat.following.own:
            self._mind_progress(seat.following, entries)
        if prefilter is not None and prefilter.openings:
            if seat not in run:
                run[seat] = track.passages.copy()
            entries, end = await self._whole_passages(batch.scope, seat, entries, (since, end), run[seat])
            track.passages.advance(prefilter, entries, max(track.floor_ns, min(end, sure)))
        track.take(entries, end, sure)
        return end

    async def _whole_passages(
        self, scope: Scope, seat: Seat, entries: list[Named], window: tuple[int, int], run: Passages
    ) -> tuple[list[Named], int]:
        """The entries of a page with all lines in place of those of passages, and before when they are all there.

        Where one stream of a job is in the middle of something all streams of the job are read whole: few jobs ever
        are, and then many of their ranks at once. Raises StoreError.
        """
        prefilter = self._wanted.prefilter(scope)
        assert prefilter is not None  # noqa: S101 - whoever calls has asked
        at, end = max(window[0], seat.track.floor_ns), window[1]
        alone = Batch(scope=scope, lines="")
        alone.add(seat)
        found: list[Named] = []
        for _ in range(self._settings.pages_at_once):
            opens = run.opens_at(prefilter, entries, at) if at < end else None
            if opens is None or opens >= end:
                break
            found += _between(entries, at, opens)
            run.advance(prefilter, (), opens)
            page = await self.asking.page(self._parts(scope, seat.values, ""), opens, end)
            at = end_of(page, opens, end)
            whole = self._named(alone, page.entries, at).get(seat, [])
            run.advance(prefilter, whole, at)
            found += whole
        else:
            return found, at
        found += _between(entries, at, end)
        run.advance(prefilter, (), end)
        return found, end

    def _mind_progress(self, following: Following, entries: list[Named]) -> None:
        """Note when lines that tell of progress come; one look in many is enough."""
        now = self._clock.monotonic()
        if self._wanted.progress and now - following.progress_at > self._settings.sample_s / 4:
            search = compiled(self._wanted.progress).search
            if any(search(entry.line) for entry, _ in entries):
                following.progress_at = now

    def _parts(self, scope: Scope, values: Sequence[str], lines: str) -> list[Selection]:
        limits = (self.asking.names_at_most, self._settings.query_bytes)
        return parts_of(scope, values, lines, self.labels, limits)

    def _named(self, batch: Batch, entries: Iterable[Entry], end_ns: int) -> dict[Seat, list[Named]]:
        """The entries before a time by whom they are for, each with the name of its stream."""
        found: dict[Seat, list[Named]] = {}
        names: dict[int, tuple[str, list[Seat]]] = {}
        for entry in entries:
            if entry.at_ns >= end_ns:
                break
            known = names.get(id(entry.labels))
            if known is None:
                value = value_of(entry, batch.scope, self.labels, self._settings.node_label)
                known = names[id(entry.labels)] = (self.labels.name_of(entry.labels), batch.names.get(value, []))
            for seat in known[1]:
                found.setdefault(seat, []).append((entry, known[0]))
        return found


def _mark_read(track: Track, reach_ns: int, now_ns: int, sure_ns: int) -> None:
    """Note that a track was read up to a time, and whether that is the store's end."""
    track.trouble = ""
    if reach_ns >= now_ns or track.is_over:
        track.is_read = True
        track.read_to_ns = max(sure_ns, track.read_to_ns or sure_ns)


def _between(entries: Iterable[Named], since_ns: int, until_ns: int) -> list[Named]:
    return [each for each in entries if since_ns <= each[0].at_ns < until_ns]
