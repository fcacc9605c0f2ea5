"""The adapter against a real cluster: who decided, what may only be watched, what is remembered, what is read anew."""

from __future__ import annotations

import asyncio
import pwd
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest

from relance.controllers.slurm import SlurmScheduler, queues
from relance.domain.advice import Command
from relance.domain.stages import Stage
from relance.domain.views import ClusterReport, Hold, JobState, JobView, NodeState
from relance.ports.schedulers import SchedulerRefusedError
from relance.simulation.private_slurm import ClusterPlan, RunningCluster
from relance.testing.scheduler_contract import own, reach
from tests.components.slurm import LeasedNodes
from tests.components.slurm_benches import OWNER, SlurmBench, slurm_bench


@pytest.fixture
async def bench(slurm_nodes: LeasedNodes) -> AsyncIterator[SlurmBench]:
    async with slurm_bench(slurm_nodes) as made:
        yield made


async def restarted(bench: SlurmBench, job: JobView) -> JobView:
    """The job, running again because it was requeued."""
    await bench.scheduler.send(bench.scheduler.requeue(job), 10)
    pending = await reach(bench, job.raw_id, JobState.PENDING)
    await bench.clock.sleep(bench.rest_s)
    await bench.scheduler.send(bench.scheduler.constrain(pending, (), None), 10)
    return await reach(bench, job.raw_id, JobState.RUNNING)


async def failed(bench: SlurmBench, raw_id: str) -> JobView:
    await reach(bench, raw_id, JobState.RUNNING)
    await bench.end(raw_id, 1)
    return await reach(bench, raw_id, JobState.FAILED)


async def test_who_was_never_here_before_gives_a_job_of_three_attempts_the_same_key_and_past(bench: SlurmBench) -> None:
    first = await failed(bench, await bench.submit())
    await restarted(bench, first)
    second = await failed(bench, first.raw_id)
    third = await restarted(bench, second)
    assert third.restart_count == 2
    known, unknown = await bench.scheduler.look(), await look(bench.adapter())
    (here,), (there,) = own(known, first.raw_id), own(unknown, first.raw_id)
    assert here.job_key("c") == there.job_key("c") == first.job_key("c")
    past = [[row for row in report.past if row.raw_id == first.raw_id] for report in (known, unknown)]
    assert [(row.restart_count, row.state, row.exit_code) for row in past[0]] == [
        (0, JobState.FAILED, 1), (1, JobState.FAILED, 1),
    ]  # fmt: skip
    assert [row.started_at for row in past[0]] == [first.started_at, second.started_at]
    assert past[1] == past[0]


async def look(scheduler: SlurmScheduler) -> ClusterReport:
    report = await scheduler.look()
    await scheduler.close()
    return report


async def test_a_step_that_its_owner_cancelled_is_told_although_the_job_failed(bench: SlurmBench) -> None:
    script = "#!/bin/sh\nsrun sleep 60\n"
    raw_id = str(await asyncio.to_thread(bench.cluster.submit, OWNER, script, options=bench.words(2)))
    await reach(bench, raw_id, JobState.RUNNING)
    await bench.step_runs(raw_id)
    await bench.do(OWNER, "scancel", f"{raw_id}.0")
    job = await reach(bench, raw_id, JobState.FAILED)
    assert job.steps is not None
    assert {step.name: step.cancelled_by for step in job.steps}["0"] == pwd.getpwnam(OWNER).pw_uid
    assert job.cancelled_by is None


async def test_a_job_that_root_cancelled_is_told_as_that(bench: SlurmBench) -> None:
    raw_id = await bench.submit()
    await reach(bench, raw_id, JobState.RUNNING)
    await bench.do("root", "scancel", raw_id)
    assert (await reach(bench, raw_id, JobState.CANCELLED)).cancelled_by == 0


