"""A canary that is told to end: no job of it stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from relance.bootstrap.canaries import opening
from relance.bootstrap.canaries.grounds import Ground
from relance.bootstrap.canaries.procedures import CanaryReport, Plan
from relance.bootstrap.canaries.runs import Run
from relance.bootstrap.canaries.trials import NODE
from relance.ports.clocks import SystemClock
from relance.ports.own_jobs import OwnJob
from relance.ports.schedulers import SchedulerRefusedError, SchedulerSilentError


class Closes:
    def __init__(self, *_: object) -> None:
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_or_a_terminal_that_goes_away_lets_it_put_all_in_order(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in_order: list[str] = []

    async def procedure(ground: Ground, _plan: Plan) -> CanaryReport:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ground.tell("cancelled")
            put_in_order.append("all")
        raise AssertionError

    def tell(text: str) -> None:
        raise OSError(5, f"no terminal for {text}")

    scheduler = Closes()
    monkeypatch.setattr(opening, "run_canary", procedure)
    monkeypatch.setattr(opening, "scheduler_of", lambda *_: scheduler)
    monkeypatch.setattr(opening, "slurm_settings", lambda *_: None)
    monkeypatch.setattr(opening, "SlurmOwnJobs", Closes)
    before = signal.signal(number, signal.SIG_DFL)
    cluster = cast("Any", SimpleNamespace(name="alpha", scheduler=object()))
    try:
        with pytest.raises(KeyboardInterrupt):
            opening.canary(cluster, cast("Any", None), opening.Place(partition="p", folder=tmp_path), Plan(), tell)
    finally:
        signal.signal(number, before)
    assert put_in_order == ["all"]
    assert scheduler.is_closed


class Queue:
    """Takes a job when it is let, and knows of none that it did not take."""

    def __init__(self, answer: str | Exception) -> None:
        self.asked = asyncio.Event()
        self.let = asyncio.Event()
        self.waiting: set[str] = set()
        self._answer = answer

    async def submit(self, _job: OwnJob) -> str:
        self.asked.set()
        if isinstance(self._answer, Exception):
            await self.let.wait()
            raise self._answer
        self.waiting.add(self._answer)  # the command is out: who does not wait for the answer does not know the job
        await self.let.wait()
        return self._answer

    async def cancel(self, raw_id: str) -> None:
        self.waiting.discard(raw_id)

    async def read(self, raw_id: str) -> object:
        raise SchedulerSilentError(f"no answer about {raw_id}")


@pytest.mark.parametrize("answer", ["17", SchedulerRefusedError("no"), SchedulerSilentError("no answer")])
async def test_told_to_end_while_a_job_is_submitted_it_waits_for_its_id_and_cancels_it(
    answer: str | Exception, tmp_path: Path
) -> None:
    queue = Queue(answer)
    ground = Ground(
        cluster="alpha", partition="canary", folder=tmp_path, nodes=1, patience_s=0, quiet_s=0,
        jobs=cast("Any", queue), scheduler=cast("Any", queue), client=cast("Any", None), clock=SystemClock(),
        tell=lambda _: None,
    )  # fmt: skip
    trial = asyncio.create_task(Run(ground, NODE, acts=False).whole())
    await asyncio.wait_for(queue.asked.wait(), 60)
    trial.cancel()
    await asyncio.sleep(0)
    queue.let.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(trial, 60)
    assert queue.waiting == set()
