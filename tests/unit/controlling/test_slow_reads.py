"""A scheduler that takes longer to show a job than a read may be old: bounded, said, no command by old news."""

from __future__ import annotations

import pytest

from relance.domain.advice import ActionEnd
from relance.domain.views import JobState, JobView
from tests.unit.controlling.worlds import World


class SlowReads:
    """Lets reads of single jobs take so long; counts those."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.took_s = 0.0
        self.slow = 0
        self._world = world
        self._read = world.scheduler.read
        monkeypatch.setattr(world.scheduler, "read", self.read)

    async def read(self, raw_id: str) -> JobView:
        if self.took_s:
            self.slow += 1
        job = await self._read(raw_id)
        await self._world.clock.sleep(self.took_s)
        return job


@pytest.mark.parametrize("took_s", [1.1, 1.5, 3.0, 9.0])
def test_before_the_first_command_slow_reads_end_the_action_after_a_few(
    world: World, monkeypatch: pytest.MonkeyPatch, took_s: float
) -> None:
    reads = SlowReads(world, monkeypatch)

    async def story() -> None:
        job = await world.failed_job()
        reads.took_s = took_s
        world.backend.give(world.order(world.advice(job)))
        await world.run(90)

    world.play(story())
    assert world.verbs() == []
    (ended,) = world.backend.ends()
    assert ended[0] is ActionEnd.ABANDONED
    assert ended[1].startswith("nothing was sent: 5 times more than 1 s passed")
    assert reads.slow < 15


@pytest.mark.parametrize("took_s", [1.1, 3.0, 9.0])
def test_after_the_requeue_slow_reads_leave_the_job_to_the_scheduler(
    world: World, monkeypatch: pytest.MonkeyPatch, took_s: float
) -> None:
    reads = SlowReads(world, monkeypatch)

    async def story() -> None:
        job = await world.failed_job()
        world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
        async with world.running():
            await world.sent(1)
            reads.took_s = took_s
            await world.clock.sleep(400)
        assert world.cluster.job(job.raw_id).state is JobState.RUNNING

    world.play(story())
    assert world.verbs() == ["requeue"]
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]


def test_a_few_slow_reads_stop_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = SlowReads(world, monkeypatch)

    async def story() -> None:
        job = await world.failed_job()
        reads.took_s = 1.5
        world.backend.give(world.order(world.advice(job)))
        async with world.running():
            while reads.slow < 3:
                await world.clock.sleep(0.05)
            reads.took_s = 0.0
            await world.clock.sleep(120)

    world.play(story())
    assert world.verbs() == ["requeue", "update"]
    assert [sent.read_age_s < 1 for sent in world.scheduler.sent] == [True, True]
    assert [end for end, _ in world.backend.ends()] == [ActionEnd.SUCCEEDED]
