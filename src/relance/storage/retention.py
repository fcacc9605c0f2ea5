"""What is kept for how long (defaults: the operators' page, section 3), and the deletion of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection, Table, delete, func, select

from relance.storage.columns import column_key, from_payload, to_us
from relance.storage.tables import (
    attachments,
    checkpoints,
    events,
    incident_names,
    incidents,
    kept_logs,
    progress,
    progress_minutes,
    streams,
)

DAY_S: Final = 86_400.0
AT_ONCE: Final = 200
"""Streams, attachments or rows deleted in one transaction, so that nobody waits long for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long things are kept, in seconds, and how many bytes of attachments as they lie in the database."""

    events_s: float = 400 * DAY_S
    """A job's events go together, this long after its last one. Nodes and clusters keep theirs: they are few, and say
    what is in force."""
    attachments_s: float = 30 * DAY_S
    attachments_bytes: int = 20 * 10**9
    progress_s: float = 14 * DAY_S
    checkpoints_s: float = 30 * DAY_S
    """A checkpoint that no watcher has replaced for this long belongs to an attempt that is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How many of each were deleted."""

    jobs: int = 0
    attachments: int = 0
    progress_rows: int = 0
    checkpoints: int = 0


def drop_old_jobs(connection: Connection, before: datetime) -> int:
    """Delete the next jobs whose last event is older than `before` and that have no open incident; how many."""
    open_jobs = select(incidents.c.stream_id).where(incidents.c.is_open == 1)
    old = streams.c.changed_at_us < to_us(before)
    candidates = select(streams.c.id).where(streams.c.kind == "job", old, streams.c.id.not_in(open_jobs)).limit(AT_ONCE)
    found = connection.scalars(candidates).all()
    # Asked once more under the rows' locks: what was appended to meanwhile stays.
    rows = connection.execute(
        select(streams.c.id, streams.c.name).where(streams.c.id.in_(found), old).with_for_update()
    ).all()
    ids = [row.id for row in rows]
    for table in (events, incidents, incident_names):
        connection.execute(delete(table).where(table.c.stream_id.in_(ids)))
    jobs = [column_key(from_payload(str, row.name).removeprefix("job/")) for row in rows]
    connection.execute(delete(kept_logs).where(kept_logs.c.job_key.in_(jobs)))
    connection.execute(delete(streams).where(streams.c.id.in_(ids)))
    return len(rows)


def drop_old_attachments(connection: Connection, before: datetime, most_bytes: int) -> int:
    """Delete the next attachments that are older than `before` or, oldest first, more than fit; how many."""
    old = select(attachments.c.digest).where(attachments.c.kept_at_us < to_us(before)).limit(AT_ONCE)
    digests = list(connection.scalars(old)) or _too_many(connection, most_bytes)
    for table in (kept_logs, attachments):
        connection.execute(delete(table).where(table.c.digest.in_(digests)))
    return len(digests)


def drop_old_rows(connection: Connection, table: Table, before: datetime) -> int:
    """Delete all rows of a table that were stored before a time; how many."""
    return connection.execute(delete(table).where(table.c.stored_at_us < to_us(before))).rowcount


def drop_old_progress(connection: Connection, before: datetime) -> int:
    """Delete the progress stored before a time; how many rows."""
    return sum(drop_old_rows(connection, table, before) for table in (progress, progress_minutes))


def drop_old_checkpoints(connection: Connection, before: datetime) -> int:
    """Delete the checkpoints stored before a time; how many."""
    return drop_old_rows(connection, checkpoints, before)


def earlier(now: datetime, by_s: float) -> datetime:
    """The time so many seconds ago."""
    return now - timedelta(seconds=by_s)


def _too_many(connection: Connection, most_bytes: int) -> list[str]:
    """The oldest attachments that must go so that the rest fit, at most so many at once."""
    excess: int = (connection.scalar(select(func.sum(attachments.c.stored_bytes))) or 0) - most_bytes
    digests = []
    oldest = select(attachments.c.digest, attachments.c.stored_bytes).order_by(attachments.c.kept_at_us).limit(AT_ONCE)
    for row in connection.execute(oldest) if excess > 0 else ():
        if excess <= 0:
            break
        digests.append(row.digest)
        excess -= row.stored_bytes
    return digests
