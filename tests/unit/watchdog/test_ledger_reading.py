from __future__ import annotations

import os
import zlib
from datetime import timedelta
from pathlib import Path

import pytest

from relance.domain.ledger_lines import line_of
from relance.domain.ledgers import VERSION, Entry, LetGo, Opened
from relance.watchdog.ledgers import LEDGER_NAME, LOCK_NAME, STOP_NAME, LedgerReader
from tests.unit.watchdog.grounds import CLUSTER, T0, after, key, taken

UNHEARD = b'{"type":"Unheard"}'
OPENED = Opened(version=VERSION, cluster=CLUSTER, at=T0)


@pytest.fixture
def reader(tmp_path: Path) -> LedgerReader:
    return LedgerReader(tmp_path, CLUSTER)


def write(folder: Path, *entries: Entry, rest: bytes = b"") -> Path:
    path = folder / LEDGER_NAME
    path.write_bytes(b"".join(map(line_of, entries)) + rest)
    return path


def append(folder: Path, data: bytes) -> None:
    with (folder / LEDGER_NAME).open("ab") as file:
        file.write(data)


def seen(reader: LedgerReader) -> set[str]:
    view = reader.read(after(0))
    assert view.problem == ""
    return {name.split("/")[1] for name in view.state.taken}


def test_what_is_appended_is_read_on(reader: LedgerReader, tmp_path: Path) -> None:
    write(tmp_path, OPENED, taken(key("1")))
    assert seen(reader) == {"1"}
    for number in range(2, 5):
        append(tmp_path, line_of(taken(key(str(number)))))
        assert seen(reader) == {str(each) for each in range(1, number + 1)}


def test_a_line_is_read_once_it_is_whole(reader: LedgerReader, tmp_path: Path) -> None:
    line = line_of(taken(key("2")))
    write(tmp_path, OPENED, taken(key("1")), rest=line[:40])
    assert seen(reader) == {"1"}
    append(tmp_path, line[40:])
    assert seen(reader) == {"1", "2"}


def test_a_ledger_longer_than_one_read_is_read_whole(reader: LedgerReader, tmp_path: Path) -> None:
    write(tmp_path, OPENED, *(taken(key(str(number))) for number in range(1, 1500)))
    assert len(seen(reader)) == 1499
    append(tmp_path, line_of(taken(key("5000"))))
    assert len(seen(reader)) == 1500


def test_a_ledger_that_was_rewritten_and_swapped_is_read_from_its_begin(reader: LedgerReader, tmp_path: Path) -> None:
    write(tmp_path, OPENED, taken(key("1")), taken(key("2")))
    assert seen(reader) == {"1", "2"}
    new = tmp_path / "ledger.jsonl.new"
    new.write_bytes(line_of(OPENED) + line_of(taken(key("2"))) + line_of(taken(key("3"))))
    new.replace(tmp_path / LEDGER_NAME)
    assert seen(reader) == {"2", "3"}


def test_what_a_failed_write_left_and_was_cut_off_is_forgotten(reader: LedgerReader, tmp_path: Path) -> None:
    path = write(tmp_path, OPENED, taken(key("1")))
    good = path.stat().st_size
    append(tmp_path, line_of(taken(key("2"))))
    assert seen(reader) == {"1", "2"}
    os.truncate(path, good)
    append(tmp_path, line_of(LetGo(attempts=(str(key("1")),), reason="over", at=T0)) + line_of(taken(key("3"))))
    assert seen(reader) == {"3"}


