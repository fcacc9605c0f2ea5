"""One stream's trouble never stops another's."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from structlog.testing import capture_logs

from relance.domain.streams import Stream
from relance.domain.views import ClusterReport, SchedulerFacts
from relance.ports.histories import Snapshot
from relance.recovery.backends import LocalBackend
from relance.recovery.live import Live
from relance.recovery.loop import Loop
from relance.recovery.sites import Site
from relance.testing.manual_clocks import ManualClock
from relance.testing.memory_histories import MemoryHistory
from tests.unit.recovery.situations import FAILED, at


class _Poisoned(MemoryHistory):
    """A history in which one stream cannot be loaded, for a reason that nobody thought of."""

    poison: Stream | None = None
    tried = 0

    async def load(self, stream: Stream) -> Snapshot:
        if stream == self.poison:
            self.tried += 1
            raise ZeroDivisionError
        return await super().load(stream)


async def test_a_fault_of_ours_in_one_job_leaves_the_others_advancing() -> None:
    clock, history, live = ManualClock(at(100)), _Poisoned(), Live()
    loop = Loop(history, live, Site(), clock)
    backend = LocalBackend(history, live, loop, Site(), clock)
    other = replace(FAILED, raw_id="18")
    report = ClusterReport(
        cluster="alpha", session="s", sequence=1, as_of=clock.now(), facts=SchedulerFacts(release="x"),
        jobs=(FAILED, other), nodes=(),
    )  # fmt: skip
    await backend.report(report)
    history.poison = Stream.of_job(FAILED.job_key("alpha"))
    await loop.tick()
    rows = await history.incidents()
    assert {row.job.raw_id: row.incident.verdict is not None for row in rows} == {"17": False, "18": True}
    history.poison = None
    await asyncio.sleep(0)
    loop.wake(Stream.of_job(FAILED.job_key("alpha")))
    await loop.tick()
    assert all(row.incident.verdict is not None for row in await history.incidents())


async def test_a_job_that_cannot_be_advanced_and_whose_timer_has_passed_is_not_tried_without_a_pause() -> None:
    clock, history, live = ManualClock(at(100)), _Poisoned(), Live()
    loop = Loop(history, live, Site(), clock)
    backend = LocalBackend(history, live, loop, Site(), clock)
    facts = SchedulerFacts(release="x")
    look = ClusterReport(
        cluster="alpha", session="s", sequence=1, as_of=clock.now(), facts=facts, jobs=(FAILED,), nodes=()
    )
    await backend.report(look)
    await loop.tick()
    history.poison = Stream.of_job(FAILED.job_key("alpha"))
    await loop.tick()
    clock.advance(3600)
    assert history.poison in await history.due(clock.now())
    tried = history.tried
    for _ in range(100):
        await loop.tick()
    assert history.tried <= tried + 1
    with capture_logs():  # writing down that many troubles takes a while
        for _ in range(1100):  # woken by others again and again, it is tried, and nothing breaks
            loop.wake(history.poison)
            await loop.tick()
    assert history.tried >= tried + 1100
