"""Whatever people, the scheduler and fate do meanwhile: what a controller may never do to a job."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from relance.domain.twins import twins
from relance.domain.views import Hold, JobState, JobView
from relance.testing.memory_clusters import Done, Timings, UnknownJobError
from relance.testing.memory_schedulers import Fault, FaultKind
from tests.unit.controlling.worlds import World

FAILURES = (JobState.FAILED, JobState.NODE_FAIL, JobState.OUT_OF_MEMORY, JobState.BOOT_FAIL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that happens to the job so many seconds after the order is given."""

    after_s: float
    what: str


HAPPENINGS: dict[str, Callable[[World, JobView], object]] = {
    "cancelled by its user": lambda world, job: world.cluster.cancel_by(job.raw_id, 1001),
    "cancelled by root": lambda world, job: world.cluster.cancel_by(job.raw_id, 0),
    "held": lambda world, job: world.cluster.hold(job.raw_id),
    "requeued by a person": lambda world, job: world.cluster.do(("person", "requeue", job.raw_id)),
    "given a time": lambda world, job: world.cluster.ask_for_time(
        job.raw_id, world.clock.now() + timedelta(minutes=30)
    ),
    "submitted again": lambda world, _job: world.cluster.submit(nodes=1),
    "fails again": lambda world, job: world.cluster.end(job.raw_id, JobState.FAILED),
    "completes": lambda world, job: world.cluster.end(job.raw_id, JobState.COMPLETED),
    "suspended": lambda world, job: world.cluster.suspend(job.raw_id),
    "the scheduler is silent": lambda world, _job: setattr(world.scheduler.faults, "is_silent", True),
    "the scheduler answers": lambda world, _job: setattr(world.scheduler.faults, "is_silent", False),
    "the server is away": lambda world, _job: setattr(world.backend, "is_away", True),
    "the server is back": lambda world, _job: setattr(world.backend, "is_away", False),
    "launches die": lambda world, _job: setattr(world.cluster, "timings", Timings(race_s=1.5)),
    "launches live": lambda world, _job: setattr(world.cluster, "timings", Timings()),
    "the controller is started again": lambda _world, _job: None,
}
ONLY_WHEN = {
    "held": (JobState.PENDING,),
    "given a time": (JobState.PENDING,),
    "requeued by a person": FAILURES,
    "fails again": (JobState.RUNNING,),
    "completes": (JobState.RUNNING,),
    "suspended": (JobState.RUNNING,),
    "cancelled by its user": (JobState.RUNNING, JobState.PENDING),
    "cancelled by root": (JobState.RUNNING, JobState.PENDING),
}

happenings = st.lists(
    st.builds(
        Happening,
        after_s=st.floats(min_value=0, max_value=15).map(lambda seconds: round(seconds, 2)),
        what=st.sampled_from(sorted(HAPPENINGS)),
    ),
    max_size=5,
)
faults = st.dictionaries(
    st.integers(min_value=1, max_value=4),
    st.builds(Fault, kind=st.sampled_from(list(FaultKind)), after_s=st.floats(min_value=0, max_value=39)),
    max_size=2,
)


async def story(world: World, plan: list[Happening], told: list[Done]) -> JobView:
    job = await world.failed_job(excluded=("node006",))
    world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
    begun_s = world.clock.monotonic()
    pending = sorted(plan, key=lambda happening: happening.after_s)
    while True:
        async with world.running():
            while pending and pending[0].what != "the controller is started again":
                happening = pending.pop(0)
                await asyncio.sleep(max(0.0, begun_s + happening.after_s - world.clock.monotonic()))
                befall(world, job, happening)
            if not pending:
                await asyncio.sleep(100)
                told += world.cluster.done
                return job
            await asyncio.sleep(max(0.0, begun_s + pending.pop(0).after_s - world.clock.monotonic()))


def befall(world: World, job: JobView, happening: Happening) -> None:
    states = ONLY_WHEN.get(happening.what)
    try:
        if states is None or world.cluster.job(job.raw_id).state in states:
            HAPPENINGS[happening.what](world, job)
    except UnknownJobError:
        return


@given(plan=happenings, broken=faults)
@settings(max_examples=60)
def test_the_controller_never_revives_doubles_or_holds_a_job(plan: list[Happening], broken: dict[int, Fault]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world, told = World(Path(folder)), list[Done]()
        world.scheduler.faults.commands.update(broken)
        job = world.play(story(world, plan, told))
        ours = [done for done in told if done.argv[0] == "simulated"]
        requeues = [done for done in ours if done.argv[1] == "requeue"]
        at_once = {(sent.at, sent.argv) for sent in world.scheduler.sent}
        for done in requeues:
            # What a dead or slow network delivers later nobody can call back; it is settled by reading.
            if (done.at, done.argv) in at_once:
                assert done.before.state in FAILURES, "only what failed is started again"
                assert done.before.cancelled_by is None
        counts = [done.before.restart_count for done in requeues]
        assert len(counts) == len(set(counts)), "no attempt is replaced twice"
        for later in requeues[1:]:
            lived = (later.before.ended_at or later.at) - (later.before.started_at or later.at)
            assert lived < timedelta(seconds=2), "a second requeue only after a death at launch"
        for done in ours:
            if done.argv[1] == "update" and (done.at, done.argv) in at_once:
                since = job.started_at or job.submitted_at
                assert twins(done.before, done.others, since) == (), "no start beside a copy"
                assert done.before.hold is Hold.NONE
            if done.argv[1] == "cancel" and (done.at, done.argv) in at_once:
                assert done.before.state is JobState.PENDING
                assert twins(done.before, done.others, job.started_at or job.submitted_at), "only for a copy"
        for after in world.cluster.jobs():
            if after.raw_id == job.raw_id:
                assert "node006" in after.excluded, "the user's own exclusion stays"
        assert all(sent.read_age_s < 1 for sent in world.scheduler.sent)
