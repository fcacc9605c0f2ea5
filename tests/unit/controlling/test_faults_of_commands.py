"""Commands that hang, come late, are done and not answered, or refused: settled by reading, never doubled blindly."""

from __future__ import annotations

from datetime import timedelta

import pytest

from relance.domain.advice import ActionEnd
from relance.domain.views import JobState
from relance.testing.memory_clusters import Timings
from relance.testing.memory_schedulers import Fault, FaultKind
from tests.unit.controlling.worlds import World


async def restarted(world: World, command: int, fault: Fault) -> str:
    job = await world.failed_job()
    world.scheduler.faults.commands[command] = fault
    world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
    await world.run(120)
    return job.raw_id


@pytest.mark.parametrize(
    ("fault", "verbs"),
    [
        pytest.param(Fault(kind=FaultKind.LOST_ANSWER), ["requeue", "update"], id="done, answer lost"),
        pytest.param(Fault(kind=FaultKind.LATE, after_s=3), ["requeue", "update"], id="done late"),
        pytest.param(Fault(kind=FaultKind.LATE, after_s=35), ["requeue", "update"], id="done after its time limit"),
        pytest.param(Fault(kind=FaultKind.FALSE_REFUSAL), ["requeue", "update"], id="done, called refused"),
        pytest.param(Fault(kind=FaultKind.HANG), ["requeue", "requeue", "update"], id="never done"),
    ],
)
def test_a_requeue_whose_answer_is_wrong_or_lost_ends_in_one_new_attempt(
    world: World, fault: Fault, verbs: list[str]
) -> None:
    async def story() -> None:
        raw_id = await restarted(world, 1, fault)
        job = world.cluster.job(raw_id)
        assert (job.state, job.restart_count) == (JobState.RUNNING, 1)
        assert len(world.cluster.starts(raw_id)) == 2

    world.play(story())
    assert world.verbs() == verbs
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]


def test_a_refused_requeue_fails_and_says_why(world: World) -> None:
    world.play(restarted(world, 1, Fault(kind=FaultKind.REFUSAL)))
    assert world.verbs() == ["requeue"]
    assert world.backend.ends() == [
        (ActionEnd.FAILED, "the scheduler refused the requeue: Requested operation is presently disabled")
    ]


def test_a_command_that_went_out_without_an_answer_is_not_called_nothing(world: World) -> None:
    async def story() -> None:
        world.scheduler.faults.commands[1] = Fault(kind=FaultKind.HANG)
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.sent(1)
            world.cluster.change(job.raw_id, state=JobState.CANCELLED, cancelled_by=1001)
            await world.clock.sleep(60)

    world.play(story())
    assert world.backend.ends() == [(ActionEnd.ABANDONED, "it was failed and is cancelled now")]


def test_a_requeue_that_is_never_done_is_asked_twice_and_no_more(world: World) -> None:
    world.scheduler.faults.commands[2] = Fault(kind=FaultKind.HANG)
    world.play(restarted(world, 1, Fault(kind=FaultKind.HANG)))
    assert world.verbs() == ["requeue", "requeue"]
    assert world.backend.ends() == [(ActionEnd.FAILED, "the scheduler did not answer the requeue, and did not do it")]


@pytest.mark.parametrize("kind", [FaultKind.LOST_ANSWER, FaultKind.HANG, FaultKind.LATE, FaultKind.FALSE_REFUSAL])
def test_an_update_whose_answer_is_wrong_or_lost_ends_in_one_new_attempt(world: World, kind: FaultKind) -> None:
    async def story() -> None:
        raw_id = await restarted(world, 2, Fault(kind=kind, after_s=3))
        job = world.cluster.job(raw_id)
        assert (job.state, job.restart_count, job.excluded) == (JobState.RUNNING, 1, ("node001",))
        assert len(world.cluster.starts(raw_id)) == 2

    world.play(story())
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]


