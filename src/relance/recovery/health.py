"""Health of our own sight, and storms: what goes into a cluster's stream. Pure.

When an agent falls silent, what it would show is unknown: the stage is capped while that lasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain import events as e
from relance.domain.findings import Sight
from relance.domain.fleet import Storm
from relance.domain.keys import stable_id
from relance.domain.limits import StormLimits
from relance.domain.observations import SightReport
from relance.domain.records import ClusterRecord
from relance.domain.requests import OURSELVES
from relance.domain.stages import HealthCap, Stage
from relance.domain.verdicts import FleetSign
from relance.domain.views import SchedulerFacts
from relance.policy import StormSeen, detect_storm, storm_has_passed
from relance.recovery.sites import ClusterRules
from relance.recovery.storms import of_sign

_RIGHTS = "rights"
_WAYS = ("connection", "token")
AGENTS = frozenset({"controller", "watcher"})
"""Names under which our own agents are lost."""
RESERVED = AGENTS | {_RIGHTS, *_WAYS}
"""Names of caps that are none of a source's; no source may have one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """When each agent of a cluster was last heard. None: not yet since this server started."""

    started_at: datetime
    reported_at: datetime | None
    watched_at: datetime | None
    followed: int
    """How many attempts the watcher should be following."""
    facts: SchedulerFacts | None = None
    """What the controller said last of the scheduler and of its own rights; None: nothing yet."""
    sights: SightReport | None = None
    """What the watcher said last of its sources; None: nothing yet."""


def health_events(
    record: ClusterRecord, pulse: Pulse, rules: ClusterRules, now: datetime
) -> tuple[e.ClusterEvent, ...]:
    """Losses and returns of the controller and the watcher."""
    found: list[e.ClusterEvent] = []
    controller = (pulse.reported_at or pulse.started_at) + timedelta(seconds=rules.report_lost_s) < now
    found += _turn(record, _capped("controller", f"no report for {rules.report_lost_s:.0f} s", now), lost=controller)
    heard = pulse.watched_at or pulse.started_at
    watcher = pulse.followed > 0 and heard + timedelta(seconds=rules.watcher_lost_s) < now
    silent = f"nothing from the watcher for {rules.watcher_lost_s:.0f} s"
    found += _turn(record, _capped("watcher", silent, now), lost=watcher)
    if pulse.sights is not None and not watcher:  # a watcher that is lost says nothing new of its sources
        found += _sources(record, pulse.sights, rules.source_lost_s, now)
    found += _rights(record, pulse.facts, now)
    found += _ways(record, pulse.facts, now)
    return tuple(found)


def storm_events(
    record: ClusterRecord, signs: tuple[FleetSign, ...], limits: StormLimits, now: datetime
) -> tuple[e.ClusterEvent, ...]:
    """Which storms clear by themselves because nothing new came in their place for a while, and whether one opens.

    What lies in the place of one that is open is held by it already, and opens no other.
    """
    found: list[e.ClusterEvent] = []
    still_open: list[Storm] = []
    for storm in record.open_storms:
        inside = tuple(sign for sign in signs if storm.covers(of_sign(sign)))
        passed = storm_has_passed(storm, inside, limits, now)
        if passed is None:
            still_open.append(storm)
        else:
            found.append(
                e.StormCleared(
                    cluster=record.cluster, storm_id=storm.storm_id, by=OURSELVES, reason=passed, at=now
                )
            )  # fmt: skip
    cleared = [storm for storm in record.storms if storm.cleared_at is not None]
    fresh = tuple(
        sign
        for sign in signs
        if (now - sign.at).total_seconds() <= limits.window_s
        and not any(storm.covers(of_sign(sign)) for storm in still_open)
        and not any(_is_of(storm, sign) for storm in cleared)
    )
    seen = detect_storm(fresh, limits, now) if len(still_open) == len(record.open_storms) else None
    return tuple(found) if seen is None else (*found, _opened(record.cluster, seen, now))


def _is_of(storm: Storm, sign: FleetSign) -> bool:
    """Whether a sign is one of a storm that has cleared since."""
    return storm.cleared_at is not None and sign.at <= storm.cleared_at and storm.covers(of_sign(sign))


def _opened(cluster: str, seen: StormSeen, now: datetime) -> e.StormOpened:
    place = seen.file_system or seen.partition or ""
    return e.StormOpened(
        cluster=cluster,
        storm_id=stable_id("storm", cluster, place, *seen.incidents),
        reason=seen.reason,
        incidents=seen.incidents,
        at=now,
        partition=seen.partition,
        file_system=seen.file_system,
    )


