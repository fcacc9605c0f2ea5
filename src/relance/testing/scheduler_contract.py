"""The contract of `relance.ports.schedulers.Scheduler`, as tests that every adapter runs.

A test class of one's own inherits from `SchedulerContract` and has a fixture `bench` that gives a `SchedulerBench`: the
adapter under test, and hands on the cluster behind it. A requeued job must wait for at least 2 s before it starts by
itself; where it waits for minutes, mark that one test as a long one. Tests are coroutines: pytest-asyncio in automatic
mode, or a plug-in like it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import pytest

from relance.domain.advice import Command
from relance.domain.stages import Stage
from relance.domain.views import ClusterReport, JobState, JobView
from relance.ports.clocks import Clock
from relance.ports.schedulers import JobGoneError, Scheduler, SchedulerRefusedError, SchedulerSilentError

LIMIT_S = 10.0
PATIENCE_S = 60.0


class SchedulerBench(Protocol):
    """An adapter, and a cluster of four idle nodes that it serves."""

    @property
    def scheduler(self) -> Scheduler:
        """The adapter under test."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock that the cluster goes by."""
        ...

    @property
    def rest_s(self) -> float:
        """How long after PENDING was read a requeued job may be started (slurm.md 2); Slurm's is 1.1 s."""
        ...

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the four nodes, in the scheduler's order."""
        ...

    @property
    def window_s(self) -> float:
        """How long a requeued job waits before it starts by itself."""
        ...

    @property
    def canceller_uid(self) -> int:
        """The uid of somebody who may cancel the bench's jobs."""
        ...

    async def submit(self, *, nodes: int = 2, exclude: Sequence[str] = (), comment: str = "") -> str:
        """Submit a job that runs until it is told to end; gives its raw id."""
        ...

    async def end(self, raw_id: str, exit_code: int) -> None:
        """Have the running job end with this code."""
        ...

    async def cancel(self, raw_id: str, uid: int) -> None:
        """The user with this uid cancels the job."""
        ...

    async def go_away(self) -> None:
        """The scheduler stops answering, for good."""
        ...


