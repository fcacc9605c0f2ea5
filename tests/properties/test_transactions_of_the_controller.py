"""Whatever people, the scheduler and fate do meanwhile: what a controller may never do to a job."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relance.controlling.freshness import LOOK_AGE_S
from relance.controlling.sequences import PATIENCE_S
from relance.domain.twins import twins
from relance.domain.views import Hold, JobState, JobView
from relance.testing.memory_clusters import Done, Timings, UnknownJobError
from relance.testing.memory_schedulers import Fault, FaultKind
from tests.unit.controlling.test_holds import watch
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


SILENCES = ("the scheduler is silent", "the scheduler answers")
DEATH = "the controller is started again"


@dataclass(slots=True, kw_only=True)
class Play:
    """What is to happen, and what came of it: the commands that took effect, and the job's starts."""

    plan: list[Happening]
    broken: dict[int, Fault]
    begun_at: datetime
    done: list[Done] = field(default_factory=list)
    starts: tuple[tuple[datetime, tuple[str, ...], int], ...] = ()

    def happens(self, what: tuple[str, ...], since: datetime, until: datetime) -> bool:
        """Whether one of these happened in that time."""
        times = [self.begun_at + timedelta(seconds=item.after_s) for item in self.plan if item.what in what]
        return any(since <= at <= until for at in times)


async def story(world: World, play: Play) -> JobView:
    job = await world.failed_job(excluded=("node006",))
    world.backend.give(world.order(world.advice(job, exclude=(job.nodes[0],))))
    begun_s = world.clock.monotonic()
    play.begun_at = world.clock.now()  # the failure came first, and took its time
    pending = sorted(play.plan, key=lambda happening: happening.after_s)
    while True:
        async with world.running():
            while pending and pending[0].what != DEATH:
                happening = pending.pop(0)
                await asyncio.sleep(max(0.0, begun_s + happening.after_s - world.clock.monotonic()))
                befall(world, job, happening)
            if not pending:
                await asyncio.sleep(100)
                play.done += world.cluster.done
                play.starts = world.cluster.starts(job.raw_id)
                return job
            await asyncio.sleep(max(0.0, begun_s + pending.pop(0).after_s - world.clock.monotonic()))


def befall(world: World, job: JobView, happening: Happening) -> None:
    states = ONLY_WHEN.get(happening.what)
    try:
        if states is None or world.cluster.job(job.raw_id).state in states:
            HAPPENINGS[happening.what](world, job)
    except UnknownJobError:
        return


def judge_update(world: World, play: Play, done: Done, since: datetime) -> None:
    """No update beside a copy that the look before it could show; no start beside one that was there at the update.

    Up to two seconds lie between look and update. A copy that comes in that time is shown by the look after the update,
    before the scheduler starts ours: where it answers, and we live.
    """
    ids = {twin.raw_id for twin in twins(done.before, done.others, since)}
    copies = [other for other in done.others if other.raw_id in ids]
    patience, look_age = timedelta(seconds=PATIENCE_S), timedelta(seconds=LOOK_AGE_S)
    if not play.happens(SILENCES, done.at - patience - look_age, done.at):
        assert all(copy.first_submitted_at >= done.at - look_age for copy in copies), "no update beside a copy"
    if copies and can_be_stopped(world, play, done):
        assert done.before.restart_count not in [count for _, _, count in play.starts], "no start beside a copy"


def can_be_stopped(world: World, play: Play, update: Done) -> bool:
    """Whether what waits is known to be ours, and nothing goes wrong between the update and its cancellation."""
    requeue = next(done for done in reversed(play.done) if done.argv[1] == "requeue" and done.at <= update.at)
    number = 1 + [(sent.at, sent.argv) for sent in world.scheduler.sent].index((update.at, update.argv))
    return (
        requeue.argv[0] == "simulated"
        and all(fault.kind is not FaultKind.FALSE_REFUSAL for fault in play.broken.values())
        and all(broken < number for broken in play.broken)
        and not play.happens((*SILENCES, DEATH), update.at, update.at + timedelta(seconds=1))
    )


