"""What a watcher hands over, as one append to its job's stream. Pure."""

from __future__ import annotations

import hashlib

from relance.domain import events as e
from relance.domain.observations import WatcherBatch
from relance.ports.histories import Append, Snapshot


def append_of(snapshot: Snapshot, batch: WatcherBatch, events: tuple[e.JobEvent, ...]) -> Append:
    """The events, and what is kept beside them."""
    return Append(
        stream=snapshot.stream,
        expected_version=snapshot.version,
        events=(*events, *_kept(batch)),
        keep_wake=True,
        checkpoints=((batch.attempt, batch.checkpoint),) if batch.checkpoint is not None else (),
        progress=((batch.attempt, batch.progress),) if batch.progress is not None else (),
        attachments=tuple((batch.attempt, item) for item in batch.attachments),
    )


def _kept(batch: WatcherBatch) -> tuple[e.AttachmentKept, ...]:
    return tuple(
        e.AttachmentKept(
            attempt=batch.attempt,
            file=item.file,
            start_offset=item.start_offset,
            size_bytes=len(item.data),
            digest=hashlib.sha256(item.data).hexdigest(),
        )
        for item in batch.attachments
    )
