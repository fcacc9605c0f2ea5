"""One read of the files that a path has had one after another: the older ones to their end first. May block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from relance.sources.files.beginnings import Beginning, first_position
from relance.sources.files.disks import AbsentError, Disk, Identity, RefusedError
from relance.sources.files.positions import FilePosition
from relance.sources.files.tailing import Label, Tail, TailRead, read_tail


@dataclass(slots=True)
class Budget:
    """The bytes that one read of an attempt may still deliver; used by one thread."""

    left_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRequest:
    """What is known of a file before a read. `position` None: it is new; `fd` None: it is not open."""

    identity: Identity
    path: str
    found_at: str
    owners: frozenset[int]
    label: Label
    beginning: Beginning | None
    read_at: datetime
    at_most_bytes: int
    fd: int | None = None
    position: FilePosition | None = None
    over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOutcome:
    """What came of one file. `moved`: another file, or none, lies where it was found."""

    identity: Identity
    read_at: datetime
    fd: int | None = None
    read: TailRead | None = None
    refused: str = ""
    moved: bool = False


def read_chain(disk: Disk, requests: Sequence[FileRequest], budget: Budget) -> tuple[FileOutcome, ...]:
    """Read the files in order, each only when the one before it was read to its end."""
    outcomes: list[FileOutcome] = []
    for request in requests:
        if budget.left_bytes <= 0:
            break
        outcome = _read_one(disk, request, budget)
        outcomes.append(outcome)
        if outcome.read is None or not outcome.read.at_end:
            break
    return tuple(outcomes)


def _read_one(disk: Disk, request: FileRequest, budget: Budget) -> FileOutcome:
    fd, position = request.fd, request.position
    refused, moved, read = "", False, None
    try:
        if fd is None:
            fd, found = disk.open(request.found_at, request.owners)
            moved = found.identity != request.identity
        if moved:
            disk.close(fd)
            fd = None
        else:
            tail = Tail(
                position=position or _first(disk, fd, request),
                label=request.label,
                read_at=request.read_at,
                at_most_bytes=min(request.at_most_bytes, budget.left_bytes),
                over=request.over,
            )
            read = read_tail(disk, fd, tail)
            budget.left_bytes -= read.size_bytes
    except RefusedError as error:
        refused = str(error)
    except AbsentError:
        moved = True
    except OSError as error:
        refused = f"cannot be read: {error.strerror}"
    return FileOutcome(
        identity=request.identity, read_at=request.read_at, fd=fd, read=read, refused=refused, moved=moved
    )


def _first(disk: Disk, fd: int, request: FileRequest) -> FilePosition:
    found = disk.look_at(fd, request.path)
    if request.beginning is None:
        device, inode = found.identity
        return FilePosition(path=request.path, device=device, inode=inode)
    return first_position(disk, fd, found, request.beginning, request.read_at)
