"""The agents of a scenario: a watcher that reports progress, and a controller that does what it is ordered."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from relance.domain.advice import ActionEnd, ActionKind, Claim, Command, Effect, StepRecord
from relance.domain.findings import Coverage, Finding, Sight
from relance.domain.keys import AttemptKey, stable_id
from relance.domain.observations import WatcherBatch
from relance.domain.progress import Progress
from relance.domain.views import JobState
from relance.ports.backends import Backend, Order
from tests.scenarios.clusters import NAME, FakeCluster


class WatcherHand:
    """Follows what it is assigned and hands over progress and the findings that a scenario puts in its mouth."""

    def __init__(self, cluster: FakeCluster) -> None:
        """Watch the jobs of a cluster."""
        self._cluster = cluster
        self.is_silent = False
        self.every_s = 1
        self._findings: list[Finding] = []

    def find(self, finding: Finding) -> None:
        """Have a finding to hand over."""
        self._findings.append(finding)

    async def turn(self, backend: Backend, now: datetime) -> None:
        """Ask what to follow and hand over what is new."""
        if self.is_silent or now.timestamp() % self.every_s:
            return
        assignments = await backend.assignments(NAME)
        for item in assignments.assignments:
            progress = self._cluster.progress(item.attempt.job.raw_id, now, item.attempt.restart_count)
            await self._submit(backend, item.attempt, progress, now, read_to_end=item.ended_at is not None)
        for attempt in {finding.attempt for finding in self._findings}:
            await self._submit(backend, attempt, None, now)

    async def _submit(
        self,
        backend: Backend,
        attempt: AttemptKey,
        progress: Progress | None,
        now: datetime,
        *,
        read_to_end: bool = False,
    ) -> None:
        findings = tuple(item for item in self._findings if item.attempt == attempt)
        coverage = (Coverage(source="files", sight=Sight.SEEN, up_to=now),)
        batch = WatcherBatch(
            attempt=attempt,
            holder="watcher",
            as_of=now,
            findings=findings,
            progress=progress,
            coverage=coverage,
            read_to_end=read_to_end,
        )
        await backend.submit(batch)
        self._findings = [item for item in self._findings if item.attempt != attempt]


@dataclass(slots=True, kw_only=True)
class Doing:
    """An action that was granted and is being carried out."""

    order: Order
    kind: ActionKind
    id: str
    done: list[str] = field(default_factory=list)
    accepted_at: datetime | None = None
    last_at: datetime


class ControllerHand:
    """Reports every second, prepares what it is ordered, claims it, and carries it out step by step."""

    def __init__(self, cluster: FakeCluster, name: str = "hand") -> None:
        """Control a cluster."""
        self._cluster = cluster
        self.name = name
        self.is_silent = False
        self.every_s = 1
        self.hesitates_s = 0.0
        """How long it waits before the first step of what it has claimed."""
        self.words: tuple[str, ...] = ()
        """More words in each command, so that an effect is another than the one that was shown."""
        self.gives_up = False
        """Whether it abandons what it has claimed."""
        self.refusals: list[str] = []
        self._sequence = 0
        self._prepared: dict[str, str] = {}
        self._doing: dict[str, Doing] = {}

    async def turn(self, backend: Backend, now: datetime) -> None:
        """Report, take orders, carry on."""
        if self.is_silent or now.timestamp() % self.every_s:
            return
        self._sequence += 1
        await backend.report(self._cluster.look(now, self.name, self._sequence))
        orders = await backend.orders(NAME, self.name)
        for order in orders.orders:
            await self._obey(backend, order, orders.lease.epoch, now)
        for doing in list(self._doing.values()):
            await self._carry_on(backend, doing, now)

    async def _obey(self, backend: Backend, order: Order, epoch: int, now: datetime) -> None:
        advice = order.advice
        if order.action is not None or not advice.may_begin:
            return
        effect = self._effect_of(order)
        if not order.prepared or self._prepared.get(advice.id) != effect.digest:
            self._prepared[advice.id] = effect.digest
            await backend.record(
                StepRecord(
                    id=stable_id("step", advice.id, order.stage.stage.value, effect.digest),
                    attempt=advice.attempt,
                    advice_id=advice.id,
                    at=now,
                    step="prepared",
                    effect=effect,
                )
            )
        claim = Claim(
            advice_id=advice.id,
            attempt=advice.attempt,
            generation=advice.generation,
            cluster=NAME,
            holder=self.name,
            lease_epoch=epoch,
            kind=self._kind_of(order),
            effect=effect,
        )
        reply = await backend.claim(claim)
        if reply.granted and reply.action_id is not None:
            self._doing[reply.action_id] = Doing(order=order, kind=claim.kind, id=reply.action_id, last_at=now)
        else:
            self.refusals.append(reply.reason)

    def _kind_of(self, order: Order) -> ActionKind:
        if order.advice.cancels_running:
            return ActionKind.CANCEL
        job = self._cluster.jobs.get(order.raw_id)
        if order.advice.successor:
            return ActionKind.CONSTRAIN
        if job is not None and job.restart_count > order.advice.attempt.restart_count:
            return ActionKind.CONSTRAIN
        return ActionKind.PARK if order.advice.park else ActionKind.RESTART

    def _effect_of(self, order: Order) -> Effect:
        argv = ("scontrol", self._kind_of(order).value, order.raw_id, *order.advice.exclude, *self.words)
        digest = hashlib.sha256("\0".join(argv).encode()).hexdigest()
        return Effect(summary=" ".join(argv), commands=(Command(argv=argv),), digest=digest)

    async def _carry_on(self, backend: Backend, doing: Doing, now: datetime) -> None:
        advice, raw_id = doing.order.advice, doing.order.raw_id
        job = self._cluster.jobs.get(raw_id)
        if self.gives_up or job is None or job.state in (JobState.CANCELLED, JobState.COMPLETED):
            await self._tell(backend, doing, "end", now, ActionEnd.ABANDONED)
        elif not doing.done and now - doing.last_at < timedelta(seconds=self.hesitates_s):
            return
        elif not doing.done:
            doing.accepted_at = now
            if doing.kind is ActionKind.CANCEL:
                self._cluster.end(raw_id, JobState.CANCELLED, now, cancelled_by=990)
                await self._tell(backend, doing, "end", now, ActionEnd.SUCCEEDED)
            elif doing.kind is ActionKind.CONSTRAIN:
                when = advice.park_until if advice.park else job.eligible_at if advice.successor else now
                self._cluster.change(raw_id, eligible_at=when, excluded=(*job.excluded, *advice.exclude))
                await self._tell(backend, doing, "update", now, ActionEnd.SUCCEEDED if advice.park else None)
            elif job.restart_count == advice.attempt.restart_count:
                self._cluster.requeue(raw_id, now, advice.park_until if advice.park else None)
                await self._tell(backend, doing, "requeue", now, ActionEnd.SUCCEEDED if advice.park else None)
        elif doing.done == ["requeue"] and now - doing.last_at >= timedelta(seconds=1):
            self._cluster.change(raw_id, eligible_at=now, excluded=(*job.excluded, *advice.exclude))
            await self._tell(backend, doing, "update", now)
        elif job.started_at is not None and now - job.started_at >= timedelta(seconds=2):
            await self._tell(backend, doing, "end", now, ActionEnd.SUCCEEDED)

    async def _tell(
        self, backend: Backend, doing: Doing, step: str, now: datetime, end: ActionEnd | None = None
    ) -> None:
        doing.done.append(step)
        doing.last_at = now
        if end is not None:
            del self._doing[doing.id]
        await backend.record(
            StepRecord(
                id=stable_id("step", doing.id, step),
                attempt=doing.order.advice.attempt,
                advice_id=doing.order.advice.id,
                at=now,
                step=step,
                action_id=doing.id,
                end=end,
                accepted_at=doing.accepted_at,
            )
        )
