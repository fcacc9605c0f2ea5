"""On a real Slurm: a hold where there is no time otherwise, also when we die in it; jobs that wait for a success."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from relance.controllers.slurm import SlurmScheduler
from relance.controlling import controller as module
from relance.controlling.controller import Controller
from relance.controlling.dependents import NEVER
from relance.controlling.ledger import Ledger
from relance.controlling.paces import ControllerSettings
from relance.domain.advice import ActionEnd, Advice, Command
from relance.domain.faults import Remedy
from relance.domain.stages import EffectiveStage, Stage
from relance.domain.views import Hold, JobState, JobView
from relance.domain.watchdogs import MARK_FILE, WatchdogMark, mark_text
from relance.ports.backends import Order
from relance.ports.schedulers import Scheduler
from relance.simulation.private_slurm import ClusterPlan, RunningCluster
from relance.testing.scripted_backends import ScriptedBackend
from tests.components.slurm import LeasedNodes
from tests.components.slurm_benches import SlurmBench, slurm_bench

ENDED_S = 90.0
ACT = EffectiveStage(stage=Stage.ACT, end_running=frozenset(), why=("cluster is set to act",))


def order(bench: SlurmBench, job: JobView, exclude: Sequence[str] = ()) -> Order:
    now = bench.clock.now()
    advice = Advice(
        id=f"adv-{job.raw_id}-{job.restart_count}", incident_id=f"inc-{job.raw_id}",
        attempt=job.attempt_key(bench.scheduler.cluster), generation=1, action=Remedy.RESTART_EXCLUDING,
        reasons=("a rank died",), guards=(), issued_at=now, expires_at=now + timedelta(seconds=240),
        exclude=tuple(exclude),
    )  # fmt: skip
    return Order(advice=advice, raw_id=job.raw_id, partition=bench.partition, stage=ACT)


async def failed(bench: SlurmBench, raw_id: str) -> JobView:
    await bench.until(raw_id, lambda job: job.state is JobState.RUNNING)
    await bench.end(raw_id, 1)
    return await bench.until(raw_id, lambda job: job.steps is not None and job.state is JobState.FAILED)


@asynccontextmanager
async def controlled(
    bench: SlurmBench, backend: ScriptedBackend, folder: Path, recorder: Recorder
) -> AsyncIterator[None]:
    """A controller that works while the block lasts, and is then killed rather than ended."""
    ledger = Ledger(folder, bench.scheduler.cluster, bench.clock)
    controller = Controller(
        backend=backend, scheduler=cast("Scheduler", recorder), ledger=ledger, clock=bench.clock,
        settings=ControllerSettings(holder="controller-1"),
    )  # fmt: skip
    running = asyncio.create_task(controller.run())
    try:
        yield
        assert not running.done(), running.exception()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        ledger.close()


async def ended(bench: SlurmBench, backend: ScriptedBackend) -> tuple[ActionEnd, str]:
    async with asyncio.timeout(ENDED_S):
        while not backend.ends():
            await bench.clock.sleep(0.1)
    return backend.ends()[-1]


class Recorder:
    """A scheduler that notes what is sent; after `dies_after` (a word of Slurm's) nothing comes back any more."""

    def __init__(self, inner: SlurmScheduler, dies_after: str = "") -> None:
        self.sent: list[tuple[str, ...]] = []
        self.is_dead = asyncio.Event()
        self._inner = inner
        self._dies_after = dies_after

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def send(self, command: Command, time_limit_s: float) -> None:
        self.sent.append(command.argv)
        await self._inner.send(command, time_limit_s)
        if self._dies_after in command.argv:
            self.is_dead.set()
            await asyncio.Event().wait()


def watch(folder: Path, bench: SlurmBench) -> None:
    """The mark of a watchdog that watches, good for hours."""
    folder.mkdir(mode=0o700)
    mark = WatchdogMark(cluster=bench.scheduler.cluster, at=bench.clock.now(), every_s=36_000, stage=Stage.ACT)
    (folder / MARK_FILE).write_text(mark_text(mark))


@pytest.fixture
async def hasty(private_slurm: Callable[[ClusterPlan], RunningCluster]) -> AsyncIterator[SlurmBench]:
    """A cluster of its own on which a requeued job starts after eleven seconds."""
    cluster = await asyncio.to_thread(private_slurm, ClusterPlan(node_count=3, cred_expire_s=10))
    lease = LeasedNodes(cluster=cluster, nodes=tuple(cluster.plan.nodes), partition="gpu")
    async with slurm_bench(lease) as made:
        yield made


@pytest.mark.timeout(240)
async def test_where_there_is_no_time_a_restart_holds_the_job_and_whoever_comes_after_us_frees_it(
    hasty: SlurmBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DRAIN_S", 0.0)
    folder = tmp_path / "controller"
    watch(folder, hasty)
    job = await failed(hasty, await hasty.submit())
    backend = ScriptedBackend(hasty.clock)
    backend.give(order(hasty, job, exclude=job.nodes[:1]))
    dying = Recorder(hasty.scheduler, dies_after="requeuehold")
    async with controlled(hasty, backend, folder, dying), asyncio.timeout(ENDED_S):
        await dying.is_dead.wait()
    held = await hasty.scheduler.read(job.raw_id)
    assert (held.state, held.hold, held.restart_count) == (JobState.PENDING, Hold.USER, 1)
    after = Recorder(hasty.adapter())
    async with controlled(hasty, backend, folder, after):
        end, reason = await ended(hasty, backend)
    assert end is ActionEnd.SUCCEEDED, reason
    (requeue,), (update, release) = dying.sent, after.sent
    assert [requeue[1], update[1], release[1]] == ["requeuehold", "update", "release"]
    effect = next(step.effect for step in backend.steps.values() if step.effect is not None)
    assert [command.argv for command in effect.commands] == [requeue, update, release]
    now = await hasty.scheduler.read(job.raw_id)
    assert (now.state, now.hold, now.excluded) == (JobState.RUNNING, Hold.NONE, job.nodes[:1])
    assert job.nodes[0] not in now.nodes


@pytest.fixture
async def bench(lease_nodes: Callable[[int], LeasedNodes]) -> AsyncIterator[SlurmBench]:
    async with slurm_bench(await asyncio.to_thread(lease_nodes, 3)) as made:
        yield made


@pytest.mark.timeout(240)
async def test_a_chain_of_three_completes_after_its_first_job_was_restarted(bench: SlurmBench, tmp_path: Path) -> None:
    first = await bench.submit()
    second = await bench.submit(nodes=1, options=[f"--dependency=afterok:{first}", "--job-name=second"])
    third = await bench.submit(nodes=1, options=[f"--dependency=afterok:{second}", "--job-name=third"])
    job = await failed(bench, first)
    await bench.until(second, lambda other: other.reason == NEVER)
    backend = ScriptedBackend(bench.clock)
    waiting = [await bench.scheduler.read(raw_id) for raw_id in (second, third)]
    backend.acting = tuple(str(other.attempt_key(bench.scheduler.cluster)) for other in waiting)
    backend.give(order(bench, job))
    recorder = Recorder(bench.scheduler)
    async with controlled(bench, backend, tmp_path / "controller", recorder):
        end, reason = await ended(bench, backend)
    assert end is ActionEnd.SUCCEEDED, reason
    assert recorder.sent[2:] == [("scontrol", "update", f"JobId={second}", f"Dependency=afterok:{first}")]
    effect = next(step.effect for step in backend.steps.values() if step.effect is not None)
    assert [command.argv for command in effect.commands] == recorder.sent
    for raw_id in (first, second, third):
        await bench.until(raw_id, lambda other: other.state is JobState.RUNNING)
        await bench.end(raw_id, 0)
        await bench.until(raw_id, lambda other: other.state is JobState.COMPLETED)