class SchedulerContract:
    """Everything that an adapter promises."""

    async def test_a_look_shows_jobs_and_nodes(self, bench: SchedulerBench) -> None:
        raw_id = await bench.submit()
        running = await reach(bench, raw_id, JobState.RUNNING)
        report = await bench.scheduler.look()
        assert report.complete
        assert report.cluster == bench.scheduler.cluster
        assert [job.raw_id for job in own(report, raw_id)] == [raw_id]
        assert tuple(node.name for node in report.nodes) == bench.nodes
        assert set(running.nodes) < set(bench.nodes)
        assert report.facts.requeue_delay_s > 0
        assert abs((report.as_of - bench.clock.now()).total_seconds()) < 30

    async def test_a_running_job_says_where_since_when_and_whose_it_is(self, bench: SchedulerBench) -> None:
        job = await reach(bench, await bench.submit(), JobState.RUNNING)
        assert (job.restart_count, len(job.nodes), job.node_count) == (0, 2, 2)
        assert job.started_at is not None
        assert job.first_submitted_at == job.submitted_at <= job.started_at
        assert job.ended_at is None
        assert job.name
        assert job.user
        assert job.partition
        assert job.work_dir
        assert job.script_id
        assert all(path.startswith("/") for path in job.log_paths)

    async def test_a_read_and_a_look_agree(self, bench: SchedulerBench) -> None:
        raw_id = await bench.submit()
        job = await reach(bench, raw_id, JobState.RUNNING)
        report = await bench.scheduler.look()
        assert own(report, raw_id) == (job,)

    async def test_a_site_s_command_is_run_and_its_outputs_come_back(self, bench: SchedulerBench) -> None:
        command = bench.scheduler.evidence(("echo", "what it saw"))
        found = await bench.scheduler.collect(command, LIMIT_S, 4096)
        assert (found.exit_code, found.stdout, found.gave_up) == (0, b"what it saw\n", "")

    async def test_a_site_s_command_is_ended_at_its_limit(self, bench: SchedulerBench) -> None:
        begun_s = bench.clock.monotonic()
        found = await bench.scheduler.collect(bench.scheduler.evidence(("sleep", "60")), 0.5, 4096)
        assert found.exit_code is None
        assert found.gave_up
        assert bench.clock.monotonic() - begun_s < LIMIT_S

    async def test_a_job_that_never_was_is_gone(self, bench: SchedulerBench) -> None:
        with pytest.raises(JobGoneError):
            await bench.scheduler.read("999999")

    async def test_a_failed_job_shows_its_end_and_its_steps(self, bench: SchedulerBench) -> None:
        raw_id = await bench.submit()
        await reach(bench, raw_id, JobState.RUNNING)
        await bench.end(raw_id, 3)
        job = await reach(bench, raw_id, JobState.FAILED)
        assert job.exit_code == 3
        assert job.started_at is not None
        assert job.ended_at is not None
        assert job.started_at <= job.ended_at
        assert len(job.nodes) == 2
        assert job.steps is not None
        assert all(step.cancelled_by is None for step in job.steps)
        assert job.cancelled_by is None

    async def test_a_job_that_ended_well_is_completed(self, bench: SchedulerBench) -> None:
        raw_id = await bench.submit()
        await reach(bench, raw_id, JobState.RUNNING)
        await bench.end(raw_id, 0)
        assert (await reach(bench, raw_id, JobState.COMPLETED)).exit_code == 0

    async def test_a_cancelled_job_shows_who_did_it(self, bench: SchedulerBench) -> None:
        raw_id = await bench.submit()
        await reach(bench, raw_id, JobState.RUNNING)
        await bench.cancel(raw_id, bench.canceller_uid)
        assert (await reach(bench, raw_id, JobState.CANCELLED)).cancelled_by == bench.canceller_uid

    async def test_a_requeued_job_is_the_same_job_and_its_next_attempt(self, bench: SchedulerBench) -> None:
        before = await self.failed(bench)
        await self.send(bench, bench.scheduler.requeue(before))
        after = await reach(bench, before.raw_id, JobState.PENDING, reason="BeginTime")
        cluster = bench.scheduler.cluster
        assert after.job_key(cluster) == before.job_key(cluster)
        assert after.restart_count == before.restart_count + 1
        assert after.submitted_at > before.submitted_at
        assert after.nodes == ()
        assert after.started_at is None
        assert after.eligible_at is not None
        delay_s = (await bench.scheduler.look()).facts.requeue_delay_s
        waits_s = (after.eligible_at - after.submitted_at).total_seconds()
        assert -1 <= waits_s - delay_s <= 3

    async def test_accounting_tells_of_the_attempt_before(self, bench: SchedulerBench) -> None:
        before = await self.failed(bench)
        await self.send(bench, bench.scheduler.requeue(before))
        await reach(bench, before.raw_id, JobState.PENDING)
        (past,) = (row for row in (await bench.scheduler.look()).past if row.raw_id == before.raw_id)
        assert (past.raw_id, past.restart_count, past.state) == (before.raw_id, 0, JobState.FAILED)
        assert past.first_submitted_at == before.first_submitted_at
        assert past.nodes == before.nodes
        assert past.started_at == before.started_at

    async def test_a_requeued_job_that_nobody_touches_starts_by_itself(self, bench: SchedulerBench) -> None:
        before = await self.failed(bench)
        await self.send(bench, bench.scheduler.requeue(before))
        patience_s = PATIENCE_S + bench.window_s
        assert (await reach(bench, before.raw_id, JobState.RUNNING, patience_s=patience_s)).restart_count == 1

    async def test_a_running_job_is_ended_by_a_requeue(self, bench: SchedulerBench) -> None:
        raw_id = await bench.submit()
        running = await reach(bench, raw_id, JobState.RUNNING)
        await self.send(bench, bench.scheduler.requeue(running))
        pending = await reach(bench, raw_id, JobState.PENDING)
        assert pending.restart_count == 1
        assert pending.nodes == ()

    async def test_a_waiting_job_is_not_requeued(self, bench: SchedulerBench) -> None:
        before = await self.failed(bench)
        await self.send(bench, bench.scheduler.requeue(before))
        pending = await reach(bench, before.raw_id, JobState.PENDING)
        with pytest.raises(SchedulerRefusedError):
            await self.send(bench, bench.scheduler.requeue(pending))
        assert (await bench.scheduler.read(before.raw_id)).restart_count == 1

    async def test_one_update_excludes_nodes_and_starts_the_job(self, bench: SchedulerBench) -> None:
        last = bench.nodes[3]
        before = await self.failed(bench, exclude=[last])
        pending = await self.requeued(bench, before)
        bad = before.nodes[0]
        await self.send(bench, bench.scheduler.constrain(pending, (last, bad), None))
        sent = bench.clock.now()
        after = await reach(bench, before.raw_id, JobState.RUNNING)
        assert sorted(after.excluded) == sorted((last, bad))
        assert not {last, bad} & set(after.nodes)
        assert after.started_at is not None
        assert after.started_at - sent < timedelta(seconds=2)

    async def test_an_update_replaces_the_whole_list(self, bench: SchedulerBench) -> None:
        pending = await self.requeued(bench, await self.failed(bench, exclude=[bench.nodes[3]]))
        later = bench.clock.now() + timedelta(minutes=5)
        await self.send(bench, bench.scheduler.constrain(pending, (), later))
        assert (await bench.scheduler.read(pending.raw_id)).excluded == ()

    async def test_an_update_gives_a_time_ahead(self, bench: SchedulerBench) -> None:
        pending = await self.requeued(bench, await self.failed(bench))
        later = (bench.clock.now() + timedelta(minutes=5)).replace(microsecond=0)
        await self.send(bench, bench.scheduler.constrain(pending, (), later))
        after = await bench.scheduler.read(pending.raw_id)
        assert after.state is JobState.PENDING
        assert after.eligible_at is not None
        assert abs(after.eligible_at - later) < timedelta(seconds=1)

    async def test_one_unknown_node_refuses_the_whole_update(self, bench: SchedulerBench) -> None:
        pending = await self.requeued(bench, await self.failed(bench))
        with pytest.raises(SchedulerRefusedError):
            await self.send(bench, bench.scheduler.constrain(pending, (bench.nodes[0], "nowhere"), None))
        after = await bench.scheduler.read(pending.raw_id)
        assert (after.excluded, after.eligible_at) == ((), pending.eligible_at)

    async def test_a_running_job_is_not_updated(self, bench: SchedulerBench) -> None:
        running = await reach(bench, await bench.submit(), JobState.RUNNING)
        with pytest.raises(SchedulerRefusedError):
            await self.send(bench, bench.scheduler.constrain(running, (bench.nodes[3],), None))
        assert (await bench.scheduler.read(running.raw_id)).excluded == ()

    async def test_a_cancelled_waiting_job_never_runs(self, bench: SchedulerBench) -> None:
        pending = await self.requeued(bench, await self.failed(bench))
        await self.send(bench, bench.scheduler.cancel(pending))
        after = await reach(bench, pending.raw_id, JobState.CANCELLED)
        assert after.restart_count == 1
        assert after.cancelled_by is not None

    async def test_building_a_command_changes_nothing(self, bench: SchedulerBench) -> None:
        before = await self.failed(bench)
        scheduler = bench.scheduler
        commands = [
            scheduler.requeue(before),
            scheduler.constrain(before, bench.nodes[:1], None),
            scheduler.cancel(before),
        ]
        assert commands == [
            scheduler.requeue(before),
            scheduler.constrain(before, bench.nodes[:1], None),
            scheduler.cancel(before),
        ]
        assert all(command.changes and before.raw_id in " ".join(command.argv) for command in commands)
        assert await scheduler.read(before.raw_id) == before

    async def test_what_is_not_a_command_of_the_adapter_is_not_sent(self, bench: SchedulerBench) -> None:
        before = await self.failed(bench)
        for argv in (("rm", "-r", "/"), (), ("requeuehold", before.raw_id)):
            with pytest.raises(SchedulerRefusedError):
                await self.send(bench, Command(argv=argv))
        assert await bench.scheduler.read(before.raw_id) == before

    async def test_a_command_about_a_job_that_never_was_finds_it_gone(self, bench: SchedulerBench) -> None:
        before = await self.failed(bench)
        command = bench.scheduler.requeue(before)
        other = tuple("999999" if word == before.raw_id else word for word in command.argv)
        with pytest.raises(JobGoneError):
            await self.send(bench, Command(argv=other))

    async def test_a_wish_in_the_comment_is_read(self, bench: SchedulerBench) -> None:
        raw_id = await bench.submit(comment='{"relance": {"mode": "act", "logs": ["ranks/*.log"]}}')
        job = await bench.scheduler.read(raw_id)
        assert job.wish.mode is Stage.ACT
        assert job.wish.logs == ("ranks/*.log",)

    async def test_a_broken_wish_is_an_observer_with_a_note(self, bench: SchedulerBench) -> None:
        raw_id = await bench.submit(comment='{"relance": {"mode": "now"}}')
        job = await bench.scheduler.read(raw_id)
        assert job.wish.mode is Stage.OBSERVE
        assert job.wish.notes

    async def test_a_change_wakes_and_a_wait_ends(self, bench: SchedulerBench) -> None:
        raw_id = await bench.submit()
        await reach(bench, raw_id, JobState.RUNNING)
        await bench.scheduler.look()
        waiting = asyncio.ensure_future(bench.scheduler.changed(PATIENCE_S))
        await bench.end(raw_id, 1)
        await asyncio.wait_for(waiting, 30.0)
        await asyncio.wait_for(bench.scheduler.changed(0.05), 30.0)

    async def test_a_scheduler_that_is_away_is_silent_and_never_empty(self, bench: SchedulerBench) -> None:
        before = await self.failed(bench)
        await bench.go_away()
        with pytest.raises(SchedulerSilentError):
            await bench.scheduler.look()
        with pytest.raises(SchedulerSilentError):
            await bench.scheduler.read(before.raw_id)
        with pytest.raises(SchedulerSilentError):
            await bench.scheduler.send(bench.scheduler.requeue(before), 1.0)
        await asyncio.wait_for(bench.scheduler.changed(0.2), 30.0)

    async def test_it_may_be_closed_twice(self, bench: SchedulerBench) -> None:
        await bench.scheduler.look()
        await bench.scheduler.close()
        await bench.scheduler.close()

    async def failed(self, bench: SchedulerBench, exclude: Sequence[str] = ()) -> JobView:
        """A job that ran and failed."""
        raw_id = await bench.submit(exclude=exclude)
        await reach(bench, raw_id, JobState.RUNNING)
        await bench.end(raw_id, 1)
        return await reach(bench, raw_id, JobState.FAILED)

    async def requeued(self, bench: SchedulerBench, job: JobView) -> JobView:
        """The job, requeued by the adapter and pending for long enough to be started."""
        await self.send(bench, bench.scheduler.requeue(job))
        pending = await reach(bench, job.raw_id, JobState.PENDING)
        await bench.clock.sleep(bench.rest_s)
        return pending

    async def send(self, bench: SchedulerBench, command: Command) -> None:
        """Send a command with the usual time limit."""
        await bench.scheduler.send(command, LIMIT_S)


def own(report: ClusterReport, raw_id: str) -> tuple[JobView, ...]:
    """A job in a report, where the cluster may serve others too."""
    return tuple(job for job in report.jobs if job.raw_id == raw_id)


async def reach(
    bench: SchedulerBench, raw_id: str, state: JobState, *, reason: str | None = None, patience_s: float = PATIENCE_S
) -> JobView:
    """The job, once it is in that state, and for that reason if one is given; with its steps, once it has ended."""
    until = bench.clock.monotonic() + patience_s
    while True:
        job = await bench.scheduler.read(raw_id)
        is_told = job.steps is not None or not state.is_over
        if job.state is state and reason in (None, job.reason) and is_told:
            return job
        assert bench.clock.monotonic() < until, f"job {raw_id} is {job.state} ({job.reason}) after {patience_s} s"
        await bench.clock.sleep(0.02)
