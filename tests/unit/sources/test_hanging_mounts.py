from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from relance.domain.findings import Sight
from relance.domain.views import Assignment
from relance.sources.files.disks import AbsentError, Disk, RefusedError, Sighting
from relance.sources.files.mounts import network_devices
from tests.unit.sources.folders import Folder, delivered, of


class HangingDisk(Disk):
    """A disk on which looks at, or reads of, some files do not come back until they are let go."""

    def __init__(self, roots: list[str]) -> None:
        super().__init__(roots)
        self.hanging_looks: set[str] = set()
        self.hang_reads = False
        self.free = threading.Event()
        self.entered = threading.Event()

    def looks(self, paths: Sequence[str]) -> list[Sighting | RefusedError | AbsentError]:
        if self.hanging_looks & set(paths):
            self.entered.set()
            self.free.wait()
        return super().looks(paths)

    def read(self, fd: int, size_bytes: int, offset: int) -> bytes:
        if self.hang_reads:
            self.entered.set()
            self.free.wait()
        return super().read(fd, size_bytes, offset)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[HangingDisk]:
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    made = HangingDisk([str(tmp_path / "good"), str(tmp_path / "bad")])
    yield made
    made.free.set()


async def test_a_path_that_hangs_is_not_waited_for_and_the_others_are_read(disk: HangingDisk, tmp_path: Path) -> None:
    folder = Folder(tmp_path, disk=disk)
    folder.append("good/job.out", b"one\n")
    folder.append("bad/job.out", b"of the bad mount\n")
    disk.hanging_looks = {folder.path("bad/job.out")}
    job = folder.assignment("bad/job.out", "good/job.out")
    folder.follow(job)

    reading = asyncio.create_task(folder.read(job))
    await asyncio.to_thread(disk.entered.wait)
    await _pass_limit(folder)
    first = await reading
    second = await folder.read(job)

    assert delivered(first.blocks) + delivered(second.blocks) == b"one\n"
    assert of(second, folder.path("bad/job.out")).sight is Sight.LAGGING
    assert second.seen is None
    disk.free.set()
    assert await _until_seen(folder, job) == b"of the bad mount\n"
    await folder.source.close()


async def test_what_a_hanging_read_gave_in_the_end_is_delivered_once(disk: HangingDisk, tmp_path: Path) -> None:
    folder = Folder(tmp_path, disk=disk)
    folder.append("good/job.out", b"one\n")
    job = folder.assignment("good/job.out")
    folder.follow(job)
    assert (await folder.read(job)).seen is not None
    folder.append("good/job.out", b"two\n")
    disk.hang_reads = True

    reading = asyncio.create_task(folder.read(job))
    await asyncio.to_thread(disk.entered.wait)
    await _pass_limit(folder)
    first = await reading
    second = await folder.read(job)

    assert (first.blocks, first.seen, second.blocks, second.seen) == ((), None, (), None)
    assert of(second, folder.path("good/job.out")).sight is Sight.LAGGING
    disk.hang_reads = False
    disk.free.set()
    assert await _until_seen(folder, job) == b"two\n"
    await folder.source.close()


async def test_a_source_with_a_hanging_read_can_be_closed(disk: HangingDisk, tmp_path: Path) -> None:
    folder = Folder(tmp_path, disk=disk)
    folder.append("bad/job.out", b"")
    disk.hanging_looks = {folder.path("bad/job.out")}
    job = folder.assignment("bad/job.out")
    folder.follow(job)
    reading = asyncio.create_task(folder.read(job))
    await asyncio.to_thread(disk.entered.wait)
    await _pass_limit(folder)
    await reading

    folder.follow()
    await folder.source.close()
    await folder.source.close()

    assert (await folder.read(job)).blocks == ()


async def test_many_attempts_on_a_hanging_mount_hold_one_thread_each_at_most_until_it_is_known(
    disk: HangingDisk, tmp_path: Path
) -> None:
    folder = Folder(tmp_path, disk=disk, threads=2, threads_at_most=6)
    jobs = [folder.assignment(f"bad/{number}.out", raw_id=f"9{number}") for number in range(30)]
    disk.hanging_looks = {path for job in jobs for path in job.log_paths}
    folder.append("good/job.out", b"alive\n")
    good = folder.assignment("good/job.out")
    folder.follow(*jobs, good)

    before = threading.active_count()
    first = asyncio.create_task(folder.read(jobs[0]))
    await asyncio.to_thread(disk.entered.wait)
    await _pass_limit(folder)
    await first
    for job in jobs:
        await folder.read(job)

    assert await folder.text(good) == b"alive\n"
    assert threading.active_count() - before <= 4
    disk.free.set()
    await folder.source.close()


def test_network_file_systems_are_known_by_the_kernels_table() -> None:
    table = (
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "40 22 0:45 / /home rw,nosuid shared:2 master:3 - nfs4 server:/home rw,vers=4.2\n"
        "41 22 0:46 / /scratch rw - lustre mgs@tcp:/scratch rw\n"
        "42 22 0:47 / /mnt rw - fuse.sshfs user@host: rw\n"
        "broken\n"
    )

    assert {device & 0xFF for device in network_devices(table)} == {45, 46, 47}


async def _pass_limit(folder: Folder) -> None:
    for _ in range(3):
        await asyncio.sleep(0)
    folder.clock.advance(folder.settings.limit_s + 0.1)


async def _until_seen(folder: Folder, job: Assignment) -> bytes:
    text = b""
    while True:
        reading = await folder.read(job)
        text += delivered(reading.blocks)
        if reading.seen is not None:
            return text
        await asyncio.sleep(0)
