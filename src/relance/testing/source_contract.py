"""The contract of `relance.ports.sources.Source`, as tests that every implementation runs.

A test class of one's own inherits from `SourceContract` and has a fixture `stage` that gives a `SourceStage`: a world
in which attempts write log lines, and sources that look at it. A source that can look at folders inherits from
`FolderSourceContract` and has a `FolderStage`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from relance.domain.findings import Sight
from relance.domain.observations import LogBlock
from relance.domain.views import Assignment
from relance.ports.sources import Reading, Source

_READS_AT_MOST = 100
_LOOK_S = 31.0
"""A folder is looked at again after half a minute at the latest."""
_LIFE_TIMES = 3
_WAIT_S = 0.2
_SECRET = b"password=correct-horse-battery-staple"


class SourceStage(Protocol):
    """A world for a source's tests."""

    async def open(self) -> Source:
        """A new source that looks at this world; the stage closes it."""
        ...

    def assignment(self, number: int = 0) -> Assignment:
        """How to follow one of several attempts."""
        ...

    async def write(self, assignment: Assignment, lines: Sequence[bytes]) -> None:
        """Have an attempt write whole lines, each with its newline."""
        ...

    def now(self) -> datetime:
        """The time of the source's clock."""
        ...

    async def pass_time(self, duration_s: float) -> None:
        """Let time go by for the source's clock, or, where that is the machine's own, some of it."""
        ...


class FolderStage(SourceStage, Protocol):
    """A world with folders, too."""

    def folder(self, assignment: Assignment) -> str:
        """The folder in which an attempt saves its checkpoints."""
        ...

    def linked(self, folder: str) -> str:
        """Another path of a folder, through a link; where there are no links a path of nothing."""
        ...

    async def grow(self, assignment: Assignment) -> None:
        """Have something written below the attempt's folder."""
        ...


async def read_all(stage: SourceStage, source: Source, assignment: Assignment) -> tuple[bytes, Reading]:
    """Read until the source says that it was at the end after this was called: everything new, and the last reading."""
    asked_at = stage.now()
    text = b""
    for _ in range(_READS_AT_MOST):
        reading = await source.read(assignment.attempt)
        text += new_bytes(reading.blocks)
        if reading.seen is not None and reading.seen.at >= asked_at:
            return text, reading
        if not reading.more:
            await stage.pass_time(_WAIT_S)
    message = f"not at the end after {_READS_AT_MOST} reads"
    raise AssertionError(message)


async def read_all_of(source: Source, assignment: Assignment) -> None:
    """Read a few times, whether anything is there or not."""
    for _ in range(3):
        await source.read(assignment.attempt)


async def growths(stage: FolderStage, source: Source, grown: Assignment, read: Sequence[Assignment]) -> list[int]:
    """How many readings told life, of each attempt, while the folder of one grew; until that one's was told thrice."""
    counts = [0] * len(read)
    for _ in range(_READS_AT_MOST):
        await stage.grow(grown)
        await stage.pass_time(_LOOK_S)
        for index, assignment in enumerate(read):
            counts[index] += bool((await source.read(assignment.attempt)).life)
        if counts[read.index(grown)] >= _LIFE_TIMES:
            return counts
    message = f"no life after {_READS_AT_MOST} reads"
    raise AssertionError(message)


def new_bytes(blocks: Sequence[LogBlock]) -> bytes:
    """The bytes of blocks, without what was delivered before."""
    return b"".join(block.data[block.overlap :] for block in blocks)


