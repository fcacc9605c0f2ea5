"""The ledger's entries as lines of a file, each with a checksum, and back. Standard library only, no I/O."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass

from relance.domain.encoding import EncodingError, decode, encode
from relance.domain.ledgers import VERSION, Entry, Opened


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerReading:
    """What is in the bytes of a ledger.

    `torn` is whether the end broke off: a command of such a line was never sent, because a line is on disk before that.
    `damaged` holds the numbers (from 1) of other lines that cannot be read; with one of these nothing may be begun.
    `good_bytes` is the length up to the end of the last whole line.
    """

    entries: tuple[Entry, ...]
    torn: bool
    damaged: tuple[int, ...]
    good_bytes: int


def line_of(entry: Entry) -> bytes:
    """One entry as a line: CRC-32 of the rest in hex, a space, JSON, a newline."""
    body = json.dumps(encode(entry), ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(body), body)


def read_lines(data: bytes) -> LedgerReading:
    """The entries in the bytes of a ledger; never raises."""
    *lines, rest = data.split(b"\n")
    bodies = [_body_of(line) for line in lines]
    # A crash leaves a broken line, or several that were not on disk yet, at the end and nowhere else.
    whole = max((number for number, body in enumerate(bodies, start=1) if body is not None), default=0)
    entries: list[Entry] = []
    damaged: list[int] = []
    for number, body in enumerate(bodies[:whole], start=1):
        entry = _entry_of(body)
        if entry is None:
            damaged.append(number)
        else:
            entries.append(entry)
    return LedgerReading(
        entries=tuple(entries),
        torn=bool(rest) or whole < len(lines),
        damaged=tuple(damaged),
        good_bytes=sum(len(line) + 1 for line in lines[:whole]),
    )


def _body_of(line: bytes) -> bytes | None:
    """The JSON of a line whose checksum is right."""
    checksum, _, body = line.partition(b" ")
    return body if checksum == b"%08x" % zlib.crc32(body) else None


def _entry_of(body: bytes | None) -> Entry | None:
    """The entry; None for what is broken, or was written by a newer version."""
    if body is None:
        return None
    try:
        entry: Entry = decode(Entry, json.loads(body))
    except (EncodingError, ValueError, RecursionError):
        return None
    return None if isinstance(entry, Opened) and entry.version > VERSION else entry
