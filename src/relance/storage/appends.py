"""One append: every check, every row, one transaction; all of it happens or none."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection

from relance.domain.records import Record, apply
from relance.domain.recoveries import MostRecoveries, recoveries_under_way
from relance.domain.streams import Recorded, Stream
from relance.ports.histories import Append, ConflictError, TooManyRecoveriesError
from relance.storage import attempt_rows, kept_logs, limits, projections, queries, snapshots
from relance.storage.columns import to_us
from relance.storage.recorded import StoryCache, advance_head, event_rows, insert_events
from relance.storage.snapshots import RecordCache, StreamRow

_ALL: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append stored. `record` is the stream's new record, None when there were no events."""

    recorded: tuple[Recorded, ...]
    stream_id: int = 0
    record: Record | None = None
    record_chars: int = 0
    event_chars: int = 0

    def note(self, records: RecordCache, stories: StoryCache) -> None:
        """Keep in memory what is now committed."""
        if self.record is None:
            return
        first, last = self.recorded[0].version, self.recorded[-1].version
        records.put(self.stream_id, last, self.record, self.record_chars)
        stories.advance(self.stream_id, (first - 1, last), lambda story: story + self.recorded, self.event_chars)


def append(connection: Connection, batch: Append, now: datetime, kept: RecordCache) -> Appended:
    """Carry out an append. Raises ConflictError, LeaseLostError, NotUniqueError, NoPermitError, TooManyRecoveriesError.

    Rows are locked in one order everywhere (stream, what it rests on, lease, unique keys, permits, head), so that
    transactions wait for each other and do not lock each other out.
    """
    row = _at_version(connection, batch.stream, batch.expected_version)
    for stream, version in sorted(batch.unchanged):
        if _at_version(connection, stream, version) is None:
            snapshots.create(connection, stream)  # an empty row, so that there is something to lock
    if row is None and (batch.events or batch.wake_at is not None):
        row = snapshots.create(connection, batch.stream)
    if batch.lease is not None:
        limits.check_lease(connection, batch.lease, now)
    limits.take_unique(connection, row.id if row else 0, batch.unique, now)
    limits.take_permits(connection, batch.permits, now)
    if batch.recoveries is not None:
        _check_recoveries(connection, batch.recoveries, kept)
    attempt_rows.put_checkpoints(connection, batch.checkpoints, now)
    attempt_rows.put_progress(connection, batch.progress, now)
    kept_logs.keep(connection, batch.attachments, now)
    if row is None:
        return Appended(recorded=())
    if not batch.events:
        if not batch.keep_wake and batch.wake_at != row.wake_at:
            snapshots.write(connection, row.id, _wake(batch))
        return Appended(recorded=())
    return _append_events(connection, row, batch, now, kept)


def _check_recoveries(connection: Connection, wish: MostRecoveries, kept: RecordCache) -> None:
    """Count what is under way on the cluster. Raises TooManyRecoveriesError.

    The cluster's row is locked by now: a claim that was granted before is committed, and counted.
    """
    wanted = queries.IncidentFilter(open_only=True, cluster=wish.cluster, since=None, limit=_ALL)
    count = recoveries_under_way(row.incident for row in queries.list_incidents(connection, kept, wanted))
    if count >= wish.most:
        raise TooManyRecoveriesError(wish.cluster, count, wish.most)


def _at_version(connection: Connection, stream: Stream, version: int) -> StreamRow | None:
    """The stream's row, locked, if it is at this version. Raises ConflictError."""
    row = snapshots.find(connection, stream, lock=True)
    found = row.version if row else 0
    if found != version:
        raise ConflictError(f"{stream} is at version {found}, not {version}")
    return row


def _append_events(connection: Connection, row: StreamRow, batch: Append, now: datetime, kept: RecordCache) -> Appended:
    before = snapshots.record_of(connection, row, kept)
    record = before
    for event in batch.events:
        record = apply(record, event)
    projections.write_incidents(connection, row.id, before, record)
    projections.write_names(connection, row.id, batch.events)
    new = list(enumerate(batch.events, start=row.version + 1))
    rows = event_rows(row.id, new, now)
    values: dict[str, Any] = {
        "version": row.version + len(new),
        "changed_at_us": to_us(now),
        **snapshots.record_values(record),
    }
    if not batch.keep_wake:
        values |= _wake(batch)
    last = advance_head(connection, len(rows))
    insert_events(connection, rows, last)
    snapshots.write(connection, row.id, {**values, "position": last})
    recorded = tuple(
        Recorded(position=position, stream=batch.stream, version=number, recorded_at=now, event=event)
        for position, (number, event) in enumerate(new, start=last - len(new) + 1)
    )
    return Appended(
        recorded=recorded,
        stream_id=row.id,
        record=record,
        record_chars=len(values["record"]),
        event_chars=sum(len(stored["payload"]) for stored in rows),
    )


def _wake(batch: Append) -> dict[str, Any]:
    return {"wake_at_us": None if batch.wake_at is None else to_us(batch.wake_at)}
