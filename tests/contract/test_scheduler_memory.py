from __future__ import annotations

from collections.abc import Sequence

import pytest

from relance.domain.views import JobState
from relance.ports.clocks import Clock, SystemClock
from relance.testing.memory_clusters import MemoryCluster, Timings
from relance.testing.memory_schedulers import SimulatedScheduler
from relance.testing.scheduler_contract import SchedulerContract
from relance.testing.scheduler_contract_requests import RequestContract


class MemoryBench:
    """The fake scheduler on the real clock."""

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()
        self.rest_s = 0.25
        self.window_s = 2.0
        self.canceller_uid = 4711
        self.nodes = tuple(f"node{number:03d}" for number in range(1, 5))
        self.cluster = MemoryCluster(self.clock, nodes=4, timings=Timings(requeue_delay_s=2.0, race_s=0.2))
        self.scheduler = SimulatedScheduler(self.cluster, self.clock)

    async def submit(self, *, nodes: int = 2, exclude: Sequence[str] = (), comment: str = "") -> str:
        return self.cluster.submit(nodes=nodes, comment=comment, excluded=tuple(exclude))

    async def end(self, raw_id: str, exit_code: int) -> None:
        state = JobState.FAILED if exit_code else JobState.COMPLETED
        self.cluster.end(raw_id, state, exit_code=exit_code)

    async def cancel(self, raw_id: str, uid: int) -> None:
        self.cluster.cancel_by(raw_id, uid)

    async def go_away(self) -> None:
        self.scheduler.faults.is_silent = True


class TestSimulatedScheduler(SchedulerContract, RequestContract):
    @pytest.fixture
    def bench(self) -> MemoryBench:
        return MemoryBench()
