"""Observations: what sources deliver to detectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from relance.domain.faults import Scope
from relance.domain.findings import Coverage, Finding, RuleHit
from relance.domain.keys import AttemptKey
from relance.domain.progress import CheckpointSeen, PhaseSeen, Progress, StepSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBlock:
    """A block of whole lines of one log, as bytes; scanned exactly once.

    `data` begins at byte `offset` of `file` and ends with a newline, except for the last piece of a file that has
    none and is known to be over, and for pieces of a line longer than 64 KiB, which overlap (`overlap` bytes at the
    start were already delivered). `line` is the number of the first line from 1, None where not known. `node` and
    `rank` are known from path or scheduler.
    """

    file: str
    offset: int
    data: bytes
    scope: Scope
    read_at: datetime
    line: int | None = None
    node: str | None = None
    rank: int | None = None
    overlap: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenUpTo:
    """A source was read to its end at `at`: silence counts only up to here."""

    source: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSign:
    """A sign on a node that is no log line of the job: the scheduler lost it, its telemetry vanished."""

    node: str
    sign: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A sign of life that is no step: a checkpoint folder that grows."""

    at: datetime
    what: str


class Activity(Enum):
    """What a GPU does, by its metrics."""

    WORKING = "working"
    """It computes."""
    SPINNING = "spinning"
    """Its utilisation is near 100 % with little power and no tensor activity: it waits in a collective."""
    IDLE = "idle"
    """Nothing runs on it."""
    SILENT = "silent"
    """Its metrics have stopped while those of others go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OddDevice:
    """A GPU that does something else than most of its attempt. `device` None: all GPUs of the node."""

    node: str
    device: str | None
    activity: Activity


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePicture:
    """What the GPUs of an attempt do at one time: how many do what, and the few that do something else than most.

    `odd` is empty where no activity is that of most, or where more than a few differ.
    """

    at: datetime
    counts: Mapping[Activity, int]
    odd: tuple[OddDevice, ...] = ()


Observation = RuleHit | StepSeen | CheckpointSeen | PhaseSeen | SeenUpTo | NodeSign | Life | DevicePicture
"""What a detector is given, one at a time, in the order of reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A piece of a log kept beside an incident."""

    file: str
    start_offset: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherBatch:
    """What a watcher has of one attempt, handed over in one call; idempotent by the findings' ids.

    `checkpoint` is an opaque text of at most 512 KiB: source positions and detector states, one value, as they were
    when these findings came of them. None: the one before stays, from which the rest is found again.
    """

    attempt: AttemptKey
    holder: str
    as_of: datetime
    findings: tuple[Finding, ...] = ()
    progress: Progress | None = None
    checkpoint: str | None = None
    coverage: tuple[Coverage, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    read_to_end: bool = False
    """Whether the attempt is known to have ended, all its logs were read past that time, and everything that was held
    back until then is among the findings handed over so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SightReport:
    """How a watcher's sources stand, each as a whole: whether they answer, and up to when they were read.

    Each has one entry by its name; those that cannot be lost as a whole, such as files, have none.
    """

    cluster: str
    holder: str
    as_of: datetime
    logs: tuple[Coverage, ...] = ()
    signals: tuple[Coverage, ...] = ()
    """Those of metrics: without them verdicts know less, and no silence is confirmed by what GPUs do."""
