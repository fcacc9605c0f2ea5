"""Packed files, read as they are: gzip and zstd, told by their first bytes, in pieces of bounded size.

A file that was cut short or is broken gives what there is, and says so. However much a small file unpacks to, no more
than a piece of it and the packer's window is in memory.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, Protocol

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPED: Final = tuple(bytes((number,)) + b"\x2a\x4d\x18" for number in range(0x50, 0x60))
"""A frame that holds no data may come first (RFC 8878, section 3.1.2)."""
_MAGIC_BYTES: Final = 4
PIECE_BYTES: Final = 1 << 20
WINDOW_LOG: Final = 27
"""The largest window of zstd, 128 MiB: what its own command takes unless it is told otherwise."""
_FREE_BYTES: Final = 1 << 30
_MOST_RATIO: Final = 300
"""A log that is packed so well beyond the first GiB is no log."""


class Packed:
    """The bytes of a file, unpacked if it is packed; `trouble` says after reading what was wrong with the packing.

    Args:
        chunks: Gives the bytes as they lie there, from the beginning, each time it is called.
    """

    def __init__(self, chunks: Callable[[], Iterable[bytes]]) -> None:
        self._chunks = chunks
        self._trouble = ""

    def chunks(self) -> Iterator[bytes]:
        """The bytes from the beginning, in pieces of any size."""
        raw = iter(self._chunks())
        head = b""
        for piece in raw:
            head += piece
            if len(head) >= _MAGIC_BYTES:
                break
        whole = chain((head,) if head else (), raw)
        make = _unpacker_of(head)
        return whole if make is None else self._unpacked(whole, make)

    def trouble(self) -> str:
        """What was wrong with the packing; empty as long as nothing was."""
        return self._trouble

    def _unpacked(self, raw: Iterable[bytes], make: Callable[[], _Unpacker]) -> Iterator[bytes]:
        given = taken = 0
        unpacker = make()
        try:
            for piece in raw:
                taken += len(piece)
                rest = piece
                while rest or not unpacker.needs_input:
                    if unpacker.is_over:
                        unpacker = make()
                    data, rest = unpacker.take(rest)
                    given += len(data)
                    if data:
                        yield data
                    if given > _FREE_BYTES and given > _MOST_RATIO * taken:
                        self._trouble = "it unpacks to far more than any log: the rest was not read"
                        return
                    if not data and not rest:
                        break
        except (zlib.error, zstd.ZstdError, EOFError) as error:
            self._trouble = f"it is not packed as it should be ({error}): the rest was not read"
            return
        if not unpacker.is_over:
            self._trouble = "it ends in the middle: what there is was read"


class _Unpacker(Protocol):
    """Unpacks one member of a file."""

    needs_input: bool
    is_over: bool

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """A piece of what is unpacked, and the bytes that were not used for it."""
        ...


class _Gzip:
    """One member of a gzip file."""

    def __init__(self) -> None:
        self._object = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self.needs_input = True
        self.is_over = False

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        found = self._object.decompress(data, PIECE_BYTES)
        self.is_over = self._object.eof
        self.needs_input = self.is_over or len(found) < PIECE_BYTES
        rest = self._object.unused_data.lstrip(b"\0") if self.is_over else self._object.unconsumed_tail
        return found, rest


class _Zstd:
    """One frame of a zstd file."""

    def __init__(self) -> None:
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: WINDOW_LOG}
        self._object: Any = zstd.ZstdDecompressor(options=options)
        self.needs_input = True
        self.is_over = False

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        found: bytes = self._object.decompress(data, PIECE_BYTES)
        self.is_over = self._object.eof
        self.needs_input = self.is_over or self._object.needs_input
        return found, (self._object.unused_data if self.is_over else b"")


def _unpacker_of(head: bytes) -> Callable[[], _Unpacker] | None:
    if head.startswith(_GZIP):
        return _Gzip
    return _Zstd if head.startswith((_ZSTD, *_ZSTD_SKIPPED)) else None