def missing_for_act(facts: SchedulerFacts) -> tuple[str, ...]:
    """What the controller says is missing for acting on its cluster, each in words; empty: nothing."""
    return facts.lacks or (() if facts.may_act else ("the controller's account may not act on other users' jobs",))


def _rights(record: ClusterRecord, facts: SchedulerFacts | None, now: datetime) -> list[e.ClusterEvent]:
    """A missing right caps the stage while it lasts; in `observe` none is needed."""
    if facts is None:
        return []
    settings = (*record.partitions.values(), *([record.setting] if record.setting else ()))
    wanted = any(setting.stage.rank > Stage.OBSERVE.rank for setting in settings)
    reason = "; ".join(missing_for_act(facts)) if wanted else ""
    known = next((cap for cap in record.caps if cap.name == _RIGHTS), None)
    if reason and (known is None or known.reason != reason):
        cap = HealthCap(name=_RIGHTS, stage=Stage.OBSERVE, reason=reason, since=known.since if known else now)
        return [e.HealthCapped(cluster=record.cluster, cap=cap)]
    if known is not None and not reason:
        return [e.HealthRestored(cluster=record.cluster, name=_RIGHTS, partition=None, at=now)]
    return []


def _ways(record: ClusterRecord, facts: SchedulerFacts | None, now: datetime) -> list[e.ClusterEvent]:
    """What is missing between a controller and its scheduler caps the stage while it lasts; what soon will be is told.

    Words that change while it lasts are not told again.
    """
    found: list[e.ClusterEvent] = []
    missing = {each.name: each for each in facts.impairments} if facts is not None else None
    for name in _WAYS if missing is not None else ():
        known = next((cap for cap in record.caps if cap.name == name), None)
        wanted = missing.get(name) if missing is not None else None
        if wanted is not None:
            stage = Stage.ACT if wanted.is_ahead else Stage.OBSERVE
            if known is None or known.stage is not stage:
                cap = HealthCap(name=name, stage=stage, reason=wanted.reason, since=now)
                found.append(e.HealthCapped(cluster=record.cluster, cap=cap))
        elif known is not None:
            found.append(e.HealthRestored(cluster=record.cluster, name=name, partition=None, at=now))
    return found


def _sources(record: ClusterRecord, sights: SightReport, lost_after_s: float, now: datetime) -> list[e.ClusterEvent]:
    """Losses and returns of sources of logs and metrics; one that the watcher has no longer is not lost.

    Without logs nobody knows why an attempt ended, so nothing is acted on. Without metrics that is known as before,
    but not what the GPUs of a silent attempt do: nothing that runs is ended.
    """
    found: list[e.ClusterEvent] = []
    for entries, stage in ((sights.logs, Stage.OBSERVE), (sights.signals, Stage.ACT)):
        for entry in entries:
            late_s = (sights.as_of - entry.up_to).total_seconds() if entry.up_to is not None else None
            lost = entry.sight in (Sight.MISSING, Sight.REFUSED) and (late_s is None or late_s > lost_after_s)
            lost = lost or (late_s is not None and late_s > lost_after_s)
            since = f", last read to its end {entry.up_to:%Y-%m-%d %H:%M:%S UTC}" if entry.up_to is not None else ""
            reason = f"{entry.note or 'it does not deliver'}{since}"
            spares = stage is Stage.ACT
            cap = HealthCap(name=entry.source, stage=stage, reason=reason, since=now, spares_running=spares)
            found += _turn(record, cap, lost=lost)
    known = {entry.source for entry in (*sights.logs, *sights.signals)}
    for source in record.lost_sources.keys() - known - AGENTS:
        found += _turn(record, _capped(source, "", now), lost=False)
    return found


def _capped(source: str, reason: str, now: datetime) -> HealthCap:
    return HealthCap(name=source, stage=Stage.OBSERVE, reason=reason, since=now)


def _turn(record: ClusterRecord, cap: HealthCap, *, lost: bool) -> list[e.ClusterEvent]:
    known = cap.name in record.lost_sources
    if lost and not known:
        return [
            e.SourceLost(cluster=record.cluster, source=cap.name, reason=cap.reason, at=cap.since),
            e.HealthCapped(cluster=record.cluster, cap=cap),
        ]
    if known and not lost:
        return [
            e.SourceBack(cluster=record.cluster, source=cap.name, at=cap.since),
            e.HealthRestored(cluster=record.cluster, name=cap.name, partition=None, at=cap.since),
        ]
    return []
