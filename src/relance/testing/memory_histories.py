"""A history in memory: the same promises, nothing kept. For tests and simulations that need thousands of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from relance.domain.advice import Lease, PermitWish
from relance.domain.events import ActionStarted, AdviceIssued, Event
from relance.domain.incidents import Incident
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import Attachment
from relance.domain.permits import bucket_free_at
from relance.domain.progress import Progress
from relance.domain.records import ClusterRecord, JobRecord, NodeRecord, Record, apply, fold, new_record
from relance.domain.recoveries import recoveries_under_way
from relance.domain.streams import Recorded, Stream
from relance.domain.views import ClusterReport
from relance.ports.histories import (
    Append,
    ConflictError,
    IncidentRow,
    KeptLog,
    LeaseLostError,
    NoPermitError,
    NotUniqueError,
    Snapshot,
    TooManyRecoveriesError,
)

Listener = Callable[[tuple[Recorded, ...]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A stream as it is now. `position` is its newest event's."""

    record: Record
    version: int = 0
    position: int = 0
    wake_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    lease: Lease
    expires_at: datetime


@dataclass(slots=True, kw_only=True)
class _Beside:
    """The rows beside streams."""

    unique: set[str] = field(default_factory=set)
    permits: dict[str, tuple[datetime, ...]] = field(default_factory=dict)
    leases: dict[str, _Held] = field(default_factory=dict)
    reports: dict[str, ClusterReport] = field(default_factory=dict)
    checkpoints: dict[AttemptKey, str] = field(default_factory=dict)
    progress: dict[AttemptKey, Progress] = field(default_factory=dict)
    minutes: dict[AttemptKey, dict[int, Progress]] = field(default_factory=dict)
    kept: dict[tuple[AttemptKey, str, int, str], KeptLog] = field(default_factory=dict)
    data: dict[str, bytes] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Incident by the id of an advice or action."""


class MemoryHistory:
    """Implements `relance.ports.histories.History`. One event loop at a time may use it."""

    def __init__(self, takeover_grace_s: float = 10.0) -> None:
        self._takeover_grace = timedelta(seconds=takeover_grace_s)
        self._rows: dict[Stream, _Row] = {}
        self._events: list[Recorded] = []
        self._of_stream: dict[Stream, list[Recorded]] = {}
        self._beside = _Beside()
        self._listeners: list[Listener] = []

    async def append(self, batch: Append, now: datetime) -> tuple[Recorded, ...]:
        row = self._rows.get(batch.stream) or _Row(record=new_record(batch.stream.name))
        if row.version != batch.expected_version:
            raise ConflictError(f"{batch.stream} is at version {row.version}, not {batch.expected_version}")
        for stream, version in batch.unchanged:
            found = self._rows[stream].version if stream in self._rows else 0
            if found != version:
                raise ConflictError(f"{stream} is at version {found}, not {version}")
        permits = self._check(batch, now)
        record = row.record
        for event in batch.events:
            record = apply(record, event)
        # Everything was asked; from here on nothing can fail.
        self._beside.unique.update(batch.unique)
        self._beside.permits.update(permits)
        recorded = self._record(batch, row.version, now)
        wake_at = row.wake_at if batch.keep_wake else batch.wake_at
        if recorded:
            row = replace(row, record=record, version=recorded[-1].version, position=recorded[-1].position)
        if recorded or wake_at is not None or batch.stream in self._rows:
            self._rows[batch.stream] = replace(row, wake_at=wake_at)
        self._put_beside(batch, now)
        for listener in self._listeners if recorded else ():
            listener(recorded)
        return recorded

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def load(self, stream: Stream) -> Snapshot:
        row = self._rows.get(stream) or _Row(record=new_record(stream.name))
        return Snapshot(stream=stream, version=row.version, record=row.record, wake_at=row.wake_at)

    async def read(self, stream: Stream, after_version: int = 0) -> tuple[Recorded, ...]:
        return tuple(self._of_stream.get(stream, [])[max(after_version, 0) :])

    async def follow(self, after: int, limit: int = 500) -> tuple[Recorded, ...]:
        begin = max(after, 0)
        return tuple(self._events[begin : begin + limit])

    async def head(self) -> int:
        return len(self._events)

    async def due(self, now: datetime, limit: int = 500) -> tuple[Stream, ...]:
        timers = [(row.wake_at, stream) for stream, row in self._rows.items() if row.wake_at is not None]
        ready = sorted((at for at in timers if at[0] <= now), key=lambda pair: pair[0])
        return tuple(stream for _, stream in ready[:limit])

    async def next_due(self) -> datetime | None:
        return min((row.wake_at for row in self._rows.values() if row.wake_at is not None), default=None)

    async def put_report(self, report: ClusterReport, now: datetime) -> None:
        last = self._beside.reports.get(report.cluster)
        if last is None or last.session != report.session or last.sequence < report.sequence:
            self._beside.reports[report.cluster] = report

    async def report(self, cluster: str) -> ClusterReport | None:
        return self._beside.reports.get(cluster)

    async def take_lease(self, cluster: str, holder: str, duration_s: float, now: datetime) -> Lease:
        held = self._beside.leases.get(cluster)
        epoch = 1
        if held is not None:
            epoch = held.lease.epoch if held.lease.holder == holder else held.lease.epoch + 1
            # A lease that ends later than it can was stamped by a clock that has stepped back: it runs from now on.
            ends_at = min(held.expires_at, now + timedelta(seconds=held.lease.duration_s))
            left = ends_at + self._takeover_grace - now
            if held.lease.holder != holder and left > timedelta(0):
                self._beside.leases[cluster] = replace(held, expires_at=ends_at)
                return replace(held.lease, duration_s=left.total_seconds(), granted=False)
        lease = Lease(cluster=cluster, holder=holder, epoch=epoch, duration_s=duration_s)
        self._beside.leases[cluster] = _Held(lease=lease, expires_at=now + timedelta(seconds=duration_s))
        return lease

    async def permit_free_at(self, wish: PermitWish, now: datetime) -> datetime | None:
        return bucket_free_at(self._beside.permits.get(wish.scope, ()), wish, now)

    async def checkpoint(self, attempt: AttemptKey) -> str | None:
        return self._beside.checkpoints.get(attempt)

    async def progress(self, attempt: AttemptKey) -> Progress | None:
        return self._beside.progress.get(attempt)

    async def progress_rows(self, attempt: AttemptKey) -> tuple[Progress, ...]:
        minutes = self._beside.minutes.get(attempt, {})
        return tuple(minutes[minute] for minute in sorted(minutes))

    async def kept_logs(self, job: JobKey) -> tuple[KeptLog, ...]:
        return tuple(kept for kept in self._beside.kept.values() if kept.attempt.job == job)

    async def kept_bytes(self, digest: str) -> bytes | None:
        return self._beside.data.get(digest)

    async def jobs(
        self, cluster: str | None = None, limit: int = 1000, changed_since: datetime | None = None
    ) -> tuple[JobRecord, ...]:
        wanted = (record for record in self._jobs(changed_since) if cluster in (None, record.job.cluster))
        return tuple(wanted)[:limit]

    async def find_jobs(self, text: str) -> tuple[JobRecord, ...]:
        return tuple(record for record in self._jobs() if text in (record.job.raw_id, str(record.job), record.name))

    async def incidents(
        self, *, open_only: bool = False, cluster: str | None = None, since: datetime | None = None, limit: int = 200
    ) -> tuple[IncidentRow, ...]:
        wanted = [
            row
            for row in self._incidents()
            if (row.incident.is_open or not open_only)
            and cluster in (None, row.job.cluster)
            and (since is None or row.incident.opened_at >= since)
        ]
        wanted.sort(key=lambda row: row.incident.id)
        wanted.sort(key=lambda row: row.incident.opened_at, reverse=True)
        return tuple(wanted[:limit])

    async def find_incident(self, id_or_advice: str) -> IncidentRow | None:
        rows = {row.incident.id: row for row in self._incidents()}
        exact = rows.get(id_or_advice) or rows.get(self._beside.names.get(id_or_advice, ""))
        if exact is not None or not id_or_advice:
            return exact
        beginning = [row for name, row in rows.items() if name.startswith(id_or_advice)]
        return beginning[0] if len(beginning) == 1 else None

    async def nodes(self, cluster: str | None = None) -> tuple[NodeRecord, ...]:
        found = [row.record for row in self._stored() if isinstance(row.record, NodeRecord)]
        wanted = (record for record in found if cluster in (None, record.cluster))
        return tuple(sorted(wanted, key=lambda record: (record.cluster, record.node)))

    async def clusters(self) -> tuple[ClusterRecord, ...]:
        found = [row.record for row in self._stored() if isinstance(row.record, ClusterRecord)]
        return tuple(sorted(found, key=lambda record: record.cluster))

    async def rebuild(self) -> int:
        for stream, row in self._rows.items():
            events = self._of_stream.get(stream, [])
            self._rows[stream] = replace(row, record=fold(stream.name, (item.event for item in events)))
        return len(list(self._stored()))

    async def close(self) -> None:
        """Nothing is held."""

    def _check(self, batch: Append, now: datetime) -> dict[str, tuple[datetime, ...]]:
        """Ask all that may refuse an append; the permits of its scopes once it is carried out."""
        if batch.lease is not None:
            held = self._beside.leases.get(batch.lease.cluster)
            same = held is not None and (held.lease.holder, held.lease.epoch) == (batch.lease.holder, batch.lease.epoch)
            if held is None or not same or held.expires_at <= now:
                raise LeaseLostError(f"the lease of {batch.lease.cluster} is not with {batch.lease.holder}")
        taken = self._beside.unique | set[str]()
        for key in batch.unique:
            if key in taken:
                raise NotUniqueError(f"{key} was already taken")
            taken.add(key)
        if batch.recoveries is not None:
            cluster, most = batch.recoveries.cluster, batch.recoveries.most
            rows = (row for row in self._incidents() if row.job.cluster == cluster)
            count = recoveries_under_way(row.incident for row in rows)
            if count >= most:
                raise TooManyRecoveriesError(cluster, count, most)
        permits = dict[str, tuple[datetime, ...]]()
        for wish in sorted(batch.permits, key=lambda wish: wish.scope):
            before = permits.get(wish.scope, self._beside.permits.get(wish.scope, ()))
            free_at = bucket_free_at(before, wish, now)
            if free_at is not None:
                raise NoPermitError(wish.scope, free_at)
            permits[wish.scope] = (*before, now)
        return permits

    def _record(self, batch: Append, version: int, now: datetime) -> tuple[Recorded, ...]:
        head = len(self._events)
        recorded = tuple(
            Recorded(
                position=head + number, stream=batch.stream, version=version + number, recorded_at=now, event=event
            )
            for number, event in enumerate(batch.events, start=1)
        )
        self._events.extend(recorded)
        self._of_stream.setdefault(batch.stream, []).extend(recorded)
        self._beside.names.update(pair for event in batch.events for pair in _names(event))
        return recorded

    def _put_beside(self, batch: Append, now: datetime) -> None:
        self._beside.checkpoints.update(batch.checkpoints)
        for attempt, seen in batch.progress:
            self._beside.progress[attempt] = seen
            self._beside.minutes.setdefault(attempt, {})[int(seen.as_of.timestamp() // 60)] = seen
        for attempt, piece in batch.attachments:
            kept = _kept(attempt, piece, now)
            self._beside.data[kept.digest] = piece.data
            self._beside.kept.setdefault((attempt, kept.file, kept.start_offset, kept.digest), kept)

    def _stored(self) -> Iterable[_Row]:
        """Streams that have events: a row without any holds a timer alone."""
        return (row for row in self._rows.values() if row.version)

    def _jobs(self, changed_since: datetime | None = None) -> list[JobRecord]:
        rows = sorted(self._stored(), key=lambda row: row.position, reverse=True)
        if changed_since is not None:
            rows = [row for row in rows if self._events[row.position - 1].recorded_at >= changed_since]
        return [row.record for row in rows if isinstance(row.record, JobRecord)]

    def _incidents(self) -> list[IncidentRow]:
        return [_incident_row(record, incident) for record in self._jobs() for incident in record.incidents]


def _names(event: Event) -> tuple[tuple[str, str], ...]:
    match event:
        case AdviceIssued():
            return ((event.advice.id, event.incident_id),)
        case ActionStarted():
            return ((event.action_id, event.incident_id),)
        case _:
            return ()


def _kept(attempt: AttemptKey, piece: Attachment, now: datetime) -> KeptLog:
    return KeptLog(
        attempt=attempt,
        file=piece.file,
        start_offset=piece.start_offset,
        size_bytes=len(piece.data),
        digest=hashlib.sha256(piece.data).hexdigest(),
        kept_at=now,
    )


def _incident_row(record: JobRecord, incident: Incident) -> IncidentRow:
    return IncidentRow(
        job=record.job,
        name=record.name,
        user=record.user,
        partition=record.partition,
        workflow=record.workflow,
        incident=incident,
        work_dir=record.work_dir,
    )
