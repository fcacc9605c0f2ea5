"""The loop: wakes for a stream, gathers its situation, advances it, appends. Nobody calls back.

A lost race is a `ConflictError`: the stream is loaded and advanced again. A wake-up says which stream, never what to
do.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from datetime import datetime, timedelta

import structlog

from relance.domain import events as e
from relance.domain.advice import Exclusion
from relance.domain.fleet import Storm
from relance.domain.incidents import Incident
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.progress import Progress
from relance.domain.records import ClusterRecord, JobRecord, NodeRecord
from relance.domain.streams import Recorded, Stream
from relance.domain.trials import is_trial
from relance.domain.verdicts import FleetSign
from relance.ports.clocks import Clock
from relance.ports.histories import Append, ConflictError, History, HistoryError, Snapshot
from relance.recovery.advancing import advance
from relance.recovery.assigning import view_of
from relance.recovery.claims import restart_permits
from relance.recovery.health import Pulse, health_events, storm_events
from relance.recovery.live import Live
from relance.recovery.queues import RestartQueue, restart_queue
from relance.recovery.rounds import Round
from relance.recovery.sites import ClusterRules, Site
from relance.recovery.situations import Situation, array_failures, findings_of, fleet_signs
from relance.recovery.storms import is_after_storm, storm_for, whereabouts, with_canary

_TRIES = 20
_WATCH_EVERY_S = 1.0
"""A cluster is looked after at least this often: silence makes no noise."""
_RETRY_LEAST_S = 0.2
"""While a stream cannot be advanced its timer may be due all the time: then timers are looked at this often."""
_RETRY_MOST_S = 30.0
"""Before a stream that cannot be advanced is tried again, at most; whatever wakes it is a reason to try at once."""
_STORAGE_PAUSE_S = 1.0
"""Before the next try when the history is away."""
_QUEUE_AGE_S = 0.5
_ARRAY_HORIZON = timedelta(hours=24)
"""Failures of an array's tasks are looked at together over this time."""
_LOG = structlog.get_logger(__name__)


