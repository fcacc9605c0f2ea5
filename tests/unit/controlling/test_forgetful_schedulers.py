"""A scheduler that is killed may come back with what it had on its disk: as if our newest commands had never been."""

from __future__ import annotations

import pytest

from relance.domain.advice import ActionEnd
from relance.domain.views import JobState, JobView
from tests.unit.controlling.worlds import World


def forget(world: World, before: JobView) -> None:
    """The scheduler shows the job as it was."""
    world.cluster.change(
        before.raw_id,
        state=before.state,
        restart_count=before.restart_count,
        submitted_at=before.submitted_at,
        eligible_at=before.eligible_at,
        started_at=before.started_at,
        ended_at=before.ended_at,
        reason=before.reason,
        nodes=before.nodes,
    )


@pytest.mark.parametrize(
    ("commands", "sent"), [(1, ["requeue", "requeue", "update"]), (2, ["requeue", "update", "requeue", "update"])]
)
def test_a_requeue_that_was_forgotten_is_made_once_more_and_the_job_runs_once(
    world: World, commands: int, sent: list[str]
) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.sent(commands)
            forget(world, job)
            await world.when(job.raw_id, JobState.RUNNING)
            await world.clock.sleep(20)
        assert world.cluster.job(job.raw_id).restart_count == 1

    world.play(story())
    assert world.verbs() == sent
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]


def test_a_person_who_cancels_what_was_forgotten_is_heard(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.sent(1)
            forget(world, job)
            world.cluster.change(job.raw_id, state=JobState.CANCELLED, cancelled_by=1001)
            await world.clock.sleep(60)

    world.play(story())
    assert world.verbs() == ["requeue"]
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.ABANDONED]


def test_an_attempt_from_before_our_requeue_that_is_shown_as_running_is_not_taken_for_the_new_one(
    world: World,
) -> None:
    """Its processes are long gone; the scheduler finds that out and requeues the job, which is then let go at once."""

    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.sent(2)
            forget(world, job)
            world.cluster.change(job.raw_id, state=JobState.RUNNING, ended_at=None)
            await world.clock.sleep(120)
            assert world.backend.ends() == []
            assert world.verbs() == ["requeue", "update"]
            world.cluster.do(("scontrol", "requeue", job.raw_id))
            await world.when(job.raw_id, JobState.RUNNING, within_s=60)
            await world.clock.sleep(20)

    world.play(story())
    assert world.verbs() == ["requeue", "update", "update"]
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]
