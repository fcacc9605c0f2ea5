"""Rows of streams: version, timer and folded record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from relance.domain.encoding import EncodingError
from relance.domain.records import ClusterRecord, JobRecord, NodeRecord, Record, fold, new_record
from relance.domain.streams import Stream
from relance.ports.histories import ConflictError, Snapshot
from relance.storage.caches import VersionedCache
from relance.storage.columns import column_key, from_payload, from_us, to_payload
from relance.storage.recorded import events_of
from relance.storage.tables import AnyRow, streams

RECORD_SCHEMA: Final = 4
"""Raised when the fold changes its meaning: records stored under another number are folded again from the events."""
AT_ONCE: Final = 200
"""Records fetched by one statement."""

RECORD_TYPES: Final[Mapping[str, type]] = {"job": JobRecord, "node": NodeRecord, "cluster": ClusterRecord}

RecordCache = VersionedCache[Record]

_FIND: Final = select(streams.c.id, streams.c.version, streams.c.wake_at_us).where(
    streams.c.stream_key == bindparam("key")
)
_FIND_AND_LOCK: Final = _FIND.with_for_update()
_RECORDS: Final = select(
    streams.c.id, streams.c.name, streams.c.version, streams.c.record_schema, streams.c.record
).where(streams.c.id.in_(bindparam("ids", expanding=True)))
_INSERT: Final = insert(streams)
_WRITE: Final = update(streams).where(streams.c.id == bindparam("stream_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    """What a stream's row says without its record."""

    id: int
    version: int
    wake_at: datetime | None


def find(connection: Connection, stream: Stream, *, lock: bool = False) -> StreamRow | None:
    """The row of a stream; with `lock` nobody else changes it before this transaction ends."""
    row = connection.execute(_FIND_AND_LOCK if lock else _FIND, {"key": column_key(stream.name)}).one_or_none()
    return row and StreamRow(id=row.id, version=row.version, wake_at=_time(row.wake_at_us))


def create(connection: Connection, stream: Stream) -> StreamRow:
    """An empty row for a stream that has none. Raises ConflictError when another transaction makes it first."""
    values = {
        "stream_key": column_key(stream.name),
        "name": to_payload(stream.name),
        "kind": stream.kind,
        "cluster_key": column_key(stream.subject.split("/", 1)[0]),
        "version": 0,
        "position": 0,
        "changed_at_us": 0,
        "record_schema": RECORD_SCHEMA,
        "record": to_payload(new_record(stream.name)),
    }
    try:
        made = connection.execute(_INSERT, values).inserted_primary_key
    except IntegrityError as error:
        raise ConflictError(f"{stream} was begun by somebody else") from error
    assert made is not None  # noqa: S101 - a single insert has a primary key
    return StreamRow(id=made[0], version=0, wake_at=None)


def write(connection: Connection, stream_id: int, values: Mapping[str, Any]) -> None:
    """Change columns of a stream's row."""
    connection.execute(_WRITE, {"stream_id": stream_id, **values})


def record_values(record: Record) -> dict[str, Any]:
    """The columns of a stream's row that come from its record."""
    values: dict[str, Any] = {"record_schema": RECORD_SCHEMA, "record": to_payload(record)}
    if isinstance(record, JobRecord):
        values |= {"raw_id_key": column_key(record.job.raw_id), "name_key": column_key(record.name)}
    return values


def load(connection: Connection, stream: Stream, kept: RecordCache) -> Snapshot:
    """A stream's record, version and timer."""
    row = find(connection, stream)
    if row is None:
        return Snapshot(stream=stream, version=0, record=new_record(stream.name))
    version, record = records_of(connection, {row.id: row.version}, kept)[row.id]
    return Snapshot(stream=stream, version=version, record=record, wake_at=row.wake_at)


def record_of(connection: Connection, row: StreamRow, kept: RecordCache) -> Record:
    """The record of a row that this transaction has locked.

    Not kept in memory: the row may come from a transaction that shares this commit and may yet fail.
    """
    record = kept.get(row.id, row.version)
    return record or _record(connection, connection.execute(_RECORDS, {"ids": [row.id]}).one())


def records_of(connection: Connection, versions: Mapping[int, int], kept: RecordCache) -> dict[int, tuple[int, Record]]:
    """Version and record of streams, given by id with the versions that they had a moment ago."""
    found: dict[int, tuple[int, Record]] = {}
    missing: list[int] = []
    for stream_id, version in versions.items():
        record = kept.get(stream_id, version)
        if record is None:
            missing.append(stream_id)
        else:
            found[stream_id] = (version, record)
    for begin in range(0, len(missing), AT_ONCE):
        for row in connection.execute(_RECORDS, {"ids": missing[begin : begin + AT_ONCE]}):
            record = _record(connection, row)
            kept.put(row.id, row.version, record, len(row.record))
            found[row.id] = (row.version, record)
    return found


def _record(connection: Connection, row: AnyRow) -> Record:
    stream = Stream(name=from_payload(str, row.name))
    if row.record_schema == RECORD_SCHEMA:
        try:
            record: Record = from_payload(RECORD_TYPES[stream.kind], row.record)
            return record
        except EncodingError:
            pass  # the events say it as well
    return fold(stream.name, (item.event for item in events_of(connection, row.id, stream)))


def _time(at_us: int | None) -> datetime | None:
    return None if at_us is None else from_us(at_us)