@given(plan=happenings, broken=faults)
@example(plan=[Happening(after_s=0.8, what="submitted again")], broken={})
@example(plan=[Happening(after_s=1.0, what="submitted again")], broken={})
@settings(max_examples=12)
def test_the_controller_never_revives_doubles_or_holds_a_job(plan: list[Happening], broken: dict[int, Fault]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        play = Play(plan=plan, broken=broken, begun_at=world.clock.now())
        world.scheduler.faults.commands.update(broken)
        job = world.play(story(world, play))
        ours = [done for done in play.done if done.argv[0] == "simulated"]
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
                assert done.before.hold is Hold.NONE
                judge_update(world, play, done, job.started_at or job.submitted_at)
            if done.argv[1] == "cancel" and (done.at, done.argv) in at_once:
                assert done.before.state is JobState.PENDING
                assert twins(done.before, done.others, job.started_at or job.submitted_at), "only for a copy"
        for after in world.cluster.jobs():
            if after.raw_id == job.raw_id:
                assert "node006" in after.excluded, "the user's own exclusion stays"
        assert all(sent.read_age_s < 1 for sent in world.scheduler.sent)


def judge_holds(plan: list[Happening], broken: dict[int, Fault]) -> None:
    """Play on a cluster where a restart has to hold the job; at the end nothing of ours may be held, or done twice."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), timings=Timings(requeue_delay_s=5.0))
        watch(world)
        play = Play(plan=plan, broken=broken, begun_at=world.clock.now())
        world.scheduler.faults.commands.update(broken)

        async def whole() -> JobView:
            job = await story(world, play)
            world.scheduler.faults.is_silent = world.backend.is_away = False
            await world.run(150)
            return job

        job = world.play(whole())
        ours = [done for done in world.cluster.done if done.argv[0] == "simulated"]
        at_once = {(sent.at, sent.argv) for sent in world.scheduler.sent}
        requeues = [done for done in ours if done.argv[1] in ("requeue", "requeuehold")]
        counts = [done.before.restart_count for done in requeues]
        assert len(counts) == len(set(counts)), "no attempt is replaced twice"
        assert all(done.before.state in FAILURES for done in requeues if (done.at, done.argv) in at_once)
        for done in ours:
            if done.argv[1] == "release" and (done.at, done.argv) in at_once:
                assert done.before.hold is Hold.USER, "only what is held is released"
                assert done.before.restart_count - 1 in counts, "and only what our own requeue made"
        came_late = any(done.argv[1] == "requeuehold" and (done.at, done.argv) not in at_once for done in ours)
        for after in world.cluster.jobs():
            if after.raw_id == job.raw_id:
                by_a_person = any(item.what == "held" for item in plan)
                assert after.hold is Hold.NONE or by_a_person or came_late, world.verbs()
                assert "node006" in after.excluded, "the user's own exclusion stays"
        assert all(sent.read_age_s < 1 for sent in world.scheduler.sent if sent.argv[1] != "release")


@given(plan=happenings, broken=faults)
@example(plan=[Happening(after_s=1.1, what=DEATH)], broken={})
@example(plan=[], broken={1: Fault(kind=FaultKind.FALSE_REFUSAL)})
@settings(max_examples=6)
def test_where_it_holds_jobs_the_controller_leaves_none_held_and_starts_none_twice(
    plan: list[Happening], broken: dict[int, Fault]
) -> None:
    judge_holds(plan, broken)


@pytest.mark.soak
@given(plan=happenings, broken=faults)
@settings(max_examples=2000)
def test_where_it_holds_jobs_it_leaves_none_held_at_length(plan: list[Happening], broken: dict[int, Fault]) -> None:
    judge_holds(plan, broken)
