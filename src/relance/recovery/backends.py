"""`LocalBackend`: the server's side of the one seam, in process. The HTTP server puts the same object behind routes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import datetime, timedelta
from typing import ParamSpec, TypeVar

from relance.domain import events as e
from relance.domain.advice import Claim, ClaimReply, StepRecord
from relance.domain.collecting import EvidenceClaim, EvidenceOrder, EvidenceReport
from relance.domain.deeds import WatchdogDeed
from relance.domain.keys import AttemptKey
from relance.domain.observations import SightReport, WatcherBatch
from relance.domain.records import ClusterRecord, JobRecord
from relance.domain.requests import RequestClaim, RequestReport
from relance.domain.stages import Stage
from relance.domain.streams import Recorded, Stream
from relance.domain.views import ClusterReport
from relance.ports.backends import Assignments, BackendRefusedError, BackendUnavailableError, Order, Orders
from relance.ports.clocks import Clock
from relance.ports.histories import (
    Append,
    ConflictError,
    History,
    HistoryError,
)
from relance.recovery.acting import Actors
from relance.recovery.arming import Arming
from relance.recovery.assigning import assignment, followed, runs_or_ended_lately, view_of
from relance.recovery.claim_desks import ClaimDesk
from relance.recovery.evidence_desks import EvidenceDesk
from relance.recovery.evidence_outputs import TraceRules
from relance.recovery.habits import Habits
from relance.recovery.handing_over import append_of
from relance.recovery.intake import finding_events
from relance.recovery.live import Bell, Live
from relance.recovery.loop import Loop
from relance.recovery.measuring import kernel_logs_of, measure_of, measured_at_end
from relance.recovery.ordering import job_stage, order
from relance.recovery.reporting import Reporting
from relance.recovery.request_desks import RequestDesk
from relance.recovery.sites import Site
from relance.recovery.situations import active_exclusions
from relance.recovery.standings import GivenLease
from relance.recovery.stepping import step_events
from relance.recovery.watchdogs import record_deed

_TRIES = 20
_STORE_EVERY = timedelta(seconds=5)
"""Progress and checkpoints without a finding are written at most this often: what a crash loses is read again."""

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")


def _answering(
    call: Callable[_Asked, Coroutine[None, None, _Answer]],
) -> Callable[_Asked, Coroutine[None, None, _Answer]]:
    """A call of the port that says unavailable when the history is away: agents know no other word for it."""

    @functools.wraps(call)
    async def asked(*args: _Asked.args, **kwargs: _Asked.kwargs) -> _Answer:
        try:
            return await call(*args, **kwargs)
        except HistoryError as error:
            raise BackendUnavailableError(str(error)) from error

    return asked


class LocalBackend:
    """Implements `relance.ports.backends.Backend` over a history and the recovery loop."""

    def __init__(
        self, history: History, live: Live, loop: Loop, site: Site, clock: Clock, trace_rules: TraceRules = tuple
    ) -> None:
        """Take the parts; `loop` is woken by whatever is appended, `trace_rules` give evidence its meaning."""
        self._history = history
        self._live = live
        self._loop = loop
        self._site = site
        self._clock = clock
        self._bell = Bell()
        self._reporting = Reporting(history, live, loop, clock)
        self._actors = Actors(history)
        self._claims = ClaimDesk(history, live, loop, site, clock)
        self._evidence = EvidenceDesk(history, live, site, clock, trace_rules)
        self._requests = RequestDesk(history, live, site, clock)
        self._arming = Arming(history)
        self._habits = Habits(history)
        history.subscribe(self._appended)
        history.subscribe(loop.heard)

    @_answering
    async def assignments(self, cluster: str) -> Assignments:
        """The attempts that the cluster's watcher should follow."""
        now, rules = self._clock.now(), self._site.rules(cluster)
        position = await self._history.head()
        found = []
        # A server that has just started has not been told yet, and nobody should stop following for that.
        report = self._live.reports.get(cluster) or await self._history.report(cluster)
        stages = await self._cluster(cluster)
        for view in report.jobs if report else ():
            if not runs_or_ended_lately(view, rules, now):
                continue
            record = (await self._history.load(Stream.of_job(view.job_key(cluster)))).record
            if not isinstance(record, JobRecord) or not record.name:
                continue
            stage = job_stage(record, stages, rules, now, view).stage
            if followed(view, stage, rules, now):
                made = assignment(record, view, rules, await self._loop.progress_of(record))
                habit = await self._habits.of(record, now)
                shown = self._evidence.shown(record, made.attempt)
                found.append(replace(made, start_before_s=habit.start_s, pause_before_s=habit.pause_s, collected=shown))
        self._live.followed[cluster] = len(found)
        self._live.watched_at[cluster] = now
        return Assignments(assignments=tuple(found), position=position, as_of=now)

    @_answering
    async def checkpoint(self, attempt: AttemptKey) -> str | None:
        """The watcher's last checkpoint of an attempt."""
        return await self._history.checkpoint(attempt)

    @_answering
    async def submit(self, batch: WatcherBatch) -> None:
        """Store what a watcher has of one attempt. Raises BackendRefusedError for an attempt of an unknown job."""
        now, stream = self._clock.now(), Stream.of_job(batch.attempt.job)
        self._live.watched_at[batch.attempt.job.cluster] = now
        batch = self._live.newest(batch)
        for _ in range(_TRIES):
            snapshot = await self._history.load(stream)
            record = snapshot.record
            if not isinstance(record, JobRecord) or snapshot.version == 0:
                message = f"no controller has reported job {batch.attempt.job}"
                raise BackendRefusedError(message)
            events = (*finding_events(record, batch.findings, now), *self._measured(record, batch, now))
            if not events and not batch.attachments and not self._is_due(batch, now):
                break
            append = append_of(snapshot, batch, events)
            if await self._try(append):
                self._live.stored_at[batch.attempt] = now
                if batch.checkpoint is not None:
                    self._live.checkpoint_at[batch.attempt] = now
                break
        else:
            message = f"{stream} is too busy"
            raise BackendUnavailableError(message)
        if batch.progress is not None:
            self._habits.note(record, batch.progress)
        if batch.read_to_end:  # only now that the findings of its last word are stored
            self._live.read_to_end[batch.attempt] = True
        if record.open_incident is not None or events:
            self._loop.wake(stream)

    async def see(self, report: SightReport) -> None:
        """Take in how a watcher's sources stand."""
        self._live.sights[report.cluster] = report
        self._loop.wake(Stream.of_cluster(report.cluster))

    @_answering
    async def report(self, report: ClusterReport) -> None:
        """Take in a whole look at a cluster."""
        await self._reporting.take(report)

    @_answering
    async def orders(self, cluster: str, holder: str) -> Orders:
        """Take or renew the lease and give the advice in force."""
        now, rules = self._clock.now(), self._site.rules(cluster)
        position = await self._history.head()
        lease = await self._history.take_lease(cluster, holder, rules.lease_s, now)
        if lease.granted:
            self._live.leases[cluster] = GivenLease(lease=lease, at=now)
        stages = await self._cluster(cluster)
        report = self._live.reports.get(cluster)
        nodes = await self._history.nodes(cluster)
        exclusions = active_exclusions(nodes, now)
        found: list[Order] = []
        evidence: list[EvidenceOrder] = []
        for row in await self._history.incidents(open_only=True, cluster=cluster, limit=10_000):
            record = (await self._history.load(Stream.of_job(row.job))).record
            if not isinstance(record, JobRecord):
                continue
            ours = tuple(item.node for item in exclusions if item.job == str(row.job))
            view = view_of(report, row.job)
            made = order(record, row.incident, job_stage(record, stages, rules, now, view), view, ours)
            found += [made] if made is not None else []
            evidence += self._evidence.orders(record, row.incident.id, stages, now)
        acting = await self._acting(report, stages, now)
        if report is not None and lease.granted:
            await self._arming.ask(report, acting, now)
        return Orders(
            lease=lease,
            orders=tuple(found),
            position=position,
            acting=acting,
            evidence=tuple(evidence),
            requests=await self._requests.orders(stages, nodes, now),
            kept_out=tuple(item for item in exclusions if item.job is not None),
        )

    @_answering
    async def claim(self, claim: Claim) -> ClaimReply:
        """Begin an advice: all checks and the append are one transaction on the job's stream."""
        return await self._claims.claim(claim)

    @_answering
    async def record(self, step: StepRecord) -> None:
        """Store a step of a preparation or transaction."""
        stream = Stream.of_job(step.attempt.job)
        for _ in range(_TRIES):
            snapshot = await self._history.load(stream)
            if not isinstance(snapshot.record, JobRecord) or snapshot.version == 0:
                message = f"no such job: {step.attempt.job}"
                raise BackendRefusedError(message)
            stage = await self._stage_of(snapshot.record)
            events = step_events(snapshot.record, step, stage)
            if not events:
                return
            append = Append(stream=stream, expected_version=snapshot.version, events=events, keep_wake=True)
            if await self._try(append):
                return
        message = f"{stream} is too busy"
        raise BackendUnavailableError(message)

    @_answering
    async def claim_evidence(self, claim: EvidenceClaim) -> ClaimReply:
        """Let the site's command be run for one silence, if the job has not gone on."""
        return await self._evidence.claim(claim)

    @_answering
    async def record_evidence(self, report: EvidenceReport) -> None:
        """Store what would be run, or what came of it."""
        await self._evidence.record(report, self._stage_of)

    @_answering
    async def record_deed(self, deed: WatchdogDeed) -> None:
        """Store what the watchdog did or would have done."""
        await record_deed(self._history, self._clock, deed)

    @_answering
    async def claim_request(self, claim: RequestClaim) -> ClaimReply:
        """Let what a person asked for be carried out, if it still may be."""
        return await self._requests.claim(claim)

    @_answering
    async def record_request(self, report: RequestReport) -> None:
        """Store what came of what a person asked for."""
        await self._requests.record(report)

    @_answering
    async def wait(self, after: int, timeout_s: float) -> int:
        """The history's head as soon as it is beyond `after`."""
        self._bell.ring(await self._history.head())
        return await self._bell.wait(after, timeout_s)

    def _appended(self, recorded: tuple[Recorded, ...]) -> None:
        if recorded:
            self._bell.ring(recorded[-1].position)

    def _is_due(self, batch: WatcherBatch, now: datetime) -> bool:
        of_kind = self._live.stored_at if batch.checkpoint is None else self._live.checkpoint_at
        last = of_kind.get(batch.attempt)  # a checkpoint comes with few batches: those without are no reason to wait
        if batch.read_to_end and not self._live.read_to_end.get(batch.attempt, False):
            return True  # its last word: no later one would bring the last steps into the history
        fresh = batch.progress is not None or batch.checkpoint is not None
        return fresh and (last is None or now - last >= _STORE_EVERY or now < last)

    def _measured(self, record: JobRecord, batch: WatcherBatch, now: datetime) -> tuple[e.JobEvent, ...]:
        if not batch.read_to_end:
            return ()
        attempt = batch.attempt
        kernel_logs = kernel_logs_of(record, attempt, self._site.rules(attempt.job.cluster))
        progress = batch.progress or self._live.progress.get(attempt)
        return measured_at_end(record, measure_of(attempt, kernel_logs, batch.coverage, progress, now))

    async def _try(self, append: Append) -> bool:
        try:
            await self._history.append(append, self._clock.now())
        except ConflictError:
            return False
        return True

    async def _cluster(self, cluster: str) -> ClusterRecord:
        record = (await self._history.load(Stream.of_cluster(cluster))).record
        return record if isinstance(record, ClusterRecord) else ClusterRecord(cluster=cluster)

    async def _stage_of(self, record: JobRecord) -> Stage:
        cluster = record.job.cluster
        view = view_of(self._live.reports.get(cluster), record.job)
        stages, rules = await self._cluster(cluster), self._site.rules(cluster)
        return job_stage(record, stages, rules, self._clock.now(), view).stage

    async def _acting(self, report: ClusterReport | None, stages: ClusterRecord, now: datetime) -> tuple[str, ...]:
        """Attempts whose job is effectively at `act`: what the controller's ledger notes as taken."""
        if report is None or stages.setting is None or stages.setting.stage is not Stage.ACT:
            return ()  # no job's stage is above its cluster's
        return await self._actors.of(report, stages, self._site.rules(stages.cluster), now)
