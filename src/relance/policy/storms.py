"""Storms: many failures with one shared cause. Restarts then wait, and ended jobs are parked (design 8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain.faults import NOBODYS_FAULT, FaultDomain
from relance.domain.fleet import Storm, place_words
from relance.domain.limits import StormLimits
from relance.domain.verdicts import FleetSign

RENEW_BEFORE = timedelta(minutes=5)
"""A parked job is given a later start this long before the one that it has."""
_BESIDE = 1
"""A storm is that of one place although so many owners failed alike elsewhere: that may be chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StormSeen:
    """A storm that should open: why, where (neither: on the whole cluster), and with which incidents."""

    reason: str
    incidents: tuple[str, ...]
    partition: str | None = None
    file_system: str | None = None


def detect_storm(recent: tuple[FleetSign, ...], limits: StormLimits, now: datetime) -> StormSeen | None:
    """The storm that should open, or None.

    It opens when within the window enough owners have the same domain other than the application's, or enough
    workflows have any. The tasks of an array share a workflow, so an array counts once; so does a user's sweep. It is
    the storm of the narrowest place that explains it: a file system, a partition, else the cluster.
    """
    signs = _within(recent, now, limits.window_s)
    whole = _reason(signs, limits)
    if whole is None:
        return None
    place = _file_system(signs, limits) or _partition(signs, limits) or _Place(signs=signs, reason=whole)
    where = place_words(place.partition, place.file_system)
    return StormSeen(
        reason=f"{place.reason} {where}",
        incidents=tuple(sorted(sign.incident_id for sign in place.signs)),
        partition=place.partition,
        file_system=place.file_system,
    )


def storm_has_passed(storm: Storm, recent: tuple[FleetSign, ...], limits: StormLimits, now: datetime) -> str | None:
    """Why an open storm may clear by itself, or None: nothing new came in its place for `clear_after_s`."""
    quiet_since = max([storm.opened_at, *(sign.at for sign in recent if sign.domain not in NOBODYS_FAULT)])
    if storm.cleared_at is None and (now - quiet_since).total_seconds() >= limits.clear_after_s:
        return f"nothing new came for {limits.clear_after_s:g} s"
    return None


def park_until(parked_since: datetime, limits: StormLimits, now: datetime) -> datetime | None:
    """Until when an ended job is parked, or anew; None when it has been parked for the longest time allowed."""
    last = parked_since + timedelta(seconds=limits.park_max_s)
    return min(now + timedelta(seconds=limits.park_s), last) if now < last else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Signs in one place, and why they are a storm."""

    signs: tuple[FleetSign, ...]
    reason: str
    partition: str | None = None
    file_system: str | None = None


def _within(recent: Iterable[FleetSign], now: datetime, window_s: float) -> tuple[FleetSign, ...]:
    oldest = now - timedelta(seconds=window_s)
    return tuple(sign for sign in recent if sign.at >= oldest and sign.domain not in NOBODYS_FAULT)


def _reason(signs: tuple[FleetSign, ...], limits: StormLimits) -> str | None:
    """Why these are a storm; None: they are none."""
    domain, names = _widest(signs)
    if domain is not None and len(names) >= limits.owners:
        return f"jobs of {len(names)} owners failed within {limits.window_s:g} s with the domain {domain.value}"
    workflows = {(sign.owner, sign.workflow) for sign in signs}
    if len(workflows) >= limits.workflows:
        return f"{len(workflows)} workflows failed within {limits.window_s:g} s"
    return None


def _widest(signs: tuple[FleetSign, ...]) -> tuple[FaultDomain | None, frozenset[str]]:
    """The domain that most owners share, the application's apart, and who they are."""
    owners: dict[FaultDomain, set[str]] = defaultdict(set)
    for sign in signs:
        if sign.domain is not FaultDomain.APPLICATION:
            owners[sign.domain].add(sign.owner)
    if not owners:
        return None, frozenset()
    domain, names = max(owners.items(), key=lambda item: (len(item[1]), item[0].value))
    return domain, frozenset(names)


def _file_system(signs: tuple[FleetSign, ...], limits: StormLimits) -> _Place | None:
    """The one file system that the jobs whose storage failed share, if there is one."""
    failed = tuple(sign for sign in signs if sign.domain is FaultDomain.STORAGE)
    named: dict[str, tuple[int, int]] = {}
    for sign in failed:
        for number, name in enumerate(sign.file_systems):
            first, count = named.get(name, (0, 0))
            named[name] = (first + (number == 0), count + 1)
    for name in sorted(named, key=lambda item: (named[item], item), reverse=True):
        inside = tuple(sign for sign in failed if name in sign.file_systems)
        reason = _reason(inside, limits)
        if reason is not None and _is_all(inside, failed):
            return _Place(signs=inside, reason=reason, file_system=name)
    return None


def _partition(signs: tuple[FleetSign, ...], limits: StormLimits) -> _Place | None:
    """The one partition in which the jobs that failed alike are, if there is one."""
    for name in sorted({part for sign in signs for part in sign.partitions}):
        inside = tuple(sign for sign in signs if name in sign.partitions)
        reason = _reason(inside, limits)
        if reason is None:
            continue
        domain, names = _widest(inside)
        alike = tuple(sign for sign in signs if len(names) < limits.owners or sign.domain is domain)
        if _is_all(inside, alike):
            return _Place(signs=inside, reason=reason, partition=name)
    return None


def _is_all(inside: tuple[FleetSign, ...], alike: tuple[FleetSign, ...]) -> bool:
    """Whether what failed alike elsewhere may be chance."""
    known = {sign.incident_id for sign in inside}
    return len({sign.owner for sign in alike if sign.incident_id not in known}) <= _BESIDE