def test_the_probe_of_a_full_disk_is_no_damage(reader: LedgerReader, tmp_path: Path) -> None:
    path = write(tmp_path, OPENED, taken(key("1")), rest=b"\0" * 70_000)
    assert seen(reader) == {"1"}
    os.truncate(path, path.stat().st_size - 70_000)
    append(tmp_path, line_of(taken(key("2"))))
    assert seen(reader) == {"1", "2"}


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"nonsense\n",
        line_of(OPENED) + b"nonsense\n" + line_of(taken()),
        line_of(Opened(version=VERSION + 1, cluster=CLUSTER, at=T0)) + line_of(taken()),
        line_of(Opened(version=VERSION, cluster="beta", at=T0)) + line_of(taken()),
        line_of(OPENED) + b"%08x %s\n" % (zlib.crc32(UNHEARD), UNHEARD) + line_of(taken()),
    ],
    ids=["missing", "empty", "nonsense", "damaged", "newer", "another cluster's", "unknown entry"],
)
def test_a_ledger_that_cannot_be_relied_on_says_nothing(
    reader: LedgerReader, tmp_path: Path, data: bytes | None
) -> None:
    if data is not None:
        (tmp_path / LEDGER_NAME).write_bytes(data)
    view = reader.read(after(0))
    assert view.problem
    assert not view.state.taken


def test_a_ledger_that_is_a_link_is_not_read(reader: LedgerReader, tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(line_of(OPENED))
    (tmp_path / LEDGER_NAME).symlink_to(tmp_path / "real")
    assert reader.read(after(0)).problem


def test_damage_is_looked_at_anew_when_the_ledger_was_mended(reader: LedgerReader, tmp_path: Path) -> None:
    path = write(tmp_path, OPENED, taken(key("1")))
    append(tmp_path, b"nonsense\n" + line_of(taken(key("2"))))
    assert reader.read(after(0)).problem
    assert reader.read(after(0)).problem
    write(tmp_path, OPENED, taken(key("1")), taken(key("2")), taken(key("3")))
    os.utime(path, (1, 1))
    assert seen(reader) == {"1", "2", "3"}


def test_the_newest_sign_of_life_is_of_ledger_or_lock_and_none_from_far_ahead(
    reader: LedgerReader, tmp_path: Path
) -> None:
    now = after(0)
    path, lock = write(tmp_path, OPENED), tmp_path / LOCK_NAME
    lock.touch()
    for of_ledger, of_lock, expected in ((-500, -20, -20), (-5, -20, -5), (-500, 3600, -500), (-500, 30, 30)):
        os.utime(path, times=(0, (now + timedelta(seconds=of_ledger)).timestamp()))
        os.utime(lock, times=(0, (now + timedelta(seconds=of_lock)).timestamp()))
        assert reader.read(now).alive_at == now + timedelta(seconds=expected)


def test_a_file_stop_of_any_kind_is_seen(reader: LedgerReader, tmp_path: Path) -> None:
    write(tmp_path, OPENED)
    assert reader.read(after(0)).stop == ""
    (tmp_path / STOP_NAME).symlink_to("nowhere")
    assert "STOP" in reader.read(after(0)).stop


@pytest.mark.parametrize("damage", [b"x" * (1 << 16), (b"x" * 99 + b"\n") * 655], ids=["one line", "many lines"])
def test_a_large_end_that_is_no_ledger_is_given_up_in_time_and_said(
    reader: LedgerReader, tmp_path: Path, damage: bytes
) -> None:
    path = write(tmp_path, OPENED, taken(key("1")))
    append(tmp_path, damage * 3)
    assert seen(reader) == {"1"}, "an end that broke off"
    append(tmp_path, damage * 160)
    view = reader.read(after(0))
    assert "8 MiB of it are no lines of a ledger" in view.problem
    assert not view.state.taken
    write(path.parent, OPENED, taken(key("2")))
    assert seen(reader) == {"2"}


@pytest.mark.parametrize("name", [LEDGER_NAME, "."])
def test_a_ledger_that_anybody_may_write_is_not_relied_on(reader: LedgerReader, tmp_path: Path, name: str) -> None:
    write(tmp_path, OPENED, taken(key("1")))
    assert seen(reader) == {"1"}
    before = (tmp_path / name).stat().st_mode
    (tmp_path / name).chmod(before | 0o002)
    view = reader.read(after(0))
    assert "can be written to by anybody" in view.problem
    assert not view.state.taken
    (tmp_path / name).chmod(before)
    assert seen(reader) == {"1"}
