from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relance.domain.views import Assignment
from relance.sources.files.disks import AbsentError, Disk, Entry, RefusedError
from relance.sources.files.growths import Extent, FolderRequest, extent_of
from tests.unit.sources.folders import Folder, delivered, open_descriptors

OURS = frozenset({os.getuid()})
TRIES = 200


class SlowDisk(Disk):
    """A disk on which looks at folders do not come back until they are let go."""

    def __init__(self, root: Path) -> None:
        super().__init__([str(root)])
        self.free = threading.Event()
        self.asked: list[str] = []

    def entries(self, folder: str, owners: frozenset[int], at_most: int) -> tuple[Entry, ...]:
        self.asked.append(folder)
        self.free.wait()
        return super().entries(folder, owners, at_most)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[SlowDisk]:
    made = SlowDisk(tmp_path)
    yield made
    made.free.set()


def _look(root: Path, path: Path, *, at_most: int = 1000, logs: tuple[Path, ...] = ()) -> Extent:
    known = frozenset((status.st_dev, status.st_ino) for status in (log.stat() for log in logs))
    return extent_of(Disk([str(root)]), FolderRequest(path=str(path), owners=OURS, logs=known, at_most=at_most))


def _write(path: Path, size_bytes: int, changed_at_s: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"x" * size_bytes)
    os.utime(path, (changed_at_s, changed_at_s))
    os.utime(path.parent, (0, 0))


def test_size_and_newest_change_count_one_level_deep(tmp_path: Path) -> None:
    _write(tmp_path / "latest.txt", 5, 10)
    _write(tmp_path / "iter_20" / "shard", 100, 20)
    _write(tmp_path / "iter_20" / "deeper" / "file", 1000, 30)
    for path in (tmp_path / "iter_20", tmp_path):
        os.utime(path, (0, 0))

    seen = _look(tmp_path, tmp_path)

    assert (seen.size_bytes, seen.changed_ns) == (105, 20 * 10**9)


def test_growth_is_a_later_change_or_more_bytes_and_nothing_else(tmp_path: Path) -> None:
    _write(tmp_path / "shard", 100, 50)
    before = _look(tmp_path, tmp_path)
    _write(tmp_path / "shard", 100, 50)
    larger = _look(tmp_path, tmp_path)
    os.utime(tmp_path / "shard", (60, 60))
    later = _look(tmp_path, tmp_path)

    assert (larger.is_beyond(before), later.is_beyond(larger)) == (True, True)
    assert not later.is_beyond(later)
    assert not before.is_beyond(larger)


def test_a_log_in_the_folder_is_no_part_of_it(tmp_path: Path) -> None:
    _write(tmp_path / "shard", 100, 50)
    _write(tmp_path / "job.out", 7, 90)

    seen = _look(tmp_path, tmp_path, logs=(tmp_path / "job.out",))

    assert (seen.size_bytes, seen.changed_ns) == (100, 50 * 10**9)


def test_a_full_folder_is_counted_up_to_a_bound_and_what_changed_last_comes_first(tmp_path: Path) -> None:
    for step in range(5):
        for shard in range(10):
            _write(tmp_path / f"iter_{step}" / f"{shard}", 1, 100)
        os.utime(tmp_path / f"iter_{step}", (step, step))
    _write(tmp_path / "iter_4" / "0", 500, 100)
    os.utime(tmp_path / "iter_4", (9, 9))
    os.utime(tmp_path, (0, 0))

    seen = _look(tmp_path, tmp_path, at_most=17)

    assert seen.size_bytes == 510
    assert seen.entries <= 18


def test_a_link_a_foreign_folder_and_what_lies_outside_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "ckpt").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (root / "link").symlink_to(root / "ckpt")
    (root / "way").symlink_to(tmp_path / "outside")
    (root / "file").write_bytes(b"")
    disk = Disk([str(root)])
    before = open_descriptors()

    for path in (root / "link", root / "way", root / "way" / "x", root / "file", tmp_path / "outside", Path("ckpt")):
        with pytest.raises(RefusedError):
            disk.entries(str(path), OURS, 10)
    with pytest.raises(RefusedError, match="belongs to user"):
        disk.entries(str(root / "ckpt"), frozenset({os.getuid() + 1}), 10)
    with pytest.raises(AbsentError):
        disk.entries(str(root / "absent"), OURS, 10)

    assert open_descriptors() == before


def test_links_and_special_files_in_a_folder_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "ckpt" / "latest").symlink_to(tmp_path / "other")
    os.mkfifo(tmp_path / "ckpt" / "fifo")
    (tmp_path / "ckpt" / "shard").write_bytes(b"x")

    names = [entry.name for entry in Disk([str(tmp_path)]).entries(str(tmp_path / "ckpt"), OURS, 10)]

    assert names == [".", "shard"]


async def test_a_folder_is_looked_at_at_its_interval(tmp_path: Path, slow: SlowDisk) -> None:
    slow.free.set()
    folder, (job,) = _following(tmp_path, slow, 1)
    for _ in range(TRIES):
        await folder.read(job)
        folder.clock.advance(0.1)

    assert len(slow.asked) == 1
    folder.clock.advance(30.0)
    await folder.read(job)
    await _until(folder, job, lambda: len(slow.asked) == 2)
    await folder.source.close()


async def test_a_folder_that_hangs_keeps_no_log_from_being_read_and_takes_one_thread(
    tmp_path: Path, slow: SlowDisk
) -> None:
    folder, jobs = _following(tmp_path, slow, 6)
    for _ in range(20):
        folder.append("job.out", b"line\n")
        for job in jobs:
            reading = await folder.read(job)
            assert (delivered(reading.blocks), reading.life) == (b"line\n", ())
            assert reading.seen is not None
        folder.clock.advance(31.0)

    assert len(slow.asked) == 1
    slow.free.set()
    await _until(folder, jobs[0], lambda: len(slow.asked) > 1)
    await folder.source.close()


async def test_closing_does_not_wait_for_a_folder_that_hangs(tmp_path: Path, slow: SlowDisk) -> None:
    folder, (job,) = _following(tmp_path, slow, 1)
    await folder.read(job)

    await folder.source.close()
    await folder.source.close()

    assert (await folder.read(job)).blocks == ()


def _following(root: Path, disk: Disk, count: int) -> tuple[Folder, list[Assignment]]:
    """Attempts with one log and one checkpoint folder, the same for all."""
    (root / "ckpt").mkdir()
    folder = Folder(root, disk=disk)
    jobs = [folder.assignment("job.out", raw_id=str(number)) for number in range(count)]
    folder.append("job.out", b"")
    folder.follow(*jobs)
    for job in jobs:
        folder.source.watch_folder(job.attempt, f"{folder.path('ckpt')}/")
    return folder, jobs


async def _until(folder: Folder, job: Assignment, is_so: Callable[[], bool]) -> None:
    for _ in range(TRIES):
        if is_so():
            return
        await asyncio.to_thread(lambda: None)
        await folder.read(job)
        folder.clock.advance(1.0)
    pytest.fail("did not come")
