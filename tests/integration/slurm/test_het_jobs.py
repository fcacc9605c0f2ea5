"""A heterogeneous job on a real cluster: looked at, failed, requeued and kept off a node as the one job that it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from relance.domain.views import JobState, JobView
from relance.testing.scheduler_contract import own, reach
from tests.components.slurm import LeasedNodes
from tests.components.slurm_benches import OWNER, SlurmBench, slurm_bench

SCRIPT = """#!/bin/sh
#SBATCH --nodes=1 --partition={partition} --job-name={name} --comment=relance:act
#SBATCH hetjob
#SBATCH --nodes=1 --partition={partition}
srun --het-group=0,1 sleep 600 &
while [ ! -e {flag} ]; do sleep 0.05; done
exit 7
"""


@pytest.fixture
async def bench(lease_nodes: Callable[[int], LeasedNodes]) -> AsyncIterator[SlurmBench]:
    async with slurm_bench(lease_nodes(3)) as made:
        yield made


async def test_a_het_job_is_one_job_that_restarts_with_all_its_components_off_the_node(bench: SlurmBench) -> None:
    flag = bench.cluster.work_dir(OWNER) / f"{bench.partition}.end"
    script = SCRIPT.format(partition=bench.partition, name=f"het{bench.partition}", flag=flag)
    raw_id = str(await asyncio.to_thread(bench.cluster.submit, OWNER, script))
    component = str(int(raw_id) + 1)
    running = await reach(bench, raw_id, JobState.RUNNING)
    await bench.step_runs(component)
    assert (running.node_count, len(set(running.nodes)), running.only_watched) == (2, 2, "")

    await asyncio.to_thread(flag.write_text, "")
    failed = await reach(bench, raw_id, JobState.FAILED)
    await asyncio.to_thread(flag.unlink)
    assert failed.exit_code == 7
    assert _has_step(failed, "+1.0")
    report = await bench.scheduler.look()
    assert own(report, component) == (), "a component is told of with its leader"

    await bench.scheduler.send(bench.scheduler.requeue(failed), 10)
    pending = await reach(bench, raw_id, JobState.PENDING)
    await bench.clock.sleep(bench.rest_s)
    lost = running.nodes[1]
    await bench.scheduler.send(bench.scheduler.constrain(pending, (lost,), None), 10)
    again = await reach(bench, raw_id, JobState.RUNNING)
    assert (again.restart_count, again.excluded, again.only_watched) == (1, (lost,), "")
    assert lost not in again.nodes
    assert len(again.nodes) == 2
    report = await bench.scheduler.look()
    (past,) = [row for row in report.past if row.raw_id == raw_id]
    assert (past.restart_count, set(past.nodes)) == (0, set(running.nodes))
    assert not [row for row in report.past if row.raw_id == component]

    # A step that its owner cancelled in another component is a decision about the job.
    await bench.step_runs(component)
    await bench.do(OWNER, "scancel", f"{component}.0")
    await asyncio.to_thread(flag.write_text, "")
    ended = await reach(bench, raw_id, JobState.FAILED)
    assert {step.name: step.cancelled_by for step in ended.steps or ()}["+1.0"] == ended.owner_uid


def _has_step(job: JobView, name: str) -> bool:
    return any(step.name == name for step in job.steps or ())
