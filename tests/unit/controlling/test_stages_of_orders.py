"""What begins, and what does not: stages, approval, lease, switch, expiry, refusals, bounds."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from relance.controlling.ledger import STOP_NAME
from relance.domain.advice import ActionEnd, Command
from relance.domain.faults import Remedy
from relance.domain.stages import EffectiveStage, Stage
from relance.domain.views import ClusterReport, JobState, JobView
from tests.unit.controlling.worlds import ACT, World


def at(stage: Stage) -> EffectiveStage:
    return EffectiveStage(stage=stage, end_running=frozenset(), why=(f"cluster is set to {stage.value}",))


def test_in_observe_the_exact_commands_are_recorded_once_and_nothing_is_sent(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],)), stage=at(Stage.OBSERVE)))
        await world.run(30)

    world.play(story())
    assert (world.scheduler.sent, world.backend.claims) == ([], [])
    (step,) = world.backend.steps.values()
    assert step.effect is not None
    assert [command.argv for command in step.effect.commands] == [
        ("simulated", "requeue", "1"),
        ("simulated", "update", "1", "exclude=node001", "start=now"),
    ]
    assert step.detail == "job 1: requeue, keep it off node001, start it at once"


def test_what_is_sent_in_act_is_what_was_recorded(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
        await world.run(10)

    world.play(story())
    effect = next(step.effect for step in world.backend.steps.values() if step.effect is not None)
    assert [sent.argv for sent in world.scheduler.sent] == [command.argv for command in effect.commands]


def test_at_off_nothing_is_even_prepared(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job), stage=at(Stage.OFF)))
        await world.run(30)

    world.play(story())
    assert world.backend.steps == {}


def test_at_approve_nothing_begins_before_a_person_said_yes_to_this_effect(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        order = world.order(world.advice(job), stage=at(Stage.APPROVE))
        async with world.running():
            world.backend.give(order)
            await world.clock.sleep(20)
            assert world.backend.claims == []
            world.backend.give(replace(order, approved=True, approved_digest="of something else"))
            await world.clock.sleep(20)
            assert world.backend.claims == []
            digest = next(step.effect.digest for step in world.backend.steps.values() if step.effect)
            world.backend.give(replace(order, approved=True, approved_digest=digest))
            await world.clock.sleep(10)
            assert world.cluster.job(job.raw_id).state is JobState.RUNNING

    world.play(story())
    assert world.verbs() == ["requeue", "update"]


def test_an_effect_that_changed_since_it_was_approved_is_recorded_anew_and_not_carried_out(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        order = world.order(world.advice(job, exclude=(job.nodes[0],)), stage=at(Stage.APPROVE))
        async with world.running():
            world.backend.give(order)
            await world.clock.sleep(5)
            digest = next(step.effect.digest for step in world.backend.steps.values() if step.effect)
            world.cluster.change(job.raw_id, excluded=("node006",))
            await world.clock.sleep(5)
            world.backend.give(replace(order, approved=True, approved_digest=digest))
            await world.clock.sleep(10)

    world.play(story())
    assert world.backend.claims == []
    assert len({step.effect.digest for step in world.backend.steps.values() if step.effect}) == 2


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"hold": True}, id="on hold"),
        pytest.param({"action": Remedy.WAIT}, id="wait"),
        pytest.param({"action": Remedy.STOP}, id="stop"),
        pytest.param({"action": Remedy.NONE}, id="none"),
    ],
)
def test_an_advice_that_asks_for_nothing_now_begins_nothing(world: World, changes: dict[str, object]) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job, **changes)))
        await world.run(30)

    world.play(story())
    assert (world.scheduler.sent, world.backend.claims, world.backend.steps) == ([], [], {})


def test_an_expired_advice_begins_nothing(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job, expires_at=world.clock.now() - timedelta(seconds=1))))
        await world.run(30)

    world.play(story())
    assert world.backend.claims == []


def test_nothing_begins_under_another_controllers_lease(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.holder = "controller-2"
        world.backend.give(world.order(world.advice(job)))
        await world.run(30)

    world.play(story())
    assert (world.scheduler.sent, world.backend.claims) == ([], [])


def test_nothing_begins_under_a_lease_shorter_than_a_command_may_take_and_it_is_said(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.lease_s = 8
        world.backend.give(world.order(world.advice(job)))
        await world.run(30)

    world.play(story())
    assert world.backend.claims == []
    assert "lease of 8 s is shorter" in world.backend.reports[-1].problems[0]


def test_nothing_begins_while_the_server_is_away_and_what_has_begun_is_finished(world: World) -> None:
    async def story() -> None:
        job, other = await world.failed_job(), await world.failed_job(name="other")
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.sent(1)
            world.backend.give(world.order(world.advice(other)))
            world.backend.is_away = True
            await world.clock.sleep(60)
            assert world.cluster.job(job.raw_id).state is JobState.RUNNING
            assert world.cluster.job(other.raw_id).state is JobState.FAILED
            world.backend.is_away = False
            await world.clock.sleep(10)
            assert world.cluster.job(other.raw_id).state is JobState.RUNNING

    world.play(story())
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED, ActionEnd.SUCCEEDED]


def test_a_stop_file_lets_nothing_begin_and_what_has_begun_comes_to_its_safe_end(world: World) -> None:
    async def story() -> None:
        job, other = await world.failed_job(), await world.failed_job(name="other")
        world.backend.give(world.order(world.advice(job)))
        stop = world.folder / STOP_NAME
        async with world.running():
            await world.sent(1)
            stop.touch()
            world.backend.give(world.order(world.advice(other)))
            await world.clock.sleep(30)
            assert world.cluster.job(job.raw_id).state is JobState.RUNNING
            assert world.cluster.job(other.raw_id).state is JobState.FAILED
            assert f"the file {stop} is there" in world.backend.reports[-1].problems[0]
            stop.unlink()
            await world.clock.sleep(10)
            assert world.cluster.job(other.raw_id).state is JobState.RUNNING

    world.play(story())


def test_a_stop_between_claim_and_requeue_sends_nothing(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.claimed()
            (world.folder / STOP_NAME).touch()
            await world.clock.sleep(10)

    world.play(story())
    assert world.scheduler.sent == []
    ((end, reason),) = world.backend.ends()
    assert end is ActionEnd.ABANDONED
    assert reason.startswith(f"nothing was sent: the file {world.folder / STOP_NAME} is there")


def test_a_lease_that_lapses_between_claim_and_requeue_sends_nothing_and_it_is_said(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.lease_s = 11
        world.backend.give(world.order(world.advice(job, expires_at=world.clock.now() + timedelta(seconds=40))))
        async with world.running():
            await world.claimed()
            world.time.pass_by(2)
            world.backend.lease_s = 8
            await world.clock.sleep(50)

    world.play(story())
    assert world.scheduler.sent == []
    ((end, reason),) = world.backend.ends()
    assert end is ActionEnd.ABANDONED
    assert reason.startswith("nothing was sent: the advice has expired, and the lease lasts ")


def test_a_stage_lowered_after_the_requeue_stops_nothing_half_way(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        order = world.order(world.advice(job))
        world.backend.give(order)
        async with world.running():
            await world.sent(1)
            action = world.backend.action(order.advice.attempt)
            world.backend.give(replace(order, action=action, stage=at(Stage.OBSERVE)))
            await world.clock.sleep(10)
        assert world.cluster.job(job.raw_id).state is JobState.RUNNING

    world.play(story())


def test_a_refused_claim_is_not_made_again_at_once_but_when_the_order_changes(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        order = world.order(world.advice(job))
        world.backend.refuses = "no permit free"
        world.backend.give(order)
        async with world.running():
            await world.clock.sleep(8)
            assert len(world.backend.claims) == 1
            newer = replace(order, advice=replace(order.advice, generation=2, id="adv-2"))
            world.backend.give(newer)
            await world.clock.sleep(1)
            assert [claim.generation for claim in world.backend.claims] == [1, 2]
            world.backend.refuses = ""
            await world.clock.sleep(15)
            assert world.cluster.job(job.raw_id).state is JobState.RUNNING

    world.play(story())


def test_a_claim_that_was_refused_for_a_permit_is_made_again_when_the_permit_is_free(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.refuses, world.backend.again_in_s = "no permit free", 1.5
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.clock.sleep(7)
            assert 3 <= len(world.backend.claims) <= 6

    world.play(story())


def test_why_a_claim_is_refused_is_said_for_as_long_as_it_is(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.refuses = "no permit free"
        world.backend.give(world.order(world.advice(job)))
        said = "the server refused the claim of job 1: no permit free"
        async with world.running() as controller:
            for _ in range(3):
                await world.clock.sleep(5)
                assert controller.alarms == {"begin": said}
                assert said in world.backend.reports[-1].problems
            world.backend.refuses = ""
            await world.clock.sleep(15)
            assert controller.alarms == {}

    world.play(story())


def test_jobs_side_by_side_are_restarted_side_by_side(world: World) -> None:
    async def story() -> None:
        jobs = [await world.failed_job(name=f"job{number}") for number in range(3)]
        begun = world.clock.now()
        world.backend.give(*(world.order(world.advice(job)) for job in jobs))
        async with world.running():
            for job in jobs:
                await world.when(job.raw_id, JobState.RUNNING, within_s=5)
            assert world.clock.now() - begun < timedelta(seconds=2)

    world.play(story())


def test_an_attempt_is_begun_once_however_often_it_is_ordered(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        order = world.order(world.advice(job))
        async with world.running():
            for generation in range(1, 20):
                world.backend.give(replace(order, advice=replace(order.advice, generation=generation)))
                await world.clock.sleep(0.3)
            await world.clock.sleep(20)
        assert len(world.cluster.starts(job.raw_id)) == 2

    world.play(story())
    assert world.verbs() == ["requeue", "update"]


def test_attempts_at_act_are_taken_and_let_go_again(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        key = str(job.attempt_key(world.cluster.name))
        ledger = world.ledger()
        async with world.running(ledger):
            world.backend.acting = (key,)
            await world.clock.sleep(5)
            assert ledger.state.left_to_the_watchdog == {key}
            world.backend.acting = ()
            await world.clock.sleep(5)
            assert ledger.state.left_to_the_watchdog == frozenset()
            world.backend.acting = (key,)
            await world.clock.sleep(5)
            (world.folder / STOP_NAME).touch()
            await world.clock.sleep(5)
            assert ledger.state.left_to_the_watchdog == frozenset()

    world.play(story())


@pytest.mark.parametrize("action", [Remedy.STOP, Remedy.NONE])
def test_what_was_decided_is_never_left_to_the_watchdog(world: World, action: Remedy) -> None:
    async def story() -> None:
        job = await world.failed_job()
        key = str(job.attempt_key(world.cluster.name))
        ledger = world.ledger()
        world.backend.acting = (key,)
        world.backend.give(world.order(world.advice(job, action=action)))
        await world.run(5, ledger)
        assert key in ledger.state.taken
        assert ledger.state.left_to_the_watchdog == frozenset()
        assert ledger.state.decided[key].reason == f"{action.value}: a rank died"

    world.play(story())


def test_an_abandoned_attempt_is_not_left_to_the_watchdog_either(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.cluster.submit()
        key = str(job.attempt_key(world.cluster.name))
        ledger = world.ledger()
        world.backend.acting = (key,)
        world.backend.give(world.order(world.advice(job)))
        await world.run(10, ledger)
        assert ledger.state.left_to_the_watchdog == frozenset()

    world.play(story())


def test_a_clock_that_steps_back_an_hour_stops_nothing(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job), stage=ACT))
        async with world.running():
            await world.sent(1)
            world.time.step_wall_clock(-timedelta(hours=1))
            await world.clock.sleep(10)

    world.play(story())
    assert world.verbs()[:2] == ["requeue", "update"]


def test_an_order_that_goes_wrong_unforeseen_does_not_stop_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        first, second = await world.failed_job(), await world.failed_job()
        as_it_is = world.scheduler.requeue

        def requeue(job: JobView) -> Command:
            if job.raw_id == first.raw_id:
                raise ZeroDivisionError
            return as_it_is(job)

        monkeypatch.setattr(world.scheduler, "requeue", requeue)
        for job in (first, second):
            world.backend.give(world.order(world.advice(job)))
        await world.run(10)

    world.play(story())
    assert [sent.argv[:3] for sent in world.scheduler.sent][:1] == [("simulated", "requeue", "2")]


def test_a_look_that_goes_wrong_unforeseen_is_an_alarm_and_the_next_one_is_taken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, broken = world.scheduler.look, [True]

    async def look() -> ClusterReport:
        if broken:
            raise ZeroDivisionError
        return await looks()

    async def story() -> None:
        monkeypatch.setattr(world.scheduler, "look", look)
        controller = world.controller(world.ledger())
        await controller.look_and_report()
        assert "ZeroDivisionError" in controller.alarms["scheduler"]
        broken.clear()
        await controller.look_and_report()
        assert "scheduler" not in controller.alarms

    world.play(story())
