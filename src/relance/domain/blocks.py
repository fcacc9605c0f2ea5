"""How the bytes of a growing log become blocks of whole lines."""

from __future__ import annotations

from typing import Final

CARRIED_BYTES: Final = 64 * 1024
"""An unfinished line is held back up to this length (design 13)."""
OVERLAP_BYTES: Final = 4 * 1024
"""How much of a cut line is delivered again before its next piece, so that a pattern across the cut still matches."""

_ENDS: Final = b"\r\n"


def ready_bytes(data: bytes, *, over: bool = False) -> int:
    """How many bytes at the start of `data` may be delivered now; the rest waits for the end of its line.

    A line ends with a newline; a carriage return ends a line that is written over, such as a progress bar. `over` says
    that nothing more will come. A line longer than CARRIED_BYTES goes out in pieces.
    """
    if over:
        return len(data)
    cut = data.rfind(b"\n") + 1
    # A carriage return at the very end may be half of "\r\n": the next read tells.
    cut = max(cut, data.rfind(b"\r", cut, max(len(data) - 1, cut)) + 1)
    return len(data) if len(data) - cut >= CARRIED_BYTES else cut


def is_cut(before: bytes) -> bool:
    """Whether what follows `before` is the rest of a line that has already been delivered in part."""
    return bool(before) and before[-1] not in _ENDS


def overlap_of(before: bytes) -> bytes:
    """The part of `before`, the bytes just delivered, that is to be delivered again in front of what follows it."""
    if not is_cut(before):
        return b""
    piece = before[-OVERLAP_BYTES:]
    return piece[max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1 :]
