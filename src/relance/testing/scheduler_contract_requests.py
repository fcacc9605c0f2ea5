"""The part of the scheduler's contract that people's requests rest on: holds, reservations, drains.

A scheduler that has no such thing refuses to build its command, with a word, and passes. Use it as `SchedulerContract`
is used, with the same bench.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pytest

from relance.domain.advice import Command
from relance.domain.keys import stable_id
from relance.domain.nodes import Drain, Reserve, Undrain, Unreserve
from relance.domain.requests import drain_reason, reservation_name
from relance.domain.views import Hold, JobState
from relance.ports.schedulers import SchedulerRefusedError
from relance.testing.scheduler_contract import LIMIT_S, SchedulerBench, reach

_Value = TypeVar("_Value")


class RequestContract:
    """What an adapter promises about holds and nodes."""

    async def test_a_held_job_waits_until_it_is_released(self, bench: SchedulerBench) -> None:
        running = await reach(bench, await bench.submit(nodes=4), JobState.RUNNING)
        waiting = await bench.scheduler.read(await bench.submit(nodes=4))
        command = offered(bench.scheduler.hold, waiting)
        if command is None:
            return
        await bench.scheduler.send(command, LIMIT_S)
        held = await bench.scheduler.read(waiting.raw_id)
        assert (held.state, held.restart_count) == (JobState.PENDING, 0)
        assert held.hold in (Hold.USER, Hold.ADMIN)
        await bench.cancel(running.raw_id, bench.canceller_uid)
        await reach(bench, running.raw_id, JobState.CANCELLED)
        assert (await bench.scheduler.read(waiting.raw_id)).state is JobState.PENDING
        await bench.scheduler.send(bench.scheduler.release(held), LIMIT_S)
        assert (await reach(bench, waiting.raw_id, JobState.RUNNING)).restart_count == 0

    async def test_a_node_that_is_reserved_keeps_what_runs_and_gets_nothing_new(self, bench: SchedulerBench) -> None:
        running = await reach(bench, await bench.submit(nodes=4), JobState.RUNNING)
        node, until = bench.nodes[0], (bench.clock.now() + timedelta(hours=1)).replace(microsecond=0)
        name = reservation_name(stable_id("req", node, bench.clock.now().isoformat()))
        command = offered(bench.scheduler.change_node, Reserve(node=node, name=name, until=until))
        if command is None:
            return
        await bench.scheduler.send(command, LIMIT_S)
        window = (await bench.scheduler.read_node(node)).window(name)
        assert window is not None
        assert (window.nodes, window.ends_at, window.is_maintenance) == ((node,), until, True)
        with pytest.raises(SchedulerRefusedError):
            await bench.scheduler.send(command, LIMIT_S)
        await bench.clock.sleep(bench.rest_s)
        assert (await bench.scheduler.read(running.raw_id)).state is JobState.RUNNING
        await bench.cancel(running.raw_id, bench.canceller_uid)
        await reach(bench, running.raw_id, JobState.CANCELLED)
        assert node not in (await reach(bench, await bench.submit(nodes=3), JobState.RUNNING)).nodes
        undo = bench.scheduler.change_node(Unreserve(node=node, name=name))
        await bench.scheduler.send(undo, LIMIT_S)
        assert (await bench.scheduler.read_node(node)).windows == ()
        with pytest.raises(SchedulerRefusedError):
            await bench.scheduler.send(undo, LIMIT_S)

    async def test_a_drain_is_done_with_its_reason_or_refused(self, bench: SchedulerBench) -> None:
        node = bench.nodes[0]
        reason = drain_reason(stable_id("req", node), "ada", "Xid 79")
        command = offered(bench.scheduler.change_node, Drain(node=node, reason=reason))
        if command is None:
            return
        try:
            await bench.scheduler.send(command, LIMIT_S)
        except SchedulerRefusedError:
            assert not (await bench.scheduler.read_node(node)).is_drained
            return
        drained = await bench.scheduler.read_node(node)
        assert (drained.is_drained, drained.view.reason) == (True, reason)
        await bench.scheduler.send(bench.scheduler.change_node(Undrain(node=node)), LIMIT_S)
        assert not (await bench.scheduler.read_node(node)).is_drained

    async def test_a_node_that_never_was_is_refused(self, bench: SchedulerBench) -> None:
        with pytest.raises(SchedulerRefusedError):
            await bench.scheduler.read_node("nowhere")

    async def test_a_name_or_a_reason_that_is_not_ours_is_refused(self, bench: SchedulerBench) -> None:
        later, node = bench.clock.now() + timedelta(hours=1), bench.nodes[0]
        for change in (
            Reserve(node=node, name="maintenance", until=later),
            Unreserve(node=node, name="maintenance"),
            Drain(node=node, reason="Action:Reboot"),
        ):
            assert offered(bench.scheduler.change_node, change) is None


def offered(build: Callable[[_Value], Command], value: _Value) -> Command | None:
    """The command; None where the scheduler has none for this, and says so."""
    try:
        return build(value)
    except SchedulerRefusedError as error:
        if not str(error):
            raise
        return None