class SourceContract:
    """What every source promises."""

    async def test_lines_are_delivered_in_order_and_once(self, stage: SourceStage) -> None:
        source, job = await stage.open(), stage.assignment()
        source.assign([job], {})
        await stage.write(job, [b"one\n", b"two\n"])
        first, _ = await read_all(stage, source, job)
        await stage.write(job, [b"three\n"])
        second, _ = await read_all(stage, source, job)
        third, _ = await read_all(stage, source, job)
        assert (first, second, third) == (b"one\ntwo\n", b"three\n", b"")

    async def test_a_source_opened_anew_goes_on_from_the_positions(self, stage: SourceStage) -> None:
        source, job = await stage.open(), stage.assignment()
        source.assign([job], {})
        await stage.write(job, [b"one\n"])
        _, reading = await read_all(stage, source, job)
        await source.close()

        await stage.write(job, [b"two\n"])
        again = await stage.open()
        again.assign([job], {job.attempt: json.loads(json.dumps(reading.positions))})
        assert (await read_all(stage, again, job))[0] == b"two\n"

    async def test_positions_of_an_earlier_reading_give_what_came_after_it(self, stage: SourceStage) -> None:
        source, job = await stage.open(), stage.assignment()
        source.assign([job], {})
        await stage.write(job, [b"one\n"])
        _, reading = await read_all(stage, source, job)
        await stage.write(job, [b"two\n"])
        await read_all(stage, source, job)

        source.assign([], {})
        source.assign([job], {job.attempt: reading.positions})
        assert (await read_all(stage, source, job))[0] == b"two\n"

    async def test_positions_that_make_no_sense_are_no_positions(self, stage: SourceStage) -> None:
        source, job = await stage.open(), stage.assignment()
        await stage.write(job, [b"one\n"])
        source.assign([job], {job.attempt: {"version": -1, "what": ["is", "this"]}})
        assert (await read_all(stage, source, job))[0] == b"one\n"

    async def test_the_watermark_is_never_later_than_the_read_and_never_goes_back(self, stage: SourceStage) -> None:
        source, job = await stage.open(), stage.assignment()
        source.assign([job], {})
        marks = []
        for number in range(5):
            await stage.write(job, [b"line %d\n" % number])
            _, reading = await read_all(stage, source, job)
            assert reading.seen is not None
            assert reading.seen.source == source.name
            assert reading.seen.at <= stage.now()
            marks.append(reading.seen.at)
            await stage.pass_time(3)
        assert marks == sorted(marks)

    async def test_an_attempt_that_has_written_nothing_may_be_unseen_but_gives_nothing(
        self, stage: SourceStage
    ) -> None:
        source, job = await stage.open(), stage.assignment()
        source.assign([job], {})
        reading = await source.read(job.attempt)
        assert reading.blocks == ()
        assert not any(entry.sight is Sight.SEEN and entry.up_to is None for entry in reading.coverage)

    async def test_attempts_do_not_share_lines(self, stage: SourceStage) -> None:
        source, one, two = await stage.open(), stage.assignment(0), stage.assignment(1)
        source.assign([one, two], {})
        await stage.write(one, [b"of one\n"])
        await stage.write(two, [b"of two\n"])
        assert (await read_all(stage, source, one))[0] == b"of one\n"
        assert (await read_all(stage, source, two))[0] == b"of two\n"

    async def test_an_attempt_that_is_not_assigned_gives_nothing(self, stage: SourceStage) -> None:
        source, job = await stage.open(), stage.assignment()
        await stage.write(job, [b"one\n"])
        reading = await source.read(job.attempt)
        assert (reading.blocks, reading.seen, reading.more) == ((), None, False)
        assert await source.tails(job.attempt, 1000) == ()

    async def test_many_lines_come_in_several_readings_that_say_that_there_is_more(self, stage: SourceStage) -> None:
        source, job = await stage.open(), stage.assignment()
        source.assign([job], {})
        lines = [b"%06d %s\n" % (number, b"x" * 1000) for number in range(3000)]
        await stage.write(job, lines)
        text = b""
        readings: list[Reading] = []
        while len(text) < sum(map(len, lines)):
            readings.append(await source.read(job.attempt))
            text += new_bytes(readings[-1].blocks)
            assert len(readings) < _READS_AT_MOST
            if not readings[-1].more:
                await stage.pass_time(_WAIT_S)
        assert text == b"".join(lines)
        assert all(sum(len(block.data) for block in reading.blocks) <= 2 * 1024 * 1024 for reading in readings)
        assert all(reading.seen is None for reading in readings if reading.more)
        assert any(reading.more for reading in readings)

    async def test_a_change_is_told_and_silence_is_an_empty_set(self, stage: SourceStage) -> None:
        source, job = await stage.open(), stage.assignment()
        source.assign([job], {})
        await read_all_of(source, job)
        await stage.write(job, [b"one\n"])
        told: frozenset[object] = frozenset()
        for _ in range(_READS_AT_MOST):
            told = frozenset(await source.changed(0))
            if told:
                break
            await stage.pass_time(0.2)
        assert told == {job.attempt}
        source.assign([], {})
        assert await source.changed(0) == frozenset()

    async def test_tails_are_bounded_masked_and_begin_with_a_line(self, stage: SourceStage) -> None:
        source, job = await stage.open(), stage.assignment()
        source.assign([job], {})
        await stage.write(job, [*(b"line %03d\n" % number for number in range(500)), _SECRET + b"\n", b"last\n"])
        await read_all(stage, source, job)
        (kept,) = await source.tails(job.attempt, 1000)
        assert len(kept.data) <= 1000
        assert kept.data.startswith(b"line ")
        assert kept.data.endswith(b"\nlast\n")
        assert b"correct-horse" not in kept.data

    async def test_a_source_may_be_closed_twice(self, stage: SourceStage) -> None:
        source, job = await stage.open(), stage.assignment()
        source.assign([job], {})
        await stage.write(job, [b"one\n"])
        await read_all(stage, source, job)
        await source.close()
        await source.close()


