"""Progress lines and phases of training frameworks, read from blocks of log bytes."""

from __future__ import annotations

from relance.progress.own_patterns import OwnPattern, PatternError
from relance.progress.readers import ProgressReader, ReaderState
from relance.progress.tracking import ProgressState, seen_up_to, start, track, track_steps, with_start
from relance.progress.wanted import wanted_literals, wanted_patterns

__all__ = [
    "OwnPattern",
    "PatternError",
    "ProgressReader",
    "ProgressState",
    "ReaderState",
    "seen_up_to",
    "start",
    "track",
    "track_steps",
    "wanted_literals",
    "wanted_patterns",
    "with_start",
]
