"""Where controllers get, claim and tell of what people asked for: the server's half of it."""

from __future__ import annotations

from datetime import datetime, timedelta

from relance.domain import events as e
from relance.domain.advice import ClaimReply, Lease
from relance.domain.keys import JobKey
from relance.domain.records import ClusterRecord, JobRecord, NodeRecord
from relance.domain.requests import Request, RequestClaim, RequestOrder, RequestRecord, RequestReport
from relance.domain.streams import Recorded, Stream
from relance.ports.backends import BackendRefusedError, BackendUnavailableError
from relance.ports.clocks import Clock
from relance.ports.histories import Append, ConflictError, History, LeaseLostError, NoPermitError, NotUniqueError
from relance.recovery.assigning import view_of
from relance.recovery.live import Live
from relance.recovery.request_rules import (
    Ground,
    ended,
    job_against,
    needs_a_look,
    node_against,
    node_duties,
    node_outcome,
    overdue,
    permits,
)
from relance.recovery.sites import Site

_TRIES = 20
_OPEN_FOR = timedelta(days=2)
"""What was asked before that is settled or void; a controller that comes back later tells itself of what it began."""


class RequestDesk:
    """Gives the orders for what people asked, takes claims and reports, and sees to what has run out."""

    def __init__(self, history: History, live: Live, site: Site, clock: Clock) -> None:
        """Take the history, what agents said last, the site's rules and the time; listens to the history."""
        self._history = history
        self._live = live
        self._site = site
        self._clock = clock
        self._jobs: dict[str, set[JobKey]] = {}
        """By cluster, jobs of which something may be open; read once from the history, then kept by what is heard."""
        self._heard: set[JobKey] = set()
        history.subscribe(self._hear)

    async def orders(
        self, stages: ClusterRecord, nodes: tuple[NodeRecord, ...], now: datetime
    ) -> tuple[RequestOrder, ...]:
        """The orders of a cluster, oldest first; what is overdue or over is settled on the way."""
        ground = self._ground(stages, now)
        found: list[RequestOrder] = []
        for node in nodes:
            if needs_a_look(node, now):
                found += await self._of_node(Stream.of_node(node.cluster, node.node), ground)
        for job in await self._open_jobs(stages.cluster):
            found += await self._of_job(job, ground)
        return tuple(sorted(found, key=lambda order: order.request.at))

    async def claim(self, claim: RequestClaim) -> ClaimReply:
        """Let a request be carried out: all checks and the append are one transaction on its stream."""
        stream = _stream(claim.request)
        for _ in range(_TRIES):
            now = self._clock.now()
            snapshot = await self._history.load(stream)
            known = _known(snapshot.record, claim.request)
            if known is None or not known.is_open:
                return ClaimReply(granted=False, reason="no such request is open")
            if known.started_at is not None:
                return ClaimReply(granted=False, reason="it was begun before, and is begun once")
            cluster = await self._history.load(Stream.of_cluster(claim.request.cluster))
            against = self._against(snapshot.record, known, self._ground(_stages(cluster.record, claim), now))
            if against or now >= known.request.expires_at:
                return ClaimReply(granted=False, reason=against or "it has expired")
            append = Append(
                stream=stream,
                expected_version=snapshot.version,
                events=(_started(claim, known.request, now),),
                keep_wake=True,
                unchanged=((cluster.stream, cluster.version),),  # a stage set meanwhile counts before this begins
                unique=(f"request/{known.request.id}",),
                permits=permits(known.request),
                lease=Lease(
                    cluster=claim.request.cluster,
                    holder=claim.holder,
                    epoch=claim.lease_epoch,
                    duration_s=self._site.rules(claim.request.cluster).lease_s,
                ),
            )
            try:
                await self._history.append(append, now)
            except ConflictError:
                continue
            except NoPermitError as error:
                free_in_s = max(0.0, (error.free_at - now).total_seconds())
                return ClaimReply(granted=False, reason=str(error), again_in_s=free_in_s)
            except (NotUniqueError, LeaseLostError) as error:
                return ClaimReply(granted=False, reason=str(error))
            return ClaimReply(granted=True, action_id=known.request.id)
        raise BackendUnavailableError(f"{stream} is too busy")

    async def record(self, report: RequestReport) -> None:
        """Store what came of a request. Raises BackendRefusedError for one that is not known."""
        stream = _stream(report.request)
        for _ in range(_TRIES):
            snapshot = await self._history.load(stream)
            known = _known(snapshot.record, report.request)
            if known is None:
                raise BackendRefusedError(f"no such request: {report.request.id}")
            if not known.is_open:
                return
            if await self._append(stream, snapshot.version, _outcome(known.request, report)):
                return
        raise BackendUnavailableError(f"{stream} is too busy")

    async def _of_node(self, stream: Stream, ground: Ground) -> list[RequestOrder]:
        snapshot = await self._history.load(stream)
        record = snapshot.record
        if not isinstance(record, NodeRecord):
            return []
        open_ones = [item for item in record.requests if item.is_open]
        why = {item.request.id: node_against(ground, item.request, record) for item in open_ones}
        due = (
            *(event for item in open_ones for event in overdue((item,), ground.now, why[item.request.id])),
            *node_duties(record, ground.report, ground),
        )
        if due:
            await self._append(stream, snapshot.version, due)
        return _orders(open_ones, why, due)

    async def _of_job(self, job: JobKey, ground: Ground) -> list[RequestOrder]:
        stream = Stream.of_job(job)
        snapshot = await self._history.load(stream)
        record = snapshot.record
        if not isinstance(record, JobRecord):
            return []
        open_ones = [item for item in record.requests if item.is_open]
        if not open_ones:
            self._jobs[job.cluster].discard(job)
            return []
        view = view_of(ground.report, job)
        why = {item.request.id: job_against(ground, item.request, record, view) for item in open_ones}
        due = tuple(event for item in open_ones for event in overdue((item,), ground.now, why[item.request.id]))
        if due:
            await self._append(stream, snapshot.version, due)
        return _orders(open_ones, why, due)

    async def _append(self, stream: Stream, version: int, events: tuple[e.JobEvent | e.NodeEvent, ...]) -> bool:
        """Whether it was appended; not where somebody was first."""
        batch = Append(stream=stream, expected_version=version, events=events, keep_wake=True)
        try:
            await self._history.append(batch, self._clock.now())
        except ConflictError:
            return False
        return True

    def _against(self, record: object, known: RequestRecord, ground: Ground) -> str:
        if isinstance(record, JobRecord):
            return job_against(ground, known.request, record, view_of(ground.report, record.job))
        if isinstance(record, NodeRecord):
            return node_against(ground, known.request, record)
        return "no such job or node"

    def _ground(self, stages: ClusterRecord, now: datetime) -> Ground:
        cluster = stages.cluster
        return Ground(cluster=stages, rules=self._site.rules(cluster), report=self._live.reports.get(cluster), now=now)

    async def _open_jobs(self, cluster: str) -> tuple[JobKey, ...]:
        if cluster not in self._jobs:
            since = self._clock.now() - _OPEN_FOR
            records = await self._history.jobs(cluster, limit=100_000, changed_since=since)
            self._jobs[cluster] = {item.job for item in records if any(each.is_open for each in item.requests)}
        known = self._jobs[cluster]
        new = {job for job in self._heard if job.cluster == cluster}
        self._heard -= new
        known |= new
        return tuple(known)

    def _hear(self, recorded: tuple[Recorded, ...]) -> None:
        for item in recorded:
            if isinstance(item.event, e.ActionRequested) and item.event.request.job is not None:
                self._heard.add(item.event.request.job)


