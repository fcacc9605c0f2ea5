"""Whenever a watcher is killed and started again, the same things are found, with the same ids."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.watching.rooms import Room, step_line

TRACEBACK = (
    "[rank3]: Traceback (most recent call last):",
    '[rank3]:   File "/code/train.py", line 12, in step',
    "[rank3]: KeyError: 'record 17'",
)
KILLED = "srun: error: n2: task 3: Killed"
XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


async def play(killed_at: frozenset[int], *, dies: bool) -> set[str]:
    """Twelve seconds of training, a caught failure among them, and what comes then; in ticks of a fifth of a second."""
    room = Room()
    job = room.assignment(hang_after_s=30.0)
    room.server.want(job)
    await room.watcher.refresh()
    for tick in range(400):
        if tick in killed_at:
            room.new_watcher()
            await room.watcher.refresh()
        if tick % 2 == 0 and tick < 60:
            room.write(job, step_line(tick // 2 + 1, room.clock.now()))
        if tick == 31:
            room.write(job, *TRACEBACK)
        if dies and tick == 61:
            room.write(job, *TRACEBACK, KILLED)
        if dies and tick == 90:
            room.write(job, f"{room.clock.now().isoformat()} n2 kernel: {XID}", file="/logs/n2.log", node="n2")
        await room.tick(job)
        room.clock.advance(0.2)
    await room.watcher.deliver()
    return {finding.id for finding in room.server.findings()}


@pytest.fixture(scope="module")
def undisturbed() -> dict[bool, set[str]]:
    return {dies: asyncio.run(play(frozenset(), dies=dies)) for dies in (False, True)}


@settings(max_examples=10)
@given(st.frozensets(st.integers(1, 399), min_size=1, max_size=3), st.booleans())
def test_a_watcher_killed_at_any_moment_finds_the_same(
    undisturbed: dict[bool, set[str]], killed_at: frozenset[int], dies: bool
) -> None:
    assert asyncio.run(play(killed_at, dies=dies)) == undisturbed[dies]
    assert len(undisturbed[dies]) == (4 if dies else 2)
