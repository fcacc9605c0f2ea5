"""Permits: token buckets over many jobs, computed from the permits that were taken."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from relance.domain.advice import PermitWish


def bucket_free_at(taken: Iterable[datetime], wish: PermitWish, now: datetime) -> datetime | None:
    """When the bucket gives the next permit; None: now.

    `taken` holds when permits were taken, in any order. In every window at most `burst` are given, and one more per
    `refill_s` of its length. A permit that lies further ahead of `now` than the bucket takes to fill was stamped by a
    clock that has stepped back since: it is not counted, or the bucket would stay closed until that time comes again.
    Raises ValueError for a wish that can never be fulfilled.
    """
    empty_until = None
    for at in counted(taken, wish, now):
        empty_until = _full_again_at(empty_until, at, wish)
    if empty_until is None:
        return None
    free_at = empty_until - (wish.burst - 1) * timedelta(seconds=wish.refill_s)
    return free_at if free_at > now else None


def counted(taken: Iterable[datetime], wish: PermitWish, now: datetime) -> tuple[datetime, ...]:
    """The permits that still count, earliest first: those taken since the bucket was last full."""
    if wish.burst < 1 or wish.refill_s < 0:
        message = f"a bucket needs a burst of at least 1 and a refill time of at least 0 s: {wish}"
        raise ValueError(message)
    ahead = now + wish.burst * timedelta(seconds=wish.refill_s)
    counting: list[datetime] = []
    full_at = None
    for at in sorted(taken):
        if at > ahead:
            break
        if full_at is not None and full_at <= at:
            counting.clear()
        counting.append(at)
        full_at = _full_again_at(full_at, at, wish)
    return tuple(counting) if full_at is not None and full_at > now else ()


def _full_again_at(full_at: datetime | None, taken_at: datetime, wish: PermitWish) -> datetime:
    begin = taken_at if full_at is None or full_at < taken_at else full_at
    return begin + timedelta(seconds=wish.refill_s)
