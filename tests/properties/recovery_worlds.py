"""A world for the state machine: a cluster, people, two servers over one history, two controllers, a watcher."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import shutil
import tempfile
from collections.abc import Coroutine
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from relance.domain.advice import ActionKind, Claim, Effect
from relance.domain.findings import Coverage, Finding, Sight
from relance.domain.keys import AttemptKey
from relance.domain.limits import Limits, RestartLimits, StormLimits
from relance.domain.observations import WatcherBatch
from relance.domain.progress import Phase, Progress
from relance.domain.stages import EndRunning, Stage
from relance.domain.views import JobState, JobView
from relance.ports.backends import BackendRefusedError, BackendUnavailableError
from relance.recovery.commands import CommandRefusedError, Commands
from relance.recovery.sites import ClusterRules, Site
from relance.recovery.subjects import AmbiguousError, NotKnownError
from relance.testing.memory_clusters import Timings
from relance.testing.memory_histories import MemoryHistory
from relance.testing.virtual_time import VirtualClock, VirtualLoop, VirtualTime
from tests.properties.mortal_processes import OWNER, ControllerProcess, Message, ServerProcess, Wire
from tests.properties.recovery_truths import Chronicle, TruthfulCluster

T = TypeVar("T")
CLUSTER = "alpha"
_REMEMBERED = 4
FIRST_STEP_AFTER_S = 5.0
SAVED_EVERY = 10
LIMITS = Limits(
    settle_s=5.0,
    dead_rank_min_s=20.0,
    unproven_s=120.0,
    restarts=RestartLimits(without_progress=2, backoff_first_s=10.0, progress_s=30.0),
    storms=StormLimits(owners=3, workflows=4, clear_after_s=120.0, park_s=200.0, park_max_s=600.0),
)


class RecoveryWorld:
    """Everything there is; `play` lets a story go on in its virtual time."""

    def __init__(self, seed: int) -> None:
        """Build it: an idle cluster, two servers, two controllers, nobody connected otherwise than to the first."""
        self.random = Random(seed)
        self.time = VirtualTime(datetime.fromisoformat("2026-03-01T12:00:00+00:00"))
        self.clock = VirtualClock(self.time)
        self._runner = asyncio.Runner(loop_factory=self._loop)
        self._runner.get_loop()
        self._tasks: dict[str, set[asyncio.Task[Any]]] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        self.site = Site(clusters=(ClusterRules(cluster=CLUSTER, opted_in=None, limits=LIMITS),))
        self.history = MemoryHistory()
        self.cluster = TruthfulCluster(self.clock, nodes=6, name=CLUSTER, timings=Timings())
        self.chronicle = Chronicle(self.history, self.site, self.cluster)
        self.commands = Commands(self.history, self.site, self.clock)
        self.servers: list[ServerProcess | None] = [None, None]
        self.controllers: list[ControllerProcess | None] = [None, None]
        self.connected = {"controller-0": 0, "controller-1": 0, "watcher": 0}
        self.post: dict[str, list[Message]] = {}
        """What agents have sent lately, by kind."""
        self.meanwhile: list[Coroutine[Any, Any, object]] = []
        """What people do while the processes work."""
        self.findings: list[Finding] = []
        self.frozen: dict[AttemptKey, datetime] = {}
        self.saved: dict[str, int] = {}
        self.numbers = itertools.count()

    def _loop(self) -> VirtualLoop:
        loop = VirtualLoop(self.time)
        loop.set_task_factory(self._new_task)  # type: ignore[arg-type]  # the stub wants a future of any kind
        return loop

    def _new_task(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T], context: contextvars.Context | None = None
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=loop, context=context)
        self._tasks.setdefault(OWNER.get(), set()).add(task)
        task.add_done_callback(self._tasks[OWNER.get()].discard)
        return task

    def play(self, story: Coroutine[Any, Any, T]) -> T:
        """Run a story to its end; what others have begun goes on while it waits."""
        return self._runner.run(story)

    def close(self) -> None:
        """End everything."""

        async def end() -> None:
            await self.everybody_works()  # whatever people still meant to do
            for index in range(2):
                await self.kill_controller(index)

        self.play(end())
        self._runner.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- processes

    async def start_server(self, index: int) -> None:
        """Start a server, in place of the one that ran."""
        self.servers[index] = ServerProcess(self.history, self.site, self.clock, self.random)

    async def start_controller(self, index: int) -> None:
        """Start a controller on its ledger, after the one that ran."""
        await self.kill_controller(index)
        name = f"controller-{index}"
        OWNER.set(name)
        wire = Wire(lambda: self.servers[self.connected[name]], self.overhear)
        self.controllers[index] = ControllerProcess(name, self.folder / name, self.cluster, self.clock, wire)
        OWNER.set("")

    async def kill_controller(self, index: int) -> None:
        """Kill a controller; its ledger stays."""
        process, self.controllers[index] = self.controllers[index], None
        if process is not None:
            await process.bury(set(self._tasks.get(process.name, ())))

    def lose_ledger(self, index: int) -> None:
        """The folder of a controller that does not run is gone."""
        assert self.controllers[index] is None
        shutil.rmtree(self.folder / f"controller-{index}", ignore_errors=True)

    # -- the passing of time

    async def pass_time(self, duration_s: float, most_rounds: int = 8) -> None:
        """Let time pass, everybody working a few times meanwhile."""
        rounds = min(most_rounds, max(1, int(duration_s)))
        for _ in range(rounds):
            await self.clock.sleep(duration_s / rounds)
            await self.everybody_works()

    async def everybody_works(self) -> None:
        """One round of every process that is alive, side by side."""
        self._save()
        await self.watch()
        rounds = [self._round_of(process) for process in self.controllers if process is not None]
        people, self.meanwhile = [self._at_some_moment(deed) for deed in self.meanwhile], []
        loops = [self._loop_of(server) for server in self.servers if server is not None]
        await asyncio.gather(*rounds, *loops, *people)
        for index, process in enumerate(self.controllers):
            if process is not None and process.has_died:
                await self.kill_controller(index)
        for index, server in enumerate(self.servers):
            if server is not None and server.is_dead:
                self.servers[index] = None

    async def _at_some_moment(self, deed: Coroutine[Any, Any, object]) -> None:
        for _ in range(self.random.randrange(40)):
            await asyncio.sleep(0)
        await self.try_to(deed)

    async def _round_of(self, process: ControllerProcess) -> None:
        OWNER.set(process.name)
        await process.tick()

    async def _loop_of(self, server: ServerProcess) -> None:
        for _ in range(20):
            if server.is_dead or await server.tick() == 0:
                return
        raise AssertionError("the loop appends without end")

    # -- the watcher

    async def watch(self) -> None:
        """Hand over the progress of what is followed, and what was found."""
        server = self.servers[self.connected["watcher"]]
        if server is None:
            return
        wire = Wire(lambda: server, self.overhear)
        try:
            followed = await wire.assignments(CLUSTER)
            for item in followed.assignments:
                progress = self._progress(item.attempt)
                found = tuple(finding for finding in self.findings if finding.attempt == item.attempt)
                batch = WatcherBatch(
                    attempt=item.attempt,
                    holder="watcher",
                    as_of=self.clock.now(),
                    findings=found,
                    progress=progress,
                    coverage=(Coverage(source="files", sight=Sight.SEEN, up_to=self.clock.now()),),
                    read_to_end=item.ended_at is not None,
                )
                await wire.submit(batch)
                self.findings = [finding for finding in self.findings if finding not in found]
        except (BackendUnavailableError, BackendRefusedError):
            return

    def overhear(self, message: Message) -> None:
        """Remember the newest messages of each kind: they may come again, or late."""
        of_kind = self.post.setdefault(type(message).__name__, [])
        of_kind.append(message)
        del of_kind[:-_REMEMBERED]

    async def deliver(self, message: Message, index: int) -> None:
        """A message comes again, or late."""
        server = self.servers[index]
        try:
            await Wire(lambda: server).deliver(message)
        except (BackendUnavailableError, BackendRefusedError):
            return

    async def claim_carelessly(self, pick: int, index: int) -> None:
        """A controller claims what it was not told to claim, and dies of it: the server alone has to see to that."""
        server = self.servers[index]
        rows = await self.history.incidents(open_only=True)
        advised = [row.incident for row in rows if row.incident.advice is not None]
        if server is None or not advised:
            return
        incident = advised[pick % len(advised)]
        holder = f"controller-{pick % 2}"
        lease = await self.history.take_lease(CLUSTER, holder, 20.0, self.clock.now())
        assert incident.advice is not None
        claim = Claim(
            advice_id=incident.advice.id,
            attempt=incident.attempt,
            generation=max(1, incident.advice.generation - (pick % 5 == 0)),
            cluster=CLUSTER,
            holder=holder,
            lease_epoch=lease.epoch,
            kind=ActionKind.PARK if incident.advice.park else ActionKind.RESTART,
            effect=incident.effect or Effect(summary="", commands=(), digest="made up"),
        )
        await self.deliver(claim, index)

    def _view(self, attempt: AttemptKey) -> JobView | None:
        return next(
            (job for job in self.cluster.jobs() if job.job_key(CLUSTER) == attempt.job
             and job.restart_count == attempt.restart_count), None,
        )  # fmt: skip

    def _progress(self, attempt: AttemptKey) -> Progress | None:
        view = self._view(attempt)
        if view is None or view.started_at is None:
            return None
        now = self.clock.now()
        until = min(now, self.frozen.get(attempt, now), view.ended_at or now)
        began = view.started_at + timedelta(seconds=FIRST_STEP_AFTER_S)
        count = int((until - began).total_seconds()) + 1
        if count < 1:
            return Progress(as_of=now, phase=Phase.STARTING)
        loaded = self.saved.get(f"{attempt}", 0)
        last = loaded + count
        saved = last - last % SAVED_EVERY
        return Progress(
            as_of=now,
            phase=Phase.TRAINING,
            first_step=loaded + 1,
            first_step_at=began,
            step=last,
            step_at=began + timedelta(seconds=count - 1),
            highest_step=last,
            steps_seen=count,
            median_step_s=1.0,
            checkpoint_durable=saved if saved > loaded else None,
            loaded_step=loaded or None,
        )

    def _save(self) -> None:
        """What an attempt has saved is what the next one loads."""
        for view in self.cluster.jobs():
            key = view.attempt_key(CLUSTER)
            progress = self._progress(key)
            if progress is not None and progress.checkpoint_durable is not None:
                following = AttemptKey(job=key.job, restart_count=key.restart_count + 1)
                self.saved[str(following)] = progress.checkpoint_durable

    # -- people

    async def try_to(self, command: Coroutine[Any, Any, object]) -> None:
        """A person orders something; that it makes no sense now is no fault."""
        try:
            await command
        except (CommandRefusedError, NotKnownError, AmbiguousError):
            return

    async def set_stage(self, stage: Stage, end_running: frozenset[EndRunning]) -> None:
        """An operator sets the stage."""
        await self.commands.set_stage(CLUSTER, None, stage, end_running, "operator")

    def jobs_in(self, *states: JobState) -> list[JobView]:
        """The jobs that are in one of these states now."""
        return [job for job in self.cluster.jobs() if job.state in states]
