"""A watcher with its surroundings in memory: a server that says what to follow, logs, and a clock."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from relance.domain.findings import Coverage, Finding
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import Attachment, WatcherBatch
from relance.domain.views import Assignment
from relance.ports.backends import Assignments, BackendRefusedError
from relance.ports.clocks import Clock
from relance.ports.signals import Signal, Signals
from relance.rules import Pack
from relance.testing.manual_clocks import ManualClock
from relance.testing.memory_sources import MemoryLogs, MemorySource
from relance.testing.scripted_backends import ScriptedBackend
from relance.watching.senses import Senses
from relance.watching.settings import WatcherSettings
from relance.watching.watchers import Watcher
from tests.unit.rules.packs import packaged

PACK: Pack = packaged()


class WatcherServer(ScriptedBackend):
    """The watcher's half of a server."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.wanted: dict[AttemptKey, Assignment] = {}
        self.checkpoints: dict[AttemptKey, str] = {}
        self.batches: list[WatcherBatch] = []
        self.refused: set[AttemptKey] = set()
        self.tried_at: list[float] = []

    def want(self, *assignments: Assignment) -> None:
        self.wanted = {assignment.attempt: assignment for assignment in assignments}
        self._position += 1

    async def assignments(self, cluster: str) -> Assignments:
        self._there()
        return Assignments(assignments=tuple(self.wanted.values()), position=self._position, as_of=self._clock.now())

    async def checkpoint(self, attempt: AttemptKey) -> str | None:
        self._there()
        return self.checkpoints.get(attempt)

    async def submit(self, batch: WatcherBatch) -> None:
        self.tried_at.append(self._clock.monotonic())
        self._there()
        if batch.attempt in self.refused:
            message = "no controller has reported this job"
            raise BackendRefusedError(message)
        self.batches.append(batch)
        if batch.checkpoint is not None:
            self.checkpoints[batch.attempt] = batch.checkpoint

    def findings(self, attempt: AttemptKey | None = None) -> list[Finding]:
        """Each finding once, as it came first."""
        found: dict[str, Finding] = {}
        for batch in self.batches:
            for finding in batch.findings:
                if attempt in (None, finding.attempt):
                    found.setdefault(finding.id, finding)
        return list(found.values())

    def attachments(self) -> list[Attachment]:
        return [attachment for batch in self.batches for attachment in batch.attachments]


class MemorySignals:
    """Implements `relance.ports.signals.SignalSource`: tells what a test gives it, and remembers what it was asked."""

    def __init__(self, name: str = "prometheus") -> None:
        self.given: dict[AttemptKey, list[Signal]] = {}
        self.stands: tuple[Coverage, ...] = ()
        self.closely: frozenset[AttemptKey] = frozenset()
        self.fails: set[AttemptKey] = set()
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def assign(self, assignments: Sequence[Assignment], closely: frozenset[AttemptKey]) -> None:
        self.closely = closely

    async def look(self) -> None:
        await asyncio.sleep(0)

    def take(self, attempt: AttemptKey) -> Signals:
        if attempt in self.fails:
            message = "no such thing"
            raise KeyError(message)
        return Signals(signals=tuple(self.given.pop(attempt, ())), coverage=self.stands)

    def sight(self) -> tuple[Coverage, ...]:
        return self.stands

    async def close(self) -> None:
        """Nothing is held."""


class Room:
    """One cluster with its watcher."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - fields of the settings
        self.clock = ManualClock()
        self.began = self.clock.now()
        self.server = WatcherServer(self.clock)
        self.logs = MemoryLogs()
        self.settings = WatcherSettings(cluster="alpha", holder="w", **settings)
        self.source = MemorySource(self.logs, self.clock)
        self.signals = MemorySignals()
        self.watcher = self.new_watcher()
        self.step = 0

    def new_watcher(self) -> Watcher:
        """A watcher as after a start of the process."""
        self.source = MemorySource(self.logs, self.clock)
        senses = Senses(logs=(self.source,), signals=(self.signals,))
        self.watcher = Watcher(backend=self.server, senses=senses, pack=PACK, clock=self.clock, settings=self.settings)
        return self.watcher

    def assignment(self, raw_id: str = "7", restart_count: int = 0, **fields: Any) -> Assignment:  # noqa: ANN401 - fields of an assignment
        job = JobKey(cluster="alpha", raw_id=raw_id, submitted_at=self.began)
        whole = Assignment(
            attempt=AttemptKey(job=job, restart_count=restart_count),
            owner_uid=0,
            nodes=("n1", "n2"),
            log_paths=("job.out",),
            ranks_per_node=2,
            started_at=self.began,
        )
        return replace(whole, **fields)

    def write(self, assignment: Assignment, *lines: str, file: str = "job.out", node: str | None = None) -> None:
        self.logs.write(assignment.attempt, "".join(f"{line}\n" for line in lines).encode(), file=file, node=node)

    async def train(self, assignment: Assignment, steps: int, every_s: float = 0.5) -> None:
        """Steps go by; each is read."""
        for _ in range(steps):
            self.step += 1
            self.write(assignment, step_line(self.step, self.clock.now()))
            await self.tick(assignment)
            self.clock.advance(every_s)

    async def tick(self, assignment: Assignment) -> None:
        await self.watcher.tick(assignment.attempt)

    async def quiet(self, assignment: Assignment, duration_s: float, every_s: float = 0.2) -> None:
        """Time goes by and nothing is written."""
        for _ in range(round(duration_s / every_s)):
            self.clock.advance(every_s)
            await self.tick(assignment)


def step_line(step: int, at: datetime) -> str:
    """As Megatron-LM writes it."""
    return (
        f" [{at:%Y-%m-%d %H:%M:%S.%f}] iteration {step:8d}/   10000 | consumed samples: {step * 32:12d} | "
        f"elapsed time per iteration (ms): 500.0 | learning rate: 1.0E-04 | global batch size:    32 | "
        f"lm loss: 3.2E+00 | grad norm: 1.000 |"
    )


def saved_lines(step: int, at: datetime) -> tuple[str, str]:
    stamp = f"[{at:%Y-%m-%d %H:%M:%S.%f}]"
    return (
        f"{stamp} saving checkpoint at iteration {step:7d} to /ckpt in torch_dist format",
        f"  {stamp} successfully saved checkpoint from iteration {step:7d} to /ckpt [ t 1/1, p 1/1 ]",
    )
