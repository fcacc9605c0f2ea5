"""Parking: a start time ahead, so that a job outlives the scheduler's memory without a hold and starts by itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from relance.domain.advice import ActionEnd, ActionKind
from relance.domain.faults import Remedy
from relance.domain.views import JobState, JobView
from tests.unit.controlling.worlds import World

HALF_AN_HOUR = timedelta(minutes=30)


async def parked(world: World) -> tuple[JobView, datetime]:
    job = await world.failed_job()
    until = world.clock.now() + HALF_AN_HOUR
    world.backend.give(world.order(world.advice(job, action=Remedy.WAIT, park=True, park_until=until)))
    await world.run(10)
    return job, until


def test_a_parked_job_waits_beyond_the_schedulers_memory_and_starts_by_itself(world: World) -> None:
    async def story() -> None:
        job, until = await parked(world)
        await world.passes(29 * 60)
        waiting = world.cluster.job(job.raw_id)
        assert (waiting.state, waiting.eligible_at) == (JobState.PENDING, until)
        await world.when(job.raw_id, JobState.RUNNING, within_s=60)

    world.play(story())
    assert world.verbs() == ["requeue", "update"]
    assert world.backend.claims[0].kind is ActionKind.PARK
    assert world.backend.ends() == [(ActionEnd.SUCCEEDED, "parked: it starts by itself at 2026-03-01T12:31:01+00:00")]


def test_a_later_advice_renews_the_time_with_one_update(world: World) -> None:
    async def story() -> None:
        job, until = await parked(world)
        later = until + HALF_AN_HOUR
        advice = world.advice(job, id="adv-2", generation=2, action=Remedy.WAIT, park=True, park_until=later)
        world.backend.give(world.order(advice))
        await world.run(10)
        assert world.cluster.job(job.raw_id).eligible_at == later

    world.play(story())
    assert world.verbs() == ["requeue", "update", "update"]
    assert world.backend.claims[1].kind is ActionKind.CONSTRAIN


def test_a_later_advice_to_restart_ends_the_wait_and_adds_its_exclusion(world: World) -> None:
    async def story() -> None:
        job, _ = await parked(world)
        world.backend.give(world.order(world.advice(job, id="adv-2", generation=2, exclude=(job.nodes[0],))))
        await world.run(10)
        after = world.cluster.job(job.raw_id)
        assert (after.state, after.restart_count, after.excluded) == (JobState.RUNNING, 1, (job.nodes[0],))

    world.play(story())
    assert world.verbs() == ["requeue", "update", "update"]


def test_an_advice_on_the_parked_attempt_itself_ends_the_wait_too(world: World) -> None:
    async def story() -> None:
        job, _ = await parked(world)
        waiting = world.cluster.job(job.raw_id)
        world.backend.take_back(job.attempt_key(world.cluster.name))
        world.backend.give(world.order(world.advice(waiting)))
        await world.run(10)
        assert world.cluster.job(job.raw_id).state is JobState.RUNNING

    world.play(story())


def test_a_time_that_a_person_gave_a_parked_job_is_not_ours_to_change(world: World) -> None:
    async def story() -> None:
        job, until = await parked(world)
        asked = until + timedelta(hours=5)
        world.cluster.ask_for_time(job.raw_id, asked)
        for number, park in enumerate((True, False), start=2):
            advice = world.advice(job, id=f"adv-{number}", generation=number, park=park, park_until=until)
            world.backend.give(world.order(replace(advice, action=Remedy.RESTART)))
            await world.run(10)
        assert world.cluster.job(job.raw_id).eligible_at == asked

    world.play(story())
    assert world.verbs() == ["requeue", "update"]


@pytest.mark.parametrize("park", [True, False])
def test_a_parked_attempt_makes_way_for_a_copy_when_it_is_next_touched(world: World, *, park: bool) -> None:
    async def story() -> None:
        job, until = await parked(world)
        copy = world.cluster.submit()
        advice = world.advice(job, id="adv-2", generation=2, park=park, park_until=until + HALF_AN_HOUR)
        world.backend.give(world.order(advice))
        await world.run(10)
        assert world.cluster.job(job.raw_id).state is JobState.CANCELLED
        assert world.cluster.job(copy).state is JobState.RUNNING

    world.play(story())
    assert world.verbs() == ["requeue", "update", "cancel"]
    end, reason = world.backend.ends()[-1]
    assert end is ActionEnd.ABANDONED
    assert reason.startswith("our pending attempt was cancelled: job 2")


def test_a_copy_leaves_a_parked_attempt_alone_that_a_person_gave_another_time(world: World) -> None:
    async def story() -> None:
        job, until = await parked(world)
        asked = until + timedelta(hours=5)
        world.cluster.ask_for_time(job.raw_id, asked)
        world.cluster.submit()
        advice = world.advice(job, id="adv-2", generation=2, park=True, park_until=until + HALF_AN_HOUR)
        world.backend.give(world.order(advice))
        await world.run(10)
        assert world.cluster.job(job.raw_id).eligible_at == asked

    world.play(story())
    assert world.verbs() == ["requeue", "update"]


def test_a_job_that_waits_and_was_never_parked_by_us_is_left_alone(world: World) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit()
        world.cluster.ask_for_time(raw_id, world.clock.now() + HALF_AN_HOUR)
        world.backend.give(world.order(world.advice(world.cluster.job(raw_id))))
        await world.run(10)

    world.play(story())
    assert world.scheduler.sent == []
