"""From a running job's own word to the order that arms it: at act alone, claimed once, and told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain.advice import ActionEnd, Command, Effect
from relance.domain.records import JobRecord
from relance.domain.requests import RequestClaim, RequestOrder, RequestReport, RequestVerb
from relance.domain.stages import Stage
from relance.domain.streams import Stream
from relance.domain.views import Wish
from relance.ports.backends import Orders
from relance.recovery.commands import CommandRefusedError
from relance.recovery.requesting import Requesting, Wanted
from tests.scenarios.clusters import NAME
from tests.scenarios.worlds import JOB, World

ACT = Wish(mode=Stage.ACT, arm_requeue=True)
EFFECT = Effect(
    summary="arm", commands=(Command(argv=("scontrol", "update", "JobId=17", "Requeue=1")),), digest="d"
)  # fmt: skip


async def armable(stage: Stage) -> World:
    """A running job that may not be requeued, and whose comment asks for that to be changed."""
    world = World()
    await world.set_stage(stage)
    world.cluster.submit(JOB, world.now, wish=ACT)
    job = world.cluster.jobs[JOB]
    world.cluster.jobs[JOB] = replace(job, requeue_allowed=False, arming="its own comment asks for it")
    for _ in range(5):
        world.clock.advance(1.0)
        await world.tick()
    return world


async def orders(world: World) -> Orders:
    return await world.backend.orders(NAME, world.controller.name)


def claim_of(world: World, order: RequestOrder, given: Orders) -> RequestClaim:
    return RequestClaim(
        request=order.request, holder=world.controller.name, lease_epoch=given.lease.epoch, effect=EFFECT
    )


async def test_a_job_at_act_is_ordered_to_be_armed_and_claimed_once() -> None:
    world = await armable(Stage.ACT)
    given = await orders(world)
    (order,) = given.requests
    assert (order.request.verb, order.request.by, order.why_not) == (RequestVerb.ARM, "relance", "")
    assert (await world.backend.claim_request(claim_of(world, order, given))).granted
    assert not (await world.backend.claim_request(claim_of(world, order, given))).granted
    done = RequestReport(request=order.request, end=ActionEnd.SUCCEEDED, reason="", at=world.now)
    await world.backend.record_request(done)
    world.cluster.jobs[JOB] = replace(world.cluster.jobs[JOB], requeue_allowed=True, arming="")
    world.clock.advance(60.0)
    await world.tick()
    assert (await orders(world)).requests == ()
    record = (await world.history.load(Stream.of_job(order.request.job))).record  # type: ignore[arg-type]
    assert isinstance(record, JobRecord)
    assert [item.is_in_force for item in record.requests] == [True]


async def test_below_act_nobody_is_asked_to_arm_it() -> None:
    for stage in (Stage.OBSERVE, Stage.APPROVE):
        world = await armable(stage)
        assert (await orders(world)).requests == ()


async def test_a_stage_that_is_lowered_meanwhile_counts_at_the_claim() -> None:
    world = await armable(Stage.ACT)
    given = await orders(world)
    (order,) = given.requests
    await world.set_stage(Stage.APPROVE)
    reply = await world.backend.claim_request(claim_of(world, order, given))
    assert not reply.granted
    assert "only at act" in reply.reason


async def test_a_person_takes_it_back_and_nobody_asks_again() -> None:
    world = await armable(Stage.ACT)
    asking = Requesting(world.history, world.site, world.clock, world.live)
    wanted = Wanted(verb=RequestVerb.DISARM, reason="it must not run twice", by="ada")
    given = await orders(world)
    (order,) = given.requests
    assert (await world.backend.claim_request(claim_of(world, order, given))).granted
    done = RequestReport(request=order.request, end=ActionEnd.SUCCEEDED, reason="", at=world.now)
    await world.backend.record_request(done)
    world.cluster.jobs[JOB] = replace(world.cluster.jobs[JOB], requeue_allowed=True, arming="")
    world.clock.advance(1.0)
    await world.tick()

    back = await asking.of_job(JOB, wanted)
    assert back.undoes == order.request.id
    given = await orders(world)
    (order,) = given.requests
    assert (order.request, order.why_not) == (back, "")
    assert (await world.backend.claim_request(claim_of(world, order, given))).granted
    await world.backend.record_request(replace(done, request=back))
    world.cluster.jobs[JOB] = replace(
        world.cluster.jobs[JOB], requeue_allowed=False, arming="its own comment asks for it"
    )  # fmt: skip
    world.clock.advance(60.0)
    await world.tick()
    assert (await orders(world)).requests == ()


async def test_what_relance_did_not_do_is_not_taken_back() -> None:
    world = await armable(Stage.OBSERVE)
    await world.set_stage(Stage.ACT)
    world.cluster.jobs[JOB] = replace(world.cluster.jobs[JOB], requeue_allowed=True, arming="")
    world.clock.advance(1.0)
    await world.tick()
    asking = Requesting(world.history, world.site, world.clock, world.live)
    with pytest.raises(CommandRefusedError, match="not Relance"):
        await asking.of_job(JOB, Wanted(verb=RequestVerb.DISARM, reason="no", by="ada"))
