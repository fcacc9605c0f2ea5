"""Events of an attempt itself: it began, it ended, and what was seen of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.domain.deeds import WatchdogDeed
from relance.domain.findings import Sight
from relance.domain.keys import AttemptKey
from relance.domain.views import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    """The scheduler shows an attempt running on its nodes."""

    attempt: AttemptKey
    nodes: tuple[str, ...]
    started_at: datetime | None
    by_us: bool = False
    gpu_count: int | None = None
    """GPUs of the whole attempt; None: the scheduler does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """The scheduler, or accounting afterwards, says that an attempt is over. `outcome` is not the cause."""

    attempt: AttemptKey
    outcome: JobState
    ended_at: datetime | None
    exit_code: int | None = None
    exit_signal: int | None = None
    cancelled_by: int | None = None
    highest_step: int | None = None
    durable_step: int | None = None
    is_measured: bool = False
    """Whether an `AttemptMeasured` belongs to it if anybody followed it. Older events say no: nothing is known then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptMeasured:
    """What was seen of an attempt, said once when its watcher has read it to the end: the report rests on it.

    `last_step_at` is the newest step's own time, or when its line was read where the line has none.
    """

    attempt: AttemptKey
    log: Sight
    """The job's own output: seen as soon as one of its files was read."""
    kernel: Sight
    """The nodes' kernel logs: seen when those of all nodes were read."""
    at: datetime
    steps_seen: int = 0
    last_step: int | None = None
    last_step_at: datetime | None = None
    unread_bytes: int = 0
    """Bytes that were lost before they were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogActed:
    """The watchdog requeued or released this attempt's job, was about to, or would have: once for each state of it.

    Its restart of an attempt is Relance's own.
    """

    attempt: AttemptKey
    deed: WatchdogDeed
