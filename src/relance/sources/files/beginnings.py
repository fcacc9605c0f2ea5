"""Where an attempt's part of a file begins, when the file is seen for the first time."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from relance.domain.log_times import read_time
from relance.sources.files.disks import Disk, Sighting
from relance.sources.files.positions import WINDOW_BYTES, FilePosition, digest

_UNTIMED_AT_MOST: Final = 100
"""So many lines without a time are passed over to find one that has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """How to find an attempt's part of a file.

    `since` is the earliest time that counts; None: not known. A `shared` file, such as a kernel log, has other
    attempts' lines too.
    """

    shared: bool
    since: datetime | None
    look_back_bytes: int


def first_position(disk: Disk, fd: int, seen: Sighting, beginning: Beginning, now: datetime) -> FilePosition:
    """The position at which to start reading a file that is seen for the first time. May block.

    A job's own log is read from its start, unless it was last written before the attempt began: then it holds nothing
    of it. A shared log is read from the first line whose own time counts; without times, from its present end.
    """
    size = seen.size_bytes
    if not beginning.shared:
        stale = beginning.since is not None and seen.modified_at_s < beginning.since.timestamp()
        return _at(disk, fd, seen, size if stale else 0)
    if beginning.since is None:
        return _at(disk, fd, seen, size)
    begin = max(size - beginning.look_back_bytes, 0)
    part = disk.read(fd, size - begin, begin)
    found = _first_line_since(part, beginning.since, now)
    return _at(disk, fd, seen, size if found is None else begin + found)


def _first_line_since(part: bytes, since: datetime, now: datetime) -> int | None:
    """Where the first line that is not older than `since` begins; None when no line says its time or all are older.

    Lines are in the order of their times, as a logger writes them; one without a time belongs to the one before it.
    """
    lines = part.rstrip(b"\n").split(b"\n")

    def is_since(index: int) -> bool:
        before = range(index, max(index - _UNTIMED_AT_MOST, -1), -1)
        for near in (*before, *range(index + 1, min(index + _UNTIMED_AT_MOST, len(lines)))):
            at = read_time(lines[near], read_at=now)
            if at is not None:
                return at >= since
        return False

    first = bisect.bisect_left(range(len(lines)), 1, key=is_since)
    return sum(len(line) + 1 for line in lines[:first]) if first < len(lines) else None


def earliest(started_at: datetime | None, margin_s: float) -> datetime | None:
    """The earliest time that counts for an attempt that began at `started_at`."""
    return started_at - timedelta(seconds=margin_s) if started_at is not None else None


def _at(disk: Disk, fd: int, seen: Sighting, offset: int) -> FilePosition:
    """A position somewhere in a file; what lies before it is another's, so that a truncation loses nothing."""
    window = min(WINDOW_BYTES, offset)
    before = disk.read(fd, window, offset - window) if window else b""
    device, inode = seen.identity
    return FilePosition(
        path=seen.path,
        device=device,
        inode=inode,
        start=offset,
        offset=offset,
        line=1 if offset == 0 else None,
        tail=digest(before),
        size_seen=offset,
        inherited=offset > 0,
    )
