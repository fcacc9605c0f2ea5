"""How far each file of an attempt has been read: the source's part of the attempt's checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from relance.domain.encoding import EncodingError, decode, encode
from relance.sources.files.disks import Identity

VERSION: Final = 1
WINDOW_BYTES: Final = 64
"""So many bytes before a position are remembered by their digest, to see that the file is still the one read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePosition:
    """How far one file has been delivered.

    `path` is the name under which the file was first seen. The attempt's part begins at byte `start`; everything before
    `offset` has been delivered, and the byte there is on line `line` (None: not known). `tail` is the digest of the
    bytes before it. After it come `held_bytes` of a line that was unfinished at the last read, with the digest `held`.
    `inherited` says that the position is where an earlier attempt of the job stopped: that the file
    was truncated since is no loss. `retired` says that its path belongs to another file now.
    """

    path: str
    device: int
    inode: int
    start: int = 0
    offset: int = 0
    line: int | None = 1
    tail: str = ""
    held_bytes: int = 0
    held: str = ""
    size_seen: int = 0
    lost_bytes: int = 0
    inherited: bool = False
    retired: bool = False

    @property
    def identity(self) -> Identity:
        """Device and inode."""
        return self.device, self.inode


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Everything a file source remembers of one attempt.

    `left` are files that were rotated away and read to their end, or vanished; `lost` counts bytes that were lost of
    them, by path.
    """

    attempt: str
    files: tuple[FilePosition, ...] = ()
    left: tuple[FilePosition, ...] = ()
    lost: Mapping[str, int] = field(default_factory=dict)
    version: int = VERSION


def digest(data: bytes) -> str:
    """What tells these bytes from others; empty for none."""
    return hashlib.blake2b(data, digest_size=8).hexdigest() if data else ""


def to_json(positions: Positions) -> dict[str, object]:
    """The plain form that goes into a checkpoint."""
    return {
        "version": positions.version,
        "attempt": positions.attempt,
        "files": [_plain(position) for position in positions.files],
        "left": [_plain(position) for position in positions.left],
        "lost": dict(positions.lost),
    }


@lru_cache(maxsize=8192)
def _plain(position: FilePosition) -> object:
    """The plain form of one position; most of them have not changed since the last time."""
    return encode(position)


def from_json(data: Mapping[str, object] | None) -> Positions | None:
    """What `to_json` wrote; None for anything else, such as another version's: then files are read as if new."""
    try:
        found = decode(Positions, data)
    except EncodingError:
        return None
    return found if isinstance(found, Positions) and found.version == VERSION else None