async def test_steps_of_a_running_job_are_read_when_somebody_asks(bench: SlurmBench) -> None:
    script = "#!/bin/sh\nsrun sleep 60\n"
    raw_id = str(await asyncio.to_thread(bench.cluster.submit, OWNER, script, options=bench.words(2)))
    await reach(bench, raw_id, JobState.RUNNING)
    await bench.step_runs(raw_id)
    job = await bench.until(raw_id, lambda job: job.steps is not None)
    assert ("batch", JobState.RUNNING) in {(step.name, step.state) for step in job.steps or ()}
    assert job.somebody_at_work is None


async def test_an_owner_who_attaches_a_shell_is_at_work(bench: SlurmBench) -> None:
    raw_id = await bench.submit(nodes=2)
    await reach(bench, raw_id, JobState.RUNNING)
    attached = ["srun", "--overlap", "--nodes=1", "--ntasks=1", f"--jobid={raw_id}", "sh", "-c", "sleep 30"]
    shell = asyncio.create_task(asyncio.to_thread(bench.cluster.run_as, OWNER, attached))
    await bench.step_runs(raw_id)
    job = await bench.until(raw_id, lambda job: job.somebody_at_work is not None)
    assert "shell" in (job.somebody_at_work or "")
    await bench.do(OWNER, "scancel", raw_id)
    await shell


async def test_a_job_that_its_owner_holds_is_held_by_its_user(bench: SlurmBench) -> None:
    raw_id = await bench.submit(options=["--hold"])
    assert (await bench.scheduler.read(raw_id)).hold is Hold.USER
    await bench.do("root", "scontrol", "hold", raw_id)
    other = await bench.submit(options=["--begin=now+1hour"])
    assert (await bench.scheduler.read(other)).hold is Hold.NONE


async def test_one_task_of_an_array_is_restarted_and_no_other(bench: SlurmBench) -> None:
    raw_id = await bench.submit(nodes=1, options=["--array=0-1"])
    running: list[JobView] = []
    while len(running) < 2:
        await bench.clock.sleep(0.2)
        report = await bench.scheduler.look()
        ours = [job for job in report.jobs if job.partition == bench.partition]
        running = [job for job in ours if job.state is JobState.RUNNING]
    assert {job.array for job in running} == {raw_id}
    assert all("array" in job.only_watched for job in running)
    # One task's raw id is the array's own id: a command that named it would mean all of them.
    master = next(job for job in running if job.raw_id == raw_id)
    other = next(job for job in running if job.raw_id != raw_id)
    assert raw_id not in bench.scheduler.requeue(master).argv
    with pytest.raises(SchedulerRefusedError, match="all tasks of an array"):
        await bench.scheduler.send(Command(argv=("scontrol", "requeue", raw_id)), 5)
    await bench.scheduler.send(bench.scheduler.requeue(master), 5)
    await bench.until(raw_id, lambda job: job.restart_count == 1)
    assert (await bench.scheduler.read(other.raw_id)).restart_count == 0


async def test_jobs_that_slurm_will_not_requeue_or_that_have_no_script_are_only_watched(bench: SlurmBench) -> None:
    fixed = await bench.submit(nodes=1, options=["--no-requeue"])
    assert "Requeue=1" in (await bench.scheduler.read(fixed)).only_watched
    words = ["salloc", *bench.words(1), "--no-shell"]
    await bench.do(OWNER, *words)
    report = await bench.scheduler.look()
    (by_hand,) = [job for job in report.jobs if job.raw_id != fixed and job.partition == bench.partition]
    assert "interactive" in by_hand.only_watched


async def test_settings_in_the_work_folder_count_and_the_comment_goes_before_them(bench: SlurmBench) -> None:
    folder = bench.cluster.work_dir(OWNER) / f"wishes-{bench.partition}"
    await bench.do(OWNER, "mkdir", str(folder))
    await bench.do(OWNER, "sh", "-c", f"echo 'mode: act\nmax_restarts: 3' > {folder}/.relance.yaml")
    plain = await bench.submit(nodes=1, options=[f"--chdir={folder}"])
    spoken = await bench.submit(nodes=1, options=[f"--chdir={folder}"], comment="relance:observe")
    of_file, of_both = await bench.scheduler.read(plain), await bench.scheduler.read(spoken)
    assert (of_file.wish.mode, of_file.wish.max_restarts) == (Stage.ACT, 3)
    assert (of_both.wish.mode, of_both.wish.max_restarts) == (Stage.OBSERVE, 3)


