from __future__ import annotations

import gzip
import itertools
import resource
import sys
from collections.abc import Callable

import pytest

from relance.watching.evidence.packed import PIECE_BYTES, Packed

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LINES = b"".join(b"[rank%d]: step %d, all is well\n" % (number % 8, number) for number in range(60_000))
CHECKED: dict[int, int] = {zstd.CompressionParameter.checksum_flag: 1}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": lambda data: zstd.compress(data, options=CHECKED),
}


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def read(data: bytes, size: int = 1 << 20) -> tuple[bytes, str]:
    packed = Packed(lambda: pieces(data, size))
    return b"".join(packed.chunks()), packed.trouble()


@pytest.mark.parametrize("packer", sorted(PACKERS))
@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
def test_a_packed_file_is_read_as_it_is(packer: str, size: int) -> None:
    data = LINES if size > 7 else LINES[:4000]
    assert read(PACKERS[packer](data), size) == (data, "")


@pytest.mark.parametrize("packer", sorted(PACKERS))
def test_files_that_were_packed_one_after_the_other_are_all_read(packer: str) -> None:
    pack = PACKERS[packer]
    assert read(pack(b"one\n") + pack(b"") + pack(b"two\n"), 5) == (b"one\ntwo\n", "")


@pytest.mark.parametrize("data", [b"", b"a", b"\x1f", b"plain text\n", b"\xff\xfe\x00 no text"])
def test_what_is_not_packed_stays_as_it_is(data: bytes) -> None:
    assert read(data, 1) == (data, "")


@pytest.mark.parametrize("packer", sorted(PACKERS))
def test_a_file_cut_short_gives_what_there_is_and_says_so(packer: str) -> None:
    whole = PACKERS[packer](LINES)
    found, trouble = read(whole[: len(whole) // 2], 1000)
    assert found
    assert LINES.startswith(found)
    assert trouble == "it ends in the middle: what there is was read"


@pytest.mark.parametrize("packer", sorted(PACKERS))
def test_a_broken_file_gives_what_there_is_and_says_so(packer: str) -> None:
    whole = bytearray(PACKERS[packer](LINES))
    middle = len(whole) // 2
    whole[middle : middle + 64] = b"\xff" * 64
    found, trouble = read(bytes(whole), 1000)
    assert found[:1000] == LINES[:1000]
    assert trouble.startswith(("it is not packed as it should be", "it ends in the middle"))


@pytest.mark.parametrize("packer", sorted(PACKERS))
def test_a_bomb_does_not_fill_the_memory_and_is_given_up(packer: str) -> None:
    bomb = PACKERS[packer](bytes(1 << 26)) * 100
    packed = Packed(lambda: pieces(bomb, 1 << 16))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = sum(len(piece) for piece in packed.chunks())
    assert size < 3 << 30
    assert "far more than any log" in packed.trouble()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


@pytest.mark.parametrize("packer", sorted(PACKERS))
def test_pieces_are_bounded(packer: str) -> None:
    whole = PACKERS[packer](bytes(10 << 20))
    assert max(map(len, itertools.islice(Packed(lambda: [whole]).chunks(), 20))) <= PIECE_BYTES


def test_a_window_that_would_take_too_much_memory_is_refused_and_said() -> None:
    options: dict[int, int] = {
        zstd.CompressionParameter.window_log: 30,
        zstd.CompressionParameter.enable_long_distance_matching: 1,
    }
    compressor = zstd.ZstdCompressor(options=options)
    whole = compressor.compress(LINES) + compressor.flush()
    found, trouble = read(whole)
    assert found == b""
    assert trouble.startswith("it is not packed as it should be")
