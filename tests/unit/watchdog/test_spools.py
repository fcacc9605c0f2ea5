from __future__ import annotations

import resource
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from relance.domain.deeds import DEED_SUFFIX, SPOOL_FOLDER, TOLD_SUFFIX, DeedState, WatchdogDeed, deed_text, read_deed
from relance.watchdog.spools import KEEP, MOST_DEEDS, Spool, SpoolUnusableError
from tests.unit.watchdog.grounds import after, deed

NOW = after(2000)


def test_what_was_written_is_read_back_by_the_next_process(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.read(NOW)
    told = deed(DeedState.INTENDED)
    spool.write(told)
    spool.write(replace(told, state=DeedState.SILENT))
    again = Spool(tmp_path)
    again.read(NOW)
    assert list(again.deeds.values()) == [replace(told, state=DeedState.SILENT)]
    assert again.untold == 1
    place = tmp_path / SPOOL_FOLDER
    assert place.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in place.iterdir()] == [0o600]


def test_what_the_server_has_still_counts_for_a_while(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.read(NOW)
    spool.write(deed(DeedState.DONE))
    path = spool.folder / f"{deed(DeedState.DONE).id}{DEED_SUFFIX}"
    path.rename(path.with_suffix(TOLD_SUFFIX))
    for kept in (spool, Spool(tmp_path)):
        kept.read(NOW + KEEP - timedelta(days=1))
        assert (len(kept.deeds), kept.untold) == (1, 0)
    spool.read(NOW + KEEP + timedelta(days=1))
    assert spool.deeds == {}
    assert list(spool.folder.iterdir()) == []


def test_half_a_deed_on_a_full_disk_counts_as_none(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.read(NOW)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(SpoolUnusableError, match="cannot be written"):
            spool.write(deed(DeedState.INTENDED))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    again = Spool(tmp_path)
    again.read(NOW)
    assert (spool.deeds, again.deeds) == ({}, {})


def test_what_nobody_has_taken_is_never_dropped(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.read(NOW)
    spool.write(deed(DeedState.DONE))
    spool.read(NOW + 10 * KEEP)
    assert spool.untold == 1


def _many(folder: Path, count: int, suffix: str) -> None:
    place = folder / SPOOL_FOLDER
    place.mkdir(exist_ok=True)
    for number in range(count):
        made = deed(DeedState.DONE, id=f"dog-{number:05}", at=after(number))
        (place / f"{made.id}{suffix}").write_text(deed_text(made))


def test_a_spool_that_nobody_empties_takes_no_more_deeds_but_their_last_words(tmp_path: Path) -> None:
    _many(tmp_path, MOST_DEEDS, DEED_SUFFIX)
    spool = Spool(tmp_path)
    spool.read(NOW)
    with pytest.raises(SpoolUnusableError, match="full"):
        spool.write(deed(DeedState.INTENDED, id="dog-new"))
    spool.write(spool.deeds["dog-00000"])


def test_of_many_deeds_that_the_server_has_the_oldest_go(tmp_path: Path) -> None:
    _many(tmp_path, MOST_DEEDS, TOLD_SUFFIX)
    spool = Spool(tmp_path)
    spool.read(NOW)
    assert len(spool.deeds) == MOST_DEEDS // 2
    assert min(spool.deeds) == f"dog-{MOST_DEEDS // 2:05}"


@pytest.mark.parametrize("text", ["", "{", '{"type": "WatchdogDeed"}', deed_text(deed(DeedState.DONE))])
def test_a_file_that_cannot_be_understood_lets_nothing_be_done(tmp_path: Path, text: str) -> None:
    (tmp_path / SPOOL_FOLDER).mkdir()
    (tmp_path / SPOOL_FOLDER / f"strange{DEED_SUFFIX}").write_text(text)
    with pytest.raises(SpoolUnusableError, match="strange"):
        Spool(tmp_path).read(NOW)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SpoolUnusableError, match="No such file"):
        Spool(tmp_path / "missing").read(NOW)


@pytest.mark.parametrize("state", list(DeedState))
def test_a_deed_is_read_as_it_was_written(state: DeedState) -> None:
    told: WatchdogDeed = deed(state, text="größe\n", answered_at=None)
    assert read_deed(deed_text(told)) == told