class FolderSourceContract(SourceContract):
    """What a source promises that can look at folders, beside all else."""

    async def test_a_checkpoint_folder_gives_life_while_it_grows_and_then_none(self, stage: FolderStage) -> None:
        source, job, other = await stage.open(), stage.assignment(0), stage.assignment(1)
        source.assign([job, other], {})
        await stage.grow(job)
        await stage.grow(other)
        for each in (job, other):
            source.watch_folder(each.attempt, stage.folder(each))
        assert await growths(stage, source, job, [job, other]) == [_LIFE_TIMES, 0]

        source.watch_folder(job.attempt, stage.folder(job))  # as before
        told = []
        for _ in range(_READS_AT_MOST):
            await stage.pass_time(_LOOK_S)
            told.append((await source.read(job.attempt)).life)
        assert not any(told[_READS_AT_MOST // 2 :])
        assert await growths(stage, source, job, [job]) == [_LIFE_TIMES]

    async def test_a_folder_behind_a_link_or_of_another_user_gives_no_life(self, stage: FolderStage) -> None:
        source, job, other = await stage.open(), stage.assignment(0), stage.assignment(1)
        stranger = replace(stage.assignment(2), owner_uid=job.owner_uid + 1)
        source.assign([job, other, stranger], {})
        await stage.grow(job)
        source.watch_folder(other.attempt, stage.linked(stage.folder(job)))
        source.watch_folder(stranger.attempt, stage.folder(job))
        source.watch_folder(job.attempt, stage.folder(job))
        assert await growths(stage, source, job, [other, stranger, job]) == [0, 0, _LIFE_TIMES]

    async def test_a_folder_of_an_attempt_that_is_not_followed_is_not_looked_at(self, stage: FolderStage) -> None:
        source, job, other = await stage.open(), stage.assignment(0), stage.assignment(1)
        source.assign([job], {})
        await stage.grow(job)
        for each in (job, other):
            source.watch_folder(each.attempt, stage.folder(job))
        assert await growths(stage, source, job, [job, other]) == [_LIFE_TIMES, 0]
