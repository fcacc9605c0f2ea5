"""Where a requeued job starts at once: requeued held, written, released; and nothing ever stays held because of us."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from relance.domain.advice import ActionEnd, StepRecord
from relance.domain.ledger_lines import read_lines
from relance.domain.ledgers import Verb, fold
from relance.domain.stages import EffectiveStage, EndRunning, Stage
from relance.domain.views import Hold, JobState, JobView
from relance.domain.watchdogs import MARK_FILE, WatchdogMark, mark_text
from relance.testing.memory_clusters import Timings
from relance.testing.memory_schedulers import Fault, FaultKind
from relance.watchdog.decisions import Ground, Want, decide
from relance.watchdog.settings import Rules
from tests.unit.controlling.fuses import Fuse, When
from tests.unit.controlling.test_crashes import life, new_starts
from tests.unit.controlling.worlds import World

SHORT = Timings(requeue_delay_s=5.0)
HELD = ["requeuehold", "update", "release"]
ENDS = EffectiveStage(stage=Stage.ACT, end_running=frozenset(EndRunning), why=())


def short_world(folder: Path, *, watched: bool = True) -> World:
    """A cluster on which a requeued job starts after five seconds."""
    world = World(folder, timings=SHORT)
    if watched:
        watch(world)
    return world


def watch(world: World, stage: Stage = Stage.ACT) -> None:
    """A watchdog leaves its mark, good for hours."""
    world.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mark = WatchdogMark(cluster=world.cluster.name, at=world.clock.now(), every_s=36_000, stage=stage)
    (world.folder / MARK_FILE).write_text(mark_text(mark))


@pytest.fixture
def short(tmp_path: Path) -> World:
    return short_world(tmp_path)


async def order(world: World, **fields: object) -> JobView:
    job = await world.failed_job(**fields)
    world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
    return job


def prepared(world: World) -> StepRecord:
    """What was told before anything was done."""
    return next(iter(world.backend.steps.values()))


def shown(world: World) -> list[tuple[str, ...]]:
    """The commands that were shown beforehand."""
    effect = prepared(world).effect
    assert effect is not None
    return [command.argv for command in effect.commands]


def sent(world: World) -> list[tuple[str, ...]]:
    return [item.argv for item in world.scheduler.sent]


def test_it_is_held_until_its_exclusions_are_written_and_this_is_what_was_shown(short: World) -> None:
    async def story() -> JobView:
        job = await order(short)
        await short.run(20)
        return job

    job = short.play(story())
    after = short.cluster.job(job.raw_id)
    assert (after.state, after.excluded, after.hold) == (JobState.RUNNING, (job.nodes[0],), Hold.NONE)
    assert short.verbs() == HELD
    assert sent(short) == shown(short)
    first, second, _ = short.scheduler.sent
    assert (second.at - first.at).total_seconds() >= 1, "one full second between PENDING and the update"
    assert [end for end, _ in short.backend.ends()] == [ActionEnd.SUCCEEDED]
    assert "a priority that somebody set by hand is lost" in prepared(short).detail


@pytest.mark.parametrize("stage", [None, Stage.OBSERVE])
def test_without_a_watchdog_at_act_nothing_is_held_and_that_is_said(tmp_path: Path, stage: Stage | None) -> None:
    world = short_world(tmp_path, watched=False)
    if stage is not None:
        watch(world, stage)

    async def story() -> JobView:
        job = await order(world)
        await world.run(20)
        return job

    job = world.play(story())
    assert world.verbs() == ["requeue", "update"]
    assert world.cluster.job(job.raw_id).state is JobState.RUNNING
    assert "relance-watchdog at stage act mends it" in prepared(world).detail


def test_without_a_watchdog_nothing_that_runs_is_ended_there(tmp_path: Path) -> None:
    world = short_world(tmp_path, watched=False)

    async def story() -> str:
        raw_id = world.cluster.submit()
        await world.clock.sleep(60)
        job = world.cluster.job(raw_id)
        advice = world.advice(job, ends_running=EndRunning.HANG, exclude=(job.nodes[0],))
        world.backend.give(world.order(advice, stage=ENDS))
        async with world.running() as controller:
            await world.clock.sleep(10)
            return controller.alarms["begin"]

    alarm = world.play(story())
    assert world.scheduler.sent == []
    assert "no watchdog has left its mark: start relance-watchdog at stage act" in alarm


def test_what_needs_nothing_written_before_it_starts_is_not_held(short: World) -> None:
    async def story() -> None:
        job = await short.failed_job()
        short.backend.give(short.order(short.advice(job)))
        await short.run(20)

    short.play(story())
    assert short.verbs() == ["requeue", "update"]


def test_on_a_cluster_that_leaves_time_nothing_is_held(world: World) -> None:
    watch(world)

    async def story() -> None:
        await order(world)
        await world.run(20)

    world.play(story())
    assert world.verbs() == ["requeue", "update"]


def test_a_window_that_the_read_back_shows_twice_counts_for_the_next_restart(tmp_path: Path) -> None:
    world = short_world(tmp_path)
    facts = world.cluster.facts
    world.cluster.facts = lambda: replace(facts(), requeue_delay_s=121.0)  # type: ignore[method-assign]

    async def story() -> None:
        async with world.running():
            for name in ("first", "second", "third"):
                job = await order(world, name=name)
                await world.when(job.raw_id, JobState.RUNNING)
                await world.clock.sleep(5)
                world.cluster.end(job.raw_id, JobState.COMPLETED, exit_code=0)

    world.play(story())
    assert world.verbs() == ["requeue", "update", "requeue", "update", *HELD]


def test_a_parked_job_waits_by_its_time_and_not_by_a_hold(short: World) -> None:
    async def story() -> JobView:
        job = await short.failed_job()
        until = short.clock.now() + timedelta(minutes=30)
        short.backend.give(short.order(short.advice(job, park=True, park_until=until)))
        await short.run(20)
        return short.cluster.job(job.raw_id)

    after = short.play(story())
    assert short.verbs() == HELD
    assert (after.state, after.hold, after.reason) == (JobState.PENDING, Hold.NONE, "BeginTime")
    assert [(end, reason[:6]) for end, reason in short.backend.ends()] == [(ActionEnd.SUCCEEDED, "parked")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hand:
    """What somebody does, and how it ends."""

    does: Callable[[World, JobView], object]
    said: str = ""
    state: JobState = JobState.RUNNING
    hold: Hold = Hold.NONE


HANDS = {
    "a copy is submitted": Hand(
        does=lambda world, _: world.cluster.submit(),
        said="our pending attempt was cancelled",
        state=JobState.CANCELLED,
    ),
    "it is cancelled": Hand(
        does=lambda world, job: world.cluster.cancel_by(job.raw_id, 1001), state=JobState.CANCELLED
    ),
    "an operator holds it": Hand(
        does=lambda world, job: world.cluster.hold(job.raw_id, Hold.ADMIN),
        said="it is held (admin)",
        state=JobState.PENDING,
        hold=Hold.ADMIN,
    ),
    "its owner releases it": Hand(
        does=lambda world, job: world.cluster.do(("person", "release", job.raw_id)), said="runs on"
    ),
    "the switch is thrown": Hand(does=lambda world, _: (world.folder / "STOP").touch(), said="runs on"),
    "the server is away": Hand(does=lambda world, _: setattr(world.backend, "is_away", True)),
}


@pytest.mark.parametrize("what", HANDS)
@pytest.mark.parametrize("after_s", [0.0, 0.5])
def test_whatever_others_do_meanwhile_no_hold_of_ours_is_left(short: World, what: str, after_s: float) -> None:
    hand = HANDS[what]

    async def story() -> JobView:
        job = await order(short)
        async with short.running():
            await short.sent(1)
            await short.clock.sleep(after_s)
            hand.does(short, job)
            await short.clock.sleep(60)
            short.backend.is_away = False
            await short.clock.sleep(5)
        return job

    job = short.play(story())
    now = short.cluster.job(job.raw_id)
    assert (now.state, now.hold) == (hand.state, hand.hold)
    ((_, reason),) = short.backend.ends()
    assert hand.said in reason
    assert new_starts(short, job) == (1 if hand.state is JobState.RUNNING else 0)


def test_who_held_its_next_attempt_beforehand_finds_it_held(short: World) -> None:
    async def story() -> JobView:
        job = await short.failed_job(held_next=True)
        short.backend.give(short.order(short.advice(job, exclude=(job.nodes[0],))))
        await short.run(30)
        return short.cluster.job(job.raw_id)

    after = short.play(story())
    assert short.verbs() == ["requeue"]
    assert (after.state, after.hold) == (JobState.PENDING, Hold.USER)
    ((end, reason),) = short.backend.ends()
    assert end is ActionEnd.ABANDONED
    assert "it is held (user), and not by us" in reason


@pytest.mark.parametrize("kind", list(FaultKind))
@pytest.mark.parametrize("number", [1, 2, 3])
def test_whatever_befalls_a_command_the_job_runs_once_and_free(short: World, kind: FaultKind, number: int) -> None:
    short.scheduler.faults.commands[number] = Fault(kind=kind, after_s=5)

    async def story() -> JobView:
        job = await order(short)
        await short.run(140)
        return job

    job = short.play(story())
    after = short.cluster.job(job.raw_id)
    assert after.hold is Hold.NONE, short.verbs()
    if (number, kind) == (1, FaultKind.REFUSAL):
        assert after.state is JobState.FAILED
    else:
        assert (after.state, new_starts(short, job)) == (JobState.RUNNING, 1), short.verbs()


def test_a_scheduler_too_slow_for_a_fresh_read_keeps_no_hold_of_ours(short: World) -> None:
    read = short.scheduler.read

    async def slow(raw_id: str) -> JobView:
        job = await read(raw_id)
        if short.scheduler.sent:
            await short.clock.sleep(1.5)
        return job

    async def story() -> JobView:
        job = await order(short)
        short.scheduler.read = slow  # type: ignore[method-assign]
        await short.run(60)
        return job

    job = short.play(story())
    assert short.verbs() == ["requeuehold", "release"]
    assert short.cluster.job(job.raw_id).state is JobState.RUNNING


# ------------------------------------------------------------------------------------------------------------ kill -9


def calls_of_a_held_restart(folder: Path) -> list[str]:
    world, fuse = short_world(folder), Fuse()

    async def story() -> None:
        await order(world)
        await life(world, fuse, 9)

    world.play(story())
    return fuse.calls


def moments(calls: list[str], *kinds: str) -> list[tuple[int, When]]:
    """Every way of dying in calls of these kinds from the claim on."""
    begins = calls.index("ledger Began")
    numbered = [(number, name) for number, name in enumerate(calls, start=1) if number > begins]
    changing = [number for number, name in numbered if name.startswith(kinds)]
    return [(number, when) for number in changing for when in When]


def watchdog_s_round(world: World) -> None:
    """What the watchdog would release by the ledger as it lies on the disk, it releases."""
    entries = read_lines((world.folder / "ledger.jsonl").read_bytes()).entries
    ground = Ground(
        now=world.clock.now(),
        cluster=world.cluster.name,
        rules=Rules(stage=Stage.ACT, release_after_s=20),
        ledger=fold(entries),
        alive_at=None,
        jobs={job.raw_id: job for job in world.cluster.jobs()},
    )
    for want in decide(ground):
        if isinstance(want, Want) and want.verb is Verb.RELEASE:
            world.cluster.do(("watchdog", "release", want.job.raw_id))


def test_killed_anywhere_and_never_started_again_the_watchdog_frees_the_job(tmp_path: Path) -> None:
    for number, when in moments(calls_of_a_held_restart(tmp_path / "plain"), "send", "ledger Intended", "ledger Did"):
        world = short_world(tmp_path / f"{number}-{when.value}")
        fuse = Fuse(at=number, when=when)

        async def story(world: World = world, fuse: Fuse = fuse) -> JobView:
            job = await order(world)
            await life(world, fuse, 9)
            await world.passes(40)
            watchdog_s_round(world)
            await world.passes(20)
            return job

        job = world.play(story())
        where = f"killed {when.value} call {number}, {fuse.calls[-1]}"
        after = world.cluster.job(job.raw_id)
        assert after.hold is Hold.NONE, where
        assert (after.state, new_starts(world, job)) in ((JobState.RUNNING, 1), (JobState.FAILED, 0)), where


def test_killed_anywhere_and_started_again_it_runs_once_and_free(tmp_path: Path) -> None:
    for number, when in moments(calls_of_a_held_restart(tmp_path / "plain"), "send", "ledger Intended"):
        world = short_world(tmp_path / f"{number}-{when.value}")
        fuse = Fuse(at=number, when=when)

        async def story(world: World = world, fuse: Fuse = fuse) -> JobView:
            job = await order(world)
            await life(world, fuse, 9)
            await life(world, Fuse(), 60)
            return job

        job = world.play(story())
        where = f"killed {when.value} call {number}, {fuse.calls[-1]}"
        after = world.cluster.job(job.raw_id)
        assert (after.state, after.hold, new_starts(world, job)) == (JobState.RUNNING, Hold.NONE, 1), where
        assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED], (where, world.backend.ends())


@pytest.mark.parametrize("knows", [True, False])
def test_another_controller_frees_a_hold_that_the_server_knows_as_ours_and_no_other(
    short: World, tmp_path: Path, *, knows: bool
) -> None:
    calls = calls_of_a_held_restart(tmp_path / "plain")
    fuse = Fuse(at=calls.index("send update") + 1 if knows else calls.index("send requeuehold") + 1, when=When.BEFORE)

    async def story() -> JobView:
        job = await order(short)
        await life(short, fuse, 9)
        if not knows:
            short.cluster.do(("person", "requeuehold", job.raw_id))
        short.folder = short.folder.with_name("another")
        watch(short)
        short.backend.holder, short.backend.epoch = "controller-2", 2
        await life(short, Fuse(), 60, holder="controller-2")
        return short.cluster.job(job.raw_id)

    after = short.play(story())
    if knows:
        assert (after.state, after.hold) == (JobState.RUNNING, Hold.NONE)
        assert short.verbs() == HELD
    else:
        assert (after.state, after.hold) == (JobState.PENDING, Hold.USER)
        ((end, reason),) = short.backend.ends()
        assert end is ActionEnd.ABANDONED
        assert "`scontrol release 1` lets it start" in reason
