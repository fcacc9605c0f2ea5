"""Where an attempt's part of a file begins, when the file is seen for the first time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from relance.sources.files.disks import Disk, Sighting
from relance.sources.files.positions import WINDOW_BYTES, FilePosition, digest

_STAMP = re.compile(
    rb"^\s*\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?\d*)\s?(Z|[+-]\d\d:?\d\d)?", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """How to find an attempt's part of a file.

    `since` is the earliest time that counts; None: not known. A `shared` file, such as a kernel log, has other
    attempts' lines too.
    """

    shared: bool
    since: datetime | None
    look_back_bytes: int


def first_position(disk: Disk, fd: int, seen: Sighting, beginning: Beginning) -> FilePosition:
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
    found = _first_line_since(part, beginning.since)
    return _at(disk, fd, seen, size if found is None else begin + found)


def _first_line_since(part: bytes, since: datetime) -> int | None:
    """Where the first line that is not older than `since` begins; None when no line says its time or all are older."""
    for match in _STAMP.finditer(part):
        at = line_time(match)
        if at is not None and at >= since:
            return match.start()
    return None


def line_time(match: re.Match[bytes]) -> datetime | None:
    """The time at the head of a line, taken as UTC where it names no zone; None for one that does not exist."""
    text = match[1].replace(b",", b".").decode("ascii")
    zone = (match[2] or b"Z").decode("ascii")
    try:
        at = datetime.fromisoformat(text[:26] + zone)
    except ValueError:
        return None
    return at.astimezone(UTC)


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
