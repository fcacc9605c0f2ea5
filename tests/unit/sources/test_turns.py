from __future__ import annotations

import pytest

from relance.sources.turns import Turns
from relance.testing.manual_clocks import ManualClock


class SleepingClock(ManualClock):
    """Moves on by itself whenever somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.slept_s = 0.0

    async def sleep(self, duration_s: float) -> None:
        self.slept_s += duration_s
        self.advance(duration_s)


@pytest.mark.parametrize(("per_s", "taken", "wait_s"), [(5.0, 5, 0.0), (5.0, 6, 0.2), (5.0, 15, 2.0), (0.5, 3, 4.0)])
async def test_turns_are_a_few_at_once_and_then_so_many_a_second(per_s: float, taken: int, wait_s: float) -> None:
    clock = SleepingClock()
    turns = Turns(per_s, clock)
    for _ in range(taken):
        await turns.take()
    assert clock.slept_s == pytest.approx(wait_s)


async def test_turns_that_nobody_took_are_not_saved_up() -> None:
    clock = SleepingClock()
    turns = Turns(2.0, clock)
    clock.advance(3600.0)
    for _ in range(4):
        await turns.take()
    assert clock.slept_s == pytest.approx(1.0)
