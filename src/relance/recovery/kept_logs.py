"""What was kept of a job's logs, so that a restart that empties them loses nothing: which pieces, and whose. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from relance.domain import events as e
from relance.domain.keys import AttemptKey
from relance.domain.streams import Recorded

_NUMBERED = re.compile(r"\.r\d{1,6}\Z", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPiece:
    """A piece that was kept of one file, masked; its bytes are read by `digest`."""

    attempt: AttemptKey
    file: str
    start_offset: int
    size_bytes: int
    digest: str


def kept_logs(recorded: Iterable[Recorded], attempt: AttemptKey | None = None) -> tuple[KeptPiece, ...]:
    """The newest piece of each file of each attempt (or of this one), in the order in which files were first kept."""
    newest: dict[tuple[AttemptKey, str], KeptPiece] = {}
    for item in recorded:
        event = item.event
        if isinstance(event, e.AttachmentKept) and attempt in (None, event.attempt):
            newest[event.attempt, event.file] = KeptPiece(
                attempt=event.attempt,
                file=event.file,
                start_offset=event.start_offset,
                size_bytes=event.size_bytes,
                digest=event.digest,
            )
    return tuple(newest.values())


def is_jobs_own(file: str, log_paths: Iterable[str]) -> bool:
    """Whether a file is one of the job's own: what kernels say is of everybody on the node.

    `log_paths` are the job's paths and globs, as they are followed.
    """
    return file.startswith("/") and any(_covers(path, file) for path in log_paths)


def _covers(pattern: str, file: str) -> bool:
    """Whether a pattern is meant of the file, star for star in the same folder."""
    wanted, parts = _plain(pattern).split("/"), _plain(file).split("/")
    return len(wanted) == len(parts) and all(map(fnmatchcase, parts, wanted))


def _plain(path: str) -> str:
    """The name as the job gave it, without the `.rN` by which a restart has a log of its own."""
    return _NUMBERED.sub("", path)
