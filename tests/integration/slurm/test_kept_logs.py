"""A job that Slurm would not requeue, and whose log a restart would empty: armed while it runs, its log kept whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from relance.domain.views import JobState
from relance.ports.schedulers import SchedulerRefusedError
from relance.testing.scheduler_contract import reach
from tests.components.slurm import LeasedNodes
from tests.components.slurm_benches import OWNER, SlurmBench, slurm_bench

SCRIPT = (
    '#!/bin/sh\necho "attempt ${{SLURM_RESTART_COUNT:-0}} begins"\nwhile [ ! -e {flag} ]; do sleep 0.05; done\nexit 7\n'
)


@pytest.fixture
async def bench(lease_nodes: Callable[[int], LeasedNodes]) -> AsyncIterator[SlurmBench]:
    async with slurm_bench(lease_nodes(1)) as made:
        made.scheduler = made.adapter(rename_logs=True)
        yield made


async def test_a_job_without_requeue_is_armed_while_it_runs_and_its_log_survives_the_restart(bench: SlurmBench) -> None:
    folder = bench.cluster.work_dir(OWNER)
    flag = folder / f"{bench.partition}.end"
    options = [*bench.words(1), "--no-requeue", "--output=%x-%j.log", "--comment=relance:act,arm_requeue"]
    script = SCRIPT.format(flag=flag)
    raw_id = str(await asyncio.to_thread(bench.cluster.submit, OWNER, script, options=options))
    running = await reach(bench, raw_id, JobState.RUNNING)
    assert (running.requeue_allowed, running.only_watched) == (False, "")
    assert "comment" in running.arming

    await bench.scheduler.send(bench.scheduler.arm(running, allowed=True), 10)
    armed = await bench.scheduler.read(raw_id)
    assert (armed.requeue_allowed, armed.arming) == (True, "")
    await bench.scheduler.send(bench.scheduler.arm(running, allowed=False), 10)
    assert (await bench.scheduler.read(raw_id)).requeue_allowed is False
    await bench.scheduler.send(bench.scheduler.arm(running, allowed=True), 10)

    (log,) = armed.log_paths
    await asyncio.to_thread(_wait_for, Path(log), "attempt 0 begins")
    await asyncio.to_thread(flag.write_text, "")
    failed = await reach(bench, raw_id, JobState.FAILED)
    await asyncio.to_thread(flag.unlink)
    with pytest.raises(SchedulerRefusedError, match="already finished"):
        await bench.scheduler.send(bench.scheduler.arm(failed, allowed=False), 10)

    await bench.scheduler.send(bench.scheduler.requeue(failed), 10)
    pending = await reach(bench, raw_id, JobState.PENDING)
    await bench.clock.sleep(bench.rest_s)
    command = bench.scheduler.constrain(pending, (), None)
    assert command.argv[-1].startswith("StdOut=/")
    await bench.scheduler.send(command, 10)
    again = await reach(bench, raw_id, JobState.RUNNING)
    assert again.log_paths == (f"{log}.r1",)
    await asyncio.to_thread(_wait_for, Path(f"{log}.r1"), "attempt 1 begins")
    kept = await asyncio.to_thread(Path(log).read_text)
    assert kept == "attempt 0 begins\n", "the log of the attempt that failed is whole"


def _wait_for(path: Path, text: str) -> None:
    end = time.monotonic() + 45
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < end, f"{path} does not say {text!r}"
        time.sleep(0.05)
