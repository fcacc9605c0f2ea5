from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path

import pytest_asyncio

from relance.domain.views import Assignment
from relance.sources.files.sources import FileSource
from relance.testing.source_contract import FolderSourceContract
from tests.unit.sources.folders import Folder


class FileStage:
    """Attempts that write a file each."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._opened: list[FileSource] = []

    async def open(self) -> FileSource:
        self._opened.append(self._folder.new_source())
        return self._opened[-1]

    def assignment(self, number: int = 0) -> Assignment:
        return self._folder.assignment(f"job-{number}.out", raw_id=str(number + 1))

    async def write(self, assignment: Assignment, lines: Sequence[bytes]) -> None:
        self._folder.append(Path(assignment.log_paths[0]).name, b"".join(lines))

    def folder(self, assignment: Assignment) -> str:
        return self._folder.path(f"ckpt-{assignment.attempt.job.raw_id}")

    def linked(self, folder: str) -> str:
        link = Path(f"{folder}-link")
        link.symlink_to(folder)
        return str(link)

    async def grow(self, assignment: Assignment) -> None:
        inner = Path(self.folder(assignment)) / "iter_0000020"
        inner.mkdir(parents=True, exist_ok=True)
        with (inner / "shard").open("ab") as shard:
            shard.write(b"weights")

    def now(self) -> datetime:
        return self._folder.clock.now()

    async def pass_time(self, duration_s: float) -> None:
        self._folder.clock.advance(duration_s)

    async def close(self) -> None:
        for source in self._opened:
            await source.close()


class TestFileSource(FolderSourceContract):
    @pytest_asyncio.fixture
    async def stage(self, tmp_path: Path) -> AsyncIterator[FileStage]:
        made = FileStage(Folder(tmp_path))
        yield made
        await made.close()
