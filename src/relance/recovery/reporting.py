"""Taking in a controller's report: what is new about jobs and nodes goes into their streams."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import datetime, timedelta

import structlog

from relance.attribution.hosts import is_planned
from relance.domain import events as e
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.records import ClusterRecord, JobRecord, NodeRecord
from relance.domain.streams import Stream
from relance.domain.views import ClusterReport, JobState, JobView, NodeState, NodeView, PastAttempt
from relance.ports.backends import BackendUnavailableError
from relance.ports.clocks import Clock
from relance.ports.histories import Append, ConflictError, History, HistoryError
from relance.recovery.footprints import expected_words, is_unkilled, of_our_ending, reach
from relance.recovery.intake import finding_events, job_events, node_events, node_lost_finding, row_key
from relance.recovery.live import Live
from relance.recovery.loop import Loop

_TRIES = 20
_KEEP_EVERY = timedelta(seconds=10)
_LOG = structlog.get_logger(__name__)


class Reporting:
    """Turns whole looks into events, comparing with what was seen last."""

    def __init__(self, history: History, live: Live, loop: Loop, clock: Clock) -> None:
        """Take the history to append to, the live state to refresh and the loop to wake."""
        self._history = history
        self._live = live
        self._loop = loop
        self._clock = clock
        self._jobs: dict[str, dict[JobKey, tuple[JobView, tuple[PastAttempt, ...]]]] = {}
        self._keys: dict[str, dict[tuple[str, datetime], JobKey]] = {}
        self._nodes: dict[str, dict[str, NodeView]] = {}
        self._kept_at: dict[str, datetime] = {}
        self._owed: dict[str, tuple[str, int]] = {}
        """By cluster, the session and number of a report that was not wholly taken in: it is welcome again."""
        self._introduced: set[tuple[str, str, str]] = set()
        self._compared: set[str] = set()
        """Clusters of which a first report was compared with what the history knows."""
        self._one_at_a_time: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By cluster. Two controllers report in turn, and a call that was given up may still be at work here: an older
        look that is taken in beside a newer one would take a job that only the newer one shows for gone."""

    async def take(self, report: ClusterReport) -> None:
        """Take in one report. Raises BackendUnavailableError when the history is away; it may be sent again."""
        async with self._one_at_a_time[report.cluster]:
            await self._take(report)

    async def _take(self, report: ClusterReport) -> None:
        now = self._clock.now()
        mark = (report.session, report.sequence)
        if not self._live.accept(report, now) and self._owed.get(report.cluster) != mark:
            return
        self._owed[report.cluster] = mark
        try:
            await self._introduce(report, now)
            changed = await self._take_jobs(report, now)
            changed |= await self._take_nodes(report, now)
            await self._keep(report, now, changed=changed)
            rows = await self._history.incidents(open_only=True, cluster=report.cluster, limit=10_000)
            for row in rows:
                self._loop.wake(Stream.of_job(row.job))
            if report.complete:
                self._live.forget(report.cluster, {*self._jobs[report.cluster], *(row.job for row in rows)})
            self._loop.wake(Stream.of_cluster(report.cluster))
            self._owed.pop(report.cluster, None)
        except HistoryError as error:
            raise BackendUnavailableError(str(error)) from error

    async def _introduce(self, report: ClusterReport, now: datetime) -> None:
        """A controller's first report, or its first after a start of its own or of the scheduler's release.

        Two controllers, one of them waiting for the lease, report in turn: each is introduced once.
        """
        mark = (report.cluster, report.session, report.facts.release)
        if mark in self._introduced:
            return
        stream = Stream.of_cluster(report.cluster)
        for _ in range(_TRIES):
            snapshot = await self._history.load(stream)
            record = snapshot.record
            if not isinstance(record, ClusterRecord):
                return
            if record.controller == report.session and record.release == report.facts.release:
                break
            event = e.ControllerStarted(
                cluster=report.cluster, holder=report.session, release=report.facts.release, at=now
            )
            batch = Append(stream=stream, expected_version=snapshot.version, events=(event,), keep_wake=True)
            try:
                await self._history.append(batch, now)
            except ConflictError:
                continue
            break
        self._introduced.add(mark)

    async def _take_jobs(self, report: ClusterReport, now: datetime) -> bool:
        seen = self._jobs.setdefault(report.cluster, {})
        current = self._keyed(report)
        lost = {node.name for node in report.nodes if node.state is NodeState.DOWN}
        past: defaultdict[JobKey, tuple[PastAttempt, ...]] = defaultdict(tuple)
        for row in report.past:
            past[row_key(report.cluster, row)] += (row,)
        changed = False
        for key, view in current.items():
            shown = (view, past.get(key, ()))
            if seen.get(key) == shown and not lost.intersection(view.nodes):
                continue
            if not await self._safely(key, view, report, now):
                continue  # asked again with the next report
            seen[key] = shown
            changed = True
        if report.complete:
            gone = [key for key in seen if key not in current]
            if report.cluster not in self._compared:
                gone += await self._unended(report.cluster, current)
            for key in gone:
                await self._gone(key, report, now)
                seen.pop(key, None)
                changed = True
            self._compared.add(report.cluster)
        return changed

    def _keyed(self, report: ClusterReport) -> dict[JobKey, JobView]:
        """The jobs by key; the key of one that was there before is not made again."""
        known = self._keys.get(report.cluster, {})
        keys: dict[tuple[str, datetime], JobKey] = {}
        for view in report.jobs:
            mark = (view.raw_id, view.first_submitted_at)
            keys[mark] = known.get(mark) or view.job_key(report.cluster)
        self._keys[report.cluster] = keys
        return {keys[view.raw_id, view.first_submitted_at]: view for view in report.jobs}

    async def _safely(self, key: JobKey, view: JobView, report: ClusterReport, now: datetime) -> bool:
        """Take in one job; a fault of ours in it may not blind us for the others. Raises HistoryError."""
        try:
            await self._take_job(key, view, report, now)
        except HistoryError:
            raise
        except Exception:  # noqa: BLE001 - the one seam
            _LOG.exception("job not taken in", job=str(key))
            return False
        return True

    async def _take_job(self, key: JobKey, view: JobView, report: ClusterReport, now: datetime) -> None:
        attempt = AttemptKey(job=key, restart_count=view.restart_count)
        progress = self._live.progress.get(attempt) or await self._history.progress(attempt)
        stream = Stream.of_job(key)
        for _ in range(_TRIES):
            snapshot = await self._history.load(stream)
            record = snapshot.record
            assert isinstance(record, JobRecord)  # noqa: S101 - the stream's kind says so
            events = job_events(record, view, report.past, progress, now)
            if view.state is JobState.RUNNING:
                lost = [node for node in report.nodes if node.name in view.nodes and await self._is_lost(report, node)]
                findings = tuple(node_lost_finding(attempt, node, progress, now) for node in lost)
                events += finding_events(record, findings, now)
            if not events:
                return
            batch = Append(stream=stream, expected_version=snapshot.version, events=events, keep_wake=True)
            try:
                await self._history.append(batch, now)
            except ConflictError:
                continue
            return
        message = f"{stream} changed under {_TRIES} attempts to report it"
        raise HistoryError(message)

    async def _unended(self, cluster: str, current: dict[JobKey, JobView]) -> list[JobKey]:
        """Jobs that ran when we last looked, before this server started, and that the scheduler no longer shows."""
        return [
            record.job
            for record in await self._history.jobs(cluster, limit=100_000)
            if record.job not in current and record.attempts and record.attempts[-1].outcome is None
        ]

    async def _gone(self, key: JobKey, report: ClusterReport, now: datetime) -> None:
        """A job that is no longer shown: its last attempt ended as accounting says, else nobody knows how."""
        stream = Stream.of_job(key)
        for _ in range(_TRIES):
            snapshot = await self._history.load(stream)
            record = snapshot.record
            if not isinstance(record, JobRecord) or not record.attempts or record.attempts[-1].outcome is not None:
                return
            last = record.attempts[-1].attempt
            row = next(
                (
                    item
                    for item in report.past
                    if row_key(report.cluster, item) == key and item.restart_count == last.restart_count
                ),
                None,
            )
            ended = e.AttemptEnded(
                attempt=last,
                outcome=row.state if row else JobState.UNKNOWN,
                ended_at=(row.ended_at if row else None) or now,
                exit_code=row.exit_code if row else None,
                exit_signal=row.exit_signal if row else None,
                cancelled_by=row.cancelled_by if row else None,
                is_measured=True,
            )
            batch = Append(stream=stream, expected_version=snapshot.version, events=(ended,), keep_wake=True)
            try:
                await self._history.append(batch, now)
            except ConflictError:
                continue
            return

    async def _take_nodes(self, report: ClusterReport, now: datetime) -> bool:
        seen = self._nodes.setdefault(report.cluster, {})
        changed = False
        for view in report.nodes:
            if seen.get(view.name) == view:
                continue
            stream = Stream.of_node(report.cluster, view.name)
            snapshot = await self._history.load(stream)
            assert isinstance(snapshot.record, NodeRecord)  # noqa: S101 - the stream's kind says so
            ours = await self._ours(report, view)
            events = node_events(report.cluster, snapshot.record, view, now, ours)
            if events:
                batch = Append(stream=stream, expected_version=snapshot.version, events=events, keep_wake=True)
                try:
                    await self._history.append(batch, now)
                except ConflictError:
                    _LOG.info("node changed at once in two reports", node=view.name)
                    continue
            seen[view.name] = view
            changed = True
        return changed

    async def _ours(self, report: ClusterReport, view: NodeView) -> str:
        """Which act of ours drained a node, in words; empty: none did, as far as is known."""
        if not is_unkilled(view) or view.since is None:
            return ""
        within = reach(report.facts)
        records = await self._history.jobs(report.cluster, limit=5000, changed_since=view.since - within)
        return of_our_ending(view, records, within)

    async def _is_lost(self, report: ClusterReport, node: NodeView) -> bool:
        """Whether the scheduler lost a node that nobody had taken out: of a planned one silence is no sign."""
        if node.state is not NodeState.DOWN or is_planned(node):
            return False
        record = (await self._history.load(Stream.of_node(report.cluster, node.name))).record
        return not (isinstance(record, NodeRecord) and expected_words(record))

    async def _keep(self, report: ClusterReport, now: datetime, *, changed: bool) -> None:
        """Store the look for readers after a restart: when something changed, and now and then."""
        kept = self._kept_at.get(report.cluster)
        if changed or kept is None or now - kept >= _KEEP_EVERY or now < kept:
            await self._history.put_report(report, now)
            self._kept_at[report.cluster] = now
