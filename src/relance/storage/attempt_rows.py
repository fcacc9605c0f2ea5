"""Rows beside an attempt's events: the watcher's checkpoint and the progress, each replaced by the next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, bindparam, select

from relance.domain.keys import AttemptKey
from relance.domain.progress import Progress
from relance.storage.columns import column_key, from_payload, to_payload, to_us
from relance.storage.tables import checkpoints, progress, progress_minutes
from relance.storage.upserts import put

MINUTE_US: Final = 60_000_000

_CHECKPOINT: Final = select(checkpoints.c.checkpoint).where(checkpoints.c.attempt_key == bindparam("attempt"))
_NEWEST: Final = select(progress.c.progress).where(progress.c.attempt_key == bindparam("attempt"))
_MINUTES: Final = (
    select(progress_minutes.c.progress)
    .where(progress_minutes.c.attempt_key == bindparam("attempt"))
    .order_by(progress_minutes.c.minute)
)


def put_checkpoints(connection: Connection, new: Sequence[tuple[AttemptKey, str]], now: datetime) -> None:
    """Replace the checkpoints of attempts."""
    rows = [
        {"attempt_key": column_key(str(attempt)), "stored_at_us": to_us(now), "checkpoint": to_payload(checkpoint)}
        for attempt, checkpoint in new
    ]
    put(connection, checkpoints, *rows)


def put_progress(connection: Connection, new: Sequence[tuple[AttemptKey, Progress]], now: datetime) -> None:
    """Replace the progress of attempts, and the row of its minute.

    The last word counts, whatever time it bears: a watcher whose clock was set back still makes progress.
    """
    for attempt, seen in new:
        row = {"attempt_key": column_key(str(attempt)), "stored_at_us": to_us(now), "progress": to_payload(seen)}
        put(connection, progress, row)
        put(connection, progress_minutes, {**row, "minute": to_us(seen.as_of) // MINUTE_US})


def checkpoint_of(connection: Connection, attempt: AttemptKey) -> str | None:
    """The last checkpoint of an attempt."""
    payload = connection.scalars(_CHECKPOINT, {"attempt": column_key(str(attempt))}).one_or_none()
    return None if payload is None else from_payload(str, payload)


def progress_of(connection: Connection, attempt: AttemptKey) -> Progress | None:
    """The newest progress of an attempt."""
    payload = connection.scalars(_NEWEST, {"attempt": column_key(str(attempt))}).one_or_none()
    return None if payload is None else from_payload(Progress, payload)


def minutes_of(connection: Connection, attempt: AttemptKey) -> tuple[Progress, ...]:
    """The progress of an attempt, one a minute, oldest first."""
    payloads = connection.scalars(_MINUTES, {"attempt": column_key(str(attempt))})
    return tuple(from_payload(Progress, payload) for payload in payloads)
