"""The last part of a log, masked, to be kept before a restart can truncate it."""

from __future__ import annotations

from relance.domain.observations import Attachment
from relance.rules.masking import mask
from relance.sources.files.chains import FileRequest
from relance.sources.files.disks import AbsentError, Disk, RefusedError


def tail_of(disk: Disk, request: FileRequest, at_most_bytes: int) -> Attachment | None:
    """The last bytes of the attempt's part of a file, from the beginning of a line on. May block."""
    try:
        fd, found = disk.open(request.found_at, request.owners)
    except (AbsentError, RefusedError):
        return None
    try:
        if found.identity != request.identity or request.position is None:
            return None
        begin = max(found.size_bytes - at_most_bytes, request.position.start, 0)
        data = disk.read(fd, found.size_bytes - begin, begin)
        at_line_start = begin == request.position.start or disk.read(fd, 1, begin - 1) == b"\n"
    except OSError:
        return None
    finally:
        disk.close(fd)
    if not at_line_start:
        newline = data.find(b"\n")
        data, begin = data[newline + 1 :], begin + newline + 1
    if not data:
        return None
    masked = mask(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return Attachment(file=request.path, start_offset=begin, data=masked)
