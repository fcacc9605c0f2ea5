"""Jobs that wait for the success of a restarted one are let wait anew, and nobody else is touched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from relance.controlling.dependents import NEVER, dependents, waits_in_vain, whole
from relance.controlling.moves import Rearm, Saw, Send
from relance.domain.advice import ActionEnd, Command, Effect
from relance.domain.ledgers import Verb
from relance.domain.stages import Stage
from relance.domain.views import JobState, JobView, Wish
from relance.testing.memory_schedulers import Fault, FaultKind
from tests.unit.controlling.fuses import Fuse, When
from tests.unit.controlling.test_crashes import life
from tests.unit.controlling.test_exclusions_of_jobs import job as some_job
from tests.unit.controlling.test_sequences import COPY, PENDING, REPORT, WATCH, step
from tests.unit.controlling.worlds import World


@pytest.mark.parametrize(
    ("dependency", "asked"),
    [
        ("afterok:17(failed)", "afterok:17"),
        ("afterok:17(failed),afterok:18(unfulfilled),singleton(unfulfilled)", "afterok:17,afterok:18,singleton"),
        ("afterok:18(unfulfilled)?afterok:17(failed)", "afterok:18?afterok:17"),
        ("afterok:17+5(failed)", "afterok:17+5"),
        ("afterok:17_*(failed)", "afterok:17_*"),
    ],
)
def test_the_whole_dependency_is_asked_for_again(dependency: str, asked: str) -> None:
    assert whole(dependency) == asked


@pytest.mark.parametrize(
    ("dependency", "reason", "vain"),
    [
        ("afterok:17(failed)", NEVER, True),
        ("afterok:17", NEVER, True),
        ("afterok:18(unfulfilled):17(failed)", NEVER, True),
        ("afterok:17(failed)", "Dependency", False),
        ("afterok:17(unfulfilled),afterok:9(failed)", NEVER, False),
        ("afterok:170(failed)", NEVER, False),
        ("afterany:17(failed)", NEVER, False),
        ("afternotok:17(failed)", NEVER, False),
    ],
)
def test_who_waits_in_vain_for_this_job(world: World, dependency: str, reason: str, *, vain: bool) -> None:
    parent = replace(some_job(world), raw_id="17")
    other = replace(parent, raw_id="20", state=JobState.PENDING, dependency=dependency, reason=reason)
    assert waits_in_vain(other, parent) is vain
    assert not waits_in_vain(replace(other, user="bob"), parent)
    assert dependents(parent, [replace(other, state=JobState.CANCELLED)]) == ()


NO_WISH = Wish()


async def chain(world: World, wish: Wish = NO_WISH, *, acts: bool = True) -> tuple[JobView, str, str]:
    """A job that failed, one that waits for it, and one that waits for that one; whether these are at `act`."""
    job = await world.failed_job()
    second = world.cluster.submit("second", nodes=1, dependency=f"afterok:{job.raw_id}", wish=wish)
    third = world.cluster.submit("third", nodes=1, dependency=f"afterok:{second}")
    assert world.cluster.job(second).reason == NEVER
    waiting = (world.cluster.job(raw_id) for raw_id in (second, third) if acts)
    world.backend.acting = tuple(str(other.attempt_key(world.cluster.name)) for other in waiting)
    world.backend.give(world.order(world.advice(job)))
    return job, second, third


def shown(world: World) -> list[tuple[str, ...]]:
    effect = next(step.effect for step in world.backend.steps.values() if step.effect is not None)
    return [command.argv for command in effect.commands]


def test_a_chain_of_three_completes_after_the_first_was_restarted(world: World) -> None:
    async def story() -> list[JobState]:
        job, second, third = await chain(world)
        await world.run(20)
        states = []
        for raw_id in (job.raw_id, second, third):
            await world.when(raw_id, JobState.RUNNING)
            world.cluster.end(raw_id, JobState.COMPLETED, exit_code=0)
            states.append(world.cluster.job(raw_id).state)
        return states

    assert world.play(story()) == [JobState.COMPLETED] * 3
    assert [item.argv for item in world.scheduler.sent] == shown(world)
    assert world.verbs() == ["requeue", "update", "rearm"]
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]


@pytest.mark.parametrize("when", list(When))
def test_it_is_in_the_ledger_before_it_is_sent_and_killed_there_it_is_seen_to_once_more(
    world: World, tmp_path: Path, when: When
) -> None:
    plain, counted = World(tmp_path / "plain"), Fuse()

    async def counting() -> None:
        await chain(plain)
        await life(plain, counted, 8)

    plain.play(counting())
    at = counted.calls.index("send rearm")
    assert counted.calls[at - 1] == "ledger Intended"

    async def story() -> str:
        _, second, _ = await chain(world)
        await life(world, Fuse(at=at + 1, when=when), 8)
        await life(world, Fuse(), 60)
        return second

    second = world.play(story())
    assert world.cluster.job(second).reason == "Dependency"
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]


@pytest.mark.parametrize("kind", [FaultKind.REFUSAL, FaultKind.HANG])
def test_what_goes_wrong_with_it_is_told_and_the_restart_succeeds(world: World, kind: FaultKind) -> None:
    world.scheduler.faults.commands[3] = Fault(kind=kind, text="Job dependency problem")

    async def story() -> None:
        await chain(world)
        await world.run(60)

    world.play(story())
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]
    told = [(step.step, step.detail) for step in world.backend.steps.values() if step.step.startswith("rearm")]
    assert len(told) == 1
    assert ("refused" in told[0][1]) == (kind is FaultKind.REFUSAL)


@pytest.mark.parametrize(("wish", "acts"), [(Wish(mode=Stage.OBSERVE), True), (NO_WISH, False)])
def test_who_is_only_watched_and_other_users_jobs_are_left_alone(world: World, wish: Wish, *, acts: bool) -> None:
    async def story() -> None:
        await chain(world, wish=wish, acts=acts)
        world.cluster.submit("of another", user="bob", dependency="afterok:1")
        await world.run(20)

    world.play(story())
    assert world.verbs() == ["requeue", "update"]
    assert "job 2 waits for it and is left as it is" in next(iter(world.backend.steps.values())).detail


def test_where_slurm_cancels_what_waits_that_is_said_beforehand(world: World) -> None:
    facts = world.cluster.facts
    world.cluster.facts = lambda: replace(facts(), kills_dependents=True)  # type: ignore[method-assign]

    async def story() -> None:
        _, second, _ = await chain(world)
        world.cluster.change(second, state=JobState.CANCELLED)
        await world.run(20)

    world.play(story())
    detail = next(iter(world.backend.steps.values())).detail
    assert "job 2 waited for its success and was cancelled by the scheduler: no restart saves it" in detail
    assert world.verbs() == ["requeue", "update"]


def test_a_copy_is_made_way_for_before_anybody_is_let_wait_anew() -> None:
    waiting = replace(PENDING, raw_id="20", name="second", dependency="afterok:17(failed)", reason=NEVER)
    effect = Effect(summary="", commands=(Command(argv=("any",)),), digest="")
    known = replace(WATCH, began=replace(WATCH.began, effect=effect))
    beside = replace(known, report=replace(REPORT, jobs=(COPY, waiting)))
    assert step(replace(known, report=replace(REPORT, jobs=(waiting,))), Saw(job=PENDING)) == Rearm(raw_id="20")
    assert step(beside, Saw(job=PENDING)) == Send(verb=Verb.CANCEL, restart_count=1)
