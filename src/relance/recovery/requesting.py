"""What people ask to be done to a job or a node: checked, named, and put into the history for the controller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain import events as e
from relance.domain.advice import ActionEnd
from relance.domain.records import ClusterRecord, JobRecord, NodeRecord, Record
from relance.domain.requests import (
    GOOD_FOR,
    Request,
    RequestRecord,
    RequestVerb,
    drain_reason,
    request_id,
    reservation_name,
)
from relance.domain.streams import Stream
from relance.domain.views import ClusterReport
from relance.ports.clocks import Clock
from relance.ports.histories import Append, ConflictError, History
from relance.recovery import subjects
from relance.recovery.assigning import view_of
from relance.recovery.commands import CommandRefusedError
from relance.recovery.live import Live
from relance.recovery.request_rules import Ground, job_against, node_against, node_view, return_of
from relance.recovery.sites import Site

LEAST_S, MOST_S = 300.0, 31 * 86_400.0
"""How long a node may be kept out: for less it is not worth it, for more somebody should look again."""
OF_JOBS = (RequestVerb.CANCEL, RequestVerb.HOLD, RequestVerb.RELEASE, RequestVerb.DISARM)
OF_NODES = (RequestVerb.QUARANTINE, RequestVerb.DRAIN, RequestVerb.RETURN)
_TRIES = 8
_UNDOES = {
    RequestVerb.RELEASE: RequestVerb.HOLD,
    RequestVerb.HOLD: RequestVerb.RELEASE,
    RequestVerb.DISARM: RequestVerb.ARM,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person wants: what, why, and for a node for how many seconds.

    `restart_count` is that of the attempt that the person was shown; None: none was, and the newest is meant.
    """

    verb: RequestVerb
    reason: str
    by: str
    for_s: float | None = None
    restart_count: int | None = None


class Requesting:
    """What people may ask for.

    Every method may raise NotKnownError, AmbiguousError, CommandRefusedError, and what the history raises.
    """

    def __init__(self, history: History, site: Site, clock: Clock, live: Live | None = None) -> None:
        """Take the parts; `live` has newer looks than the history, where there is one."""
        self._history = history
        self._site = site
        self._clock = clock
        self._live = live

    async def of_job(self, text: str, wanted: Wanted) -> Request:
        """Ask for something to be done to a job, in the attempt that was shown."""
        record = await subjects.job_meant(self._history, text)
        ground = await self._ground(record.job.cluster)
        view = view_of(ground.report, record.job)
        newest = view.restart_count if view is not None else 0
        count = newest if wanted.restart_count is None else wanted.restart_count

        def decide(now_is: Record) -> Request:
            known = now_is if isinstance(now_is, JobRecord) else record
            _no_other_open(known.requests)
            request = Request(
                id=request_id(known.job.cluster, str(known.job), wanted.verb, wanted.by, ground.now),
                verb=wanted.verb,
                cluster=known.job.cluster,
                job=known.job,
                restart_count=count,
                reason=wanted.reason,
                by=wanted.by,
                at=ground.now,
                expires_at=ground.now + GOOD_FOR,
                undoes=_undone(known.requests, wanted.verb),
            )
            against = job_against(ground, request, known, view)
            if against:
                raise CommandRefusedError(f"{wanted.verb.value} {request.subject}: {against}")
            return request

        return await self._append(Stream.of_job(record.job), decide)

    async def of_node(self, cluster: str, node: str, wanted: Wanted) -> Request:
        """Ask for a node to be kept out, or to be returned. Raises NotKnownError for a node that nobody has seen."""
        ground = await self._ground(cluster)
        if node_view(ground.report, node) is None:
            raise subjects.NotKnownError(f"no node {node!r} is known on cluster {cluster!r}")

        def decide(now_is: Record) -> Request:
            record = now_is if isinstance(now_is, NodeRecord) else NodeRecord(cluster=cluster, node=node)
            _no_other_open(record.requests)
            request = _about_node(record, wanted, ground.now)
            against = node_against(ground, request, record)
            if against:
                raise CommandRefusedError(f"{wanted.verb.value} node {node}: {against}")
            return request

        return await self._append(Stream.of_node(cluster, node), decide)

    async def of_jobs_record(self, text: str) -> tuple[RequestRecord, ...]:
        """What was asked about a job, oldest first."""
        return (await subjects.job_meant(self._history, text)).requests

    async def of_nodes_record(self, cluster: str, node: str) -> tuple[RequestRecord, ...]:
        """What was asked about a node, oldest first."""
        record = (await self._history.load(Stream.of_node(cluster, node))).record
        return record.requests if isinstance(record, NodeRecord) else ()

    async def _ground(self, cluster: str) -> Ground:
        report: ClusterReport | None = self._live.reports.get(cluster) if self._live is not None else None
        loaded = (await self._history.load(Stream.of_cluster(cluster))).record
        return Ground(
            cluster=loaded if isinstance(loaded, ClusterRecord) else ClusterRecord(cluster=cluster),
            rules=self._site.rules(cluster),
            report=report or await self._history.report(cluster),
            now=self._clock.now(),
        )

    async def _append(self, stream: Stream, decide: Callable[[Record], Request]) -> Request:
        """Load, decide, append; again when somebody else was first."""
        tries = 0
        while True:
            tries += 1
            snapshot = await self._history.load(stream)
            request = decide(snapshot.record)
            batch = Append(
                stream=stream,
                expected_version=snapshot.version,
                events=(e.ActionRequested(request=request),),
                keep_wake=True,
            )
            try:
                await self._history.append(batch, self._clock.now())
            except ConflictError:
                if tries >= _TRIES:
                    raise
                continue
            return request


