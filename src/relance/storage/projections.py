"""Rows that find incidents: written with the events, and written anew from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, bindparam, delete, select

from relance.domain.events import ActionStarted, AdviceIssued, Event
from relance.domain.incidents import Incident
from relance.domain.records import JobRecord, Record, fold
from relance.domain.streams import Stream
from relance.storage import snapshots
from relance.storage.columns import column_key, from_payload, to_us
from relance.storage.recorded import events_of
from relance.storage.tables import incident_names, incidents, streams
from relance.storage.upserts import put

_NEXT_STREAMS: Final = (
    select(streams.c.id, streams.c.name)
    .where(streams.c.id > bindparam("after"))
    .order_by(streams.c.id)
    .limit(bindparam("most"))
    .with_for_update()
)


def write_incidents(connection: Connection, stream_id: int, before: Record | None, after: Record) -> None:
    """Bring the rows of a job's incidents from one record to another (None: all of them)."""
    if not isinstance(after, JobRecord):
        return
    known = {item.id: item for item in before.incidents} if isinstance(before, JobRecord) else {}
    changed = [item for item in after.incidents if known.get(item.id) is not item]
    put(connection, incidents, *[_row(stream_id, item) for item in changed])


def write_names(connection: Connection, stream_id: int, new: Iterable[Event]) -> None:
    """Note the ids of advice and actions among new events."""
    rows = [
        {"name_key": column_key(name), "id_key": column_key(incident_id), "stream_id": stream_id}
        for name, incident_id in (pair for event in new for pair in _names(event))
    ]
    put(connection, incident_names, *rows)


def rebuild_some(connection: Connection, after: int, most: int) -> tuple[int | None, int]:
    """Write the projections of the next streams anew: where to go on (None: done), and how many had events."""
    rows = connection.execute(_NEXT_STREAMS, {"after": after, "most": most}).all()
    rebuilt = [_rebuild(connection, row.id, Stream(name=from_payload(str, row.name))) for row in rows]
    return (rows[-1].id if rows else None), sum(rebuilt)


def _rebuild(connection: Connection, stream_id: int, stream: Stream) -> bool:
    """Whether the stream has events."""
    stored = events_of(connection, stream_id, stream)
    record = fold(stream.name, (item.event for item in stored))
    values = snapshots.record_values(record)
    if stored:
        newest = stored[-1]
        values |= {
            "version": newest.version,
            "position": newest.position,
            "changed_at_us": to_us(newest.recorded_at),
        }
    snapshots.write(connection, stream_id, values)
    connection.execute(delete(incidents).where(incidents.c.stream_id == stream_id))
    connection.execute(delete(incident_names).where(incident_names.c.stream_id == stream_id))
    write_incidents(connection, stream_id, None, record)
    write_names(connection, stream_id, (item.event for item in stored))
    return bool(stored)


def _row(stream_id: int, incident: Incident) -> dict[str, object]:
    return {
        "id_key": column_key(incident.id),
        "stream_id": stream_id,
        "cluster_key": column_key(incident.attempt.job.cluster),
        "is_open": int(incident.is_open),
        "opened_at_us": to_us(incident.opened_at),
        "ended_at_us": to_us(incident.ended_at) if incident.ended_at else None,
    }


def _names(event: Event) -> tuple[tuple[str, str], ...]:
    """Pairs of a name and the incident that it leads to."""
    match event:
        case AdviceIssued():
            return ((event.advice.id, event.incident_id),)
        case ActionStarted():
            return ((event.action_id, event.incident_id),)
        case _:
            return ()
