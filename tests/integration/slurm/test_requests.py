"""What people ask for, on a real Slurm: asked of a server, carried out by a controller as an Operator, and undone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from relance.controllers.slurm import SlurmScheduler, SlurmSettings
from relance.controlling.controller import Controller
from relance.controlling.ledger import Ledger
from relance.controlling.paces import ControllerSettings, Pace
from relance.domain import events as e
from relance.domain.advice import ActionEnd
from relance.domain.keys import stable_id
from relance.domain.nodes import Drain, Reserve, Undrain
from relance.domain.requests import (
    Request,
    RequestKind,
    RequestRecord,
    RequestVerb,
    drain_reason,
    reservation_name,
)
from relance.domain.stages import Stage, StageSetting
from relance.domain.streams import Stream
from relance.domain.views import Hold, JobState
from relance.recovery.commands import CommandRefusedError
from relance.recovery.requesting import Requesting, Wanted
from relance.recovery.sites import ClusterRules, Site
from relance.slurm.running import Commands
from relance.testing.scheduler_contract import LIMIT_S, reach
from tests.components.slurm import LeasedNodes
from tests.components.slurm_benches import WAIT_S, SlurmBench, slurm_bench
from tests.served.worlds import World

ALL = frozenset(RequestKind)


@asynccontextmanager
async def asked_on(bench: SlurmBench, folder: Path) -> AsyncIterator[Requesting]:
    """A server that people may ask everything of, with a controller on the bench's nodes at work for it."""
    name = bench.scheduler.cluster
    world = World(clock=bench.clock, site=Site(clusters=(ClusterRules(cluster=name, requests=ALL),)))  # type: ignore[arg-type]
    setting = StageSetting(stage=Stage.APPROVE, set_by="grace", set_at=bench.clock.now())
    await world.append(Stream.of_cluster(name), e.StageSet(cluster=name, setting=setting))
    ledger = Ledger(folder / "controller", name, bench.clock)
    settings = ControllerSettings(holder="c1", requests=ALL, pace=Pace(look_s=0.5))
    controller = Controller(
        backend=world.backend, scheduler=bench.scheduler, ledger=ledger, clock=bench.clock, settings=settings
    )
    running = asyncio.create_task(controller.run())
    try:
        end = bench.clock.monotonic() + WAIT_S
        while name not in world.live.reports:
            assert bench.clock.monotonic() < end, controller.alarms
            await bench.clock.sleep(0.1)
        yield world.parts.requesting()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        ledger.close()


class Person:
    """Grace, who asks and waits for what comes of it."""

    def __init__(self, bench: SlurmBench, asking: Requesting) -> None:
        self._bench = bench
        self._asking = asking
        self._cluster = bench.scheduler.cluster

    async def of_job(self, raw_id: str, verb: RequestVerb, state: JobState) -> RequestRecord:
        """Ask once the job is known in that state."""
        wanted = Wanted(verb=verb, reason="wrong data", by="grace")
        await reach(self._bench, raw_id, state)
        end = self._bench.clock.monotonic() + WAIT_S
        while True:
            try:
                request = await self._asking.of_job(raw_id, wanted)
                break
            except (LookupError, CommandRefusedError):  # the next look shows it
                assert self._bench.clock.monotonic() < end
                await self._bench.clock.sleep(0.1)
        return await self._settled(request)

    async def of_node(self, node: str, verb: RequestVerb) -> RequestRecord:
        wanted = Wanted(verb=verb, reason="Xid 79", by="grace", for_s=None if verb is RequestVerb.RETURN else 3600.0)
        return await self._settled(await self._asking.of_node(self._cluster, node, wanted))

    async def _settled(self, request: Request) -> RequestRecord:
        end = self._bench.clock.monotonic() + WAIT_S
        while True:
            records = (
                await self._asking.of_nodes_record(self._cluster, request.node)
                if request.job is None
                else await self._asking.of_jobs_record(str(request.job))
            )
            record = next(item for item in records if item.request.id == request.id)
            if not record.is_open:
                return record
            assert self._bench.clock.monotonic() < end, record
            await self._bench.clock.sleep(0.1)


