from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from relance.domain.faults import Scope
from relance.domain.findings import Sight
from relance.domain.observations import LogBlock
from tests.unit.sources.folders import Folder, delivered, of, open_descriptors, seen_at


@pytest_asyncio.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Folder]:
    made = Folder(tmp_path)
    yield made
    await made.source.close()


async def test_whole_lines_are_delivered_and_an_unfinished_one_waits_for_its_end(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.append("job.out", b"one\ntwo\nthr")
    folder.follow(job)

    first = await folder.read(job)
    folder.append("job.out", b"ee\n")
    second = await folder.read(job)

    assert [(block.offset, block.line, block.data) for block in first.blocks] == [(0, 1, b"one\ntwo\n")]
    assert [(block.offset, block.line, block.data) for block in second.blocks] == [(8, 3, b"three\n")]


async def test_an_unfinished_last_line_is_delivered_when_the_attempt_has_ended(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.append("job.out", b"one\nlast words")
    folder.follow(job)
    assert await folder.text(job) == b"one\n"

    folder.follow(folder.assignment("job.out", ended_at=folder.clock.now()))

    assert await folder.text(job) == b"last words"
    folder.append("job.out", b"the next attempt")
    assert await folder.text(job) == b""


async def test_a_progress_bar_without_newlines_is_delivered_update_by_update(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.append("job.out", b"10%\r20%\r")
    folder.follow(job)

    assert await folder.text(job) == b"10%\r"
    folder.append("job.out", b"30%\r40%")
    assert await folder.text(job) == b"20%\r30%\r"
    folder.append("job.out", b"\r\ndone\r\n")
    reading = await folder.read(job)
    assert delivered(reading.blocks) == b"40%\r\ndone\r\n"
    assert reading.blocks[0].line == 1


async def test_bytes_that_are_no_text_are_passed_on_as_they_are(folder: Folder) -> None:
    job = folder.assignment("job.out")
    data = bytes(range(256)).replace(b"\n", b"").replace(b"\r", b"") + b"\n"
    folder.append("job.out", data)
    folder.follow(job)

    assert await folder.text(job) == data


async def test_a_line_of_a_mebibyte_comes_in_pieces_that_overlap(folder: Folder) -> None:
    job = folder.assignment("job.out")
    line = b"".join(b"%07d " % number for number in range(131072)) + b"end\n"
    folder.append("job.out", b"before\n" + line)
    folder.follow(job)

    blocks: list[LogBlock] = []
    for _ in range(20):
        blocks += (await folder.read(job)).blocks

    assert delivered(tuple(blocks)) == b"before\n" + line
    assert all(len(block.data) <= 300 * 1024 for block in blocks)
    later = [block for block in blocks if block.overlap]
    assert later
    for block in later:
        assert block.data[: block.overlap] == (b"before\n" + line)[block.offset : block.offset + block.overlap]
        assert block.line == 2


async def test_a_line_held_back_is_cut_at_64_kibibytes(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.append("job.out", b"x" * (64 * 1024 - 1))
    folder.follow(job)

    assert await folder.text(job) == b""
    folder.append("job.out", b"x")
    assert await folder.text(job) == b"x" * 64 * 1024


async def test_an_empty_file_is_seen_to_its_end(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.append("job.out", b"")
    folder.follow(job)

    assert seen_at(await folder.read(job)) == folder.clock.now()


async def test_the_watermark_is_the_time_before_the_read_and_only_given_at_the_end(tmp_path: Path) -> None:
    folder = Folder(tmp_path, file_bytes=64 * 1024)
    job = folder.assignment("job.out")
    folder.append("job.out", b"x" * 99 + b"\n")
    folder.append("big.out", (b"y" * 99 + b"\n") * 2000)
    job = folder.assignment("job.out", "big.out")
    folder.follow(job)

    first = await folder.read(job)

    assert first.more
    assert first.seen is None
    readings = [await folder.read(job) for _ in range(3)]
    assert not readings[-1].more
    assert seen_at(readings[-1]) == folder.clock.now()
    await folder.source.close()


async def test_a_file_that_comes_late_is_found_by_its_glob(folder: Folder) -> None:
    job = folder.assignment("rank-*.log")
    folder.append("rank-0.log", b"zero\n")
    folder.follow(job)
    await folder.read(job)

    folder.append("rank-11.log", b"eleven\n")
    reading = await folder.read(job)

    assert [(block.rank, block.data) for block in reading.blocks] == [(11, b"eleven\n")]


@pytest.mark.parametrize(
    ("name", "rank"),
    [("rank-1.log", 1), ("rank3", 3), ("worker_2.err", 2), ("17_3.out", 3), ("slurm-17_3.out", None), ("job.out", None),
     ("rank-9.log", None)],
)  # fmt: skip
async def test_a_name_tells_the_rank_where_the_attempt_has_such_a_rank(
    folder: Folder, name: str, rank: int | None
) -> None:
    job = folder.assignment(name, ranks_per_node=2)
    folder.append(name, b"line\n")
    folder.follow(job)

    assert [block.rank for block in (await folder.read(job)).blocks] == [rank]


async def test_a_name_that_is_no_text_is_shown_as_text_and_followed_all_the_same(folder: Folder) -> None:
    os.close(os.open(os.fsencode(folder.root) + b"/job-\xff.log", os.O_CREAT, 0o644))
    name = os.fsdecode(b"job-\xff.log")
    folder.append(name, b"one\n")
    job = folder.assignment("job-*.log")
    folder.follow(job)
    first = await folder.read(job)
    await folder.source.close()

    folder.append(name, b"two\n")
    folder.source = folder.new_source()
    folder.follow(job, positions={job.attempt: json.loads(json.dumps(first.positions))})

    assert [block.file.encode() for block in first.blocks] == [folder.path("job-\ufffd.log").encode()]
    assert [entry.source.encode() for entry in first.coverage] == [folder.path("job-\ufffd.log").encode()]
    assert await folder.text(job) == b"two\n"


async def test_a_name_tells_the_node(folder: Folder) -> None:
    job = folder.assignment("out-*.log")
    folder.append("out-n2.log", b"line\n")
    folder.append("out-n22.log", b"line\n")
    folder.follow(job)

    assert [block.node for block in (await folder.read(job)).blocks] == ["n2", None]


async def test_a_rotated_file_is_read_to_its_end_before_the_new_one(folder: Folder) -> None:
    job = folder.assignment("job.out*")
    folder.append("job.out", b"one\n")
    folder.follow(job)
    await folder.read(job)

    folder.append("job.out", b"two\nthr")
    folder.rename("job.out", "job.out.1")
    folder.append("job.out", b"new one\n")
    folder.append("job.out.1", b"ee\n")

    assert await folder.text(job) == b"two\nthree\nnew one\n"
    folder.append("job.out.1", b"late words without an end")
    assert await folder.text(job) == b""
    folder.clock.advance(6)
    assert await folder.text(job) == b"late words without an end"
    folder.append("job.out", b"new two\n")
    assert await folder.text(job) == b"new two\n"


async def test_what_was_rotated_while_nobody_followed_is_found_by_its_inode(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.append("job.out", b"one\n")
    folder.follow(job)
    positions = (await folder.read(job)).positions
    await folder.source.close()

    folder.append("job.out", b"two\n")
    folder.rename("job.out", "job.out.2")
    folder.append("job.out.1", b"three\n")
    folder.append("job.out", b"four\n")
    folder.source = folder.new_source()
    folder.follow(job, positions={job.attempt: json.loads(json.dumps(positions))})

    assert await folder.text(job) == b"two\nthree\nfour\n"


async def test_what_was_rotated_away_for_good_is_a_counted_gap(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.append("job.out", b"one\nunfinished")
    folder.follow(job)
    positions = (await folder.read(job)).positions
    await folder.source.close()

    folder.rename("job.out", "elsewhere")
    folder.append("job.out", b"new\n")
    folder.source = folder.new_source()
    folder.follow(job, positions={job.attempt: positions})
    reading = await folder.read(job)

    assert delivered(reading.blocks) == b"new\n"
    assert of(reading, folder.path("job.out")).lost_bytes == len(b"unfinished")
    assert reading.seen is not None


async def test_a_truncated_file_is_read_from_its_beginning_and_the_loss_is_counted(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.append("job.out", b"one\ntwo\nunfinished")
    folder.follow(job)
    await folder.read(job)

    os.truncate(folder.path("job.out"), 0)
    folder.append("job.out", b"new\n")
    reading = await folder.read(job)

    assert [(block.offset, block.line, block.data) for block in reading.blocks] == [(0, 1, b"new\n")]
    assert of(reading, folder.path("job.out")).lost_bytes == len(b"unfinished")


async def test_a_file_truncated_and_grown_beyond_is_known_by_its_last_bytes(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.append("job.out", b"one\ntwo\n")
    folder.follow(job)
    await folder.read(job)

    os.truncate(folder.path("job.out"), 0)
    folder.append("job.out", b"something longer than before\n")

    assert await folder.text(job) == b"something longer than before\n"


async def test_a_path_with_a_new_file_of_the_same_inode_is_read_from_its_beginning(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.append("job.out", b"one\ntwo\n")
    folder.follow(job)
    positions = (await folder.read(job)).positions
    await folder.source.close()

    (folder.root / "job.out").write_bytes(b"another run entirely\n")
    folder.source = folder.new_source()
    folder.follow(job, positions={job.attempt: positions})

    assert await folder.text(job) == b"another run entirely\n"


async def test_the_next_attempt_begins_where_the_last_one_ended(folder: Folder) -> None:
    first = folder.assignment("job.out")
    folder.append("job.out", b"first attempt\n")
    folder.follow(first)
    await folder.read(first)

    folder.follow(folder.assignment("job.out", ended_at=folder.clock.now()))
    await folder.read(first)
    folder.append("job.out", b"second attempt\n")
    second = folder.assignment("job.out", restart_count=1)
    folder.follow(first, second)

    assert await folder.text(first) == b""
    assert await folder.text(second) == b"second attempt\n"


async def test_the_next_attempt_may_truncate_the_log_without_a_loss(folder: Folder) -> None:
    first = folder.assignment("job.out")
    folder.append("job.out", b"first attempt\n")
    folder.follow(first)
    await folder.read(first)
    folder.follow()

    (folder.root / "job.out").write_bytes(b"second\n")
    second = folder.assignment("job.out", restart_count=1)
    folder.follow(second)
    reading = await folder.read(second)

    assert delivered(reading.blocks) == b"second\n"
    assert of(reading, folder.path("job.out")).lost_bytes == 0


async def test_the_positions_of_an_earlier_attempt_say_where_this_one_begins(folder: Folder) -> None:
    first = folder.assignment("job.out")
    folder.append("job.out", b"first attempt\n")
    folder.follow(first)
    positions = (await folder.read(first)).positions
    await folder.source.close()

    folder.append("job.out", b"second attempt\n")
    second = folder.assignment("job.out", restart_count=1)
    folder.source = folder.new_source()
    folder.follow(second, positions={second.attempt: positions})

    assert await folder.text(second) == b"second attempt\n"


async def test_a_log_last_written_before_the_attempt_began_holds_nothing_of_it(folder: Folder) -> None:
    folder.append("job.out", b"some other job\n")
    began = folder.clock.now()
    os.utime(folder.path("job.out"), (began.timestamp() - 3600,) * 2)
    job = folder.assignment("job.out", started_at=began)
    folder.follow(job)

    assert await folder.text(job) == b""
    folder.append("job.out", b"this one\n")
    assert await folder.text(job) == b"this one\n"


async def test_kernel_lines_count_from_a_minute_before_the_attempt_by_their_own_time(folder: Folder) -> None:
    began = folder.clock.now()  # 2026-01-01T00:00:00Z
    folder.append("n1.log", b"2025-12-31T23:00:00Z n1 kernel: old\n2025-12-31T23:59:30+00:00 n1 kernel: just before\n")
    job = folder.assignment(kernel_logs=(("n1", folder.path("n1.log")),), started_at=began)
    folder.follow(job)

    first = await folder.read(job)
    folder.append("n1.log", b"2026-01-01T00:10:00Z n1 kernel: later\n")
    second = await folder.read(job)

    assert delivered(first.blocks) == b"2025-12-31T23:59:30+00:00 n1 kernel: just before\n"
    assert [(block.scope, block.node, block.data) for block in second.blocks] == [
        (Scope.KERNEL, "n1", b"2026-01-01T00:10:00Z n1 kernel: later\n")
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([b"Dec 31 23:00:00 n1 kernel: old", b"Jan  1 00:00:10 n1 kernel: new"], b"Jan  1 00:00:10 n1 kernel: new\n"),
        ([b"2026-01-01T00:00:01Z new", b" its second line"], b"2026-01-01T00:00:01Z new\n its second line\n"),
        ([b"2025-12-31T20:00:00Z old", b" its second line"], b""),
        ([b"2025-12-31T20:00:00Z old"] * 5000 + [b"2026-01-01T00:00:01Z new"], b"2026-01-01T00:00:01Z new\n"),
    ],
    ids=["syslog", "new with more", "old with more", "many"],
)
async def test_the_first_kernel_line_that_counts_is_found_by_its_time(
    folder: Folder, lines: list[bytes], expected: bytes
) -> None:
    began = folder.clock.now()
    folder.clock.advance(60)
    folder.append("n1.log", b"".join(line + b"\n" for line in lines))
    job = folder.assignment(kernel_logs=(("n1", folder.path("n1.log")),), started_at=began)
    folder.follow(job)

    assert await folder.text(job) == expected


async def test_kernel_lines_without_a_time_count_from_first_sight(folder: Folder) -> None:
    folder.append("n1.log", b"[ 17.0] old\n")
    job = folder.assignment(kernel_logs=(("n1", folder.path("n1.log")),), started_at=folder.clock.now())
    folder.follow(job)

    assert await folder.text(job) == b""
    folder.append("n1.log", b"[ 18.0] new\n")
    assert await folder.text(job) == b"[ 18.0] new\n"


async def test_kernel_lines_that_come_after_the_attempts_end_are_still_delivered(folder: Folder) -> None:
    kernel = (("n1", folder.path("n1.log")),)
    folder.append("n1.log", b"")
    folder.append("job.out", b"line\n")
    job = folder.assignment("job.out", kernel_logs=kernel, ended_at=folder.clock.now())
    folder.follow(job)
    await folder.read(job)

    folder.append("n1.log", b"Xid 79\n")
    folder.append("job.out", b"of the next attempt\n")
    reading = await folder.read(job)

    assert delivered(reading.blocks) == b"Xid 79\n"
    assert reading.seen is not None


async def test_an_attempt_that_has_ended_is_seen_up_to_later_times_as_well(folder: Folder) -> None:
    folder.append("job.out", b"line\n")
    job = folder.assignment("job.out", ended_at=folder.clock.now())
    folder.follow(job)
    await folder.read(job)
    folder.clock.advance(10)

    assert seen_at(await folder.read(job)) == folder.clock.now()


async def test_a_full_budget_pauses_that_file_and_no_other(tmp_path: Path) -> None:
    folder = Folder(tmp_path, file_bytes=64 * 1024, read_bytes=128 * 1024)
    folder.append("noisy.out", (b"x" * 1023 + b"\n") * 1000)
    folder.append("quiet.out", b"said once\n")
    job = folder.assignment("noisy.out", "quiet.out")
    folder.follow(job)

    reading = await folder.read(job)

    assert {block.file for block in reading.blocks} == {folder.path("noisy.out"), folder.path("quiet.out")}
    assert of(reading, folder.path("noisy.out")).sight is Sight.LAGGING
    assert of(reading, folder.path("quiet.out")).sight is Sight.SEEN
    await folder.source.close()


async def test_a_job_may_have_so_many_bytes_a_second(tmp_path: Path) -> None:
    folder = Folder(tmp_path, read_bytes=64 * 1024, job_bytes_per_s=64.0 * 1024)
    folder.append("noisy.out", (b"x" * 1023 + b"\n") * 1000)
    job = folder.assignment("noisy.out")
    folder.follow(job)

    sizes = [len(await folder.text(job)) for _ in range(3)]
    folder.clock.advance(1)
    sizes.append(len(await folder.text(job)))

    assert sizes == [65536, 0, 0, 65536]
    await folder.source.close()


async def test_no_more_files_are_open_than_allowed(tmp_path: Path) -> None:
    folder = Folder(tmp_path, open_files=6)
    jobs = [folder.assignment(f"{name}-*.log", raw_id=name) for name in "ab"]
    for name in "ab":
        for number in range(4):
            folder.append(f"{name}-{number}.log", b"one\n")
    before = open_descriptors()
    folder.follow(*jobs)
    for _ in range(3):
        for job in jobs:
            await folder.read(job)
        assert open_descriptors() - before <= 6
    folder.append("a-0.log", b"two\n")

    assert await folder.text(jobs[0]) == b"two\n"
    await folder.source.close()
    assert open_descriptors() <= before


async def test_more_log_paths_than_sixteen_are_refused_by_name(folder: Folder) -> None:
    job = folder.assignment(*(f"{number}.out" for number in range(17)))
    folder.follow(job)

    entry = of(await folder.read(job), folder.path("16.out"))

    assert entry.sight is Sight.REFUSED
    assert "more than 16" in entry.note


async def test_a_log_that_is_not_there_is_missing_and_nothing_is_seen(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.follow(job)

    reading = await folder.read(job)

    assert of(reading, folder.path("job.out")).sight is Sight.MISSING
    assert reading.seen is None


async def test_a_log_that_is_gone_is_told_of_once_nothing_of_it_is_open(folder: Folder) -> None:
    job = folder.assignment("logs/job.out")
    (folder.root / "logs").mkdir()
    folder.append("logs/job.out", b"one\n")
    folder.follow(job)
    positions = (await folder.read(job)).positions
    folder.rename("logs", "elsewhere")
    folder.append("elsewhere/job.out", b"two\n")

    assert await folder.text(job) == b"two\n"
    await folder.source.close()
    folder.source = folder.new_source()
    folder.follow(job, positions={job.attempt: positions})
    await folder.read(job)
    reading = await folder.read(job)

    gone = of(reading, folder.path("logs/job.out"))
    assert (gone.sight, reading.seen) == (Sight.MISSING, None)
    assert "gone" in gone.note
    folder.rename("elsewhere", "logs")
    assert await folder.text(job) + await folder.text(job) == b"two\n"
    assert of(await folder.read(job), folder.path("logs/job.out")).sight is Sight.SEEN


async def test_the_last_part_of_each_file_is_kept_masked_from_the_start_of_a_line(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.append("job.out", b"x" * 100 + b"\nAWS_SECRET_ACCESS_KEY=abcdefghijklmnopqrstuvwxyz0123456789ABCD\nend\n")
    folder.follow(job)
    await folder.read(job)

    (kept,) = await folder.source.tails(job.attempt, 120)

    assert kept.start_offset == 101
    assert kept.data.startswith(b"AWS_SECRET_ACCESS_KEY=")
    assert b"abcdefghijklm" not in kept.data
    assert kept.data.endswith(b"\nend\n")


async def test_the_kept_part_holds_nothing_of_an_earlier_attempt(folder: Folder) -> None:
    first = folder.assignment("job.out")
    folder.append("job.out", b"first\n")
    folder.follow(first)
    await folder.read(first)
    second = folder.assignment("job.out", restart_count=1)
    folder.follow(second)
    folder.append("job.out", b"second\n")
    await folder.read(second)

    (kept,) = await folder.source.tails(second.attempt, 1000)

    assert (kept.start_offset, kept.data) == (6, b"second\n")


async def test_a_log_that_was_truncated_by_the_next_attempt_is_not_kept_for_the_last_one(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.append("job.out", b"first attempt\n")
    folder.follow(job)
    await folder.read(job)

    (folder.root / "job.out").write_bytes(b"the next attempt's\n")

    assert await folder.source.tails(job.attempt, 1000) == ()


async def test_the_kept_parts_of_one_attempt_are_two_mebibytes_together_at_most(folder: Folder) -> None:
    job = folder.assignment("rank-*.log")
    for number in range(20):
        folder.append(f"rank-{number}.log", b"x" * 127 * 1024 + b"\n" + b"y" * 127 * 1024 + b"\n")
    folder.follow(job)
    for _ in range(12):
        await folder.read(job)

    kept = await folder.source.tails(job.attempt, 256 * 1024)

    assert len(kept) >= 8
    assert sum(len(each.data) for each in kept) <= 2 * 1024 * 1024


async def test_reading_becomes_rarer_while_nothing_comes_and_quick_again_when_it_does(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.append("job.out", b"")
    folder.follow(job)
    waits: list[float] = []
    for _ in range(90):
        waits.append(await _wait_until_due(folder))
        await folder.read(job)

    folder.append("job.out", b"line\n")
    await folder.read(job)

    assert waits[0] == 0
    assert waits[1] <= 0.4
    assert waits[12] == pytest.approx(2.0, abs=0.11)
    assert max(waits) == pytest.approx(15.0, abs=0.11)
    assert await _wait_until_due(folder) == pytest.approx(0.2, abs=0.11)


async def test_who_waits_while_an_attempt_is_read_is_told_its_next_turn(folder: Folder) -> None:
    job = folder.assignment("job.out")
    folder.append("job.out", b"line\n")
    folder.follow(job)
    assert await folder.source.changed(0)
    reading = asyncio.create_task(folder.read(job))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(folder.source.changed(5))

    await reading
    await asyncio.sleep(0)
    folder.clock.advance(0.5)

    async with asyncio.timeout(60):
        assert await waiting == {job.attempt}


async def _wait_until_due(folder: Folder) -> float:
    began = folder.clock.monotonic()
    while not await folder.source.changed(0):
        folder.clock.advance(0.1)
    return folder.clock.monotonic() - began
