"""Quiet hours: local times, over midnight, over changes of the clocks, and said in words."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.domain.quiet_hours import QuietHours, QuietWeek, is_always_quiet, quiet_now

PARIS = ZoneInfo("Europe/Paris")
WORKDAYS = frozenset(range(5))
NIGHT = QuietHours(begins=time(22), ends=time(6))
DAY = QuietHours(begins=time(8), ends=time(18), days=WORKDAYS)


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _until(hours: QuietHours, now: str, partitions: tuple[str, ...] = ("gpu",)) -> str:
    until = QuietWeek(hours=(hours,), zone=PARIS).until(partitions, _at(now))
    return until.strftime("%m-%d %H:%M") if until else ""


@pytest.mark.parametrize(
    ("hours", "now", "until"),
    [
        (DAY, "2026-01-05 07:00", "01-05 17:00"),  # a Monday in winter, an hour ahead of UTC
        (DAY, "2026-07-06 06:00", "07-06 16:00"),  # in summer, two hours
        (DAY, "2026-01-05 06:59:59", ""),
        (DAY, "2026-01-05 17:00", ""),
        (DAY, "2026-01-10 10:00", ""),  # a Saturday
        (NIGHT, "2026-01-05 23:30", "01-06 05:00"),
        (NIGHT, "2026-01-06 03:00", "01-06 05:00"),
        (NIGHT, "2026-01-06 05:00", ""),
        (QuietHours(begins=time(22), ends=time(6), days=frozenset({4})), "2026-01-10 03:00", "01-10 05:00"),
        (QuietHours(begins=time(22), ends=time(6), days=frozenset({5})), "2026-01-10 03:00", ""),
        (NIGHT, "2026-03-29 00:30", "03-29 04:00"),  # the clocks go forward: the night is an hour shorter
        (NIGHT, "2026-10-25 00:30", "10-25 05:00"),  # and back: an hour longer
        (QuietHours(begins=time(2, 30), ends=time(4)), "2026-03-29 01:30", "03-29 02:00"),  # 02:30 does not exist
        (QuietHours(begins=time(1), ends=time(2, 30)), "2026-10-25 01:15", "10-25 01:30"),  # 02:30 comes twice
        (QuietHours(begins=time(2, 30), ends=time(4)), "2026-10-25 00:30", "10-25 03:00"),  # the first one begins
    ],
)
def test_it_is_quiet_by_local_time(hours: QuietHours, now: str, until: str) -> None:
    assert _until(hours, now) == until


def test_hours_that_follow_each_other_are_one() -> None:
    evening = QuietHours(begins=time(18), ends=time(22), days=WORKDAYS)
    until = QuietWeek(hours=(evening, NIGHT), zone=PARIS).until(("gpu",), _at("2026-01-05 18:00"))
    assert until == _at("2026-01-06 05:00")


def test_they_may_be_limited_to_partitions_and_any_of_a_jobs_partitions_counts() -> None:
    hours = QuietHours(begins=time(8), ends=time(18), partitions=frozenset({"debug"}))
    assert _until(hours, "2026-01-05 09:00", ("gpu",)) == ""
    assert _until(hours, "2026-01-05 09:00", ("gpu", "debug")) == "01-05 17:00"


def test_a_whole_day_is_quiet_from_midnight_to_midnight() -> None:
    saturday = QuietHours(begins=time(0), ends=time(0), days=frozenset({5}))
    assert _until(saturday, "2026-01-10 12:00") == "01-10 23:00"


def test_hours_without_end_are_noticed() -> None:
    always = QuietWeek(hours=(QuietHours(begins=time(0), ends=time(0)),), zone=PARIS)
    assert is_always_quiet(always, ("gpu",), _at("2026-01-05 09:00"))
    assert not is_always_quiet(QuietWeek(hours=(NIGHT,), zone=PARIS), ("gpu",), _at("2026-01-05 23:00"))


def test_their_end_is_said_in_the_sites_own_time_too() -> None:
    week = QuietWeek(hours=(NIGHT,), zone=PARIS)
    quiet = quiet_now(week, ("gpu",), _at("2026-01-05 22:00"))
    assert quiet is not None
    assert quiet.words == "quiet hours until 2026-01-06 05:00 UTC (06:00 on 2026-01-06 Europe/Paris)"
    assert quiet_now(week, ("gpu",), _at("2026-01-05 12:00")) is None
    assert week.next_after(("gpu",), _at("2026-01-05 12:00")) == _at("2026-01-05 21:00")
    assert week.next_after(("gpu",), _at("2026-01-05 22:00")) is None


def test_they_have_words() -> None:
    assert DAY.words == "mon-fri 08:00 to 18:00"
    assert NIGHT.words == "every day 22:00 to 06:00"
    odd = QuietHours(begins=time(1), ends=time(2), days=frozenset({0, 1, 5}), partitions=frozenset({"b", "a"}))
    assert odd.words == "mon, tue, sat 01:00 to 02:00 in a, b"


_TIMES = st.builds(time, hour=st.integers(0, 23), minute=st.integers(0, 59))


@given(
    begins=_TIMES,
    ends=_TIMES,
    days=st.frozensets(st.integers(0, 6), min_size=1),
    now=st.datetimes(min_value=datetime(2026, 1, 1), max_value=datetime(2027, 1, 1)),  # noqa: DTZ001 - made aware
)
def test_at_the_end_that_was_told_it_is_not_quiet_and_just_before_it_is(
    begins: time, ends: time, days: frozenset[int], now: datetime
) -> None:
    week = QuietWeek(hours=(QuietHours(begins=begins, ends=ends, days=days),), zone=PARIS)
    moment = now.replace(tzinfo=UTC)
    until = week.until(("gpu",), moment)
    if until is None or is_always_quiet(week, ("gpu",), moment):
        return
    assert moment < until <= moment + timedelta(days=8)
    assert week.until(("gpu",), until) is None
    assert week.until(("gpu",), until - timedelta(seconds=1)) == until
