"""A job that may not be requeued is armed while it runs, once, and taken back when a person asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from relance.domain.advice import ActionEnd
from relance.domain.requests import Request, RequestKind, RequestVerb
from relance.domain.views import JobState
from tests.unit.controlling.test_request_runs import ask_job, ends
from tests.unit.controlling.worlds import World

WORD = "its own comment asks for it"


@pytest.fixture
def world(tmp_path: Path) -> World:
    # No setting of the site is needed: whether it is asked for is the job's word, or another setting.
    made = World(tmp_path)
    made.requests = frozenset(kind for kind in made.requests if kind is not RequestKind.ARM_JOBS)
    return made


async def fixed(world: World, **fields: object) -> str:
    """A running job that may not be requeued."""
    raw_id = world.cluster.submit(**({"requeue_allowed": False, "arming": WORD} | fields))  # type: ignore[arg-type]
    await world.when(raw_id, JobState.RUNNING)
    return raw_id


def ask(world: World, raw_id: str, verb: RequestVerb = RequestVerb.ARM) -> Request:
    return ask_job(world, raw_id, verb)


def test_it_is_armed_once_read_back_and_told_and_the_ledger_has_it_before_the_command(world: World) -> None:
    async def story() -> None:
        raw_id = await fixed(world)
        ask(world, raw_id)
        await world.run(10)
        assert world.cluster.job(raw_id).requeue_allowed is True
        assert world.verbs() == ["arm"]
        assert ends(world) == [(ActionEnd.SUCCEEDED, "")]
        assert all(sent.read_age_s < 1.0 for sent in world.scheduler.sent)

    world.play(story())


def test_it_is_taken_back_when_a_person_asks_while_it_runs(world: World) -> None:
    async def story() -> None:
        raw_id = await fixed(world, requeue_allowed=True, arming="")
        ask(world, raw_id, RequestVerb.DISARM)
        await world.run(10)
        assert world.cluster.job(raw_id).requeue_allowed is False
        assert ends(world) == [(ActionEnd.SUCCEEDED, "")]

    world.play(story())


@pytest.mark.parametrize(
    ("verb", "fields", "word"),
    [
        (RequestVerb.ARM, {"requeue_allowed": True}, "may be requeued already"),
        (RequestVerb.ARM, {"requeue_allowed": None}, "cannot be read"),
        (RequestVerb.ARM, {"arming": ""}, "neither its own comment nor a setting of the site asks for it"),
        (RequestVerb.DISARM, {}, "may not be requeued already"),
    ],
)
def test_a_job_that_is_not_as_it_was_is_left_alone(
    world: World, verb: RequestVerb, fields: dict[str, object], word: str
) -> None:
    async def story() -> None:
        raw_id = await fixed(world, **fields)
        ask(world, raw_id, verb)
        await world.run(10)
        assert world.verbs() == []
        ((end, reason),) = ends(world)
        assert end is ActionEnd.ABANDONED
        assert word in reason

    world.play(story())


def test_a_job_that_has_ended_meanwhile_takes_no_such_change(world: World) -> None:
    async def story() -> None:
        raw_id = await fixed(world)
        world.cluster.end(raw_id, JobState.FAILED)
        ask(world, raw_id)
        await world.run(10)
        assert world.verbs() == []
        assert "it is failed" in ends(world)[0][1]

    world.play(story())


def test_under_the_switch_nothing_is_armed(world: World) -> None:
    async def story() -> None:
        raw_id = await fixed(world)
        ledger = world.ledger()
        (world.folder / "STOP").touch()
        ask(world, raw_id)
        await world.run(10, ledger)
        assert world.verbs() == []

    world.play(story())
