"""A log that two sources hold: what is found is found once, as if there were one."""

from __future__ import annotations

import pytest

from relance.domain.findings import FindingKind
from relance.domain.progress import Progress
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.sources import StoreSource
from relance.sources.stores.times import ns_of
from relance.testing.memory_stores import MemoryStore
from relance.watching.checkpoints import from_text
from relance.watching.senses import Senses
from relance.watching.watchers import Watcher
from tests.unit.watching.rooms import PACK, Room, saved_lines, step_line

STEP_S = 0.5
CRASH = (
    "[rank1]: Traceback (most recent call last):",
    '[rank1]:   File "train.py", line 1, in <module>',
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has 1.12 MiB free.",
)


class Copied(Room):
    """A room whose job's log is in a store, too, and comes there so many seconds late; None: there is no store."""

    def __init__(self, late_s: float | None) -> None:
        super().__init__()
        self.late_ns = int((late_s or 0.0) * 1e9)
        self.store = MemoryStore(now_ns=lambda: ns_of(self.clock.now()))
        settings = StoreSourceSettings(name="loki", requests_per_s=1e6, idle_s=1e9)
        self.copy = StoreSource(self.store, settings, clock=self.clock)
        if late_s is not None:
            self.senses = Senses(logs=(self.source, self.copy))
            self.start_anew()
        self.has_copy = late_s is not None
        self.is_gone = False
        self.job = self.assignment()

    def start_anew(self) -> None:
        """As after a start of the process."""
        self.watcher = Watcher(
            backend=self.server, senses=self.senses, pack=PACK, clock=self.clock, settings=self.settings
        )

    def say(self, *lines: str) -> None:
        now = ns_of(self.clock.now())
        for line in lines:
            if not self.is_gone:
                self.write(self.job, line)
            self.store.put(now, {"job_id": "7", "node": "n1"}, line.encode(), arrives_ns=now + self.late_ns)

    async def go_by(self, duration_s: float) -> None:
        for _ in range(round(duration_s / STEP_S)):
            if self.has_copy:
                await self.copy.look()
            await self.tick(self.job)
            self.clock.advance(STEP_S)

    async def steps(self, first: int, last: int) -> None:
        for step in range(first, last + 1):
            self.say(step_line(step, self.clock.now()))
            if step % 100 == 0:
                self.say(*saved_lines(step, self.clock.now()))
            await self.go_by(STEP_S)

    async def progress(self) -> Progress:
        await self.watcher.stop()
        checkpoint = from_text(self.server.checkpoints[self.job.attempt])
        assert checkpoint is not None
        return checkpoint.memory.progress.progress


async def played(late_s: float | None) -> tuple[Progress, list[tuple[str, str]]]:
    room = Copied(late_s)
    room.server.want(room.job)
    await room.watcher.refresh()
    await room.steps(1, 220)
    room.say(*CRASH)
    await room.go_by(40.0)
    progress = await room.progress()
    await room.copy.close()
    return progress, sorted((each.kind.value, each.id) for each in room.server.findings())


@pytest.mark.parametrize("late_s", [0.0, 3.0, 9.0])
async def test_a_log_that_files_and_a_store_hold_is_one_log(late_s: float) -> None:
    alone, found_alone = await played(None)
    both, found = await played(late_s)
    assert (both.step, both.steps_seen, both.highest_step) == (220, 220, 220)
    assert (both.median_step_s, both.checkpoint_durable, both.phase) == (0.5, 200, alone.phase)
    assert found == found_alone
    assert FindingKind.CRASH.value in dict(found)


async def test_a_source_that_goes_on_where_the_one_before_it_was_lost_tells_the_steps() -> None:
    room = Copied(3.0)
    room.server.want(room.job)
    await room.watcher.refresh()
    await room.steps(1, 50)
    room.is_gone = True
    await room.steps(51, 100)
    await room.go_by(5.0)
    progress = await room.progress()
    await room.copy.close()
    assert (progress.step, progress.steps_seen) == (100, 100)
    assert room.server.findings() == []


async def test_steps_that_go_back_are_those_of_the_source_that_is_ahead() -> None:
    room = Copied(3.0)
    room.server.want(room.job)
    await room.watcher.refresh()
    await room.steps(1, 60)
    await room.steps(40, 70)
    progress = await room.progress()
    await room.copy.close()
    assert (progress.step, progress.steps_seen) == (70, 60 + 31)
