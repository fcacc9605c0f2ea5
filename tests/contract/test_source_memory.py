from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from relance.domain.keys import AttemptKey, JobKey
from relance.domain.views import Assignment
from relance.testing.manual_clocks import ManualClock
from relance.testing.memory_sources import MemoryLogs, MemorySource
from relance.testing.source_contract import FolderSourceContract


class MemoryStage:
    """Attempts that write into memory."""

    def __init__(self) -> None:
        self._logs = MemoryLogs()
        self._clock = ManualClock()

    async def open(self) -> MemorySource:
        return MemorySource(self._logs, self._clock)

    def assignment(self, number: int = 0) -> Assignment:
        job = JobKey(cluster="alpha", raw_id=str(number + 1), submitted_at=datetime(2026, 1, 1, tzinfo=UTC))
        key = AttemptKey(job=job, restart_count=0)
        return Assignment(attempt=key, owner_uid=0, nodes=("n1",), log_paths=("job.out",))

    async def write(self, assignment: Assignment, lines: Sequence[bytes]) -> None:
        self._logs.write(assignment.attempt, b"".join(lines))

    def folder(self, assignment: Assignment) -> str:
        return f"/ckpt/{assignment.attempt.job.raw_id}"

    def linked(self, folder: str) -> str:
        return f"/links{folder}"

    async def grow(self, assignment: Assignment) -> None:
        self._logs.grow(self.folder(assignment))

    def now(self) -> datetime:
        return self._clock.now()

    async def pass_time(self, duration_s: float) -> None:
        self._clock.advance(duration_s)


class TestMemorySource(FolderSourceContract):
    @pytest.fixture
    def stage(self) -> MemoryStage:
        return MemoryStage()
