"""What can go wrong with a private cluster, said with its remedy."""

from __future__ import annotations

from pathlib import Path

_TAIL_LINES = 15


class PrivateSlurmError(Exception):
    """A private cluster could not be started, used or removed; the text says why and what helps."""


class DaemonFailedError(PrivateSlurmError):
    """A daemon ended or did not become ready; the text has the end of its log."""


def tail(log: Path, lines: int = _TAIL_LINES) -> str:
    """The last lines of a log, for an error message; says so when there are none."""
    try:
        text = log.read_text(errors="replace")
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(text.splitlines()[-lines:]) or "(it said nothing)"
