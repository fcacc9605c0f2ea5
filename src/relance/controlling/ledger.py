"""The ledger on disk: an append-only file of lines, each on the disk before the call that it announces goes out.

Folder 0700, files 0600. One controller per folder, by a lock that ends with its process. A broken end of the file is
cut off and counted: nothing was sent on it. What the file comes to is in `relance.domain.ledgers`, its lines in
`relance.domain.ledger_lines`; the page is docs/reference/ledger.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from datetime import timedelta
from pathlib import Path

from relance.domain.ledger_compaction import compacted
from relance.domain.ledger_lines import line_of, read_lines
from relance.domain.ledgers import VERSION, Entry, LedgerState, Opened, apply, fold
from relance.ports.clocks import Clock

LEDGER_NAME = "ledger.jsonl"
LOCK_NAME = "ledger.lock"
STOP_NAME = "STOP"
"""A file of this name is the kill switch (design 1): while it is there, nothing new begins."""
COMPACT_BYTES = 4 * 1024 * 1024
ROOM_BYTES = 1024 * 1024
"""With less free on the disk nothing new begins: what has begun can still be written."""
_PROBE_BYTES = 64 * 1024
KEEP_DECIDED = timedelta(days=7)
"""A decision on an attempt that is not taken is kept this long: longer than any scheduler remembers an ended job."""


class LedgerUnusableError(Exception):
    """The ledger cannot be used or written. Says the file and what to do."""


class Ledger:
    """The journal of one controller; `state` is what it comes to."""

    def __init__(self, folder: Path, cluster: str, clock: Clock, compact_bytes: int = COMPACT_BYTES) -> None:
        """Take the folder, make it if need be, and read what is there.

        Raises LedgerUnusableError: another controller has it; it is another user's, another cluster's, or not readable.
        """
        self.folder = folder
        self.torn = 0
        """How often a broken end was cut off when this ledger was opened: 0 or 1."""
        self._clock = clock
        self._compact_bytes = compact_bytes
        self._backlog: list[Entry] = []
        self._problem = ""
        self._damaged = ""
        try:
            _own_folder(folder)
            self._lock = _locked(folder)
        except OSError as error:
            raise LedgerUnusableError(f"{folder} cannot be used: {error.strerror}") from error
        try:
            self._file = os.open(self._path, _APPEND, 0o600)
            os.fchmod(self._file, 0o600)
            self.state = self._recover(cluster)
        except OSError as error:
            os.close(self._lock)
            raise LedgerUnusableError(f"{self._path} cannot be used: {error.strerror}") from error
        except LedgerUnusableError:
            os.close(self._file)
            os.close(self._lock)
            raise

    @property
    def _path(self) -> Path:
        return self.folder / LEDGER_NAME

    def append(self, *entries: Entry, durable: bool = True) -> None:
        """Write entries, and be sure that they are on the disk. Raises LedgerUnusableError; then none is written.

        `durable` is False for what may be lost in a crash of the machine, such as that the server has a step.
        """
        self._write(b"".join(line_of(entry) for entry in (*self._backlog, *entries)), durable=durable)
        self._backlog.clear()
        for entry in entries:
            self.state = apply(self.state, entry)
        if self._size > self._compact_bytes:
            self._compact()

    def keep(self, *entries: Entry, durable: bool = True) -> None:
        """Write entries; when the disk refuses, keep them in memory and try again with the next ones.

        For what has begun and must go on: a full disk stops nothing half-way.
        """
        try:
            self.append(*entries, durable=durable)
        except LedgerUnusableError:
            self._backlog.extend(entries)
            for entry in entries:
                self.state = apply(self.state, entry)

    def beat(self) -> None:
        """Give a sign of life: the lock's time of change, by which the watchdog tells a living controller."""
        with contextlib.suppress(OSError):
            os.utime(self._lock)

    def why_nothing_begins(self) -> str:
        """The sentence that says why nothing new may begin; empty when it may. Tries the disk again if it failed."""
        if self._damaged:
            return self._damaged
        if self._problem:
            with contextlib.suppress(LedgerUnusableError, OSError):
                self._try_the_disk()
        return self._problem or self._no_room() or self._stop()

    @property
    def problems(self) -> tuple[str, ...]:
        """What an operator should be told about this ledger."""
        torn = (f"the end of {self._path} was broken and was cut off",) if self.torn else ()
        return (*(text for text in (self._damaged, self._problem, self._no_room(), self._stop()) if text), *torn)

    def close(self) -> None:
        """Give back file and lock; may be called twice."""
        for name in ("_file", "_lock"):
            number = getattr(self, name)
            if number >= 0:
                os.close(number)
                setattr(self, name, -1)

    def _try_the_disk(self) -> None:
        """Write what is kept in memory, and as much more as an action may need; the latter is cut off again."""
        self._write(b"\0" * _PROBE_BYTES, durable=True)
        self._size -= _PROBE_BYTES
        os.ftruncate(self._file, self._size)
        self.append()

    def _no_room(self) -> str:
        try:
            found = os.fstatvfs(self._file)
        except OSError as error:
            return f"{self._path} cannot be used: {error.strerror}"
        if found.f_bavail * found.f_frsize >= ROOM_BYTES:
            return ""
        return f"the disk of {self.folder} is full: nothing begins until there is room for the ledger"

    def _stop(self) -> str:
        path = self.folder / STOP_NAME
        try:
            path.lstat()
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"whether there is a file {path} cannot be read ({error.strerror}): taken for a stop"
        return f"the file {path} is there: nothing begins until it is removed"

    def _recover(self, cluster: str) -> LedgerState:
        reading = read_lines(self._path.read_bytes())
        if reading.torn:
            self.torn = 1
            os.ftruncate(self._file, reading.good_bytes)
        self._size = reading.good_bytes
        if reading.damaged:
            lines = ", ".join(str(number) for number in reading.damaged[:5])
            self._damaged = f"{self._path} is damaged (line {lines}): move it away, then start again"
        state = fold(reading.entries)
        if state.cluster and state.cluster != cluster:
            raise LedgerUnusableError(f"{self._path} is the ledger of cluster {state.cluster}, not of {cluster}")
        if not state.cluster:
            opened = Opened(version=VERSION, cluster=cluster, at=self._clock.now())
            self._write(line_of(opened), durable=True)
            state = apply(state, opened)
        return state

    def _write(self, data: bytes, *, durable: bool) -> None:
        try:
            # What a failed write left is cut off first: a line in the middle that cannot be read would be damage.
            os.ftruncate(self._file, self._size)
            _write_all(self._file, data)
            if durable:
                os.fdatasync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            self._problem = f"{self._path} cannot be written: {error.strerror}; nothing begins until it can"
            raise LedgerUnusableError(self._problem) from error
        self._size += len(data)
        self._problem = ""

    def _compact(self) -> None:
        """Write what still counts to a new file and put it in place of the old one, all or nothing."""
        now = self._clock.now()
        entries = compacted(self.state, now - KEEP_DECIDED, now)
        data = b"".join(line_of(entry) for entry in entries)
        new = self.folder / f"{LEDGER_NAME}.new"
        number = -1
        try:
            number = os.open(new, _APPEND | os.O_TRUNC, 0o600)
            _write_all(number, data)
            os.fsync(number)
            new.replace(self._path)
        except OSError:
            # The old file is whole and goes on; a full disk is reported by the next write to it.
            if number >= 0:
                os.close(number)
            self._compact_bytes *= 2
            return
        os.close(self._file)
        self._file, self._size = number, len(data)
        self._compact_bytes = max(self._compact_bytes, 2 * self._size)
        self.state = fold(entries)
        try:
            _sync_folder(self.folder)
        except OSError as error:
            # A crash of the machine may bring the old file back, so nothing begins before the disk takes a write again.
            self._problem = f"{self.folder} cannot be written: {error.strerror}; nothing begins until it can"


_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def _own_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise LedgerUnusableError(f"{folder} belongs to uid {found.st_uid}, not to this controller's user")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)


def _locked(folder: Path) -> int:
    path = folder / LOCK_NAME
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(number, 32, 0).decode("ascii", "replace").strip()
        os.close(number)
        raise LedgerUnusableError(
            f"another controller (process {holder or 'unknown'}) has {folder}: one controller per state folder"
        ) from None
    os.ftruncate(number, 0)
    os.pwrite(number, f"{os.getpid()}\n".encode("ascii"), 0)
    return number


def _write_all(number: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(number, rest) :]


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