class Loop:
    """Drives every open incident forward. Several loops over one history do no harm: one of them loses the race."""

    def __init__(self, history: History, live: Live, site: Site, clock: Clock) -> None:
        """Take the history to drive, what the agents last said, the site's rules and the time."""
        self._history = history
        self._live = live
        self._site = site
        self._clock = clock
        self._started_at = clock.now()
        self._dirty: dict[Stream, None] = {}
        self._woken = asyncio.Event()
        self._watched: dict[str, float] = {}
        self._queues: dict[str, tuple[float, RestartQueue]] = {}
        """By cluster, when it was made on the monotonic clock, and the queue."""
        self._failures: dict[Stream, int] = {}
        """How often in a row each of these streams could not be advanced; each is woken again after a pause."""

    def wake(self, stream: Stream) -> None:
        """Ask for a stream to be looked at soon."""
        self._dirty[stream] = None
        self._woken.set()

    def heard(self, recorded: tuple[Recorded, ...]) -> None:
        """A listener for the history: a job to which something was appended is looked at.

        A cluster is looked after by time alone: two servers that hear different agents would answer each other.
        """
        for item in recorded:
            if item.stream.kind == "job":
                self.wake(item.stream)

    async def run(self) -> None:
        """Run until cancelled: first everything that is open, then what is woken or due."""
        begun = False
        while True:
            pause_s = _STORAGE_PAUSE_S
            try:
                if not begun:
                    await self.begin()
                    begun = True
                await self.tick()
                pause_s = await self._pause_s()
            except HistoryError as error:
                _LOG.warning("the history is away", error=str(error))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._woken.wait()

    async def begin(self) -> None:
        """Wake everything that is open, and every cluster: nobody knows what came while no loop ran."""
        for row in await self._history.incidents(open_only=True, limit=100_000):
            self.wake(Stream.of_job(row.job))
        self._watched = {record.cluster: -math.inf for record in await self._history.clusters()}

    async def tick(self) -> int:
        """Advance all that is woken or due; gives how many events were appended."""
        self._woken.clear()
        self._look_after_clusters()
        for stream in await self._history.due(self._clock.now()):
            if stream not in self._failures:  # its timer stays in the past until it can be advanced
                self._dirty[stream] = None
        woken, self._dirty = list(self._dirty), {}
        shared = Round()
        return sum([await self._safely(stream, shared) for stream in woken])

    async def advance(self, stream: Stream, shared: Round | None = None) -> int:
        """Advance one stream until nothing more follows; gives how many events were appended.

        Streams that are advanced one after another share what they ask about their cluster.
        """
        shared = shared or Round()
        if stream.kind == "cluster":
            return await self.watch_cluster(stream.subject)
        for _ in range(_TRIES):
            snapshot = await self._history.load(stream)
            if not isinstance(snapshot.record, JobRecord) or snapshot.version == 0:
                return 0
            if snapshot.record.open_incident is None and snapshot.wake_at is None:
                await self._after(snapshot.record)
                return 0
            situation = await self.gather(snapshot, snapshot.record, shared)
            result = advance(situation)
            if not result.events and result.wake_at == snapshot.wake_at:
                await self._after(snapshot.record)
                return 0
            batch = Append(
                stream=stream,
                expected_version=snapshot.version,
                events=result.events,
                wake_at=result.wake_at,
            )
            shared.forget()
            try:
                await self._history.append(batch, self._clock.now())
            except ConflictError:
                continue
            return len(result.events)
        message = f"{stream} changed under {_TRIES} attempts to advance it"
        raise HistoryError(message)

    async def gather(self, snapshot: Snapshot, record: JobRecord, shared: Round) -> Situation:
        """Everything that bears on a job's open incident, now."""
        now, cluster = self._clock.now(), record.job.cluster
        rules = self._site.rules(cluster)
        report = self._live.reports.get(cluster)
        record_of_cluster = await shared.once(f"record/{cluster}", lambda: self._cluster(cluster))
        open_incident = record.open_incident
        storms = await shared.once(f"storms/{cluster}", lambda: self.storms_of(record_of_cluster, rules, now))
        view = view_of(report, record.job)
        verdict = open_incident.verdict if open_incident is not None else None
        storm = storm_for(storms, whereabouts(record, view, verdict, rules.file_systems))
        free_at: list[datetime] = []
        if open_incident is not None:
            for wish in restart_permits(record, storm, rules.limits.storms, now):
                at = await self._history.permit_free_at(wish, now)
                free_at += [at] if at is not None else []
        signs = await shared.once(f"signs/{cluster}", lambda: self._signs(cluster, rules, now))
        return Situation(
            record=record,
            findings=findings_of(await self._history.read(snapshot.stream)) if open_incident is not None else {},
            progress=await self.progress_of(record),
            report=report,
            cluster=record_of_cluster,
            nodes=await shared.once(f"nodes/{cluster}", lambda: self._history.nodes(cluster)),
            fleet=signs,
            coverage=self._live.coverage.get(open_incident.attempt, ()) if open_incident is not None else (),
            watched=self._is_watched(cluster, rules, now),
            read_to_end=open_incident is not None and self._live.read_to_end.get(open_incident.attempt, False),
            permit_free_at=max(free_at, default=None),
            storm=storm,
            rules=rules,
            now=now,
            array_failures=await self._array_failures(record, now),
            queue=await self._queue_lately(cluster),
        )

    async def queue_of(self, cluster: str) -> RestartQueue:
        """What is under way on a cluster, and whose turn is next."""
        rows = await self._history.incidents(open_only=True, cluster=cluster, limit=10_000)
        return restart_queue(row.incident for row in rows)

    async def _queue_lately(self, cluster: str) -> RestartQueue:
        """The same as it was half a second ago at most: it takes all open incidents, and a claim counts anew."""
        now_s = self._clock.monotonic()
        known = self._queues.get(cluster)
        if known is None or now_s - known[0] >= _QUEUE_AGE_S:
            known = self._queues[cluster] = (now_s, await self.queue_of(cluster))
        return known[1]

    async def _array_failures(self, record: JobRecord, now: datetime) -> dict[str, frozenset[JobKey]]:
        if record.array is None or record.open_incident is None:
            return {}
        since, cluster = now - _ARRAY_HORIZON, record.job.cluster
        return array_failures(await self._history.incidents(cluster=cluster, since=since, limit=2000), record)

    async def storms_of(self, record: ClusterRecord, rules: ClusterRules, now: datetime) -> tuple[Storm, ...]:
        """A cluster's storms that still count, those that have cleared with their canary."""
        limits, found = rules.limits.storms, list[Storm]()
        for storm in record.storms:
            if storm.is_open:
                found.append(storm)
            elif is_after_storm(storm, limits, now):
                since = storm.opened_at - timedelta(seconds=limits.window_s)
                rows = await self._history.incidents(cluster=record.cluster, since=since, limit=2000)
                found.append(with_canary(storm, rows, now, rules.file_systems))
        return tuple(found)

    def _is_watched(self, cluster: str, rules: ClusterRules, now: datetime) -> bool:
        # A server that has just started has not heard of a watcher yet, which is no sign that there is none.
        heard = self._live.watched_at.get(cluster, self._started_at)
        return (now - heard).total_seconds() <= rules.watcher_lost_s

    async def progress_of(self, record: JobRecord) -> dict[AttemptKey, Progress]:
        """The newest progress of each attempt of a job: what was said last, else what is stored."""
        newest = max((item.attempt.restart_count for item in record.attempts), default=0)
        keys = {item.attempt for item in record.attempts} | {AttemptKey(job=record.job, restart_count=newest + 1)}
        found: dict[AttemptKey, Progress] = {}
        for key in keys:
            progress = self._live.progress.get(key)
            if progress is None:
                progress = await self._history.progress(key)
                if progress is not None:
                    self._live.progress[key] = progress
            if progress is not None:
                found[key] = progress
        return found

    async def watch_cluster(self, cluster: str) -> int:
        """Losses, returns and storms of one cluster; gives how many events were appended."""
        now, rules = self._clock.now(), self._site.rules(cluster)
        snapshot = await self._history.load(Stream.of_cluster(cluster))
        record = snapshot.record
        if not isinstance(record, ClusterRecord):
            return 0
        report = self._live.reports.get(cluster)
        pulse = Pulse(
            started_at=self._started_at,
            reported_at=self._live.reported_at.get(cluster),
            watched_at=self._live.watched_at.get(cluster),
            followed=self._live.followed.get(cluster, 0),
            facts=report.facts if report is not None else None,
            sights=self._live.sights.get(cluster),
        )
        events = (
            *health_events(record, pulse, rules, now),
            *storm_events(record, await self._signs(cluster, rules, now), rules.limits.storms, now),
        )
        if events:
            batch = Append(stream=snapshot.stream, expected_version=snapshot.version, events=events, keep_wake=True)
            with contextlib.suppress(ConflictError):  # whoever was first has seen the same
                await self._history.append(batch, now)
            for row in await self._history.incidents(open_only=True, cluster=cluster, limit=10_000):
                self.wake(Stream.of_job(row.job))
        return len(events)

    def _look_after_clusters(self) -> None:
        """Wake each cluster now and then: that somebody fell silent, or a storm passed, is told by time alone."""
        now_s = self._clock.monotonic()
        for cluster in {*self._watched, *self._live.reported_at, *self._live.watched_at}:
            if now_s - self._watched.get(cluster, -math.inf) >= _WATCH_EVERY_S:
                self._watched[cluster] = now_s
                self._dirty[Stream.of_cluster(cluster)] = None

    async def _safely(self, stream: Stream, shared: Round) -> int:
        """One stream's trouble never stops another's: it is logged, and tried again a little later."""
        try:
            count = await self.advance(stream, shared)
        except Exception as error:  # noqa: BLE001 - the one seam: a fault of ours in one job may not blind us for all
            tries = self._failures[stream] = self._failures.get(stream, 0) + 1
            trace = not isinstance(error, HistoryError)
            _LOG.warning("stream not advanced", stream=str(stream), tries=tries, error=repr(error), exc_info=trace)
            loop = asyncio.get_running_loop()
            loop.call_later(min(_RETRY_MOST_S, _RETRY_LEAST_S * 2.0 ** min(tries, 10)), self.wake, stream)
            return 0
        self._failures.pop(stream, None)
        return count

    async def _pause_s(self) -> float:
        due = await self._history.next_due()
        if due is None:
            return 1.0
        least_s = _RETRY_LEAST_S if self._failures else 0.0
        return min(1.0, max(least_s, (due - self._clock.now()).total_seconds()))

    async def _cluster(self, cluster: str) -> ClusterRecord:
        record = (await self._history.load(Stream.of_cluster(cluster))).record
        return record if isinstance(record, ClusterRecord) else ClusterRecord(cluster=cluster)

    async def _signs(self, cluster: str, rules: ClusterRules, now: datetime) -> tuple[FleetSign, ...]:
        horizon_s = rules.limits.storms.window_s + rules.limits.storms.clear_after_s
        since = now - timedelta(seconds=horizon_s)
        rows = await self._history.incidents(cluster=cluster, since=since, limit=2000)
        return fleet_signs(rows, rules.file_systems)

    async def _after(self, record: JobRecord) -> None:
        """What follows in other streams: nodes suspected by a verdict, nodes excluded by an action that was done."""
        if is_trial(record.name):
            return
        for incident in record.incidents[-2:]:
            if incident.verdict is not None:
                for suspect in incident.verdict.suspects:
                    await self._note_node(record.job, incident, suspect.node)

    async def _note_node(self, job: JobKey, incident: Incident, node: str) -> None:
        stream = Stream.of_node(job.cluster, node)
        for _ in range(_TRIES):
            snapshot = await self._history.load(stream)
            assert isinstance(snapshot.record, NodeRecord)  # noqa: S101 - the stream's kind says so
            events = _node_notes(snapshot.record, job, incident, self._clock.now())
            if not events:
                return
            batch = Append(stream=stream, expected_version=snapshot.version, events=events, keep_wake=True)
            try:
                await self._history.append(batch, self._clock.now())
            except ConflictError:
                continue
            return


def _node_notes(record: NodeRecord, job: JobKey, incident: Incident, now: datetime) -> tuple[e.NodeEvent, ...]:
    found: list[e.NodeEvent] = []
    verdict, advice = incident.verdict, incident.advice
    noted = any(other == incident.id for _, _, other in record.suspicions)
    if verdict is not None and not noted:
        found += [
            e.NodeSuspected(
                cluster=job.cluster, node=record.node, suspect=suspect, incident_id=incident.id,
                attempt=incident.attempt, at=now,
            )
            for suspect in verdict.suspects if suspect.node == record.node
        ]  # fmt: skip
    done = incident.action is not None and incident.action.end == "ActionSucceeded"
    kept_out = any(item.incident_id == incident.id for item in record.exclusions)
    if done and advice is not None and record.node in advice.exclude and not kept_out:
        exclusion = Exclusion(
            cluster=job.cluster,
            node=record.node,
            reason=next(
                (item.reason for item in (verdict.suspects if verdict else ()) if item.node == record.node), ""
            ),
            owner="relance",
            since=now,
            until=advice.exclude_until,
            job=str(job),
            incident_id=incident.id,
        )
        found.append(e.NodeExcluded(exclusion=exclusion))
    return tuple(found)
