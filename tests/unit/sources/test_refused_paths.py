from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from relance.domain.faults import Scope
from relance.domain.findings import Sight
from relance.sources.files.disks import AbsentError, Disk, RefusedError
from relance.sources.files.patterns import expand
from tests.unit.sources.folders import Folder, delivered, of, open_descriptors

OURS = frozenset({os.getuid()})


@pytest_asyncio.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Folder]:
    root = tmp_path / "logs"
    root.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret\n")
    made = Folder(root)
    yield made
    await made.source.close()


def _link(root: Path) -> None:
    (root / "job.out").symlink_to(root.parent / "outside" / "secret")


def _link_within(root: Path) -> None:
    (root / "real.out").write_bytes(b"line\n")
    (root / "job.out").symlink_to(root / "real.out")


def _fifo(root: Path) -> None:
    os.mkfifo(root / "job.out")


def _socket(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(root)
        made.bind("job.out")


def _folder(root: Path) -> None:
    (root / "job.out").mkdir()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_link, "symbolic link"),
        (_link_within, "symbolic link"),
        (_fifo, "FIFO"),
        (_socket, "socket"),
        (_folder, "folder"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
async def test_what_is_no_plain_file_is_refused_with_a_remedy(
    folder: Folder, make: Callable[[Path], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.root)
    make(folder.root)
    job = folder.assignment("job.out")
    folder.follow(job)

    reading = await folder.read(job)

    entry = of(reading, folder.path("job.out"))
    assert entry.sight is Sight.REFUSED
    assert words in entry.note
    assert ":" in entry.note
    assert reading.blocks == ()
    assert reading.seen is None


def test_a_device_is_refused_and_never_opened() -> None:
    with pytest.raises(RefusedError, match="device"):
        Disk(["/dev"]).open("/dev/null", OURS)


async def test_a_link_on_the_way_is_refused(folder: Folder) -> None:
    (folder.root / "job").symlink_to(folder.root.parent / "outside")
    job = folder.assignment("job/secret", "job/*")
    folder.follow(job)

    reading = await folder.read(job)

    assert [entry.sight for entry in reading.coverage] == [Sight.REFUSED, Sight.REFUSED]
    assert "link" in of(reading, folder.path("job/secret")).note


async def test_a_path_outside_the_roots_is_refused_and_names_them(folder: Folder) -> None:
    outside = str(folder.root.parent / "outside" / "secret")
    job = folder.assignment(log_paths=(outside, f"{folder.root}/../outside/secret", "relative/path", "/etc/**"))
    folder.follow(job)

    reading = await folder.read(job)

    assert {entry.sight for entry in reading.coverage} == {Sight.REFUSED}
    assert str(folder.root) in of(reading, outside).note


async def test_a_folder_whose_name_only_begins_like_a_root_is_outside(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="outside"):
        Disk([str(tmp_path / "logs")]).look(str(tmp_path / "logs2" / "job.out"))


async def test_a_file_of_another_user_is_refused(folder: Folder) -> None:
    folder.append("job.out", b"line\n")
    job = folder.assignment("job.out", owner_uid=os.getuid() + 1)
    folder.follow(job)

    reading = await folder.read(job)

    entry = of(reading, folder.path("job.out"))
    assert (entry.sight, reading.blocks) == (Sight.REFUSED, ())
    assert f"belongs to user {os.getuid()}" in entry.note


async def test_a_kernel_log_must_belong_to_root_or_to_the_service(tmp_path: Path) -> None:
    folder = Folder(tmp_path, own_uid=os.getuid() + 1)
    folder.append("n1.log", b"")
    if os.getuid() == 0:
        os.chown(folder.path("n1.log"), 12345, -1)
    job = folder.assignment(kernel_logs=(("n1", folder.path("n1.log")),))
    folder.follow(job)

    entry = of(await folder.read(job), folder.path("n1.log"))

    assert (entry.sight, entry.scope) == (Sight.REFUSED, Scope.KERNEL)
    await folder.source.close()


async def test_a_refused_file_does_not_keep_the_others_from_being_seen(folder: Folder) -> None:
    folder.append("job.out", b"line\n")
    _link_away = folder.root / "other.out"
    _link_away.symlink_to("/etc/passwd")
    job = folder.assignment("job.out", "other.out")
    folder.follow(job)

    reading = await folder.read(job)

    assert delivered(reading.blocks) == b"line\n"
    assert reading.seen is not None


async def test_a_followed_path_that_becomes_a_link_stops_the_watermark(folder: Folder) -> None:
    folder.append("job.out", b"line\n")
    job = folder.assignment("job.out")
    folder.follow(job)
    await folder.read(job)

    folder.rename("job.out", "job.out.1")
    _link(folder.root)
    reading = await folder.read(job)

    assert reading.blocks == ()
    assert reading.seen is None


def test_a_file_without_the_right_to_read_it_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_bytes(b"line\n")
    (tmp_path / "job.out").chmod(0)
    disk = Disk([str(tmp_path)])
    if os.getuid() == 0:
        fd, _ = disk.open(str(tmp_path / "job.out"), OURS)  # root may read anything: there is nothing to refuse
        os.close(fd)
        return
    with pytest.raises(RefusedError, match="chmod"):
        disk.open(str(tmp_path / "job.out"), OURS)


def test_no_descriptor_is_left_behind_by_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_bytes(b"line\n")
    os.mkfifo(tmp_path / "fifo")
    disk = Disk([str(tmp_path)])
    before = open_descriptors()

    for name in ("fifo", "absent", "job.out/below", "a/b/c"):
        with pytest.raises((RefusedError, AbsentError)):
            disk.open(str(tmp_path / name), OURS)
    with pytest.raises(RefusedError, match="belongs"):
        disk.open(str(tmp_path / "job.out"), frozenset({os.getuid() + 1}))

    assert open_descriptors() == before


def test_a_glob_never_leaves_the_roots_and_skips_hidden_names(tmp_path: Path) -> None:
    for name in ("a.log", ".b.log", "c.txt"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "d.log").write_bytes(b"")
    disk = Disk([str(tmp_path)])

    assert expand(disk, f"{tmp_path}/*.log", 9) == ([f"{tmp_path}/a.log"], False)
    assert expand(disk, f"{tmp_path}/*/*.log", 9) == ([f"{tmp_path}/sub/d.log"], False)
    with pytest.raises(RefusedError, match="outside"):
        expand(disk, "/*/a.log", 9)


def test_a_glob_with_very_many_files_is_cut_and_says_so(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number:02}.log").write_bytes(b"")

    paths, cut = expand(Disk([str(tmp_path)]), f"{tmp_path}/*.log", 10)

    assert (len(paths), cut) == (10, True)


def test_a_folder_that_does_not_change_is_listed_rarely_and_one_that_does_at_once(tmp_path: Path) -> None:
    times = iter([0.0, 1.0, 2.0, 3.0, 3.1, 3.2, 40.0])
    disk = Disk([str(tmp_path)], lambda: next(times))
    (tmp_path / "a.log").write_bytes(b"")
    kept = [disk.names(str(tmp_path)) for _ in range(4)]

    assert kept[3] is kept[2]
    (tmp_path / "b.log").write_bytes(b"")
    assert set(disk.names(str(tmp_path))) == {"a.log", "b.log"}
    fresh = disk.names(str(tmp_path))
    assert disk.names(str(tmp_path)) is not fresh
