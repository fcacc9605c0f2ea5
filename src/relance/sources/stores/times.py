"""Times as log stores have them: nanoseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

NS_PER_S: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(at_ns: int) -> datetime:
    """Nanoseconds since 1970 as a time, cut to microseconds."""
    return _EPOCH + timedelta(microseconds=at_ns // 1000)


def ns_of(at: datetime) -> int:
    """A time in nanoseconds since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000


def span_ns(seconds: float) -> int:
    """So many seconds in nanoseconds."""
    return int(seconds * NS_PER_S)
