"""Quiet hours: times of a site's week in which nothing begins. Pure; local times, safe over changes of the clocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Names of the days, in the order of `datetime.weekday`."""
_HORIZON = timedelta(days=8)
"""Hours that go on for longer than a week never end."""
_BACK = 2
"""A day's hours may reach into the next day, and a zone's day may be another one than that of UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """From one local time of some weekdays to another; where that is not later it is the next day's.

    A beginning that the clocks leave out counts as if they had not been put forward; of a time that comes twice, the
    first begins and the second ends: in doubt it is quiet.
    """

    begins: time
    ends: time
    days: frozenset[int] = frozenset(range(7))
    """Weekdays on which they begin; 0 is Monday."""
    partitions: frozenset[str] = frozenset()
    """Partitions to which they are limited; empty: all."""

    def concerns(self, partitions: tuple[str, ...]) -> bool:
        """Whether they count for a job that may run in these partitions: any of them is enough."""
        return not self.partitions or not self.partitions.isdisjoint(partitions)

    @property
    def words(self) -> str:
        """They as they are said to people, such as `mon-fri 08:00 to 18:00`."""
        named = "every day" if len(self.days) == len(WEEKDAYS) else _days(self.days)
        where = f" in {', '.join(sorted(self.partitions))}" if self.partitions else ""
        return f"{named} {self.begins:%H:%M} to {self.ends:%H:%M}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietWeek:
    """All quiet hours of a cluster, and the zone of their local times."""

    hours: tuple[QuietHours, ...] = ()
    zone: tzinfo = UTC

    def until(self, partitions: tuple[str, ...], now: datetime) -> datetime | None:
        """When it ceases to be quiet for a job that may run in these partitions, in UTC; None: it is not quiet.

        Hours that follow each other without a gap are one. Never further ahead than eight days.
        """
        spans = list(self._spans(partitions, now))
        end = now
        while end - now < _HORIZON:
            later = [until for begin, until in spans if begin <= end < until]
            if not later:
                break
            end = max(later)
        return end.astimezone(UTC) if end > now else None

    def next_after(self, partitions: tuple[str, ...], now: datetime) -> datetime | None:
        """When it next becomes quiet for such a job; None: never, or it is quiet now."""
        if self.until(partitions, now) is not None:
            return None
        return min((begin for begin, _ in self._spans(partitions, now) if begin > now), default=None)

    def _spans(self, partitions: tuple[str, ...], now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Beginnings and ends, in UTC, of all that may matter from now on."""
        concerning = [item for item in self.hours if item.concerns(partitions)]
        first = now.astimezone(self.zone).date() - timedelta(days=_BACK)
        for number in range(_BACK + _HORIZON.days + 2) if concerning else ():
            day = first + timedelta(days=number)
            for item in concerning:
                if day.weekday() not in item.days:
                    continue
                last = day if item.ends > item.begins else day + timedelta(days=1)
                begin = datetime.combine(day, item.begins.replace(fold=0), tzinfo=self.zone).astimezone(UTC)
                until = datetime.combine(last, item.ends.replace(fold=1), tzinfo=self.zone).astimezone(UTC)
                if until > begin:
                    yield begin, until


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """That it is quiet now for a job: until when, and in which words that is said, the site's own time with it."""

    until: datetime
    words: str


def quiet_now(week: QuietWeek, partitions: tuple[str, ...], now: datetime) -> Quiet | None:
    """The quiet hours that count for a job that may run in these partitions; None: nothing keeps it."""
    until = week.until(partitions, now)
    if until is None:
        return None
    local = until.astimezone(week.zone)
    same_day = local.date() == now.astimezone(week.zone).date()
    name = getattr(week.zone, "key", "")
    here = f" ({local:%H:%M}{'' if same_day else f' on {local:%Y-%m-%d}'} {name})" if name else ""
    return Quiet(until=until, words=f"quiet hours until {until:%Y-%m-%d %H:%M UTC}{here}")


def is_always_quiet(week: QuietWeek, partitions: tuple[str, ...], now: datetime) -> bool:
    """Whether there is no hour in which anything could begin: then a stage of `observe` is what is meant."""
    until = week.until(partitions, now)
    return until is not None and until - now >= _HORIZON


def _days(days: frozenset[int]) -> str:
    """Weekdays in a few letters: neighbours from three on as a range."""
    runs: list[list[int]] = []
    for day in sorted(days):
        if runs and day == runs[-1][-1] + 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    parts = [
        f"{WEEKDAYS[run[0]]}-{WEEKDAYS[run[-1]]}" if len(run) > 2 else ", ".join(WEEKDAYS[day] for day in run)  # noqa: PLR2004
        for run in runs
    ]
    return ", ".join(parts)
