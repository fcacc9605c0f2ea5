"""Two controllers of one cluster: one is killed, or stopped for longer than its lease, and wakes in the middle of it.

What has begun is finished, by one of them; nothing is done twice; a successor takes over in time (design 10).
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relance.controlling.controller import Controller
from relance.controlling.ledger import Ledger
from relance.controlling.paces import ControllerSettings, Pace
from relance.domain import events as e
from relance.domain.limits import Limits
from relance.domain.stages import Stage
from relance.domain.views import Hold, JobState
from relance.recovery.backends import LocalBackend
from relance.recovery.commands import Commands
from relance.recovery.live import Live
from relance.recovery.loop import Loop
from relance.recovery.sites import ClusterRules, Site
from relance.testing.memory_clusters import MemoryCluster
from relance.testing.memory_histories import MemoryHistory
from relance.testing.memory_schedulers import SimulatedScheduler
from relance.testing.virtual_time import VirtualClock, VirtualTime, run_virtual

LIMITS = Limits(settle_s=0, grace_after_boot_s=0)
FIRST, SECOND = "one", "two"
ACTS_WITHIN_S = 30.0


class Process:
    """A process that a signal may stop: nothing that it waits for reaches it until it goes on."""

    def __init__(self) -> None:
        self._runs = asyncio.Event()
        self._runs.set()
        self.is_dead = False

    def stop(self) -> None:
        """Stop it where it is; what it has sent goes on."""
        self._runs.clear()

    def go_on(self) -> None:
        """Let it go on."""
        self._runs.set()

    def around(self, port: object) -> Any:  # noqa: ANN401 - the same port, seen from this process
        """A port whose answers reach the process while it runs alone."""
        return _Reached(port, self)

    async def goes_on(self) -> None:
        """Return once it runs; never, when it is dead."""
        if not self.is_dead:
            await self._runs.wait()
        if self.is_dead:
            raise asyncio.CancelledError


class _Reached:
    def __init__(self, port: object, process: Process) -> None:
        self._port = port
        self._process = process

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the port has
        found = getattr(self._port, name)
        return self._waiting(found) if asyncio.iscoroutinefunction(found) else found

    def _waiting(self, call: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def answered(*args: object, **kwargs: object) -> object:
            if self._process.is_dead:
                raise asyncio.CancelledError
            try:
                return await call(*args, **kwargs)
            finally:
                await self._process.goes_on()

        return answered


class Twins:
    """A server over a history, a cluster, and two controllers of it."""

    def __init__(self, folder: Path) -> None:
        self.time = VirtualTime()
        self.clock = VirtualClock(self.time)
        self.cluster = MemoryCluster(self.clock, nodes=8)
        self.scheduler = SimulatedScheduler(self.cluster, self.clock)
        self.history = MemoryHistory()
        site = Site(clusters=(ClusterRules(cluster=self.cluster.name, opted_in=None, limits=LIMITS),))
        live = Live()
        self.loop = Loop(self.history, live, site, self.clock)
        self.backend = LocalBackend(self.history, live, self.loop, site, self.clock)
        self.commands = Commands(self.history, site, self.clock)
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.processes: dict[str, Process] = {}
        self.ledgers: dict[str, Ledger] = {}
        self._folder = folder

    def begin(self, name: str) -> None:
        """Start a controller; a name that was there before is that controller again."""
        process = self.processes[name] = Process()
        clock = process.around(self.clock)
        ledger = self.ledgers[name] = Ledger(self._folder / name, self.cluster.name, clock)
        controller = Controller(
            backend=process.around(self.backend),
            scheduler=process.around(self.scheduler),
            ledger=ledger,
            clock=clock,
            settings=ControllerSettings(holder=name, limits=LIMITS, pace=Pace(look_s=2.0)),
        )
        self.tasks[name] = asyncio.create_task(controller.run())

    async def kill(self, name: str) -> None:
        """End a controller at once: nothing that it still waits for is waited for."""
        process, task = self.processes.pop(name), self.tasks.pop(name)
        process.is_dead = True
        process.go_on()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self.ledgers.pop(name).close()

    async def failed(self, name: str) -> str:
        """A job that ran for a minute and fails now."""
        raw_id = self.cluster.submit(name)
        await self.clock.sleep(1)
        self.cluster.job(raw_id)
        await self.clock.sleep(60)
        self.cluster.end(raw_id, JobState.FAILED)
        return raw_id

    async def requeued(self, raw_id: str, within_s: float) -> float:
        """After how many seconds the job was requeued. Fails when it was not."""
        begun_s = self.clock.monotonic()
        while not any(done.argv[1:3] == ("requeue", raw_id) for done in self.cluster.done):
            assert self.clock.monotonic() - begun_s <= within_s, f"job {raw_id} was not requeued within {within_s} s"
            await self.clock.sleep(0.1)
        return self.clock.monotonic() - begun_s

    async def settles(self, raw_id: str, within_s: float = 200) -> None:
        """Return once the job runs again and its action has ended. Fails when that does not come."""
        until_s = self.clock.monotonic() + within_s
        while True:
            await self.clock.sleep(1)
            (record,) = await self.history.find_jobs(raw_id)
            action = record.incidents[0].action if record.incidents else None
            job = self.cluster.job(raw_id)
            ended = action is not None and action.end not in (None, "ActionUnknown")
            if ended and job.state is JobState.RUNNING and job.restart_count == 1:
                await self.clock.sleep(5)
                return
            assert self.clock.monotonic() < until_s, (job.state, job.restart_count, action)

    async def check(self, raw_id: str) -> None:
        """One requeue, one new attempt, running, with no hold; one action begun, and it has ended."""
        requeues = [done for done in self.cluster.done if done.argv[1:3] == ("requeue", raw_id)]
        job = self.cluster.job(raw_id)
        starts = [count for _, _, count in self.cluster.starts(raw_id)]
        assert (len(requeues), starts) == (1, [0, 1]), (requeues, starts)
        assert (job.state, job.restart_count, job.hold) == (JobState.RUNNING, 1, Hold.NONE)
        told = await self.history.follow(0, limit=100_000)
        begun = [
            item.event
            for item in told
            if isinstance(item.event, e.ActionStarted) and item.event.attempt.job.raw_id == raw_id
        ]
        assert len(begun) == 1
        (record,) = await self.history.find_jobs(raw_id)
        action = record.incidents[0].action
        assert action is not None
        assert action.end == "ActionSucceeded", (action.end, action.reason)


def _play(story: Callable[[Twins], Awaitable[None]]) -> None:
    async def main(twins: Twins) -> None:
        await twins.commands.set_stage(twins.cluster.name, None, Stage.ACT, None, "operator")
        driving = asyncio.create_task(twins.loop.run())
        twins.begin(FIRST)
        await twins.clock.sleep(1)
        twins.begin(SECOND)
        try:
            await story(twins)
        finally:
            for process in twins.processes.values():
                process.go_on()
            for task in (driving, *twins.tasks.values()):
                task.cancel()
            await asyncio.gather(driving, *twins.tasks.values(), return_exceptions=True)
            for ledger in twins.ledgers.values():
                ledger.close()

    with tempfile.TemporaryDirectory() as folder:
        twins = Twins(Path(folder))
        run_virtual(main(twins), twins.time)


def test_of_two_controllers_one_acts() -> None:
    async def story(twins: Twins) -> None:
        raw_id = await twins.failed("llama")
        await twins.requeued(raw_id, within_s=15)
        await twins.clock.sleep(30)
        await twins.check(raw_id)

    _play(story)


@pytest.mark.parametrize("stops", [True, False], ids=["stopped", "killed"])
def test_the_successor_acts_within_thirty_seconds(stops: bool) -> None:
    async def story(twins: Twins) -> None:
        await twins.clock.sleep(20)
        if stops:
            twins.processes[FIRST].stop()
        else:
            await twins.kill(FIRST)
        raw_id = twins.cluster.submit("llama")
        await twins.clock.sleep(1)
        twins.cluster.job(raw_id)
        await twins.clock.sleep(2)
        twins.cluster.end(raw_id, JobState.FAILED)
        took_s = await twins.requeued(raw_id, within_s=ACTS_WITHIN_S - 3)
        assert took_s > 5, "not before the lease, and what may be under way, is over"
        await twins.clock.sleep(40)
        if stops:
            twins.processes[FIRST].go_on()
            await twins.clock.sleep(30)
        await twins.check(raw_id)

    _play(story)


def _interrupted(stopped_after_s: float, for_s: float, *, killed: bool) -> Callable[[Twins], Awaitable[None]]:
    """The first is stopped between a failure and the next attempt; or killed, and started again so much later."""

    async def story(twins: Twins) -> None:
        raw_id = await twins.failed("llama")
        await twins.clock.sleep(stopped_after_s)
        if killed:
            await twins.kill(FIRST)
        else:
            twins.processes[FIRST].stop()
        await twins.clock.sleep(for_s)
        if killed:
            twins.begin(FIRST)
        else:
            twins.processes[FIRST].go_on()
        await twins.settles(raw_id)
        other = await twins.failed("mistral")
        await twins.settles(other)
        await twins.check(raw_id)
        await twins.check(other)

    return story


@pytest.mark.parametrize(
    ("stopped_after_s", "for_s", "killed"),
    [(7.3, 60.0, False), (5.4, 36.5, False), (7.3, 31.0, True)],
    ids=["in the middle", "as it begins", "killed"],
)
def test_a_controller_that_wakes_after_its_lease_does_nothing_twice(
    stopped_after_s: float, for_s: float, killed: bool
) -> None:
    _play(_interrupted(stopped_after_s, for_s, killed=killed))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@given(
    stopped_after_s=st.floats(min_value=4, max_value=10).map(lambda value: round(value, 2)),
    for_s=st.floats(min_value=1, max_value=90).map(lambda value: round(value, 1)),
    killed=st.booleans(),
)
@settings(max_examples=60)
def test_whenever_it_is_stopped_or_killed_nothing_is_done_twice(
    stopped_after_s: float, for_s: float, killed: bool
) -> None:
    _play(_interrupted(stopped_after_s, for_s, killed=killed))
