from __future__ import annotations

import os
from pathlib import Path

import pytest

from relance.config.caches import FolderCache, default_cache_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "relance"


def test_what_was_put_comes_back(folder: Path) -> None:
    FolderCache(folder).put("a-1", b"\x00text")
    assert FolderCache(folder).get("a-1") == b"\x00text"
    assert FolderCache(folder).get("a-2") is None


def test_nobody_else_can_read_or_write_it(folder: Path) -> None:
    FolderCache(folder).put("a", b"text")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "a").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("place", ["file", "folder"])
def test_what_others_may_write_to_is_not_trusted(folder: Path, place: str) -> None:
    FolderCache(folder).put("a", b"text")
    (folder / "a" if place == "file" else folder).chmod(0o777)
    assert FolderCache(folder).get("a") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("place", ["file", "folder"])
def test_what_belongs_to_somebody_else_is_not_trusted(folder: Path, place: str) -> None:
    FolderCache(folder).put("a", b"text")
    os.chown(folder / "a" if place == "file" else folder, 65534, 65534)
    assert FolderCache(folder).get("a") is None


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    FolderCache(folder).put("a", b"text")
    (folder / "a").rename(tmp_path / "elsewhere")
    (folder / "a").symlink_to(tmp_path / "elsewhere")
    assert FolderCache(folder).get("a") is None


def test_a_damaged_file_is_as_if_it_were_not_there(folder: Path) -> None:
    FolderCache(folder).put("a", b"some text")
    kept = (folder / "a").read_bytes()
    (folder / "a").write_bytes(kept[:-1])
    assert FolderCache(folder).get("a") is None
    (folder / "a").write_bytes(b"")
    assert FolderCache(folder).get("a") is None


def test_a_folder_that_cannot_be_made_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = FolderCache(tmp_path / "file" / "relance")
    cache.put("a", b"text")
    assert cache.get("a") is None


def test_old_files_make_room(folder: Path) -> None:
    cache = FolderCache(folder)
    for number in range(60):
        cache.put(f"a-{number}", b"text")
        os.utime(folder / f"a-{number}", (number, number))
    assert len(list(folder.iterdir())) <= 41
    assert cache.get("a-59") == b"text"


def test_the_folder_is_where_the_user_wants_caches() -> None:
    assert default_cache_folder({"XDG_CACHE_HOME": "/var/tmp/c", "HOME": "/home/lea"}) == Path("/var/tmp/c/relance")
    assert default_cache_folder({"HOME": "/home/lea"}) == Path("/home/lea/.cache/relance")