def _about_node(record: NodeRecord, wanted: Wanted, now: datetime) -> Request:
    if wanted.verb is RequestVerb.RETURN:
        kept = record.kept_out_by
        if kept is None:
            raise CommandRefusedError(
                f"Relance keeps node {record.node} from nobody; what others did is theirs to undo"
            )
        return return_of(kept, wanted.by, wanted.reason, now)
    if wanted.for_s is None or not LEAST_S <= wanted.for_s <= MOST_S:
        raise CommandRefusedError("say for how long the node is kept out: from 5 minutes to 31 days")
    key = request_id(record.cluster, record.node, wanted.verb, wanted.by, now)
    is_drain = wanted.verb is RequestVerb.DRAIN
    return Request(
        id=key,
        verb=wanted.verb,
        cluster=record.cluster,
        node=record.node,
        reason=wanted.reason,
        by=wanted.by,
        at=now,
        expires_at=now + GOOD_FOR,
        until=(now + timedelta(seconds=wanted.for_s)).replace(microsecond=0),
        mark=drain_reason(key, wanted.by, wanted.reason) if is_drain else reservation_name(key),
    )


def _no_other_open(requests: tuple[RequestRecord, ...]) -> None:
    """One after the other: what is under way may be the very opposite. Raises CommandRefusedError.

    What Relance asks for by itself and nobody has begun keeps no person waiting.
    """
    other = next((item for item in requests if item.is_open and not _only_asked_by_us(item)), None)
    if other is not None:
        asked = f"{other.request.verb.value}, asked for by {other.request.by}"
        raise CommandRefusedError(f"{asked}, is not settled yet; ask again when it is")


def _only_asked_by_us(item: RequestRecord) -> bool:
    return item.request.verb is RequestVerb.ARM and item.started_at is None


def _undone(requests: tuple[RequestRecord, ...], verb: RequestVerb) -> str:
    """The id of what this takes back, such as a release the hold before it; empty: nothing of ours."""
    other = _UNDOES.get(verb)
    done = (item for item in reversed(requests) if item.end is ActionEnd.SUCCEEDED)
    last = next((item for item in done if item.request.verb in (verb, other)), None)
    is_it = last is not None and last.request.verb is other and last.over_at is None
    return last.request.id if is_it and last is not None else ""
