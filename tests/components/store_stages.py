"""Stages of the contract of sources on real servers of log stores: their time is the machine's own."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from relance.domain.keys import AttemptKey, JobKey
from relance.domain.views import Assignment
from relance.ports.clocks import SystemClock
from relance.sources.stores.backs import LogStore
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.sources import StoreSource

PASS_AT_MOST_S = 0.25
PUSHED_AT_ONCE = 500
QUICK = StoreSourceSettings(name="store", poll_s=0.1, delay_s=1.0, requests_per_s=50, told_s=0.2, refused_s=1.0)
Push = Callable[[Mapping[str, str], Sequence[tuple[int, str]]], None]


class StoreStage:
    """Attempts that write into a store, each stage with labels that nobody else has."""

    def __init__(self, open_store: Callable[[], LogStore], push: Push) -> None:
        self.clock = SystemClock()
        self.mark = secrets.token_hex(6)
        self.push = push
        self._began = self.clock.now()
        self._last_ns = 0
        self._open_store = open_store
        self._opened: list[StoreSource] = []

    async def open(self) -> StoreSource:
        self._opened.append(StoreSource(self._open_store(), QUICK, clock=self.clock))
        return self._opened[-1]

    def assignment(self, number: int = 0) -> Assignment:
        job = JobKey(cluster="alpha", raw_id=f"{self.mark}-{number}", submitted_at=self._began)
        key = AttemptKey(job=job, restart_count=0)
        return Assignment(attempt=key, owner_uid=0, nodes=("n1",), log_paths=(), started_at=self._began)

    async def write(self, assignment: Assignment, lines: Sequence[bytes]) -> None:
        labels = {"job_id": assignment.attempt.job.raw_id, "node": "n1"}
        for begin in range(0, len(lines), PUSHED_AT_ONCE):
            some = lines[begin : begin + PUSHED_AT_ONCE]  # each line has its time right before it goes out
            stamped = [(self.next_ns(), line.rstrip(b"\n").decode()) for line in some]
            await asyncio.to_thread(self.push, labels, stamped)

    def now(self) -> datetime:
        return self.clock.now()

    async def pass_time(self, duration_s: float) -> None:
        await asyncio.sleep(min(duration_s, PASS_AT_MOST_S))

    def next_ns(self) -> int:
        """The time now, and later than any given before."""
        self._last_ns = max(self._last_ns + 1, int(self.clock.now().timestamp() * 1e6) * 1000)
        return self._last_ns

    async def close(self) -> None:
        for source in self._opened:
            await source.close()
