"""The last part of a log, masked, to be kept before a restart can truncate it."""

from __future__ import annotations

from relance.domain.observations import Attachment
from relance.rules.masking import mask
from relance.sources.files.chains import Budget, FileRequest
from relance.sources.files.disks import AbsentError, Disk, RefusedError
from relance.sources.files.patterns import shown
from relance.sources.files.positions import WINDOW_BYTES, digest


def tail_of(disk: Disk, request: FileRequest, budget: Budget) -> Attachment | None:
    """The last bytes of the attempt's part of a file, from the beginning of a line on. May block.

    None where there are none, the budget is used up, or the file is no longer the one that was read.
    """
    position, at_most_bytes = request.position, min(request.at_most_bytes, budget.left_bytes)
    if position is None or at_most_bytes <= 0:
        return None
    try:
        fd, found = disk.open(request.found_at, request.owners)
    except (AbsentError, RefusedError):
        return None
    try:
        window = min(WINDOW_BYTES, position.offset)
        before = disk.read(fd, window, position.offset - window) if window else b""
        if found.identity != request.identity or digest(before) != position.tail:
            return None
        begin = max(found.size_bytes - at_most_bytes, position.start, 0)
        data = disk.read(fd, max(found.size_bytes - begin, 0), begin)
        at_line_start = begin == position.start or disk.read(fd, 1, begin - 1) == b"\n"
    except OSError:
        return None
    finally:
        disk.close(fd)
    if not at_line_start:
        newline = data.find(b"\n")
        data, begin = data[newline + 1 :], begin + newline + 1
    if not data:
        return None
    budget.left_bytes -= len(data)
    masked = mask(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return Attachment(file=shown(request.path), start_offset=begin, data=masked)
