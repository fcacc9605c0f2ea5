from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from relance.sources.unpacking import PackedError, TooLongError, unpacker

MOST = 1 << 20


def bomb(size: int) -> bytes:
    """A gzip of so many zeros."""
    packer = zlib.compressobj(wbits=31)
    parts = [packer.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, packer.flush()])


def test_what_is_packed_small_and_long_is_never_unpacked_beyond_what_is_read() -> None:
    packed = bomb(256 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(TooLongError):
            unpacker("gzip", MOST).take(packed)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MOST


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", " GZIP "])
def test_a_body_comes_out_as_it_went_in_however_it_is_cut(size: int, encoding: str) -> None:
    body = b"line\n" * 500
    packed = gzip.compress(body[:900]) + gzip.compress(body[900:])
    taken = unpacker(encoding, len(body))
    for begin in range(0, len(packed), size):
        taken.take(packed[begin : begin + size])
    assert taken.whole() == body


def unpacked(packed: bytes) -> bytes:
    taken = unpacker("gzip", MOST)
    taken.take(packed)
    return taken.whole()


def test_a_plain_body_is_bounded_too() -> None:
    taken = unpacker("", 10)
    taken.take(b"0123456789")
    assert taken.whole() == b"0123456789"
    with pytest.raises(TooLongError):
        taken.take(b"0")


@pytest.mark.parametrize("encoding", ["zstd", "br", "gzip, gzip", "deflate", "\x1b[2J"])
def test_other_packings_are_refused_in_words_for_people(encoding: str) -> None:
    with pytest.raises(PackedError) as caught:
        unpacker(encoding, MOST)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "packed",
    [b"<html>", gzip.compress(b"a" * 100, mtime=0)[:-4], gzip.compress(b"a", mtime=0)[:5]],
    ids=["html", "without its end", "its head alone"],
)
def test_a_body_that_is_no_gzip_or_half_of_one_is_none(packed: bytes) -> None:
    with pytest.raises(PackedError):
        unpacked(packed)


def test_nothing_is_an_empty_body() -> None:
    assert unpacker("gzip", MOST).whole() == b""