async def test_a_quarantine_a_hold_and_a_cancel_are_done_and_undone_as_an_operator(
    slurm_nodes: LeasedNodes, tmp_path: Path
) -> None:
    async with slurm_bench(slurm_nodes) as bench, asked_on(bench, tmp_path) as asking:
        grace, (first, *_) = Person(bench, asking), bench.nodes
        running = await bench.submit(nodes=3)
        await reach(bench, running, JobState.RUNNING)
        kept = await grace.of_node(first, RequestVerb.QUARANTINE)
        assert kept.end is ActionEnd.SUCCEEDED
        assert (await bench.scheduler.read(running)).state is JobState.RUNNING

        with pytest.raises(CommandRefusedError, match="no administrator"):
            await grace.of_node(bench.nodes[1], RequestVerb.DRAIN)

        assert (await grace.of_job(running, RequestVerb.CANCEL, JobState.RUNNING)).end is ActionEnd.SUCCEEDED
        await reach(bench, running, JobState.CANCELLED)
        waiting = await bench.submit(nodes=3)
        assert (await grace.of_job(waiting, RequestVerb.HOLD, JobState.PENDING)).end is ActionEnd.SUCCEEDED
        assert (await bench.scheduler.read(waiting)).hold is Hold.ADMIN
        assert (await grace.of_node(first, RequestVerb.RETURN)).end is ActionEnd.SUCCEEDED
        assert (await bench.scheduler.read_node(first)).windows == ()
        assert (await bench.scheduler.read(waiting)).state is JobState.PENDING
        assert (await grace.of_job(waiting, RequestVerb.RELEASE, JobState.PENDING)).end is ActionEnd.SUCCEEDED
        await reach(bench, waiting, JobState.RUNNING)


async def test_an_administrator_s_drain_bears_its_reason_word_by_word_and_is_undone(slurm_nodes: LeasedNodes) -> None:
    async with slurm_bench(slurm_nodes) as bench:
        prefix = bench.cluster.plan.prefix
        commands = Commands(bin_dir=f"{prefix}/bin" if prefix else None, slurm_conf=bench.cluster.slurm_conf)
        name = bench.scheduler.cluster
        as_root = SlurmScheduler(SlurmSettings(cluster=name, commands=commands, account=("root", 0)), bench.clock)
        running = await reach(bench, await bench.submit(nodes=3), JobState.RUNNING)
        node, *_ = running.nodes
        reason = drain_reason(stable_id("req", node), "grace", "Xid 79: Action:Reboot it!")
        assert ":" not in reason.removeprefix("relance:")
        await as_root.send(as_root.change_node(Drain(node=node, reason=reason)), LIMIT_S)
        seen = await as_root.read_node(node)
        assert (seen.is_drained, seen.view.reason, seen.planned, seen.is_down) == (True, reason, "", False)
        assert (await bench.scheduler.read(running.raw_id)).state is JobState.RUNNING
        await bench.do("root", "scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=somebody else")
        assert (await as_root.read_node(node)).view.reason == "somebody else"
        await as_root.send(as_root.change_node(Undrain(node=node)), LIMIT_S)
        assert not (await as_root.read_node(node)).is_drained
        await as_root.close()


@pytest.mark.soak
@pytest.mark.timeout(360)
async def test_a_quarantine_that_runs_out_ends_by_itself_and_nothing_that_runs_notices(
    slurm_nodes: LeasedNodes,
) -> None:
    async with slurm_bench(slurm_nodes) as bench:
        running = await reach(bench, await bench.submit(nodes=3), JobState.RUNNING)
        node, *_ = running.nodes
        key = stable_id("req", node, bench.clock.now().isoformat())
        until = (bench.clock.now() + timedelta(seconds=65)).replace(microsecond=0)
        reserve = Reserve(node=node, name=reservation_name(key), until=until)
        await bench.scheduler.send(bench.scheduler.change_node(reserve), LIMIT_S)
        end = bench.clock.monotonic() + 240
        while (await bench.scheduler.read_node(node)).windows:  # Slurm drops it some 20 s after its end
            assert bench.clock.monotonic() < end
            await bench.clock.sleep(2)
        assert bench.clock.now() >= until
        after = await bench.scheduler.read(running.raw_id)
        assert (after.state, after.restart_count, after.started_at) == (JobState.RUNNING, 0, running.started_at)
