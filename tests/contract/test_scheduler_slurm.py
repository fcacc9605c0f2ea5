"""The contract on a real Slurm: a private cluster of this machine, asked as its operator `relance`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from relance.testing.scheduler_contract import SchedulerContract
from relance.testing.scheduler_contract_requests import RequestContract
from tests.components.slurm import LeasedNodes
from tests.components.slurm_benches import SlurmBench, slurm_bench


@pytest.fixture
async def bench(lease_nodes: Callable[[int], LeasedNodes]) -> AsyncIterator[SlurmBench]:
    async with slurm_bench(await asyncio.to_thread(lease_nodes, 4)) as made:
        yield made


class TestSlurmScheduler(SchedulerContract, RequestContract):
    @pytest.mark.soak
    async def test_a_requeued_job_that_nobody_touches_starts_by_itself(self, bench: SlurmBench) -> None:  # type: ignore[override]
        await super().test_a_requeued_job_that_nobody_touches_starts_by_itself(bench)
