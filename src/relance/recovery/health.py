"""Health of our own sight, and storms: what goes into a cluster's stream. Pure.

When an agent falls silent, what it would show is unknown: the stage is capped while that lasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain import events as e
from relance.domain.keys import stable_id
from relance.domain.limits import StormLimits
from relance.domain.records import ClusterRecord
from relance.domain.stages import HealthCap, Stage
from relance.domain.verdicts import FleetSign
from relance.domain.views import SchedulerFacts
from relance.policy import detect_storm, storm_has_passed
from relance.recovery.sites import ClusterRules

_RIGHTS = "rights"


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


def health_events(
    record: ClusterRecord, pulse: Pulse, rules: ClusterRules, now: datetime
) -> tuple[e.ClusterEvent, ...]:
    """Losses and returns of the controller and the watcher."""
    found: list[e.ClusterEvent] = []
    controller = (pulse.reported_at or pulse.started_at) + timedelta(seconds=rules.report_lost_s) < now
    found += _turn(record, "controller", f"no report for {rules.report_lost_s:.0f} s", now, lost=controller)
    heard = pulse.watched_at or pulse.started_at
    watcher = pulse.followed > 0 and heard + timedelta(seconds=rules.watcher_lost_s) < now
    found += _turn(record, "watcher", f"nothing from the watcher for {rules.watcher_lost_s:.0f} s", now, lost=watcher)
    found += _rights(record, pulse.facts, now)
    return tuple(found)


def storm_events(
    record: ClusterRecord, signs: tuple[FleetSign, ...], limits: StormLimits, now: datetime
) -> tuple[e.ClusterEvent, ...]:
    """Whether a storm opens, or clears by itself because nothing new of its kind came for a while."""
    storm = record.storm
    if storm is not None and storm.cleared_at is None:
        passed = storm_has_passed(storm, signs, limits, now)
        if passed is None:
            return ()
        return (e.StormCleared(cluster=record.cluster, storm_id=storm.storm_id, by="relance", reason=passed, at=now),)
    recent = tuple(sign for sign in signs if (now - sign.at).total_seconds() <= limits.window_s)
    since = storm.cleared_at if storm else None
    fresh = tuple(sign for sign in recent if since is None or sign.at > since)
    reason = detect_storm(fresh, limits, now)
    if reason is None:
        return ()
    incidents = tuple(sorted(sign.incident_id for sign in fresh))
    return (
        e.StormOpened(
            cluster=record.cluster,
            storm_id=stable_id("storm", record.cluster, *incidents),
            reason=reason,
            incidents=incidents,
            at=now,
        ),
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


def _turn(record: ClusterRecord, source: str, reason: str, now: datetime, *, lost: bool) -> list[e.ClusterEvent]:
    known = source in record.lost_sources
    if lost and not known:
        cap = HealthCap(name=source, stage=Stage.OBSERVE, reason=reason, since=now)
        return [
            e.SourceLost(cluster=record.cluster, source=source, reason=reason, at=now),
            e.HealthCapped(cluster=record.cluster, cap=cap),
        ]
    if known and not lost:
        return [
            e.SourceBack(cluster=record.cluster, source=source, at=now),
            e.HealthRestored(cluster=record.cluster, name=source, partition=None, at=now),
        ]
    return []
