"""A track: the lines of one attempt out of one kind of stream, each delivered once, whatever comes between.

Lines come late and out of order, so a look at a store begins where the one before it could be sure that nothing older
would come, and lines that are known already are dropped by what they are: time, stream and text, counted. What is known
is remembered for as long as it may be seen again, and so little of it that it fits into a checkpoint: lines beyond
that are not delivered before they are too old to be seen again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from relance.sources.stores.backs import Entry
from relance.sources.stores.passages import Passages

_KEPT: Final = struct.Struct(">8sI")
_STEP_NS: Final = 1_000_000
_MOST_STEPS: Final = 2**32 - 1


class Line(NamedTuple):
    """A line that waits to be delivered."""

    at_ns: int
    identity: bytes
    stream: str
    labels: Mapping[str, str]
    text: bytes


@dataclass(slots=True)
class _Known:
    """A line that may be seen again: how often it was delivered, and how often it waits."""

    at_ns: int
    delivered: int = 0
    waiting: int = 0


def identity_of(at_ns: int, stream: str, text: bytes) -> bytes:
    """What tells a line from others."""
    head = b"%d\0%s\0" % (at_ns, stream.encode("utf-8", "surrogatepass"))
    return hashlib.blake2b(head + text, digest_size=8).digest()


class Track:
    """One attempt's lines of one kind.

    Args:
        begin_ns: Lines before this are not the attempt's.
        identities: How many lines may be remembered.
    """

    def __init__(self, begin_ns: int, identities: int) -> None:
        self.floor_ns = begin_ns
        """All lines before this were fetched, and no more of them will come."""
        self.until_ns: int | None = None
        """Lines from here on are no more the attempt's; None: all are."""
        self.is_read = False
        """Whether the store has been read to its end once."""
        self.read_to_ns: int | None = None
        """When the store was last read to its end, less its delay: up to here silence is known."""
        self.retry_at = -math.inf
        """Not to be asked for before this, by the monotonic clock."""
        self.trouble = ""
        self.is_apart = False
        """Whether it is asked for by itself, because it has so many lines that others would wait for them."""
        self.heard = False
        """Whether it has ever had a line."""
        self.is_filtered = False
        """Whether only lines that are wanted were asked for: that none came says little then."""
        self.passages = Passages(begin_ns)
        """What its streams are in the middle of."""
        self.waiting_bytes = 0
        self._identities = identities
        self._waiting: list[Line] = []
        self._known: dict[bytes, _Known] = {}

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to fetch."""
        return self.until_ns is not None and self.floor_ns >= self.until_ns

    def take(self, entries: Iterable[tuple[Entry, str]], fetched_to_ns: int, sure_ns: int) -> int:
        """Take what one page has of it, each entry with the name of its stream; gives how many lines are new.

        Every entry from `floor_ns` on and before `fetched_to_ns` is in it. Before `sure_ns` nothing more will come.
        """
        counts: Counter[bytes] = Counter()
        before = len(self._waiting)
        for entry, stream in entries:
            if entry.at_ns < self.floor_ns or (self.until_ns is not None and entry.at_ns >= self.until_ns):
                continue
            identity = identity_of(entry.at_ns, stream, entry.line)
            counts[identity] += 1
            known = self._known.get(identity)
            if known is None:
                known = self._known[identity] = _Known(entry.at_ns)
            if counts[identity] > known.delivered + known.waiting:
                known.waiting += 1
                self._waiting.append(Line(entry.at_ns, identity, stream, entry.labels, entry.line))
                self.waiting_bytes += len(entry.line) + 1
        new = len(self._waiting) - before
        if new:
            self.heard = True
            self._waiting.sort(key=_time_of)  # late lines before those that wait already
        self.floor_ns = max(self.floor_ns, min(fetched_to_ns, sure_ns))
        return new

    @property
    def waiting_lines(self) -> int:
        """How many lines wait to be delivered."""
        return len(self._waiting)

    @property
    def has_more(self) -> bool:
        """Whether a read would give lines."""
        if not self._waiting or self._waiting[0].at_ns < self.floor_ns:
            return bool(self._waiting)
        return self._kept() + self._end_of_time(0) <= self._identities

    def deliver(self, at_most_bytes: int) -> list[Line]:
        """The next lines by time; about so many bytes.

        Lines of one time are delivered together: between them nothing could tell which of them were.
        """
        taken, size, kept = 0, 0, -1
        while taken < len(self._waiting) and size < at_most_bytes:
            end = self._end_of_time(taken)
            if self._waiting[taken].at_ns >= self.floor_ns:
                kept = (self._kept() if kept < 0 else kept) + end - taken
                if kept > self._identities:
                    break
            for line in self._waiting[taken:end]:
                known = self._known[line.identity]
                known.waiting -= 1
                known.delivered += 1
                size += len(line.text) + 1
            taken = end
        lines, self._waiting = self._waiting[:taken], self._waiting[taken:]
        self.waiting_bytes -= size
        self._forget()
        return lines

    def positions(self) -> dict[str, object]:
        """Where to go on, as plain data: no line before `t_ns` is left, and which later ones were delivered."""
        since = self._since_ns()
        kept = bytearray()
        for identity, known in self._known.items():
            if known.delivered and known.at_ns >= since:
                steps = min(-((since - known.at_ns) // _STEP_NS), _MOST_STEPS)
                kept += _KEPT.pack(identity, steps) * known.delivered
        return {
            "t_ns": since,
            "kept": base64.b64encode(kept).decode("ascii"),
            "heard": self.heard,
            "passages": self.passages.to_json(since),
        }

    def restore(self, data: object) -> bool:
        """Go on from what `positions` gave; False, and nothing changed, where it is none."""
        if not isinstance(data, Mapping):
            return False
        since, kept = data.get("t_ns"), data.get("kept")
        if not isinstance(since, int) or not isinstance(kept, str):
            return False
        try:
            packed = base64.b64decode(kept, validate=True)
            pairs = list(_KEPT.iter_unpack(packed))
        except (binascii.Error, struct.error, ValueError):
            return False
        self.floor_ns = since
        self.heard = data.get("heard") is True
        self.passages = Passages(since)
        self.passages.restore(data.get("passages"))
        for identity, steps in pairs:
            known = self._known.setdefault(identity, _Known(since + steps * _STEP_NS))
            known.delivered += 1
        return True

    def _since_ns(self) -> int:
        return min(self.floor_ns, self._waiting[0].at_ns) if self._waiting else self.floor_ns

    def _end_of_time(self, begin: int) -> int:
        return bisect_left(self._waiting, self._waiting[begin].at_ns + 1, lo=begin, key=_time_of)

    def _kept(self) -> int:
        """How many delivered lines have to be remembered."""
        since = self._since_ns()
        return sum(known.delivered for known in self._known.values() if known.at_ns >= since)

    def _forget(self) -> None:
        """Forget lines that cannot be seen again."""
        since = self._since_ns()
        if any(known.at_ns < since for known in self._known.values()):
            self._known = {identity: known for identity, known in self._known.items() if known.at_ns >= since}


def _time_of(line: Line) -> int:
    return line.at_ns