def _orders(
    open_ones: list[RequestRecord], why: dict[str, str], due: tuple[e.JobEvent | e.NodeEvent, ...]
) -> list[RequestOrder]:
    over = {event.request_id for event in due if isinstance(event, e.RequestEnded)}
    return [
        RequestOrder(
            request=item.request,
            why_not=why[item.request.id],
            started_by=item.holder,
            started_at=item.started_at,
        )
        for item in open_ones
        if item.request.id not in over
    ]


def _outcome(request: Request, report: RequestReport) -> tuple[e.JobEvent | e.NodeEvent, ...]:
    if request.verb.is_of_a_node:
        return node_outcome(request, report.end, report.reason, report.at)
    return (ended(request, report.end, report.reason, report.at),)


def _started(claim: RequestClaim, request: Request, now: datetime) -> e.RequestStarted:
    return e.RequestStarted(
        request_id=request.id,
        verb=request.verb,
        by=request.by,
        effect=claim.effect,
        holder=claim.holder,
        lease_epoch=claim.lease_epoch,
        at=now,
    )


def _stream(request: Request) -> Stream:
    if request.job is not None:
        return Stream.of_job(request.job)
    return Stream.of_node(request.cluster, request.node)


def _known(record: object, request: Request) -> RequestRecord | None:
    requests = record.requests if isinstance(record, JobRecord | NodeRecord) else ()
    return next((item for item in requests if item.request.id == request.id), None)


def _stages(record: object, claim: RequestClaim) -> ClusterRecord:
    return record if isinstance(record, ClusterRecord) else ClusterRecord(cluster=claim.request.cluster)
