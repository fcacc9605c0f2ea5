"""The port for telling people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Protocol


class NoticeKind(Enum):
    """What a notice is about. The last seven are for the owner of a job alone."""

    APPROVAL_NEEDED = "approval_needed"
    HELD = "held"
    STORM = "storm"
    SOURCE_LOST = "source_lost"
    JOB_STOPPED = "job_stopped"
    DID_NOT_RESUME = "did_not_resume"
    ACTION_UNKNOWN = "action_unknown"
    OTHER_ENGINE = "other_engine"
    PARKED = "parked"
    RESTARTED = "restarted"
    HANG = "hang"
    SETTINGS = "settings"
    SLOW = "slow"
    DIVERGED = "diverged"
    ASKED = "asked"
    """A person had Relance cancel, hold or release the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing to tell; `id` is stable, so that it is told once."""

    id: str
    kind: NoticeKind
    cluster: str
    title: str
    text: str
    at: datetime
    job: str | None = None
    incident_id: str | None = None
    owner: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


class NotifierError(Exception):
    """A notice could not be delivered."""


class Notifier(Protocol):
    """One way to tell people."""

    async def notify(self, notice: Notice) -> None:
        """Deliver a notice. Raises NotifierError."""
        ...

    async def close(self) -> None:
        """Give back what is held; may be called twice."""
        ...
