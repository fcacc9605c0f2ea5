"""What discovery keeps through what happens to a cluster: states anew, reconfigured, suspended, requeued by Slurm."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable

import pytest

from relance.controllers.slurm import SlurmScheduler
from relance.domain.views import ClusterReport, JobState, JobView
from relance.simulation.private_slurm import ClusterPlan, RunningCluster
from relance.testing.scheduler_contract import own, reach
from tests.components.slurm import LeasedNodes
from tests.components.slurm_benches import SlurmBench, slurm_bench


@pytest.fixture
def small(private_slurm: Callable[[ClusterPlan], RunningCluster]) -> LeasedNodes:
    """A cluster of one's own, whose state may be thrown away."""
    cluster = private_slurm(ClusterPlan(node_count=2))
    return LeasedNodes(cluster=cluster, nodes=tuple(cluster.plan.nodes), partition="gpu")


async def test_ids_that_begin_anew_are_new_jobs_and_a_reconfiguration_changes_none(small: LeasedNodes) -> None:
    async with slurm_bench(small) as bench:
        first = await _failed(bench, await bench.submit(nodes=1))
        await bench.do("root", "scontrol", "reconfigure")
        (shown,) = own(await bench.scheduler.look(), first.raw_id)
        assert shown.attempt_key("c") == first.attempt_key("c")

        await asyncio.to_thread(_begin_anew, bench.cluster)
        raw_id = await bench.submit(nodes=1)
        assert raw_id == first.raw_id, "Slurm gives the same id again"
        anew = await reach(bench, raw_id, JobState.RUNNING)
        assert anew.restart_count == 0
        assert anew.job_key("c") != first.job_key("c")
        later = await _again(bench, await _failed(bench, raw_id))
        # Who was there all the time, and who was never there before, tell the same of it, and nothing of the other job.
        for report in (await bench.scheduler.look(), await _fresh_look(bench.adapter())):
            (job,) = own(report, raw_id)
            assert job.attempt_key("c") == later.attempt_key("c")
            assert job.job_key("c") == anew.job_key("c")
            mine = [row for row in report.past if row.raw_id == raw_id and row.first_submitted_at == anew.submitted_at]
            assert [(row.restart_count, row.started_at) for row in mine] == [(0, anew.started_at)]


@pytest.fixture
async def bench(lease_nodes: Callable[[int], LeasedNodes]) -> AsyncIterator[SlurmBench]:
    async with slurm_bench(lease_nodes(2)) as made:
        yield made


async def test_a_suspended_job_is_told_as_that_until_it_goes_on(bench: SlurmBench) -> None:
    raw_id = await bench.submit(nodes=1)
    running = await reach(bench, raw_id, JobState.RUNNING)
    await bench.do("root", "scontrol", "suspend", raw_id)
    held_up = await reach(bench, raw_id, JobState.SUSPENDED)
    assert held_up.attempt_key("c") == running.attempt_key("c")
    await bench.do("root", "scontrol", "resume", raw_id)
    assert (await reach(bench, raw_id, JobState.RUNNING)).attempt_key("c") == running.attempt_key("c")


def _begin_anew(cluster: RunningCluster) -> None:
    """A controller that was installed anew: no state, so ids begin at FirstJobId; accounting has the old ones."""
    cluster.stop_controller()
    state = cluster.layout.state
    shutil.rmtree(state)
    state.mkdir()
    cluster.start_controller()


async def _failed(bench: SlurmBench, raw_id: str) -> JobView:
    await reach(bench, raw_id, JobState.RUNNING)
    await bench.end(raw_id, 1)
    return await reach(bench, raw_id, JobState.FAILED)


async def _again(bench: SlurmBench, job: JobView) -> JobView:
    """The job, running again because it was requeued."""
    await bench.scheduler.send(bench.scheduler.requeue(job), 10)
    pending = await reach(bench, job.raw_id, JobState.PENDING)
    await bench.clock.sleep(bench.rest_s)
    await bench.scheduler.send(bench.scheduler.constrain(pending, (), None), 10)
    return await reach(bench, job.raw_id, JobState.RUNNING)


async def _fresh_look(scheduler: SlurmScheduler) -> ClusterReport:
    report = await scheduler.look()
    await scheduler.close()
    return report
