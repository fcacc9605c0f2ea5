"""`.relance.yaml`: other people's file on other people's file system."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from relance.controllers.slurm import wish_files
from relance.controllers.slurm.wish_files import FILE_NAME, Place, WishFiles, read_file

ME = os.geteuid()


def place(folder: Path, uid: int = ME) -> Place:
    return Place(work_dir=str(folder), owner_uid=uid)


def write(folder: Path, text: str) -> Path:
    path = folder / FILE_NAME
    path.write_text(text)
    return path


def test_settings_are_read_by_name(tmp_path: Path) -> None:
    write(tmp_path, "mode: act\nlogs: [a.log]\n")
    assert read_file(place(tmp_path)) == {"mode": "act", "logs": ["a.log"]}


def test_no_folder_no_file_and_an_empty_file_ask_for_nothing(tmp_path: Path) -> None:
    assert read_file(place(tmp_path / "nowhere")) is None
    assert read_file(place(tmp_path)) is None
    write(tmp_path, "")
    assert read_file(place(tmp_path)) == {}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("mode: [act", "YAML"),
        ("- act\n", "by name"),
        ("act", "by name"),
        ("!!python/object/apply:os.system [id]", "YAML"),
        ("a: &a [1]\nb: [*a, *a]\n", "anchors"),
        ("x: " + "y" * 5000, "4096"),
        ("[" * 3000, "YAML"),
        ("\x00", "YAML"),
    ],
)
def test_a_file_that_is_not_settings_says_so(tmp_path: Path, text: str, word: str) -> None:
    write(tmp_path, text)
    found = read_file(place(tmp_path))
    assert isinstance(found, str)
    assert word in found


def test_links_pipes_folders_and_files_of_others_are_not_read(tmp_path: Path) -> None:
    real = write(tmp_path, "mode: act")
    assert "belong" in str(read_file(place(tmp_path, ME + 1)))
    real.rename(tmp_path / "real")
    (tmp_path / FILE_NAME).symlink_to(tmp_path / "real")
    assert "link" in str(read_file(place(tmp_path)))
    (tmp_path / FILE_NAME).unlink()
    os.mkfifo(tmp_path / FILE_NAME)
    assert "regular" in str(read_file(place(tmp_path)))
    (tmp_path / FILE_NAME).unlink()
    (tmp_path / FILE_NAME).mkdir()
    assert "regular" in str(read_file(place(tmp_path)))


async def test_a_mount_that_hangs_stops_nobody_and_takes_no_more_than_a_few_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hanging(where: Place) -> None:
        if "dead" in where.work_dir:
            asyncio.run_coroutine_threadsafe(hangs.wait(), loop).result(60)

    monkeypatch.setattr(wish_files, "read_file", hanging)
    files = WishFiles(time_limit_s=0.05, most_threads=2)
    late = [await files.read(Place(work_dir=f"/dead/{number}", owner_uid=ME)) for number in range(3)]
    assert [found.is_final for found in late] == [False] * 3
    assert "does not answer" in str(late[0].in_file)
    assert "other jobs' folders" in str(late[2].in_file)
    hangs.set()
    while not (found := await files.read(Place(work_dir="/alive", owner_uid=ME))).is_final:
        pass
    assert found.in_file is None
