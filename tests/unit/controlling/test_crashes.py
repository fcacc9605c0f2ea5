"""kill -9 before, during and after every call of a transaction; started again or never started again (design 4)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from relance.controlling.controller import Controller
from relance.controlling.paces import ControllerSettings, Pace
from relance.domain.advice import ActionEnd
from relance.domain.views import Hold, JobState, JobView
from tests.unit.controlling.fuses import Fuse, FusedBackend, FusedLedger, FusedScheduler, When
from tests.unit.controlling.worlds import HOLDER, World


async def life(world: World, fuse: Fuse, duration_s: float, holder: str = HOLDER) -> None:
    """One process of a controller: until it is killed, or for that long."""
    ledger = FusedLedger(world.folder, world.cluster.name, world.clock, fuse)
    controller = Controller(
        backend=FusedBackend(world.backend, fuse),
        scheduler=FusedScheduler(world.scheduler, fuse, world.cluster, world.clock),
        ledger=ledger,
        clock=world.clock,
        settings=ControllerSettings(
            holder=holder,
            limits=world.limits,
            pace=Pace(look_s=5.0, poll_s=0.5, suspicion_s=3.0),
            evidence=world.plan,
            requests=world.requests,
        ),
    )
    task = asyncio.create_task(controller.run())
    end = world.clock.monotonic() + duration_s
    while not task.done() and not fuse.is_dead and world.clock.monotonic() < end:
        await world.clock.sleep(0.05)
    fuse.is_dead = True
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    ledger.close()


async def order_a_restart(world: World) -> JobView:
    job = await world.failed_job()
    world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
    return job


def calls_of_a_restart(tmp_path: Path) -> list[str]:
    world, fuse = World(tmp_path), Fuse()

    async def story() -> None:
        await order_a_restart(world)
        await life(world, fuse, 8)

    world.play(story())
    return fuse.calls


def moments(calls: list[str]) -> list[tuple[int, When]]:
    """Every call, and every way of dying in it that makes a difference."""
    found = []
    for number, name in enumerate(calls, start=1):
        halves = [When.DURING] if name.startswith(("send", "ledger")) else []
        changes = name.startswith(("send", "ledger", "claim", "record"))
        found += [(number, when) for when in [When.BEFORE, *halves, *([When.AFTER] if changes else [])]]
    return found


def new_starts(world: World, job: JobView) -> int:
    return len(world.cluster.starts(job.raw_id)) - 1


def test_the_calls_of_a_restart_are_those_that_the_crashes_below_go_through(tmp_path: Path) -> None:
    calls = calls_of_a_restart(tmp_path)
    changing = [name for name in calls if name.startswith(("send", "claim", "ledger"))]
    assert changing.index("claim") < changing.index("ledger Began") < changing.index("ledger Intended")
    assert changing.index("ledger Intended") < changing.index("send requeue") < changing.index("send update")
    assert 40 < len(moments(calls)) < 400


def test_killed_anywhere_and_never_started_again_the_job_runs_or_is_as_the_scheduler_left_it(tmp_path: Path) -> None:
    for number, when in moments(calls_of_a_restart(tmp_path / "plain")):
        world = World(tmp_path / f"{number}-{when.value}")
        fuse = Fuse(at=number, when=when)

        async def story(world: World = world, fuse: Fuse = fuse) -> JobView:
            job = await order_a_restart(world)
            await life(world, fuse, 8)
            await world.passes(150)
            return job

        job = world.play(story())
        where = f"killed {when.value} call {number}, {fuse.calls[-1]}"
        after = world.cluster.job(job.raw_id)
        assert fuse.is_dead, where
        assert after.hold is Hold.NONE, where
        assert (after.state, new_starts(world, job)) in ((JobState.RUNNING, 1), (JobState.FAILED, 0)), where
        assert after.state is JobState.RUNNING or after.restart_count == 0, where


def test_killed_anywhere_and_started_again_the_job_runs_once_and_the_story_is_complete(tmp_path: Path) -> None:
    for number, when in moments(calls_of_a_restart(tmp_path / "plain")):
        world = World(tmp_path / f"{number}-{when.value}")
        fuse = Fuse(at=number, when=when)

        async def story(world: World = world, fuse: Fuse = fuse) -> JobView:
            job = await order_a_restart(world)
            await life(world, fuse, 8)
            await world.passes(1)
            await life(world, Fuse(), 55)
            return job

        job = world.play(story())
        check_the_story(world, job, f"killed {when.value} call {number}, {fuse.calls[-1]}")


@pytest.mark.parametrize("verb", ["requeue", "update"])
@pytest.mark.parametrize("when", list(When))
def test_killed_around_a_command_and_started_again_late_it_goes_on_from_what_the_cluster_shows(
    world: World, verb: str, when: When, tmp_path: Path
) -> None:
    calls = calls_of_a_restart(tmp_path / "plain")
    fuse = Fuse(at=calls.index(f"send {verb}") + 1, when=when)

    async def story() -> JobView:
        job = await order_a_restart(world)
        await life(world, fuse, 8)
        await world.passes(130)
        await life(world, Fuse(), 60)
        return job

    check_the_story(world, world.play(story()), f"killed {when.value} {verb}")


@pytest.mark.parametrize("arrives_after_s", [5, 15, 25, 35])
def test_a_requeue_that_arrives_long_after_its_sender_died_is_not_doubled(
    world: World, tmp_path: Path, arrives_after_s: float
) -> None:
    calls = calls_of_a_restart(tmp_path / "plain")
    at = calls.index("send requeue") + 1
    fuse = Fuse(at=at, when=When.DURING, arrives_after_s=arrives_after_s)

    async def story() -> JobView:
        job = await order_a_restart(world)
        await life(world, fuse, 8)
        await life(world, Fuse(), 55)
        return job

    check_the_story(world, world.play(story()), f"arrived after {arrives_after_s} s")
    assert world.verbs() == ["update"]


def test_killed_twice_in_one_restart_it_still_runs_once(tmp_path: Path) -> None:
    calls = calls_of_a_restart(tmp_path / "plain")
    for number in range(calls.index("claim") + 1, len(calls), 3):
        world = World(tmp_path / str(number))
        second = Fuse(at=number - calls.index("claim") + 6)

        async def story(world: World = world, number: int = number, second: Fuse = second) -> JobView:
            job = await order_a_restart(world)
            await life(world, Fuse(at=number), 8)
            await life(world, second, 8)
            await life(world, Fuse(), 60)
            return job

        check_the_story(world, world.play(story()), f"killed at {number} and again")


def test_killed_before_the_requeue_and_started_again_too_late_nothing_is_begun(world: World, tmp_path: Path) -> None:
    calls = calls_of_a_restart(tmp_path / "plain")
    fuse = Fuse(at=calls.index("send requeue") + 1)

    async def story() -> JobView:
        job = await order_a_restart(world)
        await life(world, fuse, 8)
        await world.passes(245)
        await life(world, Fuse(), 55)
        return job

    world.play(story())
    assert world.scheduler.sent == []
    # It does not say that nothing was sent: the process that died may have sent it.
    assert world.backend.ends() == [(ActionEnd.ABANDONED, "the advice has expired")]


def test_killed_before_the_requeue_nothing_is_begun_without_the_servers_word(world: World, tmp_path: Path) -> None:
    calls = calls_of_a_restart(tmp_path / "plain")
    fuse = Fuse(at=calls.index("send requeue") + 1)

    async def story() -> JobView:
        job = await order_a_restart(world)
        await life(world, fuse, 8)
        world.backend.is_away = True
        await life(world, Fuse(), 60)
        return job

    world.play(story())
    assert world.scheduler.sent == []


def test_killed_after_the_requeue_the_restart_is_finished_without_the_server(world: World, tmp_path: Path) -> None:
    calls = calls_of_a_restart(tmp_path / "plain")
    fuse = Fuse(at=calls.index("send requeue") + 1, when=When.AFTER)

    async def story() -> JobView:
        job = await order_a_restart(world)
        await life(world, fuse, 8)
        world.backend.is_away = True
        await life(world, Fuse(), 30)
        after = world.cluster.job(job.raw_id)
        assert (after.state, after.excluded) == (JobState.RUNNING, (job.nodes[0],))
        world.backend.is_away = False
        await life(world, Fuse(), 10)
        return job

    check_the_story(world, world.play(story()), "killed after the requeue, server away")


def test_a_lost_ledger_is_made_good_from_the_servers_word_and_the_cluster(world: World, tmp_path: Path) -> None:
    calls = calls_of_a_restart(tmp_path / "plain")
    for verb, when in (("requeue", When.BEFORE), ("requeue", When.AFTER), ("update", When.AFTER)):
        world = World(tmp_path / f"{verb}-{when.value}")
        fuse = Fuse(at=calls.index(f"send {verb}") + 1, when=when)

        async def story(world: World = world, fuse: Fuse = fuse) -> JobView:
            job = await order_a_restart(world)
            await life(world, fuse, 8)
            world.folder.rename(tmp_path / f"lost-{world.folder.parent.name}")
            await life(world, Fuse(), 60)
            return job

        check_the_story(world, world.play(story()), f"lost after {when.value} {verb}")


@pytest.mark.parametrize("verb", ["requeue", "update"])
@pytest.mark.parametrize("when", list(When))
def test_another_controller_finishes_it_once_no_command_of_the_dead_one_can_be_under_way(
    world: World, verb: str, when: When, tmp_path: Path
) -> None:
    calls = calls_of_a_restart(tmp_path / "plain")
    fuse = Fuse(at=calls.index(f"send {verb}") + 1, when=when)

    async def story() -> JobView:
        job = await order_a_restart(world)
        await life(world, fuse, 8)
        world.folder = world.folder.with_name("another")
        world.backend.holder, world.backend.epoch = "controller-2", 2
        sent, begun = len(world.scheduler.sent), world.clock.now()
        await life(world, Fuse(), 60, holder="controller-2")
        waited = [(command.at - begun).total_seconds() for command in world.scheduler.sent[sent:]]
        assert all(seconds >= 10 for seconds in waited)
        return job

    check_the_story(world, world.play(story()), f"taken over after {when.value} {verb}")


@pytest.mark.parametrize("by_us", [True, False])
def test_taken_over_a_pending_attempt_makes_way_for_a_copy_if_the_dead_controller_had_requeued_it(
    world: World, tmp_path: Path, *, by_us: bool
) -> None:
    calls = calls_of_a_restart(tmp_path / "plain")
    fuse = Fuse(at=calls.index("send update" if by_us else "send requeue") + 1)

    async def story() -> JobView:
        job = await order_a_restart(world)
        await life(world, fuse, 8)
        if not by_us:
            world.cluster.do(("person", "requeue", job.raw_id))
        world.cluster.submit()
        world.folder = world.folder.with_name("another")
        world.backend.holder, world.backend.epoch = "controller-2", 2
        await life(world, Fuse(), 60, holder="controller-2")
        return world.cluster.job(job.raw_id)

    after = world.play(story())
    assert (after.state is JobState.CANCELLED) == by_us
    assert world.verbs() == (["requeue", "cancel"] if by_us else [])
    ((end, reason),) = world.backend.ends()
    assert end is ActionEnd.ABANDONED
    said = "our pending attempt was cancelled: job 2" if by_us else "nothing more was sent: left as it is: job 2"
    assert reason.startswith(said)


def test_an_action_of_a_dead_controller_is_over_when_its_job_is_gone(world: World, tmp_path: Path) -> None:
    calls = calls_of_a_restart(tmp_path / "plain")
    fuse = Fuse(at=calls.index("send requeue") + 1)

    async def story() -> None:
        job = await order_a_restart(world)
        await life(world, fuse, 8)
        world.cluster.purge(job.raw_id)
        world.folder = world.folder.with_name("another")
        world.backend.holder, world.backend.epoch = "controller-2", 2
        await life(world, Fuse(), 60, holder="controller-2")

    world.play(story())
    assert world.scheduler.sent == []
    assert world.backend.ends() == [
        (ActionEnd.ABANDONED, "the scheduler does not know the job any more: Invalid job id specified")
    ]


def test_the_dead_controller_that_comes_back_later_does_nothing_more(world: World, tmp_path: Path) -> None:
    calls = calls_of_a_restart(tmp_path / "plain")
    fuse = Fuse(at=calls.index("send requeue") + 1)

    async def story() -> JobView:
        job = await order_a_restart(world)
        await life(world, fuse, 8)
        old = world.folder
        world.folder = old.with_name("another")
        world.backend.holder, world.backend.epoch = "controller-2", 2
        await life(world, Fuse(), 60, holder="controller-2")
        world.folder = old
        await life(world, Fuse(), 60)
        world.folder = old.with_name("another")
        return job

    job = world.play(story())
    assert world.verbs() == ["requeue", "update"]
    assert new_starts(world, job) == 1


def check_the_story(world: World, job: JobView, where: str) -> None:
    after = world.cluster.job(job.raw_id)
    assert (after.state, after.restart_count) == (JobState.RUNNING, 1), where
    assert new_starts(world, job) == 1, where
    assert after.hold is Hold.NONE, where
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED], (where, world.backend.ends())
    action = world.backend.action(job.attempt_key(world.cluster.name))
    assert action is not None, where
    assert action.end == "ActionSucceeded", where
    ledger = world.ledger()
    assert (ledger.state.unreported, ledger.state.open_actions) == ((), ()), where
    ledger.close()
