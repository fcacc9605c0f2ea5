"""A store that is away for long, and a watcher that starts anew meanwhile: nothing is found, and nothing is lost."""

from __future__ import annotations

import pytest

from relance.domain.findings import FindingKind
from relance.domain.progress import Progress
from relance.sources.exchanges import StoreAnswerError, StoreBusyError
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.sources import StoreSource
from relance.sources.stores.times import ns_of
from relance.sources.stores.wanted import Wanted, wanted_of
from relance.testing.memory_stores import MemoryStore
from relance.watching.checkpoints import from_text
from relance.watching.senses import Senses
from relance.watching.watchers import Watcher
from tests.unit.watching.rooms import PACK, Room, step_line

STEP_S = 2.0
OUTAGE_S = 600.0
SETTINGS = StoreSourceSettings(name="loki", requests_per_s=1e6)


class Stored(Room):
    """A room whose job's log is in a store alone."""

    def __init__(self, wanted: Wanted | None) -> None:
        super().__init__()
        self.wanted = wanted
        self.store = MemoryStore(now_ns=lambda: ns_of(self.clock.now()))
        self.job = self.assignment()
        self.count = 0
        self.begin()

    def begin(self) -> None:
        """As after a start of the process."""
        self.stored = StoreSource(self.store, SETTINGS, self.wanted, clock=self.clock)
        self.watcher = Watcher(
            backend=self.server,
            senses=Senses(logs=(self.stored,)),
            pack=PACK,
            clock=self.clock,
            settings=self.settings,
        )

    async def start_anew(self) -> None:
        """The process ends, whether or not it could tell of all, and another begins."""
        await self.stored.close()
        self.begin()
        await self.watcher.refresh()

    def say(self, line: str) -> None:
        self.store.put(ns_of(self.clock.now()), {"job_id": "7", "node": "n1"}, line.encode())

    async def go_by(self, duration_s: float, *, trains: bool = True) -> None:
        for _ in range(round(duration_s / STEP_S)):
            if trains:
                self.count += 1
                self.say(step_line(self.count, self.clock.now()))
            await self.stored.look()
            await self.tick(self.job)
            self.clock.advance(STEP_S)

    async def progress(self) -> Progress:
        await self.watcher.stop()
        checkpoint = from_text(self.server.checkpoints[self.job.attempt])
        assert checkpoint is not None
        return checkpoint.memory.progress.progress


def _down(store: MemoryStore) -> None:
    store.is_away = True


def _busy(store: MemoryStore) -> None:
    store.failures += [StoreBusyError("slow down", 30.0)] * 20


def _strange(store: MemoryStore) -> None:
    store.failures += [StoreAnswerError("HTML, as from a proxy or a login page")] * 60


@pytest.mark.parametrize("filtered", [False, True], ids=["all lines", "wanted lines"])
@pytest.mark.parametrize("fails", [_down, _busy, _strange])
async def test_an_outage_with_a_new_start_in_it_is_no_finding_and_loses_nothing(fails: object, filtered: bool) -> None:
    room = Stored(wanted_of(PACK) if filtered else None)
    room.server.want(room.job)
    await room.watcher.refresh()
    await room.go_by(120.0)
    assert callable(fails)
    fails(room.store)
    await room.go_by(OUTAGE_S / 2)
    await room.start_anew()
    await room.go_by(OUTAGE_S / 2)
    room.store.is_away = False
    room.store.failures.clear()
    await room.go_by(120.0)
    await room.go_by(4.0, trains=False)
    progress = await room.progress()
    await room.stored.close()
    assert (progress.step, progress.steps_seen) == (room.count, room.count)
    assert room.server.findings() == []


async def test_a_job_that_hangs_in_an_outage_is_found_when_the_store_is_back_and_not_before() -> None:
    room = Stored(None)
    room.server.want(room.job)
    await room.watcher.refresh()
    await room.go_by(120.0)
    room.store.is_away = True
    await room.go_by(60.0)
    await room.go_by(OUTAGE_S, trains=False)
    assert room.server.findings() == []
    room.store.is_away = False
    await room.go_by(60.0, trains=False)
    await room.stored.close()
    assert {each.kind for each in room.server.findings()} == {FindingKind.HANG}
