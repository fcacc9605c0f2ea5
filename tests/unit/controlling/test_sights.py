"""What the controller reports of its cluster, and what makes it look again."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest

from relance.controlling.ledger import Ledger
from relance.controlling.paces import READ_AGE_S, Pace
from relance.controlling.sights import SUSPECTED_S
from relance.domain.advice import ActionEnd
from relance.domain.ledgers import Entry, Intended
from relance.domain.views import ClusterReport, JobState, JobView
from relance.ports.schedulers import SchedulerUnreachedError
from tests.unit.controlling.worlds import HOLDER, World


def test_reports_are_whole_numbered_and_of_one_session(world: World) -> None:
    async def story() -> None:
        await world.failed_job()
        await world.run(5)

    world.play(story())
    reports = world.backend.reports
    assert [report.sequence for report in reports] == list(range(1, len(reports) + 1))
    assert len({report.session for report in reports}) == 1
    assert reports[0].session.startswith(HOLDER)
    assert all(report.complete and len(report.jobs) == 1 and len(report.nodes) == 6 for report in reports)


def test_another_start_is_another_session(world: World) -> None:
    async def story() -> None:
        await world.run(2)
        await world.run(2)

    world.play(story())
    assert len({report.session for report in world.backend.reports}) == 2


def test_while_the_way_to_the_scheduler_is_lost_the_server_hears_so_and_no_old_look_passes_for_a_new_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, cut = world.scheduler.look, asyncio.Event()

    async def look_or_not() -> ClusterReport:
        if cut.is_set():
            raise SchedulerUnreachedError("login1 cannot be asked", way="connection")
        return await look()

    async def story() -> None:
        monkeypatch.setattr(world.scheduler, "look", look_or_not)
        with contextlib.closing(world.ledger()) as ledger:
            controller = world.controller(ledger)
            await world.failed_job()
            await controller.look_and_report()
            await world.clock.sleep(5)
            cut.set()
            await controller.look_and_report()
            assert "login1 cannot be asked" in controller.alarms["scheduler"]
            cut.clear()
            await controller.look_and_report()
            assert controller.alarms == {}

    world.play(story())
    before, during, after = world.backend.reports
    (missing,) = during.facts.impairments
    assert (missing.name, missing.reason) == ("connection", "login1 cannot be asked")
    assert (during.as_of, during.jobs, during.nodes) == (before.as_of, before.jobs, before.nodes)
    assert (before.complete, during.complete, after.complete) == (True, False, True)
    assert before.sequence < during.sequence < after.sequence
    assert after.facts.impairments == ()


def test_it_looks_at_most_five_times_a_second_whatever_wakes_it(world: World) -> None:
    async def story() -> None:
        await world.run(10)

    world.play(story())
    assert 30 <= len(world.backend.reports) <= 51


def test_a_scheduler_that_is_silent_is_not_reported_as_empty_and_it_is_said_afterwards(world: World) -> None:
    async def story() -> None:
        async with world.running() as controller:
            await world.clock.sleep(2)
            world.scheduler.faults.is_silent = True
            before = len(world.backend.reports)
            await world.clock.sleep(20)
            assert len(world.backend.reports) <= before + 1
            assert controller.alarms["scheduler"] == "the scheduler does not answer: no answer"
            world.scheduler.faults.is_silent = False
            await world.clock.sleep(2)
            assert controller.alarms == {}

    world.play(story())


def test_a_job_with_an_open_order_is_read_by_itself_between_two_looks(world: World) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit()
        job = await world.when(raw_id, JobState.RUNNING)
        world.scheduler.faults.is_deaf = True
        world.backend.give(world.order(world.advice(job)))
        ledger = world.ledger()
        controller = world.controller(ledger, Pace(look_s=60.0))
        task = asyncio.create_task(controller.run())
        await world.clock.sleep(5)
        world.cluster.end(raw_id, JobState.COMPLETED)
        await world.clock.sleep(1)
        assert world.backend.reports[-1].jobs[0].state is JobState.COMPLETED
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        ledger.close()

    world.play(story())


class SlowLedger(Ledger):
    """A disk that takes two seconds for the first intent."""

    def __init__(self, world: World) -> None:
        self._time = world.time
        self._slow_for_s = 2.0
        super().__init__(world.folder, world.cluster.name, world.clock)

    def append(self, *entries: Entry, durable: bool = True) -> None:
        if any(isinstance(entry, Intended) for entry in entries):
            self._time.pass_by(self._slow_for_s)
            self._slow_for_s = 0.0
        super().append(*entries, durable=durable)


def test_after_a_slow_write_of_the_ledger_the_job_is_read_again_before_the_command_goes_out(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        await world.run(10, SlowLedger(world))

    world.play(story())
    assert all(sent.read_age_s < READ_AGE_S for sent in world.scheduler.sent)
    assert world.verbs() == ["requeue", "update"]
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]


def test_what_is_suspected_for_long_is_read_by_itself_only_while_it_is_news(world: World) -> None:
    """A job that hangs for a day is not asked about twice a second all day long."""

    async def story() -> None:
        raw_id = world.cluster.submit()
        job = await world.when(raw_id, JobState.RUNNING)
        world.scheduler.faults.is_deaf = True
        held = replace(world.advice(job), hold=True)
        world.backend.give(world.order(held))
        ledger = world.ledger()
        task = asyncio.create_task(world.controller(ledger, Pace(look_s=60.0)).run())
        await world.clock.sleep(SUSPECTED_S + 5)
        early = reads()
        await world.clock.sleep(50)
        late = reads()
        world.backend.give(world.order(replace(held, generation=2)))
        await world.clock.sleep(10)
        assert early > 20
        assert late - early < 3, "it is read on and on"
        assert reads() - late > 5, "what is said of it has changed, and it is not read"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        ledger.close()

    seen = world.scheduler.read
    count = 0

    async def counted(raw_id: str) -> JobView:
        nonlocal count
        count += 1
        return await seen(raw_id)

    def reads() -> int:
        return count

    world.scheduler.read = counted  # type: ignore[method-assign]
    world.play(story())
