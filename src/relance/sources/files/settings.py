"""How log files are followed: where they may lie, how often they are looked at, and what bounds the reading."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

RANK_PATTERNS = (
    r"rank[-_.]?(\d+)",
    r"worker[-_](\d+)",
    r"^(?!slurm-).*_(\d+)\.(?:out|err|log)$",
)
"""How a file's name tells a rank: `rank-3.log`, `worker_3`, `%j_%t.out`; never `slurm-%A_%a.out`, an array task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """Settings of a file source. Sizes in bytes, times in seconds.

    Polling an open file is the only way that works on every file system (performance.md 3); the intervals are those
    of operators.md 3.
    """

    roots: tuple[str, ...]
    """Folders below which log files may be read; a root itself may be a link, nothing below it."""
    own_uid: int = field(default_factory=os.geteuid)
    """Kernel logs belong to root or to this user."""
    rank_patterns: tuple[str, ...] = RANK_PATTERNS
    hot_s: float = 0.2
    """Between two reads of an attempt whose files grow."""
    quiet_s: float = 2.0
    """The longest wait while an attempt has been silent for less than `idle_after_s`."""
    idle_s: float = 15.0
    idle_after_s: float = 120.0
    network_hot_s: float = 2.0
    """As `hot_s`, on a network file system."""
    network_look_s: float = 2.0
    """Between two looks at the paths on a network file system; on a local one each read looks."""
    network_metadata_per_s: float = 200.0
    """Metadata calls on one network file system."""
    network_late_s: float = 30.0
    """How long after an attempt's end the last bytes may take to come over the network."""
    drain_s: float = 5.0
    """How long a file that was rotated away is still read, for a writer that has not yet changed over."""
    stale_s: float = 60.0
    """A log last written this long before the attempt began holds nothing of it; kernel lines count from here on."""
    read_bytes: int = 1024 * 1024
    """Of one attempt in one read."""
    file_bytes: int = 256 * 1024
    """Of one file in one read."""
    job_bytes_per_s: float = 32.0 * 1024 * 1024
    look_back_bytes: int = 1024 * 1024
    """How far back a kernel log is searched for the attempt's beginning."""
    files_per_attempt: int = 256
    open_files: int = 512
    """Open at once in this source (design 13)."""
    folder_look_s: float = 30.0
    """Between two looks at an attempt's checkpoint folder (operators.md 2); where there are many, longer."""
    folder_entries: int = 1000
    """Files and folders of a checkpoint folder and one level below it that a look counts."""
    threads: int = 4
    threads_at_most: int = 24
    """With those that hang on a file system that does not answer."""
    limit_s: float = 5.0
    """A read that takes longer is not waited for."""
