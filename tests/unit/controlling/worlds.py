"""The world of a test of the controller: a cluster in memory, a scripted server, a ledger, all on one virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from relance.controlling.controller import Controller
from relance.controlling.evidence_commands import EvidencePlan
from relance.controlling.ledger import Ledger
from relance.controlling.paces import ControllerSettings, Pace
from relance.domain.advice import Advice
from relance.domain.faults import Remedy
from relance.domain.limits import Limits
from relance.domain.requests import RequestKind
from relance.domain.stages import EffectiveStage, Stage
from relance.domain.views import JobState, JobView
from relance.ports.backends import Order
from relance.testing.memory_clusters import MemoryCluster, Timings
from relance.testing.memory_schedulers import SimulatedScheduler
from relance.testing.scripted_backends import ScriptedBackend
from relance.testing.virtual_time import VirtualClock, VirtualTime, run_virtual

T = TypeVar("T")
HOLDER = "controller-1"
ACT = EffectiveStage(stage=Stage.ACT, end_running=frozenset(), why=("cluster is set to act",))


class World:
    """Everything around a controller."""

    def __init__(self, folder: Path, *, nodes: int = 6, timings: Timings | None = None) -> None:
        self.time = VirtualTime()
        self.clock = VirtualClock(self.time)
        self.cluster = MemoryCluster(self.clock, nodes=nodes, timings=timings)
        self.scheduler = SimulatedScheduler(self.cluster, self.clock)
        self.backend = ScriptedBackend(self.clock)
        self.folder = folder / "controller"
        self.limits = Limits()
        self.plan = EvidencePlan()
        self.requests = frozenset(RequestKind)

    def play(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a test's story on the virtual time."""
        return run_virtual(main, self.time)

    def ledger(self) -> Ledger:
        """The controller's ledger, opened."""
        return Ledger(self.folder, self.cluster.name, self.clock)

    def controller(self, ledger: Ledger, pace: Pace = Pace(look_s=1.0)) -> Controller:  # noqa: B008 - frozen
        """A controller in this world."""
        return Controller(
            backend=self.backend,
            scheduler=self.scheduler,
            ledger=ledger,
            clock=self.clock,
            settings=ControllerSettings(
                holder=HOLDER, limits=self.limits, pace=pace, evidence=self.plan, requests=self.requests
            ),
        )

    async def failed_job(self, **fields: object) -> JobView:
        """A job that ran for a minute and failed."""
        raw_id = self.cluster.submit(**fields)  # type: ignore[arg-type]
        await self.clock.sleep(1)
        self.cluster.job(raw_id)
        await self.clock.sleep(60)
        self.cluster.end(raw_id, JobState.FAILED)
        return self.cluster.job(raw_id)

    def advice(self, job: JobView, **fields: object) -> Advice:
        """The advice to start this job's attempt again."""
        now = self.clock.now()
        advice = Advice(
            id=f"adv-{job.raw_id}-{job.restart_count}",
            incident_id=f"inc-{job.raw_id}",
            attempt=job.attempt_key(self.cluster.name),
            generation=1,
            action=Remedy.RESTART,
            reasons=("a rank died",),
            guards=(),
            issued_at=now,
            expires_at=now + timedelta(seconds=240),
        )
        return replace(advice, **fields)  # type: ignore[arg-type]

    def order(self, advice: Advice, *, stage: EffectiveStage = ACT, **fields: object) -> Order:
        """The order to carry it out."""
        order = Order(advice=advice, raw_id=advice.attempt.job.raw_id, partition="train", stage=stage)
        return replace(order, **fields)  # type: ignore[arg-type]

    async def run(self, duration_s: float, ledger: Ledger | None = None) -> None:
        """Let a controller run for that long, then end it as an operator does."""
        async with self.running(ledger):
            await self.clock.sleep(duration_s)

    @contextlib.asynccontextmanager
    async def running(self, ledger: Ledger | None = None) -> AsyncIterator[Controller]:
        """A controller that runs while the block lasts."""
        opened = ledger or self.ledger()
        controller = self.controller(opened)
        task = asyncio.create_task(controller.run())
        try:
            yield controller
            if task.done():
                task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            opened.close()

    async def when(self, raw_id: str, *states: JobState, within_s: float = 300) -> JobView:
        """The job, once it is in one of these states."""
        until = self.clock.monotonic() + within_s
        while (job := self.cluster.job(raw_id)).state not in states:
            assert self.clock.monotonic() < until, f"job {raw_id} is {job.state} after {within_s} s"
            await self.clock.sleep(0.02)
        return job

    async def passes(self, duration_s: float) -> None:
        """Time goes by without a controller, and the cluster goes on."""
        end = self.clock.monotonic() + duration_s
        while self.clock.monotonic() < end:
            await self.clock.sleep(0.5)
            self.cluster.jobs()

    async def claimed(self) -> None:
        """Return as soon as something was claimed, before any time goes by."""
        for _ in range(1000):
            if self.backend.claims:
                return
            await self.clock.sleep(0)
        raise AssertionError("nothing was claimed")

    async def sent(self, count: int, within_s: float = 60) -> None:
        """Return once so many commands were sent."""
        until = self.clock.monotonic() + within_s
        while len(self.scheduler.sent) < count:
            assert self.clock.monotonic() < until, f"only {self.verbs()} after {within_s} s"
            await self.clock.sleep(0.02)

    def verbs(self) -> list[str]:
        """The verbs of all commands sent so far."""
        return [sent.argv[1] for sent in self.scheduler.sent]
