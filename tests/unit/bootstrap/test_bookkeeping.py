"""What a server does beside its work may fail without ending it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from relance.bootstrap.announcers import AnnouncerRole
from relance.bootstrap.roles import upkeep
from relance.ports.notifiers import Notice
from relance.recovery.announcing import Announcer
from relance.storage.histories import SqlHistory
from relance.testing.memory_histories import MemoryHistory
from relance.testing.virtual_time import VirtualClock, VirtualTime


class Silent:
    """A notifier that tells nobody."""

    async def notify(self, notice: Notice) -> None:
        del notice

    async def close(self) -> None:
        pass


async def test_a_database_that_is_away_when_old_rows_are_to_be_dropped_ends_nothing(tmp_path: Path) -> None:
    clock = VirtualClock(VirtualTime())
    history = await SqlHistory.open(f"sqlite:///{tmp_path / 'relance.db'}", clock=clock)
    await history.close()
    task = asyncio.create_task(upkeep(history, clock))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()


def test_a_place_that_cannot_be_written_down_ends_nothing(tmp_path: Path) -> None:
    clock = VirtualClock(VirtualTime())
    announcer = Announcer(MemoryHistory(), Silent(), clock)
    announcer.position = 7
    place = tmp_path / "not there" / "told-by-command"
    role = AnnouncerRole(name="command", notifier=Silent(), announcer=announcer, place=place, clock=clock)
    role.save()
    assert not place.exists()