def test_refused_exclusions_are_left_out_and_the_job_starts_all_the_same(world: World) -> None:
    async def story() -> None:
        fault = Fault(kind=FaultKind.REFUSAL, text="Invalid node name specified")
        raw_id = await restarted(world, 2, fault)
        assert world.cluster.job(raw_id).state is JobState.RUNNING
        assert world.cluster.job(raw_id).excluded == ()

    world.play(story())
    assert world.verbs() == ["requeue", "update", "update"]
    assert "left out" in world.backend.story()


def test_an_update_that_is_always_refused_leaves_the_job_to_start_by_itself(world: World) -> None:
    async def story() -> None:
        for number in range(2, 10):
            world.scheduler.faults.commands[number] = Fault(kind=FaultKind.REFUSAL)
        raw_id = await restarted(world, 2, Fault(kind=FaultKind.REFUSAL))
        await world.when(raw_id, JobState.RUNNING, within_s=125)

    world.play(story())
    assert world.verbs() == ["requeue", "update", "update", "update"]


def test_a_start_time_that_the_scheduler_overwrote_is_written_again(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.sent(2)
            submitted_at = world.cluster.job(job.raw_id).submitted_at
            delay = timedelta(seconds=world.cluster.timings.requeue_delay_s)
            world.cluster.ask_for_time(job.raw_id, submitted_at + delay)
            await world.when(job.raw_id, JobState.RUNNING, within_s=10)

    world.play(story())
    assert world.verbs() == ["requeue", "update", "update"]


def test_an_attempt_that_our_restart_killed_at_launch_is_repeated_once(world: World) -> None:
    async def story() -> None:
        world.cluster.timings = Timings(race_s=1.5)
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.sent(3)
            world.cluster.timings = Timings()
            await world.clock.sleep(20)
        after = world.cluster.job(job.raw_id)
        assert (after.state, after.restart_count) == (JobState.RUNNING, 2)

    world.play(story())
    assert world.verbs() == ["requeue", "update", "requeue", "update"]
    assert "repeat" in world.backend.story()
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]


def test_a_second_death_at_launch_is_a_failure_and_no_third_try(world: World) -> None:
    async def story() -> None:
        world.cluster.timings = Timings(race_s=1.5)
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        await world.run(30)

    world.play(story())
    assert world.verbs() == ["requeue", "update", "requeue", "update"]
    assert world.backend.ends() == [(ActionEnd.FAILED, "the new attempt died at launch: failed JobLaunchFailure")]


def test_a_new_attempt_that_dies_by_itself_after_two_seconds_is_not_repeated(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.sent(2)
            await world.when(job.raw_id, JobState.RUNNING)
            await world.clock.sleep(2.3)
            world.cluster.end(job.raw_id, JobState.FAILED)
            await world.clock.sleep(20)

    world.play(story())
    assert world.verbs() == ["requeue", "update"]
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]


def test_a_silent_scheduler_before_the_first_command_gives_the_action_up(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.claimed()
            world.scheduler.faults.is_silent = True
            await world.clock.sleep(30)

    world.play(story())
    assert world.scheduler.sent == []
    ((end, reason),) = world.backend.ends()
    assert end is ActionEnd.ABANDONED
    assert reason.startswith("nothing was sent: ")


def test_a_silent_scheduler_after_the_requeue_is_waited_for(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
        async with world.running():
            await world.sent(1)
            world.scheduler.faults.is_silent = True
            await world.clock.sleep(60)
            world.scheduler.faults.is_silent = False
            after = await world.when(job.raw_id, JobState.RUNNING, within_s=10)
            await world.clock.sleep(10)
        assert job.nodes[0] not in after.nodes

    world.play(story())
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]


def test_an_unknown_end_is_settled_when_the_scheduler_answers_again(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.sent(1)
            world.scheduler.faults.is_silent = True
            await world.clock.sleep(700)
            assert [end for end, _ in world.backend.ends()] == [ActionEnd.UNKNOWN]
            world.scheduler.faults.is_silent = False
            await world.clock.sleep(80)

    world.play(story())
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.UNKNOWN, ActionEnd.SUCCEEDED]
    assert world.verbs() == ["requeue"]
