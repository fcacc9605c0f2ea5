"""Events as rows: stored under a position each, read back in order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, select, text, update

from relance.domain.encoding import EncodingError
from relance.domain.events import EVENT_TYPES, SCHEMA_VERSION, Event
from relance.domain.streams import Recorded, Stream
from relance.ports.histories import StorageUnusableError
from relance.storage.caches import VersionedCache
from relance.storage.columns import column_key, from_payload, from_us, to_payload, to_us
from relance.storage.tables import AnyRow, events, head, streams

StoryCache = VersionedCache[tuple[Recorded, ...]]

_COLUMNS: Final = (events.c.position, events.c.version, events.c.type, events.c.recorded_at_us, events.c.payload)
_OF_STREAM: Final = (
    select(*_COLUMNS)
    .where(events.c.stream_id == bindparam("stream"), events.c.version > bindparam("after"))
    .order_by(events.c.version)
)
_STREAM: Final = select(streams.c.id, streams.c.version).where(streams.c.stream_key == bindparam("key"))
_BEYOND: Final = (
    select(*_COLUMNS, streams.c.name)
    .join(streams, streams.c.id == events.c.stream_id)
    .where(events.c.position > bindparam("after"))
    .order_by(events.c.position)
    .limit(bindparam("most"))
)
_HEAD: Final = select(head.c.position).where(head.c.id == 1)
_ADVANCE: Final = update(head).where(head.c.id == 1).values(position=head.c.position + bindparam("count"))
_ADVANCE_AND_TELL: Final = text("UPDATE head SET position = LAST_INSERT_ID(position + :count) WHERE id = 1")
"""MySQL hands the new value back with the answer to the update: no second round trip while others wait for the row."""
_INSERT: Final = insert(events)


def newest_position(connection: Connection) -> int:
    """The newest position; 0 when nothing was ever stored."""
    position: int = connection.scalars(_HEAD).one()
    return position


def advance_head(connection: Connection, count: int) -> int:
    """Take the next `count` positions and give the last of them.

    From here to the commit no other transaction can take a position, so positions have no gaps and follow the order of
    commits: a reader that sees one sees all before it. Hence this comes as late in a transaction as it can.
    """
    if connection.dialect.name == "sqlite":
        connection.execute(_ADVANCE, {"count": count})
        return newest_position(connection)
    return int(connection.execute(_ADVANCE_AND_TELL, {"count": count}).lastrowid)


def event_rows(stream_id: int, new: Sequence[tuple[int, Event]], now: datetime) -> list[dict[str, Any]]:
    """The rows of new events, given with their versions, but for the positions."""
    return [
        {
            "stream_id": stream_id,
            "version": version,
            "type": type(event).__name__,
            "schema_version": SCHEMA_VERSION,
            "recorded_at_us": to_us(now),
            "payload": to_payload(event),
        }
        for version, event in new
    ]


def insert_events(connection: Connection, rows: list[dict[str, Any]], last_position: int) -> None:
    """Store the rows under the positions that end with `last_position`."""
    first = last_position - len(rows) + 1
    connection.execute(_INSERT, [{**row, "position": position} for position, row in enumerate(rows, start=first)])


def events_of(connection: Connection, stream_id: int, stream: Stream, after_version: int = 0) -> tuple[Recorded, ...]:
    """The events of a stream with a version beyond `after_version`, in order."""
    rows = connection.execute(_OF_STREAM, {"stream": stream_id, "after": after_version})
    return tuple(_recorded(row, stream) for row in rows)


def read_stream(connection: Connection, stream: Stream, after_version: int, kept: StoryCache) -> tuple[Recorded, ...]:
    """The same for a stream given by its name; none for one that does not exist."""
    row = connection.execute(_STREAM, {"key": column_key(stream.name)}).one_or_none()
    if row is None:
        return ()
    story = kept.get(row.id, row.version)
    if story is None:
        if after_version > 0:
            return events_of(connection, row.id, stream, after_version)
        rows = connection.execute(_OF_STREAM, {"stream": row.id, "after": 0}).all()
        story = tuple(_recorded(stored, stream) for stored in rows)
        if story:
            kept.put(row.id, story[-1].version, story, sum(len(stored.payload) for stored in rows))
    return tuple(item for item in story if item.version > after_version)


def events_beyond(connection: Connection, after: int, limit: int) -> tuple[Recorded, ...]:
    """The events with a position beyond `after`, in the order of commits."""
    rows = connection.execute(_BEYOND, {"after": after, "most": limit})
    return tuple(_recorded(row, Stream(name=from_payload(str, row.name))) for row in rows)


def _recorded(row: AnyRow, stream: Stream) -> Recorded:
    return Recorded(
        position=row.position,
        stream=stream,
        version=row.version,
        recorded_at=from_us(row.recorded_at_us),
        event=_event(row),
    )


def _event(row: AnyRow) -> Event:
    kind = EVENT_TYPES.get(row.type)
    try:
        if kind is not None:
            event: Event = from_payload(kind, row.payload)
            return event
    except EncodingError as error:
        raise StorageUnusableError(_unreadable(row, str(error))) from error
    raise StorageUnusableError(_unreadable(row, "this program does not know such an event"))


def _unreadable(row: AnyRow, why: str) -> str:
    return (
        f"the event {row.type} at position {row.position} cannot be read ({why}): "
        "it was written by a newer Relance, so install that release again; or the database was changed by hand"
    )
