"""Every byte that was in a file at a read is delivered exactly once, or counted as lost, whatever befalls the file."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from relance.domain.observations import LogBlock
from relance.domain.views import Assignment
from tests.unit.sources.folders import Folder, of

APPENDS = st.tuples(
    st.just("append"), st.sampled_from([0, 1, 40, 3000, 70_000, 300_000]), st.sampled_from(["", "\n", "\r", "\r\n"])
)
STEPS = st.lists(
    st.one_of(
        APPENDS,
        APPENDS,
        st.tuples(st.just("read"), st.just(0), st.just("")),
        st.tuples(st.just("read"), st.just(0), st.just("")),
        st.tuples(st.just("rotate"), st.just(0), st.just("")),
        st.tuples(st.just("truncate"), st.just(0), st.just("")),
        st.tuples(st.just("restart"), st.just(0), st.just("")),
        st.tuples(st.just("roll back"), st.just(0), st.just("")),
    ),
    max_size=30,
)


@dataclass
class Part:
    """What was written to one file between its creation, or a truncation, and the next."""

    content: bytes = b""
    at_last_read: int = 0
    truncated: bool = False
    delivered: int = 0

    def takes(self, block: LogBlock) -> bool:
        """Whether a block is the next of this part."""
        new, begin = block.data[block.overlap :], block.offset + block.overlap
        return begin == self.delivered and self.content[begin : begin + len(new)] == new


@dataclass
class Story:
    """A log, what is done to it, and what was delivered."""

    folder: Folder
    job: Assignment
    parts: list[Part] = field(default_factory=lambda: [Part()])
    got: tuple[LogBlock, ...] = ()
    positions: Mapping[str, object] = field(default_factory=dict)
    kept: tuple[tuple[LogBlock, ...], Mapping[str, object]] = ((), {})
    count: int = 0
    rotations: int = 0
    lost_bytes: int = 0

    def append(self, size: int, end: str) -> None:
        self.count += 1
        data = (f"<{self.count:06}>" * (1 + size // 8) + end).encode()
        self.parts[-1].content += data
        self.folder.append("job.out", data)

    def rotate(self) -> None:
        for number in range(self.rotations, 0, -1):
            self.folder.rename(f"job.out.{number}", f"job.out.{number + 1}")
        self.folder.rename("job.out", "job.out.1")
        self.rotations += 1
        self.folder.append("job.out", b"")
        self.parts.append(Part())

    def truncate(self) -> None:
        os.truncate(self.folder.path("job.out"), 0)
        self.parts[-1].truncated = True
        self.parts.append(Part())

    async def read(self) -> None:
        for _ in range(50):
            reading = await self.folder.read(self.job)
            self.folder.clock.advance(1)
            self.got += reading.blocks
            self.positions = json.loads(json.dumps(reading.positions))
            self.lost_bytes = of(reading, self.folder.path("job.out")).lost_bytes
            if reading.seen is not None:
                break
        for part in self.parts:
            part.at_last_read = len(part.content) if not part.truncated else part.at_last_read

    async def restart(self) -> None:
        await self.folder.source.close()
        self.folder.source = self.folder.new_source()
        self.folder.follow(self.job, positions={self.job.attempt: self.positions} if self.positions else {})

    async def end(self) -> None:
        self.folder.clock.advance(10)
        await self.read()
        self.folder.follow(self.folder.assignment("job.out", ended_at=self.job.attempt.job.submitted_at))
        self.folder.clock.advance(10)
        await self.read()


async def play(steps: list[tuple[str, int, str]], root: Path, *, may_roll_back: bool) -> Story:
    folder = Folder(root, drain_s=2.0)
    story = Story(folder, folder.assignment("job.out"))
    folder.append("job.out", b"")
    folder.follow(story.job)
    await story.read()
    story.kept = (story.got, story.positions)
    for what, size, end in steps:
        if what == "append":
            story.append(size, end)
        elif what == "rotate":
            story.rotate()
        elif what == "truncate":
            story.truncate()
        elif what == "read":
            await story.read()
        elif what == "restart":
            await story.restart()
            story.kept = (story.got, story.positions)
        elif may_roll_back:  # what came since the last checkpoint was never handed over
            story.got, story.positions = story.kept
            await story.restart()
    await story.end()
    await folder.source.close()
    return story


def check(story: Story) -> int:
    """Each part whole and in order, a truncated one as far as it came; gives how many bytes seen are missing."""
    for block in story.got:
        part = next(part for part in story.parts if part.takes(block))
        part.delivered += len(block.data) - block.overlap
    for part in story.parts:
        assert part.truncated or part.delivered == len(part.content)
    return sum(max(part.at_last_read - part.delivered, 0) for part in story.parts)


@settings(max_examples=60)
@given(STEPS)
def test_every_byte_seen_is_delivered_exactly_once_or_counted_as_lost(steps: list[tuple[str, int, str]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        story = asyncio.run(play(steps, Path(root), may_roll_back=False))
        assert check(story) == story.lost_bytes


@settings(max_examples=60)
@given(STEPS)
def test_going_on_from_any_checkpoint_repeats_nothing_that_was_handed_over(steps: list[tuple[str, int, str]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        check(asyncio.run(play(steps, Path(root), may_roll_back=True)))
