"""Kept pieces of logs: where each came from, and its bytes, stored once under their digest and compressed."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, bindparam, select

from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import Attachment
from relance.ports.histories import KeptLog
from relance.storage.columns import column_key, from_payload, to_payload, to_us
from relance.storage.tables import attachments, kept_logs
from relance.storage.upserts import put, put_once

LEVEL: Final = 6
"""zlib's own default: log text shrinks to a tenth or less."""

_OF_JOB: Final = select(kept_logs.c.kept).where(kept_logs.c.job_key == bindparam("job")).order_by(kept_logs.c.id)
_BYTES: Final = select(attachments.c.data).where(attachments.c.digest == bindparam("digest"))


def digest_of(data: bytes) -> str:
    """The name of some bytes: their SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def keep(connection: Connection, new: Sequence[tuple[AttemptKey, Attachment]], now: datetime) -> None:
    """Keep pieces of logs. The same piece again, and the same bytes again, are kept once."""
    for attempt, piece in new:
        kept = KeptLog(
            attempt=attempt,
            file=piece.file,
            start_offset=piece.start_offset,
            size_bytes=len(piece.data),
            digest=digest_of(piece.data),
            kept_at=now,
        )
        data = zlib.compress(piece.data, LEVEL)
        row = {"digest": kept.digest, "kept_at_us": to_us(now), "stored_bytes": len(data), "data": data}
        put(connection, attachments, row)  # the same bytes again are kept for as long as if they were new
        put_once(connection, kept_logs, _row(kept))


def kept_of(connection: Connection, job: JobKey) -> tuple[KeptLog, ...]:
    """What was kept of a job's logs, in the order of keeping."""
    payloads = connection.scalars(_OF_JOB, {"job": column_key(str(job))})
    return tuple(from_payload(KeptLog, payload) for payload in payloads)


def bytes_of(connection: Connection, digest: str) -> bytes | None:
    """The bytes under a digest."""
    data = connection.scalars(_BYTES, {"digest": digest[:64]}).one_or_none()
    return None if data is None else zlib.decompress(data)


def _row(kept: KeptLog) -> dict[str, object]:
    place = to_payload([str(kept.attempt), kept.file, kept.start_offset, kept.digest])
    return {
        "piece": hashlib.sha256(place.encode()).hexdigest(),
        "job_key": column_key(str(kept.attempt.job)),
        "digest": kept.digest,
        "kept_at_us": to_us(kept.kept_at),
        "kept": to_payload(kept),
    }
