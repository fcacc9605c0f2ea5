"""Lines of streams as blocks: one per stream and short time, with offsets that go on from block to block."""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from relance.domain.blocks import CARRIED_BYTES, overlap_of
from relance.domain.faults import Scope
from relance.domain.observations import LogBlock
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.times import span_ns, time_of
from relance.sources.stores.tracks import Line

_KEY_BYTES: Final = 6


class Sizes:
    """How many bytes of each stream were delivered.

    Of so many streams at most: one that was silent for longest is forgotten, and begins, should it speak again, beyond
    all that any has reached, so that no place in it is named twice.
    """

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._total = 0
        self._forgot = False

    def advance(self, stream: str, size_bytes: int) -> int:
        """Count bytes of a stream; gives where they begin."""
        key = _key(stream)
        begin = self._sizes.pop(key, self._total if self._forgot else 0)
        self._sizes[key] = begin + size_bytes
        self._total = max(self._total + size_bytes, begin + size_bytes)
        if len(self._sizes) > self._at_most:
            self._sizes.popitem(last=False)
            self._forgot = True
        return begin

    def to_json(self) -> dict[str, object]:
        """As plain data."""
        return {"streams": dict(self._sizes), "total": self._total, "forgot": self._forgot}

    def restore(self, data: object) -> None:
        """Go on from what `to_json` gave; anything else is as nothing."""
        if not isinstance(data, Mapping):
            return
        streams, total = data.get("streams"), data.get("total")
        if isinstance(streams, Mapping) and isinstance(total, int):
            self._sizes.update({str(key): size for key, size in streams.items() if isinstance(size, int)})
            self._total, self._forgot = total, data.get("forgot") is True


@dataclass(slots=True)
class _Open:
    """A block that is being filled."""

    line: Line
    last_ns: int
    parts: list[bytes] = field(default_factory=list)
    size_bytes: int = 0


class BlockMaker:
    """Makes blocks of the lines of one attempt.

    `place` tells the node and the rank of a stream by its labels, `now` is the time of reading.
    """

    def __init__(
        self,
        settings: StoreSourceSettings,
        sizes: Sizes,
        place: Callable[[Mapping[str, str]], tuple[str | None, int | None]],
        now: datetime,
    ) -> None:
        self._settings = settings
        self._sizes = sizes
        self._place = place
        self._now = now

    def blocks(self, lines: Iterable[Line], scope: Scope) -> list[LogBlock]:
        """The lines, which come by time, as blocks in the order of their first lines."""
        close_ns = span_ns(self._settings.close_s)
        filled: list[_Open] = []
        open_now: dict[str, _Open] = {}
        for line in lines:
            text = line.text if line.text.endswith(b"\n") else line.text + b"\n"
            block = open_now.get(line.stream)
            if (
                block is None
                or line.at_ns - block.line.at_ns > close_ns
                or block.size_bytes + len(text) > self._settings.block_bytes
            ):
                block = open_now[line.stream] = _Open(line, line.at_ns)
                filled.append(block)
            block.parts.append(text)
            block.size_bytes += len(text)
            block.last_ns = line.at_ns
        return [made for block in filled for made in self._made(block, scope)]

    def _made(self, block: _Open, scope: Scope) -> Iterable[LogBlock]:
        data = b"".join(block.parts)
        begin = self._sizes.advance(block.line.stream, len(data))
        node, rank = self._place(block.line.labels)
        read_at = min(time_of(block.last_ns), self._now)
        for at, piece in _pieces(data, self._settings.line_bytes):
            overlap = overlap_of(data[:at]) if at else b""
            yield LogBlock(
                file=block.line.stream,
                offset=begin + at - len(overlap),
                data=overlap + piece,
                scope=scope,
                read_at=read_at,
                node=node,
                rank=rank,
                overlap=len(overlap),
            )


def _pieces(data: bytes, line_bytes: int) -> Iterable[tuple[int, bytes]]:
    """A block whole, or, where it is one line that is too long, in pieces; each with where it begins."""
    if len(data) <= line_bytes + 1:
        return [(0, data)]
    return [(at, data[at : at + CARRIED_BYTES]) for at in range(0, len(data), CARRIED_BYTES)]


def _key(stream: str) -> str:
    digest = hashlib.blake2b(stream.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()
    return base64.urlsafe_b64encode(digest).decode("ascii")
