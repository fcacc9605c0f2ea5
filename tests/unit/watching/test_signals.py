"""What a watcher does with sources of signals: they tell more, and their silence is nobody's."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from relance.domain.faults import Scope
from relance.domain.findings import Coverage, FindingKind, RuleHit, Sight
from relance.domain.progress import StepSeen
from relance.domain.views import Assignment
from relance.rules.metric_rules import Point, Series
from relance.rules.metrics import evaluate
from tests.unit.watching.rooms import PACK, Room


def xid_hit(node: str, at: datetime) -> RuleHit:
    """A GPU of a node falls off the bus, by its metric."""
    points = tuple(Point(at.timestamp() + s, value, "prometheus", 0) for s, value in ((-15.0, 0.0), (0.0, 79.0)))
    series = Series(name="DCGM_FI_DEV_XID_ERRORS", node=node, points=points, labels={"gpu": "3"})
    (hit,) = (hit for hit in evaluate(PACK.metrics, [series], at) if hit.symptom == "gpu_fell_off_bus")
    return hit


def step(number: int, at: datetime) -> StepSeen:
    return StepSeen(at=at, step=number, file="prometheus:train_step", offset=number)


async def heard(room: Room) -> None:
    await room.watcher.hear(room.signals)


async def begun(room: Room) -> Assignment:
    job = room.assignment()
    room.server.want(job)
    await room.watcher.refresh()
    return job


async def test_a_signal_reaches_the_detectors_of_its_attempt_alone() -> None:
    room = Room()
    job, other = room.assignment(), room.assignment("8")
    room.server.want(job, other)
    await room.watcher.refresh()
    await room.train(job, 10)
    hit = xid_hit("n1", room.clock.now())
    assert hit.scope is Scope.METRICS
    room.signals.given[job.attempt] = [hit]
    await heard(room)
    room.write(job, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:")
    room.server.want(replace(job, ended_at=room.clock.now()), other)
    await room.watcher.refresh()
    await room.quiet(job, 5.0)
    found = [found for finding in room.server.findings(job.attempt) for found in finding.hits]
    assert hit.rule in [each.rule for each in found]
    assert room.server.findings(other.attempt) == []


async def test_attempts_in_doubt_are_looked_at_closely() -> None:
    room = Room()
    job = await begun(room)
    calm = room.assignment("8")
    room.server.want(job, calm)
    await room.watcher.refresh()
    await heard(room)
    assert room.signals.closely == frozenset()
    await room.train(job, 12)
    await room.quiet(job, 30.0)
    assert [finding.kind for finding in room.server.findings(job.attempt)] == [FindingKind.HANG]
    await heard(room)
    assert room.signals.closely == {job.attempt}


async def test_steps_that_come_as_signals_are_progress() -> None:
    room = Room()
    job = await begun(room)
    for number in range(1, 13):
        room.signals.given[job.attempt] = [step(number, room.clock.now())]
        room.signals.stands = (Coverage(source="prometheus", sight=Sight.SEEN, up_to=room.clock.now()),)
        await heard(room)
        await room.quiet(job, 1.0)
    await room.watcher.deliver()
    progress = room.server.batches[-1].progress
    assert progress is not None
    assert (progress.step, progress.steps_seen) == (12, 12)


async def test_a_store_that_is_away_is_no_silence_of_the_job_whose_steps_it_told() -> None:
    room = Room()
    job = await begun(room)
    for number in range(1, 13):
        room.signals.given[job.attempt] = [step(number, room.clock.now())]
        room.signals.stands = (Coverage(source="prometheus", sight=Sight.SEEN, up_to=room.clock.now()),)
        await heard(room)
        await room.quiet(job, 1.0)
    last = room.clock.now()
    room.signals.stands = (Coverage(source="prometheus", sight=Sight.MISSING, up_to=last, note="away"),)
    for _ in range(60):
        await heard(room)
        await room.quiet(job, 10.0, every_s=5.0)
    assert room.server.findings(job.attempt) == []
    room.new_watcher()  # nor after a restart of the watcher while the store is away
    await room.watcher.refresh()
    for _ in range(10):
        await heard(room)
        await room.quiet(job, 10.0, every_s=5.0)
    assert room.server.findings(job.attempt) == []
    room.signals.stands = (Coverage(source="prometheus", sight=Sight.SEEN, up_to=room.clock.now()),)
    await heard(room)
    await room.quiet(job, 30.0)
    assert [finding.kind for finding in room.server.findings(job.attempt)] == [FindingKind.HANG]


async def test_how_the_sources_stand_is_told_to_the_server() -> None:
    room = Room()
    await room.watcher.see()
    assert room.server.sights == []  # none of them can be lost as a whole
    up_to = room.clock.now() - timedelta(seconds=3)
    room.signals.stands = (Coverage(source="prometheus", sight=Sight.SEEN, up_to=up_to),)
    room.source.stands = (Coverage(source="loki", sight=Sight.MISSING, note="away"),)
    await room.watcher.see()
    (report,) = room.server.sights
    assert (report.signals, report.logs) == (room.signals.stands, room.source.stands)
    assert (report.cluster, report.as_of) == ("alpha", room.clock.now())


async def test_an_attempt_whose_signals_cannot_be_weighed_stops_no_other() -> None:
    room = Room()
    job, other = room.assignment(), room.assignment("8")
    room.server.want(job, other)
    await room.watcher.refresh()
    room.signals.fails = {job.attempt}
    room.signals.given[other.attempt] = [step(1, room.clock.now())]
    await heard(room)
    await room.watcher.deliver()
    notes = {batch.attempt: [entry.note for entry in batch.coverage] for batch in room.server.batches}
    assert any("could not be weighed" in note for note in notes[job.attempt])
    steps = {batch.attempt: batch.progress.step for batch in room.server.batches if batch.progress is not None}
    assert steps[other.attempt] == 1
