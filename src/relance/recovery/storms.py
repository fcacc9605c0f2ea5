"""Storms as jobs meet them: which one concerns a job, who shares it, and who goes first when it has cleared. Pure.

After a storm one canary goes first, to its first step; the others follow slowly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from relance.domain.advice import ActionKind
from relance.domain.events import IncidentEnd
from relance.domain.faults import NOBODYS_FAULT, FaultDomain
from relance.domain.file_systems import file_system_of, file_systems_named
from relance.domain.fleet import Storm, Whereabouts
from relance.domain.incidents import Action, Incident
from relance.domain.limits import StormLimits
from relance.domain.records import JobRecord
from relance.domain.trials import is_trial
from relance.domain.verdicts import FleetSign, Verdict
from relance.domain.views import JobView
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


def file_systems_of(verdict: Verdict | None, paths: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """The file systems of a failure: those that the evidence of a storage fault names, then the job's own."""
    is_of_storage = verdict is not None and verdict.domain is FaultDomain.STORAGE
    hits = verdict.evidence if verdict is not None and is_of_storage else ()
    named = file_systems_named((hit.excerpt for hit in hits if hit.domain is FaultDomain.STORAGE), known)
    own = (file_system_of(path, known) for path in paths)
    return tuple(dict.fromkeys(name for name in (*named, *own) if name))


def whereabouts(
    record: JobRecord, view: JobView | None, verdict: Verdict | None, known: Sequence[str] = ()
) -> Whereabouts:
    """Where a job lies, as the scheduler shows it and its own evidence says."""
    partition = view.partition if view is not None else record.partition
    paths = (record.work_dir, *(view.log_paths if view is not None else ()))
    return Whereabouts(
        partitions=frozenset(part for part in partition.split(",") if part),
        file_systems=frozenset(file_systems_of(verdict, paths, known)),
    )


def where_it_was(row: IncidentRow, known: Sequence[str] = ()) -> Whereabouts:
    """Where the job of an incident lies, as far as the history knows."""
    return Whereabouts(
        partitions=frozenset(part for part in row.partition.split(",") if part),
        file_systems=frozenset(file_systems_of(row.incident.verdict, (row.work_dir,), known)),
    )


def of_sign(sign: FleetSign) -> Whereabouts:
    """Where a disturbance was."""
    return Whereabouts(partitions=frozenset(sign.partitions), file_systems=frozenset(sign.file_systems))


def storm_for(storms: Iterable[Storm], where: Whereabouts) -> Storm | None:
    """The storm that concerns a job: the oldest that is open, else the newest that has cleared; None: none does."""
    concerning = [storm for storm in storms if storm.covers(where)]
    for storm in concerning:
        if storm.is_open:
            return storm
    return max(concerning, key=lambda storm: storm.cleared_at or storm.opened_at, default=None)


def members(
    storm: Storm, rows: Iterable[IncidentRow], limits: StormLimits, known: Sequence[str] = ()
) -> tuple[IncidentRow, ...]:
    """The incidents that share a storm: those that opened it, that it holds, and that began in its place meanwhile."""
    since = storm.opened_at - timedelta(seconds=limits.window_s)
    return tuple(row for row in rows if _shares(storm, row, since, known))


def _shares(storm: Storm, row: IncidentRow, since: datetime, known: Sequence[str]) -> bool:
    incident = row.incident
    if incident.id in storm.incidents or (incident.advice is not None and incident.advice.storm == storm.storm_id):
        return True
    meanwhile = since <= incident.opened_at and (storm.cleared_at is None or incident.opened_at <= storm.cleared_at)
    faulty = incident.verdict is None or incident.verdict.domain not in NOBODYS_FAULT
    return meanwhile and faulty and not is_trial(row.name) and storm.covers(where_it_was(row, known))


def with_canary(storm: Storm, rows: Iterable[IncidentRow], now: datetime, known: Sequence[str] = ()) -> Storm:
    """The storm with the attempt that was let through first after it cleared, and whether that one has stepped.

    A canary that came to nothing gives its place to the next, after a pause. The history tells it all; nothing is
    stored for it.
    """
    let_go = sorted(
        (
            (row.incident.action.started_at, row.incident)
            for row in rows
            if row.incident.action is not None
            and _lets_go(row.incident.action, storm)
            and storm.covers(where_it_was(row, known))
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
