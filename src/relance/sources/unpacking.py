"""Bodies of answers, unpacked piece by piece and never beyond a size: a few bytes may be packed gigabytes."""

from __future__ import annotations

import zlib
from typing import Final, Protocol

_GZIP_BITS: Final = 31
_PLAIN: Final = frozenset({"", "identity"})
_GZIP: Final = frozenset({"gzip", "x-gzip"})


class PackedError(Exception):
    """A body that cannot be unpacked; the text says what it is."""


class TooLongError(Exception):
    """A body that is longer than is read."""


class Unpacker(Protocol):
    """Takes the pieces of one body as they come."""

    def take(self, piece: bytes) -> None:
        """The next piece. Raises PackedError, TooLongError."""
        ...

    def whole(self) -> bytes:
        """The body. Raises PackedError for one that ends half-way."""
        ...


def unpacker(encoding: str, most: int) -> Unpacker:
    """What unpacks a body of this content encoding, of so many bytes at most. Raises PackedError for others."""
    name = encoding.strip().lower()
    if name in _PLAIN:
        return _Plain(most)
    if name in _GZIP:
        return _Gzip(most)
    shown = "".join(char if char.isprintable() else "?" for char in name[:40])
    message = f"a body packed as {shown!r}, which was not asked for"
    raise PackedError(message)


class _Plain:
    def __init__(self, most: int) -> None:
        self._body = bytearray()
        self._most = most

    def take(self, piece: bytes) -> None:
        self._body += piece
        if len(self._body) > self._most:
            raise TooLongError

    def whole(self) -> bytes:
        return bytes(self._body)


class _Gzip:
    """Of gzip, which may have several parts."""

    def __init__(self, most: int) -> None:
        self._body = bytearray()
        self._most = most
        self._part = zlib.decompressobj(_GZIP_BITS)
        self._began = False

    def take(self, piece: bytes) -> None:
        left = piece
        try:
            while left:
                if self._part.eof:
                    self._part = zlib.decompressobj(_GZIP_BITS)
                self._began = True
                self._body += self._part.decompress(left, self._most + 1 - len(self._body))
                if len(self._body) > self._most:
                    raise TooLongError
                left = self._part.unconsumed_tail or self._part.unused_data
        except zlib.error as error:
            message = "a body that is no gzip"
            raise PackedError(message) from error

    def whole(self) -> bytes:
        if self._began and not self._part.eof:
            message = "a body that ends half-way"
            raise PackedError(message)
        return bytes(self._body)
