"""Looks that are shared by all who ask at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from relance.controlling.joint_looks import JointLook
from relance.domain.views import ClusterReport, SchedulerFacts
from relance.ports.schedulers import SchedulerSilentError

AT = datetime(2026, 5, 2, 11, 0, tzinfo=UTC)


@dataclass
class Slow:
    """A scheduler whose looks end when they are let; the report's number tells which look it was."""

    begun: int = 0
    is_silent: bool = False
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def look(self) -> ClusterReport:
        self.begun += 1
        number = self.begun
        await self.may_end.wait()
        if self.is_silent:
            raise SchedulerSilentError("no answer")
        facts = SchedulerFacts(release="x", may_act=True)
        return ClusterReport(cluster="a", session="", sequence=number, as_of=AT, facts=facts, jobs=(), nodes=())


async def _asked(joint: JointLook, count: int) -> list[asyncio.Task[ClusterReport]]:
    tasks = [asyncio.create_task(joint.look()) for _ in range(count)]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


def test_who_asks_during_a_look_shares_the_next_one() -> None:
    async def story() -> list[int]:
        slow = Slow()
        joint = JointLook(slow.look)
        first = await _asked(joint, 1)
        later = await _asked(joint, 20)
        assert slow.begun == 1
        slow.may_end.set()
        return [report.sequence for report in await asyncio.gather(*first, *later)]

    assert asyncio.run(story()) == [1] + [2] * 20


def test_a_look_after_another_is_a_new_one() -> None:
    async def story() -> list[int]:
        slow = Slow()
        slow.may_end.set()
        joint = JointLook(slow.look)
        return [(await joint.look()).sequence, (await joint.look()).sequence]

    assert asyncio.run(story()) == [1, 2]


def test_who_gives_up_takes_the_look_from_nobody_else() -> None:
    async def story() -> int:
        slow = Slow()
        joint = JointLook(slow.look)
        patient, hasty = await _asked(joint, 2)
        hasty.cancel()
        await asyncio.wait([hasty])
        slow.may_end.set()
        return (await patient).sequence

    assert asyncio.run(story()) == 1


def test_silence_is_told_to_all_who_wait_and_the_next_look_is_tried() -> None:
    async def story() -> int:
        slow = Slow(is_silent=True)
        joint = JointLook(slow.look)
        waiting = await _asked(joint, 2)
        slow.may_end.set()
        for task in waiting:
            with pytest.raises(SchedulerSilentError):
                await task
        slow.is_silent = False
        return (await joint.look()).sequence

    assert asyncio.run(story()) == 2