async def test_a_drained_node_a_reservation_and_the_exclusions_of_others_are_seen(bench: SlurmBench) -> None:
    node = bench.nodes[0]
    await bench.do("root", "scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=fan is loud")
    begins = ["StartTime=now+1hour", "Duration=60", "Users=root", "Flags=MAINT,IGNORE_JOBS"]
    name = f"window{bench.partition}"
    await bench.do("root", "scontrol", "create", "reservation", f"ReservationName={name}", f"Nodes={node}", *begins)
    report = await bench.scheduler.look()
    shown = next(view for view in report.nodes if view.name == node)
    assert (shown.state, shown.reason) == (NodeState.DRAINED, "fan is loud")
    (window,) = [window for window in report.windows if window.name == name]
    assert (window.nodes, window.is_maintenance) == ((node,), True)
    assert timedelta(minutes=58) < window.starts_at - report.as_of < timedelta(minutes=62)


@pytest.fixture
def small(private_slurm: Callable[[ClusterPlan], RunningCluster]) -> LeasedNodes:
    """A cluster of one's own, whose daemons may be ended."""
    cluster = private_slurm(ClusterPlan(node_count=2))
    return LeasedNodes(cluster=cluster, nodes=tuple(cluster.plan.nodes), partition="gpu")


async def test_without_accounting_nobodys_decision_is_ruled_out_and_the_rights_are_not_known(
    small: LeasedNodes,
) -> None:
    async with slurm_bench(small) as bench:
        raw_id = await bench.submit(nodes=1)
        await reach(bench, raw_id, JobState.RUNNING)
        await asyncio.to_thread(bench.cluster.stop_accounting)
        await bench.end(raw_id, 1)
        report = await bench.scheduler.look()
        (job,) = own(report, raw_id)
        assert (job.state, job.steps) == (JobState.FAILED, None)
        assert any("accounting cannot be read" in text for text in report.problems)
        assert report.complete
        stranger = await look(bench.adapter())
        assert any("rights" in text for text in stranger.facts.lacks)
        await asyncio.to_thread(bench.cluster.start_accounting)
        await bench.until(raw_id, lambda job: job.steps is not None)


async def test_a_controller_that_was_restarted_has_a_new_boot_time_and_the_same_jobs(small: LeasedNodes) -> None:
    async with slurm_bench(small) as bench:
        raw_id = await bench.submit(nodes=1)
        job = await reach(bench, raw_id, JobState.RUNNING)
        before = await bench.scheduler.look()
        await asyncio.to_thread(bench.cluster.restart_controller)
        after = await look(bench.adapter())
        assert before.facts.booted_at is not None
        assert after.facts.booted_at is not None
        assert after.facts.booted_at > before.facts.booted_at
        assert own(after, raw_id)[0].attempt_key("c") == job.attempt_key("c")


async def test_a_long_queue_is_looked_at_by_glances_and_shows_the_same(
    bench: SlurmBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "_SMALL", -1)
    first = await bench.submit(nodes=1)
    other = await bench.submit(nodes=1, options=["--begin=now+1hour"])
    running = await reach(bench, first, JobState.RUNNING)
    report = await bench.scheduler.look()
    assert own(report, first) == (running,)
    assert own(report, other)[0].state is JobState.PENDING
    await bench.end(first, 3)
    failed_job = await reach(bench, first, JobState.FAILED)
    report = await bench.scheduler.look()
    assert own(report, first) == (failed_job,)
    # What no glance shows is seen after a command of ours all the same.
    pending = own(report, other)[0]
    await bench.scheduler.send(bench.scheduler.constrain(pending, bench.nodes[:1], pending.eligible_at), 5)
    assert own(await bench.scheduler.look(), other)[0].excluded == bench.nodes[:1]
