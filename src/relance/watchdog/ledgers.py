"""The controller's ledger as its neighbour reads it: never written to, while it grows and is swapped.

Only what was appended is read again; a ledger that was rewritten is another file, and is read from its begin. Lines are
folded as they come, so that a large ledger takes little memory.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from relance.domain.ledger_lines import read_lines
from relance.domain.ledgers import LedgerState, apply

LEDGER_NAME = "ledger.jsonl"
LOCK_NAME = "ledger.lock"
STOP_NAME = "STOP"
_PIECE_BYTES = 1 << 16
_TAIL_BYTES = 64
_LARGEST_BYTES = 256 << 20
"""The controller rewrites its ledger at 4 MiB; one as large as this is something else."""
_LONGEST_BYTES = 8 << 20
"""No line is as long, and no broken end: the controller's largest names a hundred thousand attempts in less."""
_FAR_AHEAD_S = 60.0
"""A sign of life from further in the future than clocks differ says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """The ledger at one moment. `problem` says why it must not be relied on; empty: it may be.

    `alive_at` is the controller's newest sign of life: it beats by touching its lock. `stop` says that somebody has
    thrown the switch, or that this cannot be told.
    """

    state: LedgerState
    problem: str = ""
    alive_at: datetime | None = None
    stop: str = ""


class LedgerReader:
    """Reads one cluster's ledger again and again."""

    def __init__(self, folder: Path, cluster: str) -> None:
        """Read nothing yet."""
        self._folder = folder
        self._cluster = cluster
        self._forget()

    def read(self, now: datetime) -> LedgerView:
        """What the ledger comes to now."""
        path = self._folder / LEDGER_NAME
        alive_at, stop = self._alive_at(now), _stop(self._folder / STOP_NAME)
        try:
            self._follow(path)
            problem = self._problem(path)
        except FileNotFoundError:
            self._forget()
            problem = f"there is no ledger at {path}: is this the controller's folder, and did it ever run?"
        except OSError as error:
            self._forget()
            remedy = "run the watchdog as the controller's user" if error.errno else "see the ledger's page"
            problem = f"{path} cannot be read: {error.strerror}: {remedy}"
        return LedgerView(
            state=LedgerState() if problem else self._state, problem=problem, alive_at=alive_at, stop=stop
        )

    def _forget(self) -> None:
        self._state = LedgerState()
        self._file: tuple[int, int] | None = None
        self._read_to = 0
        self._lines = 0
        self._damaged: int | None = None
        self._changed_ns = 0
        self._tail = b""

    def _follow(self, path: Path) -> None:
        """Read on from where the last whole line ended."""
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            found = os.fstat(number)
            if not self._is_known(number, found):
                self._forget()
                self._file = (found.st_dev, found.st_ino)
            self._changed_ns = found.st_mtime_ns
            if (found.st_mode | self._folder.stat().st_mode) & stat.S_IWOTH:
                raise OSError(0, "it or its folder can be written to by anybody, so that anybody may have written it")
            if found.st_size > _LARGEST_BYTES:
                raise OSError(0, f"of {found.st_size} bytes, which no controller writes")
            at, rest = self._read_to, b""
            # What could not be read is looked at again with as much new behind it, so that damage costs no more time.
            while piece := os.pread(number, max(_PIECE_BYTES, len(rest)), at):
                at += len(piece)
                rest = self._take(rest + piece)
                if len(rest) > _LONGEST_BYTES:
                    raise OSError(0, f"more than {_LONGEST_BYTES >> 20} MiB of it are no lines of a ledger")
        finally:
            os.close(number)

    def _is_known(self, number: int, found: os.stat_result) -> bool:
        """Whether it is the file that was read before, with what was read of it still there.

        What a failed write had left may have been cut off again, and other lines written in its place. Damage is looked
        at anew when the file has changed.
        """
        if self._file != (found.st_dev, found.st_ino) or found.st_size < self._read_to:
            return False
        if self._damaged is not None and self._changed_ns != found.st_mtime_ns:
            return False
        return os.pread(number, len(self._tail), self._read_to - len(self._tail)) == self._tail

    def _take(self, data: bytes) -> bytes:
        """Fold the whole lines, and give back what follows the last one that can be read.

        Whether such an end is broken off or still being written shows later: a line that can be read behind it makes it
        damage.
        """
        reading = read_lines(data)
        if reading.damaged and self._damaged is None:
            self._damaged = self._lines + reading.damaged[0]
        for entry in reading.entries:
            self._state = apply(self._state, entry)
        self._lines += data[: reading.good_bytes].count(b"\n")
        self._read_to += reading.good_bytes
        self._tail = (self._tail + data[: reading.good_bytes])[-_TAIL_BYTES:]
        return data[reading.good_bytes :]

    def _problem(self, path: Path) -> str:
        if self._damaged is not None:
            return f"{path} is damaged, or a newer version wrote it (line {self._damaged}): see the ledger's page"
        if self._state.cluster and self._state.cluster != self._cluster:
            return f"{path} is the ledger of cluster {self._state.cluster}, not of {self._cluster}"
        return "" if self._state.cluster else f"{path} is empty: no controller has begun it yet"

    def _alive_at(self, now: datetime) -> datetime | None:
        found: list[datetime] = []
        for name in (LEDGER_NAME, LOCK_NAME):
            try:
                at = datetime.fromtimestamp((self._folder / name).stat().st_mtime, UTC)
            except OSError:
                continue
            if (at - now).total_seconds() <= _FAR_AHEAD_S:
                found.append(at)
        return max(found, default=None)


def _stop(path: Path) -> str:
    try:
        path.lstat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"whether there is a file {path} cannot be read ({error.strerror}): taken for a stop"
    return f"the file {path} is there: nothing is done until it is removed"
