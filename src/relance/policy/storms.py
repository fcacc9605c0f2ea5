"""Storms: many failures with one shared cause. Restarts then wait, and ended jobs are parked (design 8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from relance.domain.faults import FaultDomain
from relance.domain.fleet import Storm
from relance.domain.limits import StormLimits
from relance.domain.verdicts import FleetSign

RENEW_BEFORE = timedelta(minutes=5)
"""A parked job is given a later start this long before the one that it has."""
_NOBODYS_FAULT = frozenset({FaultDomain.NONE, FaultDomain.USER, FaultDomain.SCHEDULER})
"""A preemption wave or a cancelled sweep is somebody's decision, not a fault that a restart could run into."""


def detect_storm(recent: tuple[FleetSign, ...], limits: StormLimits, now: datetime) -> str | None:
    """Why a storm should open, or None.

    It opens when within the window enough owners have the same domain other than the application's, or enough
    workflows have any. The tasks of an array share a workflow, so an array counts once; so does a user's sweep.
    """
    signs = _within(recent, now, limits.window_s)
    owners: dict[FaultDomain, set[str]] = defaultdict(set)
    for sign in signs:
        if sign.domain is not FaultDomain.APPLICATION:
            owners[sign.domain].add(sign.owner)
    widest = max(owners.items(), key=lambda item: (len(item[1]), item[0].value), default=None)
    if widest is not None and len(widest[1]) >= limits.owners:
        domain, names = widest
        return f"jobs of {len(names)} owners failed within {limits.window_s:g} s with the domain {domain.value}"
    workflows = {(sign.owner, sign.workflow) for sign in signs}
    if len(workflows) >= limits.workflows:
        return f"{len(workflows)} workflows failed within {limits.window_s:g} s"
    return None


def storm_has_passed(storm: Storm, recent: tuple[FleetSign, ...], limits: StormLimits, now: datetime) -> str | None:
    """Why an open storm may clear by itself, or None: nothing new came for `clear_after_s`."""
    quiet_since = max([storm.opened_at, *(sign.at for sign in recent if sign.domain not in _NOBODYS_FAULT)])
    if storm.cleared_at is None and (now - quiet_since).total_seconds() >= limits.clear_after_s:
        return f"nothing new came for {limits.clear_after_s:g} s"
    return None


def park_until(parked_since: datetime, limits: StormLimits, now: datetime) -> datetime | None:
    """Until when an ended job is parked, or anew; None when it has been parked for the longest time allowed."""
    last = parked_since + timedelta(seconds=limits.park_max_s)
    return min(now + timedelta(seconds=limits.park_s), last) if now < last else None


def _within(recent: Iterable[FleetSign], now: datetime, window_s: float) -> tuple[FleetSign, ...]:
    oldest = now - timedelta(seconds=window_s)
    return tuple(sign for sign in recent if sign.at >= oldest and sign.domain not in _NOBODYS_FAULT)
