"""After a storm: one canary goes first, to its first step; the others follow slowly. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from relance.domain.advice import ActionKind
from relance.domain.events import IncidentEnd
from relance.domain.fleet import Storm
from relance.domain.incidents import Action, Incident
from relance.domain.limits import StormLimits
from relance.ports.histories import IncidentRow

_PAUSE = timedelta(seconds=60)
"""From the start of a canary that came to nothing to the next one: the cause lasts, as a rule for some minutes, and the
canaries of four owners within two minutes would be a storm of their own (seen)."""
_PROVED = frozenset({IncidentEnd.RECOVERED, IncidentEnd.RUNNING_UNPROVEN, IncidentEnd.JOB_ENDED})


def is_after_storm(storm: Storm | None, limits: StormLimits, now: datetime) -> bool:
    """Whether a storm cleared so short a while ago that restarts are still metered more slowly."""
    if storm is None or storm.cleared_at is None:
        return False
    return now - storm.cleared_at < timedelta(seconds=limits.after_storm_s)


def with_canary(storm: Storm, rows: tuple[IncidentRow, ...], now: datetime) -> Storm:
    """The storm with the attempt that was let through first after it cleared, and whether that one has stepped.

    A canary that came to nothing gives its place to the next, after a pause. The history tells it all; nothing is
    stored for it.
    """
    let_go = sorted(
        (
            (row.incident.action.started_at, row.incident)
            for row in rows
            if row.incident.action is not None and _lets_go(row.incident.action, storm)
        ),
        key=lambda item: (item[0], item[1].id),
    )
    canary: str | None = None
    for started_at, incident in let_go:
        if _has_stepped(incident):
            return replace(storm, canary=str(incident.attempt), canary_stepped=True)
        if canary is None and (incident.is_open or now - started_at < _PAUSE):
            canary = str(incident.attempt)
    return replace(storm, canary=canary, canary_stepped=False)


def _lets_go(action: Action, storm: Storm) -> bool:
    """Whether an action started a job after the storm had cleared."""
    starts = action.kind is ActionKind.RESTART or (action.kind is ActionKind.CONSTRAIN and not action.parks)
    return starts and storm.cleared_at is not None and action.started_at >= storm.cleared_at


def _has_stepped(incident: Incident) -> bool:
    return incident.resumed_step is not None or incident.end in _PROVED
