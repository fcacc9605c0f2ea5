"""One read of one file: what is new since a position, as blocks of whole lines, and the position after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from relance.domain.blocks import CARRIED_BYTES, OVERLAP_BYTES, is_cut, overlap_of, ready_bytes
from relance.domain.faults import Scope
from relance.domain.observations import LogBlock
from relance.sources.files.disks import Disk
from relance.sources.files.patterns import shown
from relance.sources.files.positions import WINDOW_BYTES, FilePosition, digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What is known of a file's lines beside the lines."""

    scope: Scope
    node: str | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """What a read of one file is asked for.

    `over` says that nothing more is written to the file: an unfinished line is delivered, and a truncation is the work
    of somebody else.
    """

    position: FilePosition
    label: Label
    read_at: datetime
    at_most_bytes: int
    over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TailRead:
    """What a read of one file gave. `at_end`: there was nothing beyond what is delivered or held back."""

    position: FilePosition
    blocks: tuple[LogBlock, ...] = ()
    at_end: bool = False
    size_bytes: int = 0
    """Of the new bytes delivered."""


def read_tail(disk: Disk, fd: int, tail: Tail) -> TailRead:
    """Read what is new. May block."""
    position = tail.position
    window = min(WINDOW_BYTES, position.offset)
    wanted = window + max(tail.at_most_bytes, CARRIED_BYTES)
    data, at_end = _read_up_to(disk, fd, wanted, position.offset - window, known=window + position.held_bytes)
    before, fresh = data[:window], data[window:]
    held = fresh[: position.held_bytes]
    if len(before) < window or digest(before) != position.tail or digest(held) != position.held:
        return _after_truncation(disk, fd, tail)
    size = ready_bytes(fresh, over=tail.over and at_end)
    if size == 0:
        unchanged = len(fresh) == len(held)
        return TailRead(position=position if unchanged else _holding(position, fresh), at_end=at_end)
    new = fresh[:size]
    overlap = b""
    if position.offset > position.start and is_cut(before):
        reach = min(OVERLAP_BYTES, position.offset - position.start)
        overlap = overlap_of(disk.read(fd, reach, position.offset - reach))
    block = LogBlock(
        file=shown(position.path),
        offset=position.offset - len(overlap),
        data=overlap + new,
        scope=tail.label.scope,
        read_at=tail.read_at,
        line=position.line,
        node=tail.label.node,
        rank=tail.label.rank,
        overlap=len(overlap),
    )
    after = replace(
        position,
        offset=position.offset + size,
        line=position.line + new.count(b"\n") if position.line is not None else None,
        tail=digest((before + new)[-WINDOW_BYTES:]),
        inherited=False,
    )
    return TailRead(position=_holding(after, fresh[size:]), blocks=(block,), at_end=at_end, size_bytes=size)


def _holding(position: FilePosition, held: bytes) -> FilePosition:
    return replace(position, held_bytes=len(held), held=digest(held), size_seen=position.offset + len(held))


def _read_up_to(disk: Disk, fd: int, wanted: int, offset: int, *, known: int) -> tuple[bytes, bool]:
    """Up to so many bytes, and whether the file ended there.

    A read may give less than there is on some file systems, so only an empty one shows the end, or one that gives
    exactly the `known` bytes of last time.
    """
    data = disk.read(fd, wanted, offset)
    if len(data) == known:
        return data, True
    while 0 < len(data) < wanted:
        more = disk.read(fd, wanted - len(data), offset + len(data))
        if not more:
            return data, True
        data += more
    return data, not data


def _after_truncation(disk: Disk, fd: int, tail: Tail) -> TailRead:
    """The file is not the one that was read: what it lost is counted, and it is read from its beginning."""
    position = tail.position
    if tail.over:
        return TailRead(position=position, at_end=True)
    end = max(position.size_seen, position.offset + position.held_bytes)
    lost = 0 if position.inherited else end - position.offset
    fresh = FilePosition(
        path=position.path,
        device=position.device,
        inode=position.inode,
        lost_bytes=position.lost_bytes + lost,
        retired=position.retired,
    )
    return read_tail(disk, fd, replace(tail, position=fresh))
