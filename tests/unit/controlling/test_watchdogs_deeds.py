"""What the watchdog did: told to the server before the look that shows it, and never done a second time."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable
from dataclasses import replace
from datetime import timedelta

from relance.controlling.ledger import LOCK_NAME
from relance.domain.deeds import (
    DEED_SUFFIX,
    SPOOL_FOLDER,
    TOLD_SUFFIX,
    UNDER_WAY_S,
    DeedState,
    WatchdogDeed,
    deed_id,
    deed_text,
)
from relance.domain.ledgers import Taken, Verb
from relance.domain.stages import Stage
from relance.domain.views import JobState, JobView
from tests.unit.controlling.worlds import World


def _deed(world: World, job: JobView, state: DeedState) -> WatchdogDeed:
    attempt = job.attempt_key(world.cluster.name)
    return WatchdogDeed(
        id=deed_id(attempt, Verb.REQUEUE, 1),
        attempt=attempt,
        verb=Verb.REQUEUE,
        number=1,
        state=state,
        stage=Stage.ACT,
        argv=("scontrol", "requeue", job.raw_id),
        restart_count=job.restart_count + 1,
        reason="Slurm is about to forget it",
        at=world.clock.now(),
        answered_at=world.clock.now() if state is not DeedState.INTENDED else None,
    )


def _spool(world: World, deed: WatchdogDeed) -> None:
    folder = world.folder / SPOOL_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{deed.id}{DEED_SUFFIX}").write_text(deed_text(deed))


def _names(world: World) -> list[str]:
    return sorted(path.suffix for path in (world.folder / SPOOL_FOLDER).iterdir())


def _states(world: World) -> list[DeedState]:
    return [deed.state for deed in world.backend.deeds]


def test_a_deed_is_told_before_the_look_that_shows_it_and_its_last_word_once(world: World) -> None:
    order: list[str] = []

    async def story() -> None:
        job = await world.failed_job()
        deed = _deed(world, job, DeedState.INTENDED)
        _spool(world, deed)
        _note(order, world)
        async with world.running():
            await world.clock.sleep(5)
            assert (_states(world), _names(world)) == ([DeedState.INTENDED], [DEED_SUFFIX])
            _spool(world, replace(deed, state=DeedState.DONE, answered_at=world.clock.now()))
            await world.clock.sleep(5)
        assert (_states(world), _names(world)) == ([DeedState.INTENDED, DeedState.DONE], [TOLD_SUFFIX])

    world.play(story())
    assert order[:2] == ["deed", "report"]


def _note(order: list[str], world: World) -> None:
    """Note in which order deeds and reports arrive."""
    backend = world.backend
    told, reported = backend.record_deed, backend.report

    def deed(item: WatchdogDeed) -> Awaitable[None]:
        order.append("deed")
        return told(item)

    def report(item: object) -> Awaitable[None]:
        order.append("report")
        return reported(item)  # type: ignore[arg-type]  # passed on as it came

    backend.record_deed = deed  # type: ignore[method-assign,assignment]  # overheard
    backend.report = report  # type: ignore[method-assign,assignment]  # overheard


def test_while_the_server_is_away_a_deed_stays_in_the_spool(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        _spool(world, _deed(world, job, DeedState.WOULD))
        world.backend.is_away = True
        async with world.running():
            await world.clock.sleep(5)
            assert (_states(world), _names(world)) == ([], [DEED_SUFFIX])
            world.backend.is_away = False
            await world.clock.sleep(20)
        assert (_states(world), _names(world)) == ([DeedState.WOULD], [TOLD_SUFFIX])

    world.play(story())


def test_a_file_that_cannot_be_understood_is_an_alarm_and_stops_nothing_else(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        _spool(world, _deed(world, job, DeedState.WOULD))
        (world.folder / SPOOL_FOLDER / f"strange{DEED_SUFFIX}").write_text("nonsense")
        async with world.running() as controller:
            await world.clock.sleep(5)
            assert "strange" in controller.alarms["watchdog"]
        assert _states(world) == [DeedState.WOULD]

    world.play(story())


def test_no_requeue_is_sent_while_one_of_the_watchdogs_may_be_under_way(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        _spool(world, _deed(world, job, DeedState.INTENDED))
        begun = world.clock.now()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.clock.sleep(UNDER_WAY_S - 2)
            assert world.verbs() == []
            after = await world.when(job.raw_id, JobState.RUNNING)
        assert (after.restart_count, world.verbs()) == (1, ["requeue", "update"])
        assert after.submitted_at - begun >= timedelta(seconds=UNDER_WAY_S - 1)

    world.play(story())


def test_an_attempt_that_the_watchdog_restarted_is_not_requeued_again_by_the_controller_that_returns(
    world: World,
) -> None:
    async def story() -> None:
        job = await world.failed_job()
        ledger = world.ledger()
        ledger.append(Taken(attempts=(str(job.attempt_key(world.cluster.name)),), at=world.clock.now()))
        ledger.close()
        world.cluster.do(("scontrol", "requeue", job.raw_id))
        _spool(world, _deed(world, job, DeedState.DONE))
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            after = await world.when(job.raw_id, JobState.RUNNING)
        assert after.restart_count == 1
        assert world.verbs() == ["update"]

    world.play(story())


def test_each_look_is_a_sign_of_life(world: World) -> None:
    async def story() -> None:
        ledger = world.ledger()
        lock = world.folder / LOCK_NAME
        os.utime(lock, (0, 0))
        await world.run(3, ledger)
        assert time.time() - lock.stat().st_mtime < 600  # noqa: TID251 - the file's own clock

    world.play(story())
