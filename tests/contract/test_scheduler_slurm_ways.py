"""The contract on a real Slurm that is reached by SSH, and in a place that has to be entered, as its operator.

All of it is long; the ordinary run has what differs by the way: reading, each kind of change, refusals, silence.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from relance.simulation.private_slurm import RunningCluster
from relance.slurm.running import Commands
from relance.testing.scheduler_contract import SchedulerContract
from relance.testing.scheduler_contract_requests import RequestContract
from tests.components.slurm import LeasedNodes
from tests.components.slurm_benches import SlurmBench, slurm_bench
from tests.components.slurm_ways import in_place, login_of, place_to_enter, sshd

OFTEN = {
    "test_a_job_that_never_was_is_gone",
    "test_a_read_and_a_look_agree",
    "test_a_site_s_command_is_ended_at_its_limit",
    "test_one_update_excludes_nodes_and_starts_the_job",
}


class _Long(SchedulerContract, RequestContract):
    """Both contracts, of which only what is in `OFTEN` runs every time."""


def _mark(name: str) -> None:
    test = getattr(_Long, name)

    @pytest.mark.soak
    @functools.wraps(test)
    async def long(self: _Long, bench: SlurmBench) -> None:
        await test(self, bench)

    setattr(_Long, name, long)


for _name in dir(_Long):
    if _name.startswith("test_") and _name not in OFTEN:
        _mark(_name)


class TestSlurmBySsh(_Long):
    @pytest.fixture
    async def bench(self, lease_nodes: Callable[[int], LeasedNodes]) -> AsyncIterator[SlurmBench]:
        lease = await asyncio.to_thread(lease_nodes, 4)
        folder = Path(lease.cluster.folder) / "benches" / lease.partition
        login = login_of(folder / "slurm.conf", lease.cluster)
        with sshd(login) as server:
            commands = Commands(way=server.ssh)
            async with slurm_bench(lease, lambda _conf, _cluster: commands) as made:
                yield made


class TestSlurmInAContainer(_Long):
    @pytest.fixture
    async def bench(self, lease_nodes: Callable[[int], LeasedNodes]) -> AsyncIterator[SlurmBench]:
        lease = await asyncio.to_thread(lease_nodes, 4)
        with place_to_enter() as prefix:

            def way(conf: Path, cluster: RunningCluster) -> Commands:
                return in_place(prefix, conf, cluster)

            async with slurm_bench(lease, way) as made:
                yield made
