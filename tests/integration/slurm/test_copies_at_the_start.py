"""A copy that its user submits after the last look before the update, as a restart begins, on a real Slurm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from relance.controllers.slurm import SlurmScheduler
from relance.controlling.controller import Controller
from relance.controlling.ledger import Ledger
from relance.controlling.paces import ControllerSettings
from relance.domain.advice import ActionEnd, Advice, Command
from relance.domain.faults import Remedy
from relance.domain.stages import EffectiveStage, Stage
from relance.domain.views import JobState, JobView
from relance.ports.backends import Order
from relance.testing.scripted_backends import ScriptedBackend
from tests.components.slurm import LeasedNodes
from tests.components.slurm_benches import SlurmBench, slurm_bench

ENDED_S = 60.0
ACT = EffectiveStage(stage=Stage.ACT, end_running=frozenset(), why=("cluster is set to act",))


@pytest.fixture
async def bench(lease_nodes: Callable[[int], LeasedNodes]) -> AsyncIterator[SlurmBench]:
    async with slurm_bench(await asyncio.to_thread(lease_nodes, 4)) as made:
        yield made


def order(bench: SlurmBench, job: JobView) -> Order:
    """The order to start this job's attempt again."""
    now = bench.clock.now()
    advice = Advice(
        id=f"adv-{job.raw_id}", incident_id=f"inc-{job.raw_id}", attempt=job.attempt_key(bench.scheduler.cluster),
        generation=1, action=Remedy.RESTART, reasons=("a rank died",), guards=(), issued_at=now,
        expires_at=now + timedelta(seconds=240),
    )  # fmt: skip
    return Order(advice=advice, raw_id=job.raw_id, partition=bench.partition, stage=ACT)


@pytest.mark.timeout(180)
async def test_a_copy_submitted_just_before_the_update_goes_on_and_ours_never_runs(
    bench: SlurmBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw_id = await bench.submit()
    await bench.until(raw_id, lambda job: job.state is JobState.RUNNING)
    await bench.end(raw_id, 1)
    job = await bench.until(raw_id, lambda job: job.steps is not None and job.state is JobState.FAILED)
    copies: list[str] = []
    send = SlurmScheduler.send

    async def sending(scheduler: SlurmScheduler, command: Command, time_limit_s: float) -> None:
        if "update" in command.argv and not copies:
            copies.append(await bench.submit())
        await send(scheduler, command, time_limit_s)

    monkeypatch.setattr(SlurmScheduler, "send", sending)
    backend = ScriptedBackend(bench.clock)
    backend.give(order(bench, job))
    ledger = Ledger(tmp_path / "controller", bench.scheduler.cluster, bench.clock)
    controller = Controller(
        backend=backend, scheduler=bench.scheduler, ledger=ledger, clock=bench.clock,
        settings=ControllerSettings(holder="controller-1"),
    )  # fmt: skip
    running = asyncio.create_task(controller.run())
    try:
        async with asyncio.timeout(ENDED_S):
            while not backend.ends() and not running.done():
                await bench.clock.sleep(0.1)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        ledger.close()
    ((end, reason),) = backend.ends()
    assert copies, f"no update was sent: {end.value}: {reason}; {backend.story(prepared=True)}"
    assert (end, copies[0] in reason) == (ActionEnd.ABANDONED, True), reason
    after = await bench.scheduler.read(raw_id)
    # Slurm gives what was cancelled before its start the time of its end as its start; it never had a node.
    assert (after.state, after.restart_count, after.nodes) == (JobState.CANCELLED, 1, ()), after
    await bench.until(copies[0], lambda copy: copy.state is JobState.RUNNING)
