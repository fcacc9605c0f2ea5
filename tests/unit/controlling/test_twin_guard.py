"""Nobody twice: copies of a job, looked for before the requeue and before the update."""

from __future__ import annotations

from datetime import timedelta

from relance.domain.advice import ActionEnd
from relance.domain.views import Hold, JobState
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
