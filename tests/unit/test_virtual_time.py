from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from relance.testing.virtual_time import NothingWillHappenError, VirtualClock, VirtualTime, run_virtual

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_sleepers_wake_in_the_order_of_their_times() -> None:
    time = VirtualTime(START)
    clock = VirtualClock(time)
    woken: list[tuple[str, datetime]] = []

    async def sleeper(name: str, duration_s: float) -> None:
        await clock.sleep(duration_s)
        woken.append((name, clock.now()))

    async def main() -> None:
        await asyncio.gather(sleeper("long", 3600), sleeper("short", 0.5))

    run_virtual(main(), time)
    assert woken == [("short", START + timedelta(seconds=0.5)), ("long", START + timedelta(hours=1))]


def test_a_second_loop_goes_on_from_where_the_first_one_stopped() -> None:
    time = VirtualTime(START)
    run_virtual(asyncio.sleep(10), time)
    run_virtual(asyncio.sleep(10), time)
    assert time.monotonic() == pytest.approx(1020)


def test_time_limits_of_asyncio_count_virtual_time() -> None:
    time = VirtualTime(START)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asyncio.Event().wait()

    run_virtual(main(), time)
    assert time.now() == START + timedelta(minutes=1)


def test_the_wall_clock_steps_and_the_monotonic_one_does_not() -> None:
    time = VirtualTime(START)
    time.step_wall_clock(-timedelta(hours=1))
    assert time.now() == START - timedelta(hours=1)
    assert time.monotonic() == 1000


def test_a_wait_that_nothing_ends_is_an_error_and_not_a_test_that_hangs() -> None:
    with pytest.raises(NothingWillHappenError):
        run_virtual(asyncio.Event().wait(), VirtualTime(START))


def test_no_time_passes_while_a_thread_is_said_to_be_at_work() -> None:
    time = VirtualTime(START)
    gate, working = threading.Event(), True

    async def main() -> None:
        nonlocal working
        await asyncio.gather(asyncio.to_thread(gate.wait, 10), asyncio.to_thread(gate.set))
        working = False
        assert time.now() == START
        await asyncio.sleep(60)
        working = True  # the loop ends its threads

    async def both() -> None:
        await asyncio.gather(main(), asyncio.sleep(1))

    run_virtual(both(), time, lambda: working)
    assert time.now() == START + timedelta(seconds=60)
