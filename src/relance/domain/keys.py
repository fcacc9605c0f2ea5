"""Identities: what makes a job the same job, and an attempt the same attempt."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

_STAMP = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class JobKey:
    """A job: cluster, the scheduler's raw id, and the submit time of its first attempt (whole seconds, UTC).

    The submit time tells a reused id from a known job.
    """

    cluster: str
    raw_id: str
    submitted_at: datetime

    def __post_init__(self) -> None:
        """Cut the time to whole seconds, so that every release of a scheduler gives the same key.

        Raises ValueError when a part is empty or holds a slash, or the time has no zone.
        """
        for part in (self.cluster, self.raw_id):
            if not part or "/" in part:
                message = f"a cluster name or job id may not be empty or hold a slash: {part!r}"
                raise ValueError(message)
        if self.submitted_at.tzinfo is None:
            message = "a submit time needs a time zone"
            raise ValueError(message)
        object.__setattr__(self, "submitted_at", self.submitted_at.astimezone(UTC).replace(microsecond=0))

    def __str__(self) -> str:
        """Cluster, raw id and submit time, joined by slashes; `parse` reads it back."""
        return f"{self.cluster}/{self.raw_id}/{self.submitted_at.strftime(_STAMP)}"

    @classmethod
    def parse(cls, text: str) -> JobKey:
        """Read what `str` wrote. Raises ValueError on anything else."""
        parts = text.split("/")
        if len(parts) != 3:  # noqa: PLR2004 - cluster, id, time
            message = f"not a job key: {text!r}"
            raise ValueError(message)
        at = datetime.strptime(parts[2], _STAMP).replace(tzinfo=UTC)
        return cls(cluster=parts[0], raw_id=parts[1], submitted_at=at)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AttemptKey:
    """One execution of a job: the job and the scheduler's restart count (0 for the first)."""

    job: JobKey
    restart_count: int

    def __str__(self) -> str:
        """Job key, a slash, the restart count; `parse` reads it back."""
        return f"{self.job}/{self.restart_count}"

    @classmethod
    def parse(cls, text: str) -> AttemptKey:
        """Read what `str` wrote. Raises ValueError on anything else."""
        head, _, count = text.rpartition("/")
        return cls(job=JobKey.parse(head), restart_count=int(count))


def same_job(known: AttemptKey, known_submitted_at: datetime, restart_count: int, submitted_at: datetime) -> bool:
    """Whether a record with the known job's raw id is that job, or a reused id.

    It is the known job when it is the very attempt already known, or when both its restart count is higher and its
    submit time is later (a requeue sets the submit time anew). Anything else means that the id was used again.
    """
    if restart_count == known.restart_count:
        return abs((submitted_at - known_submitted_at).total_seconds()) < 1.0
    return restart_count > known.restart_count and submitted_at > known_submitted_at


def stable_id(prefix: str, *parts: object) -> str:
    """A short id that is the same for the same parts: what makes a repeated message harmless."""
    digest = hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).hexdigest()
    return f"{prefix}-{digest[:20]}"
