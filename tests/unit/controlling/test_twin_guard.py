"""Nobody twice: copies of a job, looked for before the requeue and before the update."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from relance.domain.advice import ActionEnd, Command
from relance.domain.faults import Remedy
from relance.domain.views import ClusterReport, Hold, JobState
from tests.unit.controlling.worlds import World


def test_a_copy_that_its_user_submitted_stops_the_restart(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.cluster.submit()
        world.backend.give(world.order(world.advice(job)))
        await world.run(20)

    world.play(story())
    assert world.scheduler.sent == []
    assert world.backend.ends() == [
        (
            ActionEnd.ABANDONED,
            "nothing was sent: job 2 (pending) of ada has the same name and script and was submitted since",
        )
    ]


def test_a_copy_that_appears_after_our_requeue_goes_on_and_ours_is_cancelled(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.sent(1)
            copy = world.cluster.submit()
            await world.clock.sleep(20)
        assert world.cluster.job(job.raw_id).state is JobState.CANCELLED
        assert world.cluster.job(copy).state is JobState.RUNNING
        assert world.cluster.starts(job.raw_id)[1:] == ()

    world.play(story())
    assert world.verbs() == ["requeue", "cancel"]
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.ABANDONED]


@pytest.mark.parametrize("after_s", [number * 0.05 for number in range(21)])
def test_ours_never_starts_beside_a_copy_submitted_at_any_moment_before_our_update(
    world: World, after_s: float
) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.clock.sleep(after_s)
            copy = world.cluster.submit()
            await world.clock.sleep(20)
        assert world.cluster.starts(job.raw_id)[1:] == ()
        assert world.cluster.job(job.raw_id).state in (JobState.FAILED, JobState.CANCELLED)
        assert world.cluster.job(copy).state is JobState.RUNNING

    world.play(story())
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.ABANDONED]


@pytest.mark.parametrize("park", [True, False])
def test_a_copy_that_appears_as_a_parked_attempt_is_updated_goes_on_and_ours_is_cancelled(
    world: World, *, park: bool
) -> None:
    async def story() -> None:
        job = await world.failed_job()
        until = world.clock.now() + timedelta(minutes=30)
        world.backend.give(world.order(world.advice(job, action=Remedy.WAIT, park=True, park_until=until)))
        await world.run(10)
        later = until + timedelta(minutes=30)
        world.backend.give(world.order(world.advice(job, id="adv-2", generation=2, park=park, park_until=later)))
        before_the_update(world, 2, world.cluster.submit)
        await world.run(10)
        assert world.cluster.job(job.raw_id).state is JobState.CANCELLED

    world.play(story())
    assert world.verbs() == ["requeue", "update", "update", "cancel"]
    assert world.backend.ends()[-1][1].startswith("our pending attempt was cancelled: job 2")


def test_a_copy_that_the_last_look_shows_beside_our_running_attempt_is_told_and_nothing_is_ended(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        looks_take_s = [0.0]
        slow_looks(world, looks_take_s)

        def just_before() -> None:
            world.cluster.submit()
            looks_take_s[0] = 0.5

        before_the_update(world, 1, just_before)
        await world.run(20)
        assert world.cluster.job(job.raw_id).state is JobState.RUNNING

    world.play(story())
    assert world.verbs() == ["requeue", "update"]
    ((end, reason),) = world.backend.ends()
    assert end is ActionEnd.SUCCEEDED
    assert "but job 2 (running) of ada has the same name and script" in reason
    assert "cancel one of the two" in reason


def test_what_was_written_is_read_back_although_copies_cannot_be_looked_for_after_it(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        before_the_update(world, 1, lambda: setattr(world.scheduler.faults, "is_partial", True))
        async with world.running():
            await world.when(job.raw_id, JobState.RUNNING)
            await world.clock.sleep(3)
        assert world.backend.ends() == [(ActionEnd.SUCCEEDED, "runs on node001, node002")]

    world.play(story())


def before_the_update(world: World, after: int, what: Callable[[], object]) -> None:
    """Let something happen just before the scheduler is sent its next command after so many."""
    send = world.scheduler.send

    async def sending(command: Command, time_limit_s: float) -> None:
        if len(world.scheduler.sent) == after and command.argv[1] == "update":
            what()
        await send(command, time_limit_s)

    world.scheduler.send = sending  # type: ignore[method-assign]


def slow_looks(world: World, takes_s: list[float]) -> None:
    """A look begins so much later as the list says then."""
    look = world.scheduler.look

    async def looking() -> ClusterReport:
        await world.clock.sleep(takes_s[0])
        return await look()

    world.scheduler.look = looking  # type: ignore[method-assign]


def test_a_copy_leaves_a_job_that_somebody_else_requeued_as_it_is(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.cluster.do(("person", "requeue", job.raw_id))
        world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
        async with world.running():
            await world.claimed()
            world.cluster.submit()
            await world.clock.sleep(20)

    world.play(story())
    assert world.scheduler.sent == []


def test_the_next_of_a_singleton_chain_is_known_although_its_dependency_is_met_by_now(world: World) -> None:
    async def story() -> None:
        job_id = world.cluster.submit()
        successor = world.cluster.submit(dependency="singleton", script_id="another")
        job = await world.when(job_id, JobState.RUNNING)
        async with world.running():
            await world.clock.sleep(5)
            world.cluster.end(job_id, JobState.FAILED)
            world.cluster.change(successor, dependency="")
            await world.when(successor, JobState.RUNNING)
            world.backend.give(world.order(world.advice(job)))
            await world.clock.sleep(20)

    world.play(story())
    assert world.scheduler.sent == []
    assert "singleton chain" in world.backend.ends()[0][1]


def test_nothing_is_restarted_while_not_all_jobs_can_be_read(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.cluster.submit("hidden")
        world.scheduler.faults.is_partial = True
        world.backend.give(world.order(world.advice(job)))
        await world.run(30)

    world.play(story())
    assert world.scheduler.sent == []
    assert world.backend.ends() == [
        (ActionEnd.ABANDONED, "nothing was sent: copies of the job could not be looked for: not all jobs could be read")
    ]


def test_a_job_that_waits_already_is_updated_though_copies_cannot_be_looked_for_any_more(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.cluster.submit("hidden", nodes=1)
        world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
        async with world.running():
            await world.sent(1)
            world.scheduler.faults.is_partial = True
            after = await world.when(job.raw_id, JobState.RUNNING, within_s=30)
        assert job.nodes[0] not in after.nodes

    world.play(story())
    assert "blind" in world.backend.story()


def test_the_next_of_a_chain_is_kept_off_a_node_while_it_waits_and_keeps_its_own_start_time(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        follower = world.cluster.submit(name="next", dependency=f"afterany:{job.raw_id}")
        later = world.clock.now() + timedelta(seconds=90)
        world.cluster.ask_for_time(follower, later)
        advice = world.advice(job, successor=follower, exclude=(job.nodes[0],))
        world.backend.give(world.order(advice, raw_id=follower))
        async with world.running():
            await world.clock.sleep(30)
            waiting = world.cluster.job(follower)
            assert (waiting.state, waiting.excluded) == (JobState.PENDING, (job.nodes[0],))
            assert waiting.eligible_at == later
            world.cluster.change(follower, dependency="")
            after = await world.when(follower, JobState.RUNNING)
        assert job.nodes[0] not in after.nodes
        assert world.cluster.job(job.raw_id).state is JobState.FAILED

    world.play(story())
    assert world.verbs() == ["update"]
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]


def test_a_next_of_a_chain_that_its_owner_holds_or_that_runs_already_is_left(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        held = world.cluster.submit(name="next", dependency=f"afterany:{job.raw_id}")
        world.cluster.change(held, hold=Hold.USER)
        world.backend.give(world.order(world.advice(job, successor=held, exclude=(job.nodes[0],)), raw_id=held))
        await world.run(20)

    world.play(story())
    assert world.scheduler.sent == []
