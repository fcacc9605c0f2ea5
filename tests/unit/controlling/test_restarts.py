"""A restart from order to end, through the whole controller."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from relance.controlling.paces import Pace
from relance.domain.advice import ActionEnd
from relance.domain.faults import Remedy
from relance.domain.stages import EffectiveStage, EndRunning, Stage
from relance.domain.views import Hold, JobState, NodeState
from tests.unit.controlling.worlds import World


def test_a_failed_job_runs_again_without_the_bad_node_and_with_the_users_own_exclusions(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job(excluded=("node006",))
        bad, begun = job.nodes[0], world.clock.now()
        world.backend.give(world.order(world.advice(job, exclude=(bad,))))
        await world.run(10)
        after = world.cluster.job(job.raw_id)
        assert (after.state, after.restart_count) == (JobState.RUNNING, 1)
        assert bad not in after.nodes
        assert after.excluded == ("node006", bad)
        assert after.started_at is not None
        assert after.started_at - begun < timedelta(seconds=2)

    world.play(story())
    assert world.verbs() == ["requeue", "update"]
    assert world.backend.story() == ["checked", "requeue", "pending", "constrain", "read back", "end"]
    assert world.backend.ends() == [(ActionEnd.SUCCEEDED, "runs on node002, node003")]


def test_what_came_of_an_action_is_reported_at_its_end_and_not_when_the_next_look_is_due(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        world.scheduler.faults.is_deaf = True
        controller = world.controller(world.ledger(), Pace(look_s=60.0))
        task = asyncio.get_running_loop().create_task(controller.run())
        await world.sent(2)
        world.backend.take_back(job.attempt_key(world.cluster.name))
        while not world.backend.ends():
            await world.clock.sleep(0.1)
        ended_at = world.clock.now()
        await world.clock.sleep(90)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        started_at = world.cluster.job(job.raw_id).started_at
        assert started_at is not None
        since = [report.as_of for report in world.backend.reports if report.as_of - started_at >= timedelta(seconds=2)]
        assert min(since) - ended_at < timedelta(seconds=0.5)

    world.play(story())


def test_each_command_follows_a_read_of_its_job_by_less_than_a_second(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        await world.run(10)

    world.play(story())
    assert [sent.read_age_s < 1 for sent in world.scheduler.sent] == [True, True]


def test_the_update_goes_out_a_full_second_after_pending_was_read(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        await world.run(10)

    world.play(story())
    requeued, updated = (sent.at for sent in world.scheduler.sent)
    assert timedelta(seconds=1) <= updated - requeued < timedelta(seconds=1.5)


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.OUT_OF_MEMORY, JobState.BOOT_FAIL])
def test_what_the_scheduler_calls_a_failure_is_started_again(world: World, state: JobState) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit()
        await world.when(raw_id, JobState.RUNNING)
        world.cluster.end(raw_id, state)
        world.backend.give(world.order(world.advice(world.cluster.job(raw_id))))
        await world.run(10)
        assert world.cluster.job(raw_id).state is JobState.RUNNING

    world.play(story())
    assert world.verbs() == ["requeue", "update"]


@pytest.mark.parametrize(
    "state", [JobState.CANCELLED, JobState.COMPLETED, JobState.TIMEOUT, JobState.DEADLINE, JobState.PREEMPTED]
)
def test_an_end_that_is_no_failure_is_left_alone(world: World, state: JobState) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit()
        await world.when(raw_id, JobState.RUNNING)
        world.cluster.end(raw_id, state)
        world.backend.give(world.order(world.advice(world.cluster.job(raw_id))))
        await world.run(20)

    world.play(story())
    assert world.scheduler.sent == []
    assert world.backend.claims == []


def test_a_step_that_a_person_cancelled_leaves_the_job_alone(world: World) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit()
        await world.when(raw_id, JobState.RUNNING)
        world.cluster.end(raw_id, JobState.FAILED, cancelled_step_by=1001)
        world.backend.give(world.order(world.advice(world.cluster.job(raw_id))))
        await world.run(20)

    world.play(story())
    assert world.scheduler.sent == []


def test_step_rows_that_cannot_be_read_leave_the_job_alone(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.cluster.change(job.raw_id, steps=None)
        world.backend.give(world.order(world.advice(job)))
        await world.run(20)

    world.play(story())
    assert world.scheduler.sent == []


def test_a_job_that_a_node_took_down_and_the_scheduler_requeued_is_only_updated(world: World) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit()
        job = await world.when(raw_id, JobState.RUNNING)
        bad = job.nodes[0]
        world.cluster.end(raw_id, JobState.NODE_FAIL)
        world.cluster.set_node(bad, NodeState.DOWN)
        world.backend.give(world.order(world.advice(job, exclude=(bad,))))
        begun = world.clock.now()
        await world.run(10)
        after = world.cluster.job(raw_id)
        assert (after.state, after.restart_count) == (JobState.RUNNING, 1)
        assert after.excluded == (bad,)
        assert after.started_at is not None
        assert after.started_at - begun < timedelta(seconds=3), "the two minutes' wait was cut short"

    world.play(story())
    assert world.verbs() == ["update"]
    assert world.backend.claims[0].kind.value == "constrain"


def test_a_time_that_a_person_asked_for_is_kept_and_the_exclusion_added(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.cluster.do(("person", "requeue", job.raw_id))
        asked = world.clock.now() + timedelta(hours=2)
        world.cluster.ask_for_time(job.raw_id, asked)
        world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
        await world.run(100)
        after = world.cluster.job(job.raw_id)
        assert (after.state, after.eligible_at, after.excluded) == (JobState.PENDING, asked, (job.nodes[0],))

    world.play(story())
    assert world.verbs() == ["update"]


def test_a_job_that_a_person_requeued_and_holds_is_left_alone(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.cluster.do(("person", "requeue", job.raw_id))
        world.cluster.hold(job.raw_id)
        world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
        await world.run(100)

    world.play(story())
    assert world.scheduler.sent == []


def test_a_preempted_job_keeps_its_wait(world: World) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit()
        job = await world.when(raw_id, JobState.RUNNING)
        world.cluster.preempt(raw_id)
        world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
        await world.run(60)

    world.play(story())
    assert world.scheduler.sent == []


CONSENT = EffectiveStage(stage=Stage.ACT, end_running=frozenset({EndRunning.DEAD_RANK}), why=())


def test_a_running_attempt_is_ended_with_the_sites_consent(world: World) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit()
        job = await world.when(raw_id, JobState.RUNNING)
        world.backend.give(world.order(world.advice(job, ends_running=EndRunning.DEAD_RANK), stage=CONSENT))
        await world.run(10)
        after = world.cluster.job(raw_id)
        assert (after.state, after.restart_count) == (JobState.RUNNING, 1)

    world.play(story())
    assert world.verbs() == ["requeue", "update"]


@pytest.mark.parametrize("kind", [None, EndRunning.HANG])
def test_a_running_attempt_is_not_ended_without(world: World, kind: EndRunning | None) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit()
        job = await world.when(raw_id, JobState.RUNNING)
        world.backend.give(world.order(world.advice(job, ends_running=kind), stage=CONSENT))
        await world.run(20)

    world.play(story())
    assert world.scheduler.sent == []


def test_a_running_attempt_is_not_ended_while_a_cancelled_step_cannot_be_ruled_out(world: World) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit()
        job = await world.when(raw_id, JobState.RUNNING)
        world.cluster.change(raw_id, steps=None)
        world.backend.give(world.order(world.advice(job, ends_running=EndRunning.DEAD_RANK), stage=CONSENT))
        await world.run(20)

    world.play(story())
    assert world.scheduler.sent == []


def test_a_stop_cancels_a_running_job_only_where_the_advice_says_so(world: World) -> None:
    async def story() -> None:
        for cancels in (False, True):
            raw_id = world.cluster.submit()
            job = await world.when(raw_id, JobState.RUNNING)
            advice = world.advice(job, action=Remedy.STOP, cancels_running=cancels)
            world.backend.give(world.order(advice))
            await world.run(10)
            assert (world.cluster.job(raw_id).state is JobState.CANCELLED) == cancels

    world.play(story())
    assert world.verbs() == ["cancel"]
    assert world.backend.ends() == [(ActionEnd.SUCCEEDED, "the job is cancelled")]


def test_an_id_that_was_used_again_is_another_job(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        advice = world.advice(job)
        world.cluster.change(job.raw_id, first_submitted_at=job.first_submitted_at + timedelta(seconds=30))
        world.backend.give(world.order(advice))
        await world.run(20)

    world.play(story())
    assert world.scheduler.sent == []


def test_a_job_submitted_with_no_requeue_is_left_alone(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job(requeue_allowed=False)
        world.backend.give(world.order(world.advice(job)))
        await world.run(20)

    world.play(story())
    assert world.scheduler.sent == []


@pytest.mark.parametrize("by", [Hold.USER, Hold.ADMIN])
def test_a_hold_between_requeue_and_update_wins(world: World, by: Hold) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.sent(1)
            world.cluster.hold(job.raw_id, by)
            await world.clock.sleep(20)
        assert world.cluster.job(job.raw_id).hold is by

    world.play(story())
    assert world.verbs() == ["requeue"]
    assert world.backend.ends()[0][0] is ActionEnd.ABANDONED


def test_a_cancellation_between_requeue_and_update_wins(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.sent(1)
            world.cluster.cancel_by(job.raw_id, 1001)
            await world.clock.sleep(20)

    world.play(story())
    assert world.verbs() == ["requeue"]
    assert world.backend.ends() == [(ActionEnd.ABANDONED, "after the requeue it was cancelled: left")]


def test_a_cancellation_between_claim_and_requeue_wins(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        ledger = world.ledger()
        async with world.running(ledger):
            await world.claimed()
            world.cluster.change(job.raw_id, state=JobState.CANCELLED, cancelled_by=1001)
            await world.clock.sleep(20)

    world.play(story())
    assert world.scheduler.sent == []
    assert world.backend.ends() == [(ActionEnd.ABANDONED, "nothing was sent: it was failed and is cancelled now")]
