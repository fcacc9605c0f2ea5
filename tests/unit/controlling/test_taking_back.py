"""Exclusions of ours that are over leave the lists of jobs; nodes that the user put there never do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from relance.controlling.exclusions import merged, parts_of
from relance.domain.advice import Exclusion
from relance.domain.fits import Grounds
from relance.domain.ledgers import Excluded
from relance.domain.views import Hold, JobState, JobView, NodeState, NodeView
from relance.testing.memory_schedulers import Fault, FaultKind
from tests.unit.controlling.worlds import World

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
NODES = tuple(NodeView(name=f"n{number}", state=NodeState.IDLE, partitions=("train",)) for number in range(1, 7))
GROUNDS = Grounds(nodes=NODES, now=T0)


def written(own: str = "", ours: str = "") -> Excluded:
    return Excluded(job="c/1/x", own=tuple(own.split()), ours=tuple(ours.split()), owner="c/1/x", at=T0)


def job(excluded: str) -> JobView:
    return JobView(
        raw_id="1", first_submitted_at=T0, submitted_at=T0, restart_count=1, name="llama", user="ada", owner_uid=1001,
        partition="train", state=JobState.PENDING, node_count=2, excluded=tuple(excluded.split()),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shown", "ours", "lists", "nodes"),
    [
        pytest.param("n1 n2", "", [written("n1", "n2")], "n1", id="ours is over: the user's own is left"),
        pytest.param("n1 n2", "n3", [written("n1", "n2")], "n1 n3", id="one over, another begun"),
        pytest.param("n1 n2", "n2", [written("n1", "n2")], "n1 n2", id="still in force"),
        pytest.param("n1 n2", "", [], "n1 n2", id="no ledger: nothing is taken out"),
        pytest.param("n1 n2 n4", "", [written("n1", "n2")], "n1 n2 n4", id="changed by somebody: nothing is taken out"),
        pytest.param("n1 n2", "", [written("n1", "n2"), written("n1", "n3")], "n1", id="the newest was not taken"),
        pytest.param("n1", "", [written("n1 n2", "")], "n1", id="the user took one out himself"),
        pytest.param("n1 n9", "n9", [written("n1", "n9")], "n1", id="a node of ours that the cluster lost"),
        pytest.param("n9", "n3", [], "n9 n3", id="a node of the user's that is not shown stays"),
    ],
)
def test_what_is_over_leaves_the_list_and_nothing_of_the_users(
    shown: str, ours: str, lists: list[Excluded], nodes: str
) -> None:
    assert merged(job(shown), ours.split(), GROUNDS, lists).nodes == tuple(nodes.split())


def test_a_list_that_somebody_changed_is_said_to_be_kept() -> None:
    assert parts_of(("n1", "n2", "n4"), [written("n1", "n2")]).note
    assert not parts_of(("n1",), [written("n1", "")]).note


async def restarted(world: World) -> JobView:
    """A job of all nodes but one that was restarted without the node that it failed on, and waits since for others."""
    found = await world.failed_job(excluded=("node006",))
    blocker = world.cluster.submit("blocker", nodes=4, user="bob")
    advice = world.advice(found, exclude=(found.nodes[0],))
    world.backend.give(world.order(advice))
    world.backend.acting = (str(found.attempt_key(world.cluster.name)),)
    world.backend.kept_out = (kept(world, found),)
    await world.run(80)
    waiting = world.cluster.job(found.raw_id)
    assert waiting.state is JobState.PENDING, blocker
    assert waiting.excluded == ("node006", found.nodes[0])
    world.backend.acting = (str(waiting.attempt_key(world.cluster.name)),)
    return waiting


def kept(world: World, found: JobView) -> Exclusion:
    return Exclusion(
        cluster=world.cluster.name, node=found.nodes[0], reason="", owner="relance", since=world.clock.now(),
        until=world.clock.now() + timedelta(days=1), job=str(found.job_key(world.cluster.name)),
    )  # fmt: skip


def test_a_waiting_job_gets_its_own_list_back_once_ours_is_over(world: World) -> None:
    async def story() -> JobView:
        waiting = await restarted(world)
        async with world.running():
            await world.clock.sleep(70)
            assert world.cluster.job(waiting.raw_id).excluded == waiting.excluded, "in force"
            world.backend.kept_out = ()
            await world.clock.sleep(10)
        return world.cluster.job(waiting.raw_id)

    after = world.play(story())
    assert after.excluded == ("node006",)
    assert after.state is JobState.PENDING
    assert world.verbs() == ["requeue", "update", "update"]
    assert world.scheduler.sent[-1].argv[-1] == "exclude=node006", "its start time is left as it is"


@pytest.mark.parametrize("what", ["not told", "observe", "held", "stop", "changed"])
def test_it_is_left_alone_where_we_may_not_or_do_not_know(world: World, what: str) -> None:
    async def story() -> tuple[str, ...]:
        waiting = await restarted(world)
        world.backend.kept_out = None if what == "not told" else ()
        match what:
            case "observe":
                world.backend.acting = ()
            case "held":
                world.cluster.hold(waiting.raw_id, Hold.USER)
            case "stop":
                (world.folder / "STOP").touch()
            case "changed":
                world.cluster.change(waiting.raw_id, excluded=("node006", waiting.excluded[1], "node005"))
            case _:
                assert what == "not told"
        before = world.cluster.job(waiting.raw_id).excluded
        await world.run(90)
        assert world.cluster.job(waiting.raw_id).excluded == before
        return before

    world.play(story())
    assert world.verbs() == ["requeue", "update"]


def test_a_refusal_is_told_with_what_may_be_behind_it(world: World) -> None:
    async def story() -> str:
        await restarted(world)
        world.backend.kept_out = ()
        world.cluster.change("1", excluded=("node006", world.cluster.job("1").excluded[1]))
        world.scheduler.faults.commands[3] = Fault(kind=FaultKind.REFUSAL, text="Invalid node name specified")
        async with world.running() as controller:
            await world.clock.sleep(80)
            return controller.alarms["exclusions"]

    told = world.play(story())
    assert "Invalid node name specified" in told
    assert "make that node known again, or submit the job anew" in told


def test_at_the_next_restart_what_is_over_is_taken_out(world: World) -> None:
    async def story() -> JobView:
        found = await world.failed_job(excluded=("node006",))
        world.backend.give(world.order(world.advice(found, exclude=(found.nodes[0],))))
        await world.run(20)
        await world.clock.sleep(100)
        world.cluster.end(found.raw_id, JobState.FAILED)
        again = world.cluster.job(found.raw_id)
        assert found.nodes[0] in again.excluded
        world.backend.give(world.order(world.advice(again)))
        await world.run(20)
        return world.cluster.job(found.raw_id)

    after = world.play(story())
    assert (after.restart_count, after.excluded) == (2, ("node006",))
