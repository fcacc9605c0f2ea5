"""Taking in reports."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime

from relance.domain.records import JobRecord
from relance.domain.streams import Recorded, Stream
from relance.domain.views import ClusterReport, JobState, SchedulerFacts
from relance.ports.histories import Append
from relance.recovery.live import Live
from relance.recovery.loop import Loop
from relance.recovery.reporting import Reporting
from relance.recovery.sites import Site
from relance.testing.memory_histories import MemoryHistory
from relance.testing.virtual_time import VirtualClock, VirtualTime
from tests.unit.recovery.situations import FIRST, JOB, RUNNING, at

EARLIER = replace(RUNNING, raw_id="16")


class SlowHistory(MemoryHistory):
    """A history whose first append takes until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.let_go = asyncio.Event()

    async def append(self, batch: Append, now: datetime) -> tuple[Recorded, ...]:
        if batch.stream == Stream.of_job(EARLIER.job_key("alpha")) and not self.asked.is_set():
            self.asked.set()
            await self.let_go.wait()
        return await super().append(batch, now)


def look(session: str, seconds: float, *raw_ids: str) -> ClusterReport:
    return ClusterReport(
        cluster="alpha",
        session=session,
        sequence=1,
        as_of=at(seconds),
        facts=SchedulerFacts(release="25.11"),
        jobs=tuple(replace(RUNNING, raw_id=raw_id) for raw_id in raw_ids),
        nodes=(),
    )


async def test_a_job_that_only_the_newer_of_two_looks_shows_is_not_taken_for_gone_by_the_slower_one() -> None:
    history, live, clock = SlowHistory(), Live(), VirtualClock(VirtualTime())
    reporting = Reporting(history, live, Loop(history, live, Site(), clock), clock)
    older = asyncio.create_task(reporting.take(look("one", 10, "16")))
    await history.asked.wait()
    newer = asyncio.create_task(reporting.take(look("two", 11, "16", "17")))
    for _ in range(50):
        await asyncio.sleep(0)
    history.let_go.set()
    await asyncio.gather(older, newer)
    record = (await history.load(Stream.of_job(JOB))).record
    assert isinstance(record, JobRecord)
    assert [(item.attempt, item.outcome) for item in record.attempts] == [(FIRST, None)]


async def test_a_job_that_was_not_shown_for_a_while_and_then_failed_has_its_incident() -> None:
    history, live, clock = MemoryHistory(), Live(), VirtualClock(VirtualTime())
    reporting = Reporting(history, live, Loop(history, live, Site(), clock), clock)
    await reporting.take(look("one", 10, "17"))
    await reporting.take(replace(look("one", 20), sequence=2))
    record = (await history.load(Stream.of_job(JOB))).record
    assert isinstance(record, JobRecord)
    assert record.attempts[-1].outcome is JobState.UNKNOWN
    failed = replace(RUNNING, state=JobState.FAILED, ended_at=at(25), exit_code=1)
    await reporting.take(replace(look("one", 30), sequence=3, jobs=(failed,)))
    record = (await history.load(Stream.of_job(JOB))).record
    assert isinstance(record, JobRecord)
    assert record.attempts[-1].outcome is JobState.FAILED
    assert record.open_incident is not None
