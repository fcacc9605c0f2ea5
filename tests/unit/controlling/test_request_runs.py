"""What people ask for is carried out once, read back and told; what is not as it was is left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from relance.domain.advice import ActionEnd
from relance.domain.nodes import Drain, NodeSight, Reserve
from relance.domain.requests import (
    Request,
    RequestKind,
    RequestOrder,
    RequestVerb,
    drain_reason,
    request_id,
    reservation_name,
)
from relance.domain.views import Hold, JobState, NodeState, Window
from relance.testing.memory_schedulers import Fault, FaultKind, SimulatedScheduler
from tests.unit.controlling.fuses import Fuse, When
from tests.unit.controlling.test_crashes import life
from tests.unit.controlling.worlds import World

NODE = "node001"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def ask_job(world: World, raw_id: str, verb: RequestVerb) -> Request:
    """Ada asks for something to be done to a job as it is now."""
    job, now = world.cluster.job(raw_id), world.clock.now()
    return give(
        world,
        Request(
            id=request_id(world.cluster.name, raw_id, verb, "ada", now),
            verb=verb,
            cluster=world.cluster.name,
            job=job.job_key(world.cluster.name),
            restart_count=job.restart_count,
            reason="wrong data",
            by="ada",
            at=now,
            expires_at=now + timedelta(minutes=10),
        ),
    )


def ask_node(world: World, verb: RequestVerb, undoes: Request | None = None) -> Request:
    """Ada asks for something to be done to a node."""
    now = world.clock.now()
    key = request_id(world.cluster.name, NODE, verb, "ada", now)
    mark = undoes.mark if undoes is not None else reservation_name(key)
    if verb is RequestVerb.DRAIN:
        mark = drain_reason(key, "ada", "Xid 79")
    return give(
        world,
        Request(
            id=key,
            verb=verb,
            cluster=world.cluster.name,
            node=NODE,
            reason="Xid 79",
            by="ada",
            at=now,
            expires_at=now + timedelta(minutes=10),
            until=now + timedelta(hours=24) if undoes is None else None,
            mark=mark,
            undoes=undoes.id if undoes is not None else "",
            undoes_verb=undoes.verb if undoes is not None else None,
        ),
    )


def give(world: World, request: Request) -> Request:
    world.backend.requests[request.id] = RequestOrder(request=request)
    return request


def ends(world: World) -> list[tuple[ActionEnd, str]]:
    return [(report.end, report.reason) for report in world.backend.request_reports]


def waiting(world: World) -> str:
    """A job that waits behind another."""
    world.cluster.submit(nodes=6)
    world.cluster.jobs()
    return world.cluster.submit(nodes=6)


async def quarantined(world: World) -> Request:
    request = ask_node(world, RequestVerb.QUARANTINE)
    await world.run(5)
    return request


async def drained(world: World) -> Request:
    request = ask_node(world, RequestVerb.DRAIN)
    await world.run(5)
    return request


def test_a_running_job_is_cancelled_and_told(world: World) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit()
        await world.when(raw_id, JobState.RUNNING)
        ask_job(world, raw_id, RequestVerb.CANCEL)
        await world.run(10)
        assert world.cluster.job(raw_id).state is JobState.CANCELLED
        assert world.verbs() == ["cancel"]
        assert ends(world) == [(ActionEnd.SUCCEEDED, "")]
        assert all(sent.read_age_s < 1.0 for sent in world.scheduler.sent)

    world.play(story())


def test_a_hold_and_its_release(world: World) -> None:
    async def story() -> None:
        raw_id = waiting(world)
        ask_job(world, raw_id, RequestVerb.HOLD)
        await world.run(5)
        assert world.cluster.job(raw_id).hold is Hold.ADMIN
        ask_job(world, raw_id, RequestVerb.RELEASE)
        await world.run(5)
        assert world.cluster.job(raw_id).hold is Hold.NONE
        assert ends(world) == [(ActionEnd.SUCCEEDED, "")] * 2

    world.play(story())


def test_a_quarantine_leaves_what_runs_and_is_undone_by_its_own_name(world: World) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit(nodes=6)
        await world.when(raw_id, JobState.RUNNING)
        request = await quarantined(world)
        assert list(world.scheduler.care.windows) == [request.mark]
        assert world.cluster.job(raw_id).state is JobState.RUNNING
        ask_node(world, RequestVerb.RETURN, request)
        await world.run(5)
        assert world.scheduler.care.windows == {}
        assert ends(world) == [(ActionEnd.SUCCEEDED, "")] * 2

    world.play(story())


def test_a_drain_bears_our_reason_and_is_undone(world: World) -> None:
    async def story() -> None:
        request = await drained(world)
        assert world.scheduler.care.drained == {NODE: request.mark}
        ask_node(world, RequestVerb.RETURN, request)
        await world.run(5)
        assert world.scheduler.care.drained == {}

    world.play(story())


def test_a_drain_that_somebody_took_over_is_not_undone(world: World) -> None:
    async def story() -> None:
        request = await drained(world)
        world.scheduler.care.drained[NODE] = "grace is at the rack"
        ask_node(world, RequestVerb.RETURN, request)
        await world.run(5)
        assert world.scheduler.care.drained == {NODE: "grace is at the rack"}
        assert ends(world)[1][0] is ActionEnd.ABANDONED
        assert "not ours any more" in ends(world)[1][1]
        assert world.verbs() == ["drain"]

    world.play(story())


def test_a_reservation_that_somebody_changed_is_not_deleted(world: World) -> None:
    async def story() -> None:
        request = await quarantined(world)
        window = world.scheduler.care.windows[request.mark]
        world.scheduler.care.windows[request.mark] = replace(window, nodes=(NODE, "node002"))
        ask_node(world, RequestVerb.RETURN, request)
        await world.run(5)
        assert world.verbs() == ["reserve"]
        assert "somebody changed the reservation" in ends(world)[1][1]

    world.play(story())


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda world: world.scheduler.care.do(Drain(node=NODE, reason="Kill task failed")), "drained already"),
        (lambda world: world.cluster.set_node(NODE, NodeState.DOWN), "it is down"),
        (lambda world: world.scheduler.care.planned.update({NODE: "powering_up"}), "power"),
    ],
    ids=["drained", "down", "power"],
)
def test_a_node_that_is_drained_down_or_in_another_s_plan_is_not_drained(
    world: World, spoil: Callable[[World], None], word: str
) -> None:
    async def story() -> None:
        spoil(world)
        before = dict(world.scheduler.care.drained)
        ask_node(world, RequestVerb.DRAIN)
        await world.run(5)
        assert world.verbs() == []
        assert world.scheduler.care.drained == before
        ((end, reason),) = ends(world)
        assert end is ActionEnd.ABANDONED
        assert word in reason

    world.play(story())


@pytest.mark.parametrize(
    ("verb", "state", "word"),
    [
        (RequestVerb.CANCEL, JobState.FAILED, "nothing to cancel"),
        (RequestVerb.HOLD, JobState.FAILED, "only a job that waits"),
        (RequestVerb.HOLD, JobState.RUNNING, "only a job that waits"),
        (RequestVerb.RELEASE, JobState.RUNNING, "only a job that waits"),
    ],
)
def test_what_makes_no_sense_for_the_job_as_it_is_is_said_and_not_sent(
    world: World, verb: RequestVerb, state: JobState, word: str
) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit()
        await world.when(raw_id, JobState.RUNNING)
        if state is JobState.FAILED:
            world.cluster.end(raw_id, state)
        ask_job(world, raw_id, verb)
        await world.run(5)
        assert world.verbs() == []
        ((end, reason),) = ends(world)
        assert end is ActionEnd.ABANDONED
        assert word in reason

    world.play(story())


def test_another_attempt_than_the_one_that_was_shown_is_not_touched(world: World) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit()
        await world.when(raw_id, JobState.RUNNING)
        ask_job(world, raw_id, RequestVerb.CANCEL)
        world.cluster.change(raw_id, restart_count=1)
        await world.run(5)
        assert world.verbs() == []
        assert "this is attempt 2" in ends(world)[0][1]

    world.play(story())


def test_what_the_settings_do_not_allow_is_not_sent_whatever_the_server_says(world: World) -> None:
    async def story() -> None:
        world.requests = frozenset({RequestKind.HOLD_JOBS})
        raw_id = world.cluster.submit()
        await world.when(raw_id, JobState.RUNNING)
        ask_job(world, raw_id, RequestVerb.CANCEL)
        async with world.running() as controller:
            await world.clock.sleep(5)
            assert "actions.cancel_jobs off" in controller.alarms["requests"]
        assert world.verbs() == []
        assert world.backend.request_claims == []

    world.play(story())


def test_the_stop_file_and_a_refused_claim_hold_it_back(world: World) -> None:
    async def story() -> None:
        raw_id = world.cluster.submit()
        await world.when(raw_id, JobState.RUNNING)
        request = ask_job(world, raw_id, RequestVerb.CANCEL)
        ledger = world.ledger()
        (world.folder / "STOP").touch()
        await world.run(5, ledger)
        assert world.backend.request_claims == []
        (world.folder / "STOP").unlink()
        world.backend.refuses = "cluster is set to observe"
        await world.run(9)
        assert [claim.request for claim in world.backend.request_claims] == [request]
        assert world.verbs() == []

    world.play(story())


def test_an_order_that_may_not_begin_is_left_alone(world: World) -> None:
    async def story() -> None:
        raw_id = waiting(world)
        request = ask_job(world, raw_id, RequestVerb.HOLD)
        world.backend.requests[request.id] = RequestOrder(request=request, why_not="cluster is set to observe")
        await world.run(5)
        assert world.backend.request_claims == []
        assert world.verbs() == []

    world.play(story())


def test_a_restart_under_way_comes_first(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            await world.sent(1)
            ask_job(world, job.raw_id, RequestVerb.HOLD)
            await world.when(job.raw_id, JobState.RUNNING)
            await world.clock.sleep(10)
        assert "hold" not in world.verbs()
        assert ends(world)[0][0] is ActionEnd.ABANDONED

    world.play(story())


def test_a_refusal_is_told_in_the_scheduler_s_words(world: World) -> None:
    async def story() -> None:
        world.scheduler.care.may_drain = False
        ask_node(world, RequestVerb.DRAIN)
        await world.run(5)
        assert ends(world) == [(ActionEnd.FAILED, "Invalid user id")]

    world.play(story())


@pytest.mark.parametrize("kind", [FaultKind.LOST_ANSWER, FaultKind.HANG])
def test_an_answer_that_does_not_come_is_settled_by_looking(world: World, kind: FaultKind) -> None:
    async def story() -> None:
        world.scheduler.faults.commands[1] = Fault(kind=kind)
        ask_node(world, RequestVerb.QUARANTINE)
        await world.run(60)
        assert world.verbs() == ["reserve"]
        ((end, _),) = ends(world)
        assert end is (ActionEnd.SUCCEEDED if kind is FaultKind.LOST_ANSWER else ActionEnd.FAILED)

    world.play(story())


class Riddles(SimulatedScheduler):
    """Gives answers that nobody thought of, from the second read of a node on and for as long as it is told to."""

    reads = 0
    talks_in_riddles = True

    async def read_node(self, name: str) -> NodeSight:
        self.reads += 1
        if self.reads > 1 and self.talks_in_riddles:
            raise ValueError(name)
        return await super().read_node(name)


def test_what_breaks_off_is_settled_by_looking_now_and_then(world: World) -> None:
    async def story() -> None:
        world.scheduler = riddles = Riddles(world.cluster, world.clock)
        ask_node(world, RequestVerb.QUARANTINE)
        await world.run(60)
        assert 3 <= riddles.reads <= 10
        assert ends(world) == []
        riddles.talks_in_riddles = False
        await world.run(60)
        ((end, reason),) = ends(world)
        assert (end, "nothing of it shows" in reason) == (ActionEnd.ABANDONED, True)
        assert world.verbs() == []

    world.play(story())


def test_what_another_controller_began_and_never_told_is_settled_by_looking(world: World) -> None:
    async def story() -> None:
        request = ask_node(world, RequestVerb.QUARANTINE)
        order = replace(world.backend.requests[request.id], started_by="other", started_at=world.clock.now())
        world.backend.requests[request.id] = order
        world.scheduler.care.do(Reserve(node=NODE, name=request.mark, until=request.until or world.clock.now()))
        await world.run(50)
        assert ends(world) == []
        await world.run(30)
        ((end, reason),) = ends(world)
        assert end is ActionEnd.SUCCEEDED
        assert "ended before it could tell" in reason
        assert world.verbs() == []

    world.play(story())


def test_a_node_that_the_scheduler_does_not_know_never_enters_a_command(world: World) -> None:
    async def story() -> None:
        request = ask_node(world, RequestVerb.QUARANTINE)
        world.backend.requests.clear()
        give(world, replace(request, node="nowhere"))
        await world.run(5)
        assert world.verbs() == []
        assert "has no node nowhere" in ends(world)[0][1]

    world.play(story())


def test_somebody_else_s_reservation_is_no_hindrance_and_stays(world: World) -> None:
    async def story() -> None:
        now = world.clock.now()
        window = Window(name="maint", starts_at=now, ends_at=now + timedelta(days=3), nodes=(NODE,))
        world.scheduler.care.windows["maint"] = window
        request = await quarantined(world)
        ask_node(world, RequestVerb.RETURN, request)
        await world.run(5)
        assert list(world.scheduler.care.windows) == ["maint"]

    world.play(story())


@pytest.mark.parametrize(
    ("verb", "when"),
    [
        (RequestVerb.CANCEL, When.AFTER),
        (RequestVerb.QUARANTINE, When.DURING),
        pytest.param(RequestVerb.CANCEL, When.BEFORE, marks=pytest.mark.soak),
        pytest.param(RequestVerb.CANCEL, When.DURING, marks=pytest.mark.soak),
        pytest.param(RequestVerb.QUARANTINE, When.BEFORE, marks=pytest.mark.soak),
        pytest.param(RequestVerb.QUARANTINE, When.AFTER, marks=pytest.mark.soak),
    ],
)
def test_a_controller_that_dies_anywhere_does_nothing_twice_and_tells_what_came_of_it(
    tmp_path: Path, verb: RequestVerb, when: When
) -> None:
    for at in range(1, 15):
        world = World(tmp_path / str(at))
        fuse = Fuse(at=at, when=when)
        world.play(_two_lives(world, verb, fuse))
        assert world.verbs().count({RequestVerb.CANCEL: "cancel"}.get(verb, "reserve")) <= 1, fuse.calls
        told = {end for end, _ in ends(world)}  # the same may be told again, which changes nothing
        assert len(told) == 1, fuse.calls
        (end,) = told
        if verb is RequestVerb.CANCEL:
            is_done = any(job.state is JobState.CANCELLED for job in world.cluster.jobs())
        else:
            is_done = bool(world.scheduler.care.windows)
        assert is_done is (end is ActionEnd.SUCCEEDED), (ends(world), fuse.calls)


async def _two_lives(world: World, verb: RequestVerb, fuse: Fuse) -> None:
    raw_id = world.cluster.submit()
    await world.when(raw_id, JobState.RUNNING)
    if verb is RequestVerb.CANCEL:
        ask_job(world, raw_id, verb)
    else:
        ask_node(world, verb)
    await life(world, fuse, 4)
    for _ in range(5):
        await life(world, Fuse(), 20)
        ledger = world.ledger()
        is_clean = not ledger.state.requests and not world.backend.requests
        ledger.close()
        if is_clean:
            return
    raise AssertionError(fuse.calls)
