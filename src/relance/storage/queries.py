"""The questions of the port: jobs, incidents, nodes, clusters and timers, found by indexed columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Select, bindparam, func, or_, select

from relance.domain.incidents import Incident
from relance.domain.records import ClusterRecord, JobRecord, NodeRecord, Record
from relance.domain.streams import Stream
from relance.ports.histories import IncidentRow
from relance.storage.columns import column_key, from_payload, from_us, to_us
from relance.storage.snapshots import RecordCache, records_of
from relance.storage.tables import AnyRow, incident_names, incidents, streams

_STREAM: Final = select(streams.c.id, streams.c.version)
_INCIDENT: Final = select(incidents.c.id_key, incidents.c.stream_id, streams.c.version).join(
    streams, streams.c.id == incidents.c.stream_id
)
_DUE: Final = (
    select(streams.c.name)
    .where(streams.c.wake_at_us <= bindparam("now"))
    .order_by(streams.c.wake_at_us, streams.c.id)
    .limit(bindparam("most"))
)
_NEXT_DUE: Final = select(func.min(streams.c.wake_at_us))
_AFTER_ASCII: Final = "\x7f"
"""Sorts behind every character of a plain key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFilter:
    """Which incidents are wanted; `since` is the earliest opening."""

    open_only: bool = False
    cluster: str | None = None
    since: datetime | None = None
    limit: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs are wanted; `changed_since` is the earliest newest event."""

    cluster: str | None = None
    limit: int = 1000
    changed_since: datetime | None = None


def due(connection: Connection, now: datetime, limit: int) -> tuple[Stream, ...]:
    """Streams whose timer has come, earliest first."""
    names = connection.scalars(_DUE, {"now": to_us(now), "most": limit})
    return tuple(Stream(name=from_payload(str, name)) for name in names)


def next_due(connection: Connection) -> datetime | None:
    """The earliest timer."""
    at_us = connection.scalars(_NEXT_DUE).one()
    return None if at_us is None else from_us(at_us)


def jobs(connection: Connection, kept: RecordCache, wanted: JobFilter) -> tuple[JobRecord, ...]:
    """Jobs, most recently changed first."""
    query = _of_kind("job", wanted.cluster).order_by(streams.c.position.desc()).limit(wanted.limit)
    if wanted.changed_since is not None:
        query = query.where(streams.c.changed_at_us >= to_us(wanted.changed_since))
    found = _records(connection, kept, query)
    return tuple(record for record in found if isinstance(record, JobRecord))


def find_jobs(connection: Connection, kept: RecordCache, text: str) -> tuple[JobRecord, ...]:
    """Jobs whose raw id, key or name is `text`, most recently changed first."""
    key = column_key(text)
    means = or_(
        streams.c.raw_id_key == key,
        streams.c.name_key == key,
        streams.c.stream_key == column_key(f"job/{text}"),
    )
    found = _records(connection, kept, _of_kind("job", None).where(means).order_by(streams.c.position.desc()))
    return tuple(record for record in found if isinstance(record, JobRecord))


def nodes(connection: Connection, kept: RecordCache, cluster: str | None) -> tuple[NodeRecord, ...]:
    """Nodes that have a history, by name."""
    found = _records(connection, kept, _of_kind("node", cluster))
    named = (record for record in found if isinstance(record, NodeRecord))
    return tuple(sorted(named, key=lambda record: (record.cluster, record.node)))


def clusters(connection: Connection, kept: RecordCache) -> tuple[ClusterRecord, ...]:
    """Clusters that have a history, by name."""
    found = _records(connection, kept, _of_kind("cluster", None))
    named = (record for record in found if isinstance(record, ClusterRecord))
    return tuple(sorted(named, key=lambda record: record.cluster))


def list_incidents(connection: Connection, kept: RecordCache, wanted: IncidentFilter) -> tuple[IncidentRow, ...]:
    """Incidents, newest first."""
    query = _INCIDENT.order_by(incidents.c.opened_at_us.desc(), incidents.c.id_key).limit(wanted.limit)
    if wanted.open_only:
        query = query.where(incidents.c.is_open == 1)
    if wanted.cluster is not None:
        query = query.where(incidents.c.cluster_key == column_key(wanted.cluster))
    if wanted.since is not None:
        query = query.where(incidents.c.opened_at_us >= to_us(wanted.since))
    return _incident_rows(connection, kept, connection.execute(query).all())


def find_incident(connection: Connection, kept: RecordCache, text: str) -> IncidentRow | None:
    """The incident with this id or a unique beginning of it, or the one that has this advice or action."""
    key = column_key(text)
    named = select(incident_names.c.id_key).where(incident_names.c.name_key == key).scalar_subquery()
    asked = or_(incidents.c.id_key == key, incidents.c.id_key == named)
    found: Sequence[AnyRow] = connection.execute(_INCIDENT.where(asked)).all()
    if not found and text and key == text:
        found = _beginning_with(connection, text)
    return next(iter(_incident_rows(connection, kept, found)), None)


def _beginning_with(connection: Connection, text: str) -> Sequence[AnyRow]:
    between = incidents.c.id_key.between(text, text + _AFTER_ASCII)
    found = connection.execute(_INCIDENT.where(between).limit(2)).all()
    return found if len(found) == 1 else []


def _of_kind(kind: str, cluster: str | None) -> Select[Any]:
    """Streams of a kind that have events: a row without any holds a timer alone."""
    query = _STREAM.where(streams.c.kind == kind, streams.c.position > 0)
    return query if cluster is None else query.where(streams.c.cluster_key == column_key(cluster))


def _records(connection: Connection, kept: RecordCache, query: Select[Any]) -> list[Record]:
    versions = {row.id: row.version for row in connection.execute(query)}
    found = records_of(connection, versions, kept)
    return [found[stream_id][1] for stream_id in versions if stream_id in found]


def _incident_rows(connection: Connection, kept: RecordCache, rows: Sequence[AnyRow]) -> tuple[IncidentRow, ...]:
    found = records_of(connection, {row.stream_id: row.version for row in rows}, kept)
    pairs = [(found[row.stream_id][1], row.id_key) for row in rows if row.stream_id in found]
    made = [_incident_row(record, id_key) for record, id_key in pairs if isinstance(record, JobRecord)]
    return tuple(row for row in made if row is not None)


def _incident_row(record: JobRecord, id_key: str) -> IncidentRow | None:
    incident = _incident(record, id_key)
    if incident is None:
        return None
    return IncidentRow(
        job=record.job,
        name=record.name,
        user=record.user,
        partition=record.partition,
        workflow=record.workflow,
        incident=incident,
        work_dir=record.work_dir,
    )


def _incident(record: JobRecord, id_key: str) -> Incident | None:
    return next((item for item in record.incidents if column_key(item.id) == id_key), None)
