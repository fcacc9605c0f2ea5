"""The port to the history: append with an expected version, read, follow, and the rows that live beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from relance.domain.advice import Lease, PermitWish
from relance.domain.events import Event
from relance.domain.incidents import Incident
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import Attachment
from relance.domain.progress import Progress
from relance.domain.records import ClusterRecord, JobRecord, NodeRecord, Record
from relance.domain.recoveries import MostRecoveries
from relance.domain.streams import Recorded, Stream
from relance.domain.views import ClusterReport


class HistoryError(Exception):
    """The history could not do what was asked."""


class ConflictError(HistoryError):
    """Somebody else appended first: reload and advance again."""


class NotUniqueError(HistoryError):
    """The unique key is taken: this attempt's restart was already begun."""


class NoPermitError(HistoryError):
    """A limit over many jobs is reached. `free_at` says when the next permit comes."""

    def __init__(self, scope: str, free_at: datetime) -> None:
        """Say which limit, and when it gives way."""
        super().__init__(f"no permit free in {scope} before {free_at.isoformat()}")
        self.scope = scope
        self.free_at = free_at


class TooManyRecoveriesError(HistoryError):
    """As many recoveries are under way on the cluster as there may be."""

    def __init__(self, cluster: str, count: int, most: int) -> None:
        """Say how many there are, and how many there may be."""
        super().__init__(f"{count} of at most {most} recoveries are under way on {cluster}")


class LeaseLostError(HistoryError):
    """The lease named in the append is not the one in force."""


class StorageUnusableError(HistoryError):
    """The database cannot be used: newer than this program, on a network file system, full, locked. Says the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """One transaction on one stream; all of it happens or none.

    `expected_version` is the stream's version that the events were decided on (0: it does not exist). `unchanged` names
    other streams on which the decision rests, with the version at which each was read. `unique` keys may
    be taken once for ever. `permits` are taken under the lock of their scope. `recoveries` is counted in the
    transaction: the cluster's stream in `unchanged`, whose row is locked, makes two claims take turns. `lease` names
    cluster, holder and epoch that must be in force. `wake_at` is stored as the stream's durable timer and replaces the
    former one, unless `keep_wake`. The rest is stored beside the events: watcher checkpoints, progress and attachments.
    """

    stream: Stream
    expected_version: int
    events: tuple[Event, ...]
    wake_at: datetime | None = None
    keep_wake: bool = False
    unchanged: tuple[tuple[Stream, int], ...] = ()
    unique: tuple[str, ...] = ()
    permits: tuple[PermitWish, ...] = ()
    recoveries: MostRecoveries | None = None
    lease: Lease | None = None
    checkpoints: tuple[tuple[AttemptKey, str], ...] = ()
    progress: tuple[tuple[AttemptKey, Progress], ...] = ()
    attachments: tuple[tuple[AttemptKey, Attachment], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A stream's folded record at a version, and its timer."""

    stream: Stream
    version: int
    record: Record
    wake_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRow:
    """An incident with the job it belongs to, for lists."""

    job: JobKey
    name: str
    user: str
    partition: str
    workflow: str
    incident: Incident
    work_dir: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog:
    """Where a kept piece of a log came from, and the digest under which its bytes are."""

    attempt: AttemptKey
    file: str
    start_offset: int
    size_bytes: int
    digest: str
    kept_at: datetime


class History(Protocol):
    """Append-only streams with projections written in the same transaction (design 6)."""

    async def append(self, batch: Append, now: datetime) -> tuple[Recorded, ...]:
        """Store the events.

        Raises ConflictError, NotUniqueError, NoPermitError, TooManyRecoveriesError, LeaseLostError.
        """
        ...

    def subscribe(self, listener: Callable[[tuple[Recorded, ...]], None]) -> None:
        """Call `listener` on the event loop, after each commit made through this object, with what was stored."""
        ...

    async def load(self, stream: Stream) -> Snapshot:
        """The folded record and version of a stream (version 0 and an empty record when it does not exist)."""
        ...

    async def read(self, stream: Stream, after_version: int = 0) -> tuple[Recorded, ...]:
        """The events of a stream in order."""
        ...

    async def follow(self, after: int, limit: int = 500) -> tuple[Recorded, ...]:
        """The events with a position beyond `after`, in commit order without gaps."""
        ...

    async def head(self) -> int:
        """The newest position."""
        ...

    async def due(self, now: datetime, limit: int = 500) -> tuple[Stream, ...]:
        """Streams whose timer is at or before `now`, earliest first."""
        ...

    async def next_due(self) -> datetime | None:
        """The earliest timer of all streams."""
        ...

    async def put_report(self, report: ClusterReport, now: datetime) -> None:
        """Keep the newest whole look at a cluster (a current state, not history)."""
        ...

    async def report(self, cluster: str) -> ClusterReport | None:
        """The newest whole look at a cluster."""
        ...

    async def take_lease(self, cluster: str, holder: str, duration_s: float, now: datetime) -> Lease:
        """Take or renew the lease of a cluster; `granted` is False while another holder's is in force."""
        ...

    async def permit_free_at(self, wish: PermitWish, now: datetime) -> datetime | None:
        """When a permit of this kind is free; None: now."""
        ...

    async def checkpoint(self, attempt: AttemptKey) -> str | None:
        """The watcher's last checkpoint of an attempt."""
        ...

    async def progress(self, attempt: AttemptKey) -> Progress | None:
        """The newest progress of an attempt."""
        ...

    async def progress_rows(self, attempt: AttemptKey) -> tuple[Progress, ...]:
        """One row a minute, oldest first."""
        ...

    async def kept_logs(self, job: JobKey) -> tuple[KeptLog, ...]:
        """The attachments of a job."""
        ...

    async def kept_bytes(self, digest: str) -> bytes | None:
        """The bytes of one attachment."""
        ...

    async def jobs(
        self, cluster: str | None = None, limit: int = 1000, changed_since: datetime | None = None
    ) -> tuple[JobRecord, ...]:
        """Jobs, most recently changed first; `changed_since` leaves out those without an event since then."""
        ...

    async def find_jobs(self, text: str) -> tuple[JobRecord, ...]:
        """Jobs whose raw id, key or name is `text`, newest first."""
        ...

    async def incidents(
        self, *, open_only: bool = False, cluster: str | None = None, since: datetime | None = None, limit: int = 200
    ) -> tuple[IncidentRow, ...]:
        """Incidents, newest first."""
        ...

    async def find_incident(self, id_or_advice: str) -> IncidentRow | None:
        """The incident with this id or a unique beginning of it, or the one that has this advice or action."""
        ...

    async def nodes(self, cluster: str | None = None) -> tuple[NodeRecord, ...]:
        """Nodes that have a history."""
        ...

    async def clusters(self) -> tuple[ClusterRecord, ...]:
        """Clusters that have a history."""
        ...

    async def rebuild(self) -> int:
        """Write all projections anew from the events; gives the number of streams."""
        ...

    async def close(self) -> None:
        """Give back connections and threads; may be called twice."""
        ...
