"""The watchdog's mark as the controller reads it: the one thing that it does only with somebody behind it is a hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from relance.domain.watchdogs import MARK_FILE, WatchdogMark, read_mark

ReadMark = Callable[[], WatchdogMark | None]
"""Gives the newest mark; None where there is none, or none that can be read."""
_MOST_BYTES = 64 * 1024


def mark_in(folder: Path) -> ReadMark:
    """Reads the mark in a controller's folder of one cluster; the folder is our own, mode 0700."""
    path = folder / MARK_FILE

    def newest() -> WatchdogMark | None:
        try:
            with path.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        except OSError:
            return None
        return read_mark(data.decode("utf-8", "replace")) if len(data) <= _MOST_BYTES else None

    return newest
