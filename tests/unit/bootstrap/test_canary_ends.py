"""A canary that is told to end: no job of it stays behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from relance.bootstrap.canaries.grounds import Ground
from relance.bootstrap.canaries.runs import Run
from relance.bootstrap.canaries.trials import NODE
from relance.ports.clocks import SystemClock
from relance.ports.own_jobs import OwnJob
from relance.ports.schedulers import SchedulerRefusedError, SchedulerSilentError


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
