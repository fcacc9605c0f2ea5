"""Sudden death: every way in which a controller touches the world passes a fuse, and after the chosen call all is over.

A process that is killed does nothing any more, so from then on every call through a fused part raises: no `finally`, no
other task of the dead controller reaches the world.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path

from relance.controlling.ledger import Ledger
from relance.domain.advice import Claim, ClaimReply, Command, StepRecord
from relance.domain.collecting import Collected, EvidenceClaim, EvidenceReport
from relance.domain.deeds import WatchdogDeed
from relance.domain.keys import AttemptKey
from relance.domain.ledger_lines import line_of
from relance.domain.ledgers import Entry
from relance.domain.nodes import NodeChange, NodeSight
from relance.domain.observations import SightReport, WatcherBatch
from relance.domain.requests import RequestClaim, RequestReport
from relance.domain.views import ClusterReport, JobView
from relance.ports.backends import Assignments, Backend, Orders
from relance.ports.clocks import Clock
from relance.testing.memory_clusters import MemoryCluster
from relance.testing.memory_schedulers import SimulatedScheduler


class Killed(BaseException):
    """kill -9."""


class When(Enum):
    """When in a call the process dies."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


@dataclass(slots=True, kw_only=True)
class Fuse:
    """Counts calls, and kills at one of them. `at` 0: never."""

    at: int = 0
    when: When = When.BEFORE
    arrives_after_s: float = 2.0
    """When a command arrives whose sender died half-way through sending it."""
    calls: list[str] = field(default_factory=list)
    is_dead: bool = False

    @contextmanager
    def call(self, name: str) -> Iterator[bool]:
        """Around a call; gives whether the process dies half-way through it."""
        if self.is_dead:
            raise Killed
        self.calls.append(name)
        is_it = len(self.calls) == self.at
        if is_it and self.when is When.BEFORE:
            self.die()
        yield is_it and self.when is When.DURING
        if self.is_dead:
            raise Killed
        if is_it:
            self.die()

    def die(self) -> None:
        """Now."""
        self.is_dead = True
        raise Killed


class FusedScheduler:
    """A scheduler behind a fuse. A command that is under way when the process dies arrives all the same."""

    def __init__(self, inner: SimulatedScheduler, fuse: Fuse, cluster: MemoryCluster, clock: Clock) -> None:
        self._inner = inner
        self._fuse = fuse
        self._cluster = cluster
        self._clock = clock

    @property
    def cluster(self) -> str:
        return self._inner.cluster

    async def look(self) -> ClusterReport:
        with self._fuse.call("look"):
            return await self._inner.look()

    async def read(self, raw_id: str) -> JobView:
        with self._fuse.call("read"):
            return await self._inner.read(raw_id)

    def requeue(self, job: JobView) -> Command:
        return self._inner.requeue(job)

    def constrain(self, job: JobView, exclude: tuple[str, ...], start_at: datetime | None) -> Command:
        return self._inner.constrain(job, exclude, start_at)

    def cancel(self, job: JobView) -> Command:
        return self._inner.cancel(job)

    def arm(self, job: JobView, *, allowed: bool) -> Command:
        return self._inner.arm(job, allowed=allowed)

    def hold(self, job: JobView) -> Command:
        return self._inner.hold(job)

    async def read_node(self, name: str) -> NodeSight:
        return await self._inner.read_node(name)

    def change_node(self, change: NodeChange) -> Command:
        return self._inner.change_node(change)

    def exclude(self, job: JobView, nodes: tuple[str, ...]) -> Command:
        return self._inner.exclude(job, nodes)

    def requeue_held(self, job: JobView) -> Command:
        return self._inner.requeue_held(job)

    def release(self, job: JobView) -> Command:
        return self._inner.release(job)

    def rearm(self, job: JobView, dependency: str) -> Command:
        return self._inner.rearm(job, dependency)

    async def send(self, command: Command, time_limit_s: float) -> None:
        with self._fuse.call(f"send {command.argv[1]}") as half:
            if half:
                self._cluster.do_later(command.argv, self._clock.now() + timedelta(seconds=self._fuse.arrives_after_s))
                self._fuse.die()
            await self._inner.send(command, time_limit_s)

    def evidence(self, argv: tuple[str, ...]) -> Command:
        return self._inner.evidence(argv)

    async def collect(self, command: Command, time_limit_s: float, most_bytes: int) -> Collected:
        with self._fuse.call("collect"):
            return await self._inner.collect(command, time_limit_s, most_bytes)

    async def changed(self, timeout_s: float) -> None:
        await self._inner.changed(timeout_s)

    async def close(self) -> None:
        await self._inner.close()


class FusedBackend:
    """A server behind a fuse."""

    def __init__(self, inner: Backend, fuse: Fuse) -> None:
        self._inner = inner
        self._fuse = fuse

    async def assignments(self, cluster: str) -> Assignments:
        return await self._inner.assignments(cluster)

    async def checkpoint(self, attempt: AttemptKey) -> str | None:
        return await self._inner.checkpoint(attempt)

    async def submit(self, batch: WatcherBatch) -> None:
        await self._inner.submit(batch)

    async def see(self, report: SightReport) -> None:
        await self._inner.see(report)

    async def report(self, report: ClusterReport) -> None:
        with self._fuse.call("report"):
            await self._inner.report(report)

    async def orders(self, cluster: str, holder: str) -> Orders:
        with self._fuse.call("orders"):
            return await self._inner.orders(cluster, holder)

    async def claim(self, claim: Claim) -> ClaimReply:
        with self._fuse.call("claim"):
            return await self._inner.claim(claim)

    async def record(self, step: StepRecord) -> None:
        with self._fuse.call(f"record {step.step}"):
            await self._inner.record(step)

    async def claim_evidence(self, claim: EvidenceClaim) -> ClaimReply:
        with self._fuse.call("claim evidence"):
            return await self._inner.claim_evidence(claim)

    async def record_evidence(self, report: EvidenceReport) -> None:
        with self._fuse.call(f"record evidence {'shown' if report.shown else 'collected'}"):
            await self._inner.record_evidence(report)

    async def record_deed(self, deed: WatchdogDeed) -> None:
        with self._fuse.call(f"record deed {deed.state.value}"):
            await self._inner.record_deed(deed)

    async def claim_request(self, claim: RequestClaim) -> ClaimReply:
        with self._fuse.call("claim request"):
            return await self._inner.claim_request(claim)

    async def record_request(self, report: RequestReport) -> None:
        with self._fuse.call(f"record request {report.end.value}"):
            await self._inner.record_request(report)

    async def wait(self, after: int, timeout_s: float) -> int:
        if self._fuse.is_dead:
            raise Killed
        return await self._inner.wait(after, timeout_s)


class FusedLedger(Ledger):
    """A ledger behind a fuse; half-way through a write, half of the first line is on the disk."""

    def __init__(self, folder: Path, cluster: str, clock: Clock, fuse: Fuse) -> None:
        self._fuse = Fuse()
        super().__init__(folder, cluster, clock)
        self._fuse = fuse

    def append(self, *entries: Entry, durable: bool = True) -> None:
        names = "+".join(type(entry).__name__ for entry in entries) or "nothing"
        with self._fuse.call(f"ledger {names}") as half:
            if half and entries:
                line = line_of(entries[0])
                os.write(self._file, line[: len(line) // 2])
                self._fuse.die()
            super().append(*entries, durable=durable)
