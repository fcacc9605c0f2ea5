"""A folder of logs and a file source on it, for tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from relance.domain.findings import Coverage
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import LogBlock
from relance.domain.views import Assignment
from relance.ports.sources import Reading
from relance.sources.files.disks import Disk
from relance.sources.files.settings import FileSettings
from relance.sources.files.sources import FileSource
from relance.testing.manual_clocks import ManualClock


class Folder:
    """Logs below one root, followed for one attempt or several."""

    def __init__(self, root: Path, *, disk: Disk | None = None, **settings: object) -> None:
        self.root = root
        self.clock = ManualClock()
        self.settings = replace(FileSettings(roots=(str(root),)), **settings)  # type: ignore[arg-type]
        self.disk = disk
        self.began = self.clock.now()
        self.source = self.new_source()

    def new_source(self) -> FileSource:
        return FileSource(self.settings, self.clock, self.disk)

    def path(self, name: str) -> str:
        return str(self.root / name)

    def append(self, name: str, data: bytes) -> None:
        with (self.root / name).open("ab") as file:
            file.write(data)

    def rename(self, name: str, new_name: str) -> None:
        (self.root / name).rename(self.root / new_name)

    def assignment(self, *names: str, raw_id: str = "7", restart_count: int = 0, **fields: object) -> Assignment:
        job = JobKey(cluster="alpha", raw_id=raw_id, submitted_at=self.began)
        whole = Assignment(
            attempt=AttemptKey(job=job, restart_count=restart_count),
            owner_uid=os.getuid(),
            nodes=("n1", "n2"),
            log_paths=tuple(self.path(name) for name in names),
        )
        return replace(whole, **fields)  # type: ignore[arg-type]

    def follow(
        self, *assignments: Assignment, positions: Mapping[AttemptKey, Mapping[str, object]] | None = None
    ) -> None:
        self.source.assign(assignments, positions or {})

    async def read(self, assignment: Assignment) -> Reading:
        return await self.source.read(assignment.attempt)

    async def text(self, assignment: Assignment) -> bytes:
        """Everything new, without what was delivered before."""
        return delivered((await self.read(assignment)).blocks)


def delivered(blocks: tuple[LogBlock, ...]) -> bytes:
    return b"".join(block.data[block.overlap :] for block in blocks)


def of(reading: Reading, path: str) -> Coverage:
    return next(entry for entry in reading.coverage if entry.source == path)


def seen_at(reading: Reading) -> datetime | None:
    return reading.seen.at if reading.seen else None


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
