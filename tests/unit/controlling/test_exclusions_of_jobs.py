"""Our exclusions beside the user's own: merged, checked, and taken back when they keep the job from starting."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from relance.controlling.exclusions import in_the_way, merged
from relance.domain.advice import ActionEnd
from relance.domain.fits import Grounds
from relance.domain.views import JobState, JobView, NodeState, NodeView, Window
from tests.unit.controlling.worlds import World

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
NODES = tuple(NodeView(name=f"n{number}", state=NodeState.IDLE, partitions=("train",)) for number in range(1, 5))


def job(world: World, **fields: object) -> JobView:
    raw_id = world.cluster.submit()
    return replace(world.cluster.job(raw_id), **fields)  # type: ignore[arg-type]


def test_the_users_nodes_come_first_and_none_twice(world: World) -> None:
    found = merged(job(world, excluded=("n3",)), ("n1", "n3", "n1"), Grounds(nodes=NODES, now=T0))
    assert (found.nodes, found.ours, found.notes) == (("n3", "n1"), ("n1",), ())


def test_a_node_that_the_scheduler_does_not_know_is_left_out(world: World) -> None:
    found = merged(job(world), ("n1", "gone"), Grounds(nodes=NODES, now=T0))
    assert found.nodes == ("n1",)
    assert found.notes == ("the scheduler does not know gone: left out",)


def test_a_list_that_leaves_too_few_nodes_is_not_written(world: World) -> None:
    nodes = (*NODES[:2], replace(NODES[2], state=NodeState.DOWN), replace(NODES[3], partitions=("other",)))
    found = merged(job(world), ("n1",), Grounds(nodes=nodes, now=T0))
    assert found.nodes == ()
    assert found.notes == ("only 1 of the 2 nodes that the job needs remain without n1: not written",)


def test_a_node_that_the_job_itself_asks_for_is_not_kept_from_it(world: World) -> None:
    found = merged(job(world, required=("n1",)), ("n1",), Grounds(nodes=NODES, now=T0))
    assert found.notes == ("the job asks for n1 by name, and that is to be kept out: not written",)


def test_nothing_is_checked_against_a_list_of_nodes_that_could_not_be_read(world: World) -> None:
    assert merged(job(world), ("n1", "gone"), None).nodes == ("n1", "gone")


def test_weak_exclusions_are_taken_back_when_the_job_does_not_start_for_a_minute(tmp_path: Path) -> None:
    world = World(tmp_path, nodes=3)

    async def story() -> None:
        job = await world.failed_job(nodes=2)
        bad = job.nodes[0]
        world.backend.give(world.order(world.advice(job, exclude=(bad,))))
        async with world.running():
            await world.sent(1)
            # The third node is taken by somebody before our job can have it, and is lost then.
            world.cluster.submit("small", nodes=1, excluded=(bad, job.nodes[1]))
            await world.sent(2)
            world.cluster.set_node("node003", NodeState.DOWN)
            written = world.clock.now()
            after = await world.when(job.raw_id, JobState.RUNNING)
            await world.clock.sleep(5)
        assert after.excluded == ()
        assert timedelta(seconds=59) < world.clock.now() - written < timedelta(seconds=70)

    world.play(story())
    assert world.verbs() == ["requeue", "update", "update"]
    assert "taken back" in world.backend.story()


def test_hard_exclusions_stay_and_it_is_said(tmp_path: Path) -> None:
    world = World(tmp_path, nodes=3)

    async def story() -> None:
        job = await world.failed_job(nodes=2)
        bad = job.nodes[0]
        world.backend.give(world.order(world.advice(job, exclude=(bad,), exclusion_is_hard=True)))
        async with world.running():
            await world.sent(1)
            world.cluster.submit("small", nodes=1, excluded=(bad, job.nodes[1]))
            await world.sent(2)
            world.cluster.set_node("node003", NodeState.DOWN)
            await world.clock.sleep(100)
        assert world.cluster.job(job.raw_id).excluded == (bad,)

    world.play(story())
    assert world.verbs() == ["requeue", "update"]
    assert world.backend.ends() == [
        (
            ActionEnd.SUCCEEDED,
            "waits for BadConstraints without node001; the evidence is hard: a person has to choose",
        )
    ]


def test_on_a_full_cluster_waiting_is_no_reason_to_take_anything_back(tmp_path: Path) -> None:
    world = World(tmp_path, nodes=3)

    async def story() -> None:
        job = await world.failed_job(nodes=2)
        world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
        async with world.running():
            await world.sent(1)
            world.cluster.submit("small", nodes=1, excluded=(job.nodes[0], job.nodes[1]))
            await world.clock.sleep(100)
        assert world.cluster.job(job.raw_id).excluded == (job.nodes[0],)

    world.play(story())
    assert world.verbs() == ["requeue", "update"]
    assert world.backend.ends() == [(ActionEnd.SUCCEEDED, "in the queue: Resources")]


def test_whether_our_nodes_are_in_the_way_is_counted_and_not_read_from_the_reason(world: World) -> None:
    exact = Window(name="exact", starts_at=T0 - timedelta(hours=1), ends_at=T0 + timedelta(hours=1), nodes=("n1", "n2"))
    inside = job(world, excluded=("n1",), reservation="exact")
    assert in_the_way(inside, ("n1",), Grounds(nodes=NODES, windows=(exact,), now=T0))
    assert not in_the_way(replace(inside, reservation=""), ("n1",), Grounds(nodes=NODES, now=T0))
    theirs = replace(inside, excluded=("n1", "n2"))
    # There would be no room without ours either.
    assert not in_the_way(theirs, ("n1",), Grounds(nodes=NODES, windows=(exact,), now=T0))


def test_an_exclusion_that_a_reservation_has_no_room_for_is_not_written(world: World) -> None:
    exact = Window(name="exact", starts_at=T0 - timedelta(hours=1), ends_at=T0 + timedelta(hours=1), nodes=("n1", "n2"))
    found = merged(job(world, reservation="exact"), ("n1",), Grounds(nodes=NODES, windows=(exact,), now=T0))
    assert found.nodes == ()
    assert "in reservation exact" in found.notes[0]


def test_a_job_that_waits_for_its_turn_is_in_the_queue_and_nothing_is_taken_back(tmp_path: Path) -> None:
    world = World(tmp_path, nodes=3)

    async def story() -> None:
        job = await world.failed_job(nodes=2)
        world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
        async with world.running():
            await world.sent(1)
            world.cluster.submit("small", nodes=1, excluded=(job.nodes[0], job.nodes[1]))
            await world.sent(2)
            world.cluster.change(job.raw_id, reason="QOSMaxJobsPerUser", dependency="nothing yet")
            await world.clock.sleep(100)

    world.play(story())
    assert world.verbs() == ["requeue", "update"]
    assert world.backend.ends() == [(ActionEnd.SUCCEEDED, "in the queue: QOSMaxJobsPerUser")]


def test_an_unknown_node_does_not_keep_the_job_from_its_restart(world: World) -> None:
    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job, exclude=("gone", job.nodes[0]))))
        await world.run(10)
        assert world.cluster.job(job.raw_id).excluded == (job.nodes[0],)

    world.play(story())
    assert "left out" in world.backend.story()
