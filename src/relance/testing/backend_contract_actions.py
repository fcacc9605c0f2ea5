"""What a backend promises to those who act: the lease, orders, claims, and the record of steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain.advice import ActionEnd
from relance.domain.stages import Stage
from relance.domain.views import JobState
from relance.ports.backends import BackendRefusedError
from relance.testing.backend_stands import EFFECT, HOLDER, BackendStand, claim_of, step_of, unknown_attempt

_PAST_ANY_LEASE_S = 120.0


class ActionContract:
    """Orders, claims and steps."""

    async def test_one_holder_has_the_lease_until_it_runs_out(self, stand: BackendStand) -> None:
        await stand.begin()
        first = (await stand.orders("one")).lease
        again = (await stand.orders("one")).lease
        other = (await stand.orders("two")).lease
        assert (first.granted, again.granted, other.granted) == (True, True, False)
        assert again.epoch == first.epoch
        stand.clock.advance(_PAST_ANY_LEASE_S)
        later = (await stand.orders("two")).lease
        assert later.granted
        assert later.epoch > first.epoch
        assert not (await stand.orders("one")).lease.granted

    async def test_a_failed_attempt_becomes_an_order_with_its_advice_and_stage(self, stand: BackendStand) -> None:
        order = await stand.fail()
        assert order.raw_id == "17"
        assert order.advice.attempt == stand.attempt()
        assert order.advice.generation == 1
        assert order.advice.action.restarts
        assert order.stage.stage is Stage.ACT
        assert (order.prepared, order.approved, order.action) == (False, False, None)
        assert [guard.name for guard in order.advice.guards]

    async def test_nothing_begins_before_the_watchers_last_word_of_an_ended_attempt(self, stand: BackendStand) -> None:
        await stand.begin()
        stand.clock.advance(5)
        stand.show(state=JobState.FAILED, ended_at=stand.clock.now(), exit_code=1, exit_signal=0)
        await stand.backend.report(stand.look())
        await stand.backend.submit(replace(stand.batch(), progress=None))
        await stand.settle()
        assert not [order for order in (await stand.orders()).orders if order.advice.may_begin]
        await stand.backend.submit(replace(stand.batch(), progress=None, read_to_end=True))
        await stand.settle()
        assert [order for order in (await stand.orders()).orders if order.advice.may_begin]

    async def test_attempts_at_act_are_named_and_others_are_not(self, stand: BackendStand) -> None:
        await stand.begin(Stage.ACT)
        assert (await stand.orders()).acting == (str(stand.attempt()),)
        await stand.set_stage(Stage.OBSERVE)
        assert (await stand.orders()).acting == ()

    async def test_a_preparation_is_recorded_once_per_stage(self, stand: BackendStand) -> None:
        order = await stand.fail(Stage.OBSERVE)
        step = step_of(order, stand.clock.now(), "prepared")
        await stand.backend.record(step)
        head = await stand.head()
        await stand.backend.record(step)
        assert await stand.head() == head
        (order,) = (await stand.orders()).orders
        assert order.prepared

    async def test_a_claim_is_granted_once(self, stand: BackendStand) -> None:
        order = await stand.fail()
        claim = claim_of(order, await stand.orders())
        reply = await stand.backend.claim(claim)
        assert reply.granted
        assert reply.action_id
        head = await stand.head()
        again = await stand.backend.claim(claim)
        assert (again.granted, again.action_id) == (True, reply.action_id), "its own answer was lost on the way"
        assert not (await stand.backend.claim(replace(claim, holder="two"))).granted
        assert await stand.head() == head

    async def test_what_was_claimed_comes_back_with_its_effect_as_it_was(self, stand: BackendStand) -> None:
        order = await stand.fail()
        reply = await stand.backend.claim(claim_of(order, await stand.orders()))
        (order,) = (await stand.orders()).orders
        assert order.action is not None
        assert (order.action.id, order.action.holder, order.action.end) == (reply.action_id, HOLDER, None)
        assert order.action.effect == EFFECT

    @pytest.mark.parametrize("stage", [Stage.OFF, Stage.OBSERVE, Stage.APPROVE])
    async def test_nothing_begins_below_act_without_an_approval(self, stand: BackendStand, stage: Stage) -> None:
        order = await stand.fail(Stage.OBSERVE)
        await stand.set_stage(stage)
        reply = await stand.backend.claim(claim_of(order, await stand.orders()))
        assert not reply.granted
        assert reply.action_id is None
        assert reply.reason

    async def test_a_claim_without_the_lease_is_not_granted(self, stand: BackendStand) -> None:
        order = await stand.fail()
        orders = await stand.orders()
        assert not (await stand.backend.claim(claim_of(order, orders, holder="two"))).granted
        late = replace(claim_of(order, orders), lease_epoch=orders.lease.epoch + 1)
        assert not (await stand.backend.claim(late)).granted

    async def test_a_claim_of_another_generation_is_not_granted(self, stand: BackendStand) -> None:
        order = await stand.fail()
        claim = replace(claim_of(order, await stand.orders()), generation=2)
        assert not (await stand.backend.claim(claim)).granted

    async def test_a_claim_of_nothing_is_not_granted(self, stand: BackendStand) -> None:
        order = await stand.fail()
        claim = replace(claim_of(order, await stand.orders()), advice_id="adv-404")
        reply = await stand.backend.claim(claim)
        assert (reply.granted, bool(reply.reason)) == (False, True)

    async def test_steps_and_the_end_are_recorded_once_each(self, stand: BackendStand) -> None:
        order = await stand.fail()
        reply = await stand.backend.claim(claim_of(order, await stand.orders()))
        now = stand.clock.now()
        steps = (
            step_of(order, now, "requeue", reply.action_id),
            replace(step_of(order, now, "end", reply.action_id), end=ActionEnd.SUCCEEDED, accepted_at=now),
        )
        for step in steps:
            head = await stand.head()
            await stand.backend.record(step)
            assert await stand.head() > head
        head = await stand.head()
        for step in steps:
            await stand.backend.record(step)
        assert await stand.head() == head
        assert (await stand.orders()).orders == ()

    async def test_an_action_that_is_unknown_stays_an_order_to_be_settled(self, stand: BackendStand) -> None:
        order = await stand.fail()
        reply = await stand.backend.claim(claim_of(order, await stand.orders()))
        unknown = replace(step_of(order, stand.clock.now(), "end", reply.action_id), end=ActionEnd.UNKNOWN)
        await stand.backend.record(unknown)
        (order,) = (await stand.orders()).orders
        assert order.action is not None
        assert order.action.end == "ActionUnknown"

    async def test_a_restart_that_was_done_leads_to_the_next_attempt(self, stand: BackendStand) -> None:
        order = await stand.fail()
        reply = await stand.backend.claim(claim_of(order, await stand.orders()))
        now = stand.clock.advance(2)
        end = replace(step_of(order, now, "end", reply.action_id), end=ActionEnd.SUCCEEDED, accepted_at=now)
        await stand.backend.record(end)
        stand.show(
            state=JobState.RUNNING, restart_count=1, submitted_at=now, started_at=now, ended_at=None, exit_code=None
        )
        stand.clock.advance(3)
        await stand.backend.report(stand.look())
        await stand.settle()
        (item,) = (await stand.backend.assignments("alpha")).assignments
        assert item.attempt.restart_count == 1
        assert (item.step_before, item.durable_before) == (3500, 3400)

    async def test_a_step_of_a_job_that_nobody_reported_is_refused(self, stand: BackendStand) -> None:
        order = await stand.fail()
        step = replace(step_of(order, stand.clock.now(), "x"), attempt=unknown_attempt(stand.clock.now()))
        with pytest.raises(BackendRefusedError):
            await stand.backend.record(step)
