"""Samples: a few of all lines of jobs of which no progress is recognised, so that an unknown format can be learned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from relance.domain.faults import Scope
from relance.sources.exchanges import StoreError, StoreRefusedError
from relance.sources.stores.following import Following
from relance.sources.stores.gathering import Gathering
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.times import span_ns
from relance.sources.stores.tracks import Line
from relance.sources.stores.wanted import Wanted, compiled


class Samples:
    """Takes samples for what is followed in a store, some attempts at a time.

    A sample has only lines that the filter does not let pass: the others are delivered anyway, and once.
    """

    def __init__(self, gathering: Gathering, settings: StoreSourceSettings, wanted: Wanted) -> None:
        self._gathering = gathering
        self._settings = settings
        self._wanted = wanted
        self._taken_at: dict[str, float] = {}

    async def take(self, now_s: float, now_ns: int) -> None:
        """Take the samples whose turn it is, by the monotonic and the wall clock."""
        if not self._wanted.progress or self._wanted.prefilter(Scope.APPLICATION) is None:
            return
        due = [following for following in self._gathering.followed.values() if self._is_due(following, now_s)]
        for following in due:
            self._taken_at[following.job_value] = now_s
        followed = {following.job_value for following in self._gathering.followed.values()}
        self._taken_at = {value: at for value, at in self._taken_at.items() if value in followed}
        for some in _parts(due, self._settings.sample_attempts):
            try:
                await self._take(some, now_ns)
            except StoreRefusedError:
                continue
            except StoreError as error:
                self._gathering.asking.failed(error)
                return

    def _is_due(self, following: Following, now_s: float) -> bool:
        settings = self._settings
        own = following.own
        return (
            own.is_read
            and not own.is_over
            and following.has_room
            and not self._gathering.patterns_of(following)
            and now_s - following.progress_at >= settings.sample_s
            and now_s - self._taken_at.get(following.job_value, -settings.sample_s) >= settings.sample_s
        )

    async def _take(self, some: Sequence[Following], now_ns: int) -> None:
        settings, labels = self._settings, self._gathering.labels
        by_value = {following.job_value: following for following in some}
        until = min(following.own.floor_ns for following in some)
        since = max(now_ns - span_ns(settings.sample_s + settings.delay_s), 0)
        if until <= since:
            return
        passes = compiled(self._wanted.lines(Scope.APPLICATION, ())).search
        found: dict[str, list[Line]] = {}
        wanted = labels.of_jobs(by_value, "")
        for entry in await self._gathering.asking.newest(wanted, since, until, settings.sample_lines * len(some)):
            following = by_value.get(labels.job_of(entry.labels))
            if following is None or entry.at_ns < max(following.sampled_to_ns, following.own_since_ns):
                continue
            if not passes(entry.line):
                line = Line(entry.at_ns, b"", labels.name_of(entry.labels), entry.labels, entry.line)
                found.setdefault(following.job_value, []).append(line)
        for value, following in by_value.items():
            following.take_samples(found.get(value, [])[-settings.sample_lines :], until)


def _parts(due: Sequence[Following], size: int) -> Iterator[Sequence[Following]]:
    for begin in range(0, len(due), size):
        yield due[begin : begin + size]
