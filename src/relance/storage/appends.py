"""One append: every check, every row, one transaction; all of it happens or none."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from relance.domain.records import Record, apply
from relance.domain.streams import Recorded
from relance.ports.histories import Append, ConflictError
from relance.storage import attempt_rows, kept_logs, limits, projections, snapshots
from relance.storage.columns import to_us
from relance.storage.recorded import advance_head, event_rows, insert_events
from relance.storage.snapshots import Records, StreamRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append stored. `record` is the stream's new record, None when there were no events."""

    recorded: tuple[Recorded, ...]
    stream_id: int | None = None
    version: int = 0
    record: Record | None = None


def append(connection: Connection, batch: Append, now: datetime, kept: Records) -> Appended:
    """Carry out an append. Raises ConflictError, LeaseLostError, NotUniqueError, NoPermitError.

    Rows are locked in one order everywhere (stream, lease, unique keys, permits, head), so that transactions wait for
    each other and do not lock each other out.
    """
    row = snapshots.find(connection, batch.stream, lock=True)
    if (row.version if row else 0) != batch.expected_version:
        found = row.version if row else 0
        raise ConflictError(f"{batch.stream} is at version {found}, not {batch.expected_version}")
    if row is None and (batch.events or batch.wake_at is not None):
        row = snapshots.create(connection, batch.stream)
    if batch.lease is not None:
        limits.check_lease(connection, batch.lease, now)
    limits.take_unique(connection, row.id if row else 0, batch.unique, now)
    limits.take_permits(connection, batch.permits, now)
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


def _append_events(connection: Connection, row: StreamRow, batch: Append, now: datetime, kept: Records) -> Appended:
    before = snapshots.record_of(connection, row, kept)
    record = before
    for event in batch.events:
        record = apply(record, event)
    projections.write_incidents(connection, row.id, before, record)
    projections.write_names(connection, row.id, batch.events)
    new = list(enumerate(batch.events, start=row.version + 1))
    rows = event_rows(row.id, new, now)
    version = row.version + len(new)
    values: dict[str, Any] = {"version": version, "changed_at_us": to_us(now), **snapshots.record_values(record)}
    if not batch.keep_wake:
        values |= _wake(batch)
    last = advance_head(connection, len(rows))
    insert_events(connection, rows, last)
    snapshots.write(connection, row.id, {**values, "position": last})
    recorded = tuple(
        Recorded(position=position, stream=batch.stream, version=number, recorded_at=now, event=event)
        for position, (number, event) in enumerate(new, start=last - len(new) + 1)
    )
    return Appended(recorded=recorded, stream_id=row.id, version=version, record=record)


def _wake(batch: Append) -> dict[str, Any]:
    return {"wake_at_us": None if batch.wake_at is None else to_us(batch.wake_at)}
