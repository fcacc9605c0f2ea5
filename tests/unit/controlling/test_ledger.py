"""The ledger on disk."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from relance.controlling.ledger import LEDGER_NAME, LOCK_NAME, STOP_NAME, Ledger, LedgerUnusableError
from relance.domain.ledger_lines import line_of, read_lines
from relance.domain.ledgers import Decided, LetGo, Opened, Taken
from relance.testing.virtual_time import VirtualClock, VirtualTime

CLOCK = VirtualClock(VirtualTime())
AT = CLOCK.now()


def opened(folder: Path, cluster: str = "alpha", compact_bytes: int = 1 << 20) -> Ledger:
    return Ledger(folder / "controller", cluster, CLOCK, compact_bytes)


def taken(*attempts: str) -> Taken:
    return Taken(attempts=attempts, at=AT)


def file_of(folder: Path) -> Path:
    return folder / "controller" / LEDGER_NAME


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """A disk that is full: a write beyond this size fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_folder_and_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    opened(tmp_path).close()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "controller").iterdir()}
    assert modes == {LEDGER_NAME: 0o600, LOCK_NAME: 0o600}
    assert stat.S_IMODE((tmp_path / "controller").stat().st_mode) == 0o700


def test_a_folder_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "controller").mkdir(mode=0o755)
    opened(tmp_path).close()
    assert stat.S_IMODE((tmp_path / "controller").stat().st_mode) == 0o700


def test_what_was_appended_is_there_after_a_restart(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.append(taken("a", "b"))
    first.append(LetGo(attempts=("a",), reason="over", at=AT))
    first.close()
    again = opened(tmp_path)
    assert set(again.state.taken) == {"b"}
    assert again.state == first.state
    again.close()


def test_a_line_is_on_the_disk_when_append_returns(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.append(taken("a"))
    assert read_lines(file_of(tmp_path).read_bytes()).entries[-1] == taken("a")
    ledger.close()


def test_a_second_controller_on_the_same_folder_is_told_who_has_it(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(LedgerUnusableError, match=rf"another controller \(process {os.getpid()}\) has .*/controller"):
        opened(tmp_path)
    first.close()
    opened(tmp_path).close()


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from relance.controlling.ledger import Ledger\n"
        "from relance.ports.clocks import SystemClock\n"
        "kept = Ledger(Path(sys.argv[1]), 'alpha', SystemClock()); print('ready', flush=True); time.sleep(60)\n"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "controller")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(LedgerUnusableError):
            opened(tmp_path)
        other.kill()
    opened(tmp_path).close()


def test_the_ledger_of_another_cluster_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(LedgerUnusableError, match="is the ledger of cluster alpha, not of beta"):
        opened(tmp_path, cluster="beta")
    opened(tmp_path).close()


def test_a_torn_last_line_is_cut_off_counted_and_said(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.append(taken("a"))
    ledger.close()
    with file_of(tmp_path).open("ab") as file:
        file.write(line_of(taken("b"))[:-7])
    again = opened(tmp_path)
    assert set(again.state.taken) == {"a"}
    assert again.torn == 1
    assert again.why_nothing_begins() == ""
    assert again.problems == (f"the end of {file_of(tmp_path)} was broken and was cut off",)
    again.append(taken("c"))
    again.close()
    last = opened(tmp_path)
    assert (set(last.state.taken), last.torn) == ({"a", "c"}, 0)
    last.close()


def test_damage_in_the_middle_lets_nothing_begin_and_names_the_line(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.append(taken("a"))
    ledger.append(taken("b"))
    ledger.close()
    lines = file_of(tmp_path).read_bytes().splitlines(keepends=True)
    file_of(tmp_path).write_bytes(lines[0] + b"x" + lines[1] + lines[2])
    again = opened(tmp_path)
    assert again.why_nothing_begins() == f"{file_of(tmp_path)} is damaged (line 2): move it away, then start again"
    again.close()


def test_a_full_disk_raises_says_so_and_leaves_no_broken_line(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    with files_no_larger_than(file_of(tmp_path).stat().st_size + 20):
        with pytest.raises(LedgerUnusableError, match=os.strerror(errno.EFBIG)):
            ledger.append(taken("a"))
        assert "cannot be written" in ledger.why_nothing_begins()
        assert ledger.state.taken == {}
    assert read_lines(file_of(tmp_path).read_bytes()).torn is False
    assert ledger.why_nothing_begins() == ""
    ledger.append(taken("b"))
    ledger.close()
    again = opened(tmp_path)
    assert set(again.state.taken) == {"b"}
    again.close()


def test_what_must_go_on_is_kept_in_memory_and_written_when_the_disk_has_room(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    with files_no_larger_than(file_of(tmp_path).stat().st_size + 20):
        ledger.keep(taken("a"))
        ledger.keep(taken("b"))
        assert set(ledger.state.taken) == {"a", "b"}
    assert ledger.why_nothing_begins() == ""
    ledger.append(taken("c"))
    ledger.close()
    again = opened(tmp_path)
    assert set(again.state.taken) == {"a", "b", "c"}
    again.close()


def test_a_large_ledger_is_compacted_and_comes_to_the_same(tmp_path: Path) -> None:
    ledger = opened(tmp_path, compact_bytes=3_000)
    for number in range(60):
        ledger.append(taken(f"attempt-{number}"))
        ledger.append(LetGo(attempts=(f"attempt-{number}",), reason="over", at=AT))
    ledger.append(taken("last"))
    assert file_of(tmp_path).stat().st_size < 7_000
    assert stat.S_IMODE(file_of(tmp_path).stat().st_mode) == 0o600
    ledger.close()
    again = opened(tmp_path)
    assert set(again.state.taken) == {"last"}
    again.close()


def test_a_compaction_that_fails_leaves_the_old_file_in_use(tmp_path: Path) -> None:
    ledger = opened(tmp_path, compact_bytes=2_000)
    (tmp_path / "controller" / f"{LEDGER_NAME}.new").mkdir()
    for number in range(50):
        ledger.append(taken(f"attempt-{number}"))
    ledger.close()
    again = opened(tmp_path)
    assert len(again.state.taken) == 50
    again.close()


def test_old_decisions_are_forgotten_at_a_compaction(tmp_path: Path) -> None:
    time = VirtualTime()
    ledger = Ledger(tmp_path / "controller", "alpha", VirtualClock(time), 5_000)
    ledger.append(Decided(attempt="old", reason="stop", at=time.now()))
    time.pass_by(timedelta(days=8).total_seconds())
    for number in range(100):
        ledger.append(Decided(attempt=f"new-{number}", reason="stop", at=time.now()))
    ledger.close()
    again = opened(tmp_path)
    assert "old" not in again.state.decided
    assert len(again.state.decided) == 100
    again.close()


def test_a_stop_file_is_seen_whatever_it_is(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    stop = tmp_path / "controller" / STOP_NAME
    assert ledger.why_nothing_begins() == ""
    stop.symlink_to("nowhere")
    assert ledger.why_nothing_begins() == f"the file {stop} is there: nothing begins until it is removed"
    assert ledger.problems == (ledger.why_nothing_begins(),)
    ledger.close()


def test_a_link_in_place_of_the_ledger_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "controller").mkdir(mode=0o700)
    file_of(tmp_path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LedgerUnusableError, match="cannot be used"):
        opened(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_closed_ledger_writes_nothing(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerUnusableError):
        ledger.append(taken("a"))
    assert [type(entry) for entry in read_lines(file_of(tmp_path).read_bytes()).entries] == [Opened]
