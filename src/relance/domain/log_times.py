"""The time that a line of a log bears, in the ways that launchers, frameworks and kernels write it.

A time without offset is read in the zone given, UTC unless the site says otherwise. One without a year (glog's
`E0611 04:33:52`, c10d's `[E611 04:33:52`, syslog's `Jun 11 04:33:52`) gets the year that puts it closest before the
reading. The kernel's `[12345.678901]` counts from boot and is no time of day.
"""

from __future__ import annotations

import re
from datetime import MAXYEAR, UTC, datetime, timedelta, timezone, tzinfo

_HEAD = 120
"""How far into a line a time still is the line's own, in bytes."""
_ANYWHERE = 2048
_YEARS = range(1970, 2100)
"""A clock that was never set begins in 1970; what is later stands for "never" (`9999-12-31`)."""
_AHEAD = timedelta(days=1)
"""A time further ahead of the reading than any zone explains is no time of this line."""

_DATED = re.compile(
    rb"(?<![\w/.-])(\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?"
)
_MARKED = re.compile(
    rb"(?: AT |Time: |time +: )(\d{4})-(\d\d)-(\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?"
)
_GLOG = re.compile(rb"(?:^|[\s\[:>])[IWEF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_SYSLOG = re.compile(
    rb"(?:^|[\s\[>])(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(\d{1,2})(?: (\d{4}))? (\d\d):(\d\d):(\d\d)"
    rb"(?:\.(\d{1,9}))?(?: (\d{4})\b)?"
)
_MONTHS = {name: at for at, name in enumerate(b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}


def read_time(line: bytes, *, read_at: datetime, zone: tzinfo = UTC) -> datetime | None:
    """The time that a line bears, in UTC; None where it bears none that can be its own."""
    if found := dated(line, zone=zone):
        return found if found <= read_at + _AHEAD else None
    head = line[:_HEAD]
    if match := _GLOG.search(head):
        month, day, hour, minute, second, fraction = match.groups()
        return _without_year((int(month), int(day), int(hour), int(minute), int(second)), fraction, read_at, zone)
    if match := _SYSLOG.search(head):
        name, day, before, hour, minute, second, fraction, after = match.groups()
        year = before or after
        parts = (_MONTHS[name], int(day), int(hour), int(minute), int(second))
        if year is None:
            return _without_year(parts, fraction, read_at, zone)
        found = _moment((int(year), *parts), fraction, zone)
        return found if found and found <= read_at + _AHEAD else None
    return None


def dated(line: bytes, *, zone: tzinfo = UTC) -> datetime | None:
    """The time with a full date that a line bears, in UTC, whenever that was."""
    match = _DATED.search(line[:_HEAD]) or _MARKED.search(line[:_ANYWHERE])
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    parts = (int(year), int(month), int(day), int(hour), int(minute), int(second))
    return _moment(parts, fraction, _zone(offset) if offset else zone)


def _moment(parts: tuple[int, int, int, int, int, int], fraction: bytes | None, zone: tzinfo) -> datetime | None:
    year, month, day, hour, minute, second = parts
    if year not in _YEARS:
        return None
    microsecond = int(fraction[:6].ljust(6, b"0")) if fraction else 0
    if year >= MAXYEAR:
        return None  # Some write the last year for "never", and nothing can be added to it.
    try:
        return datetime(year, month, day, hour, minute, second, microsecond, zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _without_year(
    parts: tuple[int, int, int, int, int], fraction: bytes | None, read_at: datetime, zone: tzinfo
) -> datetime | None:
    for year in (read_at.year + 1, read_at.year, read_at.year - 1):
        found = _moment((year, *parts), fraction, zone)
        if found is not None and found <= read_at + _AHEAD:
            return found
    return None


def _zone(offset: bytes) -> tzinfo:
    if offset == b"Z":
        return UTC
    minutes = int(offset[1:3]) * 60 + int(offset[-2:])
    return timezone(timedelta(minutes=-minutes if offset[:1] == b"-" else minutes))
