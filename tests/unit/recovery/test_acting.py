"""Which attempts are at `act`, asked again and again of a long queue."""

from __future__ import annotations

from dataclasses import replace
from datetime import time

import pytest

from relance.domain import events as e
from relance.domain.quiet_hours import QuietHours, QuietWeek
from relance.domain.records import ClusterRecord, JobRecord
from relance.domain.stages import Stage, StageSetting
from relance.domain.streams import Stream
from relance.domain.views import ClusterReport, SchedulerFacts
from relance.ports.histories import Append, Snapshot
from relance.recovery.acting import Actors
from relance.recovery.live import Live
from relance.recovery.loop import Loop
from relance.recovery.reporting import Reporting
from relance.recovery.sites import ClusterRules, Site
from relance.testing.memory_histories import MemoryHistory
from relance.testing.virtual_time import VirtualClock, VirtualTime
from tests.unit.recovery.situations import FAILED, FIRST, JOB, RUNNING, at

RULES = ClusterRules(cluster="alpha", opted_in=None)
ACT = ClusterRecord(
    cluster="alpha", setting=StageSetting(stage=Stage.ACT, end_running=frozenset(), set_by="grace", set_at=at(0))
)
LOOK = ClusterReport(
    cluster="alpha",
    session="one",
    sequence=1,
    as_of=at(10),
    facts=SchedulerFacts(release="25.11"),
    jobs=(RUNNING, replace(RUNNING, raw_id="18")),
    nodes=(),
)


class CountingHistory(MemoryHistory):
    """Counts how often a job's record is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.loads = 0

    async def load(self, stream: Stream) -> Snapshot:
        self.loads += stream.kind == "job"
        return await super().load(stream)


async def _told() -> CountingHistory:
    history, live, clock = CountingHistory(), Live(), VirtualClock(VirtualTime())
    await Reporting(history, live, Loop(history, live, Site(), clock), clock).take(LOOK)
    history.loads = 0
    return history


async def test_a_job_that_did_not_change_is_not_loaded_again() -> None:
    history = await _told()
    actors = Actors(history)
    first = await actors.of(LOOK, ACT, RULES, at(11))
    assert first == tuple(str(view.attempt_key("alpha")) for view in LOOK.jobs)
    assert history.loads == 2
    assert await actors.of(replace(LOOK, sequence=2), ACT, RULES, at(12)) == first
    assert history.loads == 2


async def test_what_is_appended_to_a_job_counts_at_once_and_only_that_job_is_loaded() -> None:
    history = await _told()
    actors = Actors(history)
    await actors.of(LOOK, ACT, RULES, at(11))
    switched = e.JobSwitched(job=JOB, stage=Stage.OBSERVE, by="ada")
    snapshot = await history.load(Stream.of_job(JOB))
    history.loads = 0
    await history.append(
        Append(stream=snapshot.stream, expected_version=snapshot.version, events=(switched,), keep_wake=True), at(12)
    )
    assert str(FIRST) not in await actors.of(LOOK, ACT, RULES, at(13))
    assert history.loads == 1


async def test_a_stage_that_is_lowered_counts_at_once() -> None:
    actors = Actors(await _told())
    await actors.of(LOOK, ACT, RULES, at(11))
    assert ACT.setting is not None
    lowered = replace(ACT, setting=replace(ACT.setting, stage=Stage.OBSERVE))
    assert await actors.of(LOOK, lowered, RULES, at(12)) == ()


async def test_in_quiet_hours_nothing_is_left_to_the_watchdog() -> None:
    history = await _told()
    hours = QuietHours(begins=time(11, 30), ends=time(12, 0), partitions=frozenset({RUNNING.partition}))
    rules = replace(RULES, quiet=QuietWeek(hours=(hours,)))
    actors = Actors(history)
    everything = tuple(str(view.attempt_key("alpha")) for view in LOOK.jobs)
    found = [await actors.of(LOOK, ACT, rules, at(minutes * 60)) for minutes in (29, 31, 59, 61)]
    assert found == [everything, (), (), everything]


@pytest.mark.parametrize(
    ("end", "is_ours"),
    [
        (e.IncidentEnd.STOPPED, False),
        (e.IncidentEnd.LEFT, False),
        (e.IncidentEnd.RECOVERED, True),
        (e.IncidentEnd.JOB_ENDED, True),
    ],
)
async def test_an_attempt_that_was_stopped_or_left_is_nobodys_to_save(end: e.IncidentEnd, is_ours: bool) -> None:
    history, live, clock = MemoryHistory(), Live(), VirtualClock(VirtualTime())
    reporting = Reporting(history, live, Loop(history, live, Site(), clock), clock)
    failed = replace(LOOK, sequence=2, as_of=at(101), jobs=(FAILED,))
    for look in (replace(LOOK, jobs=(RUNNING,)), failed):
        await reporting.take(look)
    actors = Actors(history)
    assert await actors.of(failed, ACT, RULES, at(102)) == (str(FIRST),), "it is not decided yet"
    snapshot = await history.load(Stream.of_job(JOB))
    assert isinstance(snapshot.record, JobRecord)
    (incident,) = snapshot.record.incidents
    closed = e.IncidentClosed(incident_id=incident.id, end=end, reason="so", at=at(103))
    await history.append(
        Append(stream=snapshot.stream, expected_version=snapshot.version, events=(closed,), keep_wake=True), at(103)
    )
    assert await actors.of(failed, ACT, RULES, at(104)) == ((str(FIRST),) if is_ours else ())
