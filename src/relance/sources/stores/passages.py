"""Passages: streams of which lines are wanted whole for a while, as after the first line of a traceback.

What a stream is in the middle of is known for one time, the one from which the next look reads on. So a look that reads
lines again comes to the same passages again, in whatever order the lines came in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from relance.domain.encoding import EncodingError, decode, encode
from relance.rules.pushdown import NO_PASSAGE, Passage, Prefilter
from relance.sources.stores.backs import Entry

_KEPT_BYTES: Final = 12 * 1024
"""Of open passages in a checkpoint; should there be more, those that are left out are taken for closed."""

Named = tuple[Entry, str]
"""An entry with the name of its stream."""


class Passages:
    """The open passages of one track's streams as they are at `at_ns`."""

    def __init__(self, at_ns: int = 0) -> None:
        self.at_ns = at_ns
        """Before this, all that is read of the track is to be read whole if anything is open."""
        self._open: dict[str, Passage] = {}
        self._closed: dict[str, int] = {}
        """Streams whose passage closed, and when that was known: lines from before may wait to be delivered."""

    def opens_at(self, prefilter: Prefilter, entries: Sequence[Named], from_ns: int) -> int | None:
        """From when on lines are wanted whole, of those entries from `from_ns` on; None: not at all."""
        if self._open or from_ns < self.at_ns:
            return from_ns
        return first_opening(prefilter, entries, from_ns)

    def copy(self) -> Passages:
        """The same, to be moved on by itself."""
        made = Passages(self.at_ns)
        made._open, made._closed = dict(self._open), dict(self._closed)
        return made

    def advance(self, prefilter: Prefilter, entries: Iterable[Named], to_ns: int) -> None:
        """Move on to a later time by all entries before it, from `at_ns` on, by rising time."""
        by_stream: dict[str, list[bytes]] = {}
        for entry, stream in entries:
            if self.at_ns <= entry.at_ns < to_ns:
                by_stream.setdefault(stream, []).append(entry.line)
        for stream, lines in by_stream.items():
            before = self._open.pop(stream, NO_PASSAGE)
            after = prefilter.after(lines, before)
            if after.is_open:
                self._open[stream] = after
            elif before.is_open:
                self._closed[stream] = to_ns
        self.at_ns = max(self.at_ns, to_ns)

    def to_json(self, since_ns: int) -> dict[str, object]:
        """As plain data, for a track that is to be read on from `since_ns`.

        What was open then or has been since is read whole up to `at_ns`.
        """
        self._closed = {stream: at_ns for stream, at_ns in self._closed.items() if at_ns > since_ns}
        if not self._open and not self._closed:
            return {}
        kept: dict[str, object] = {}
        room = _KEPT_BYTES
        for stream, passage in self._open.items():
            plain = encode(passage)
            room -= len(stream) + len(json.dumps(plain))
            if room < 0:
                break
            kept[stream] = plain
        return {"at_ns": self.at_ns, "open": kept}

    def restore(self, data: object) -> None:
        """Go on from what `to_json` gave; anything else is as nothing."""
        if not isinstance(data, Mapping) or not isinstance(data.get("open"), Mapping):
            return
        at_ns = data.get("at_ns")
        if not isinstance(at_ns, int):
            return
        self.at_ns = at_ns
        for stream, plain in data["open"].items():
            try:
                self._open[str(stream)] = decode(Passage, plain)
            except EncodingError:
                continue


def first_opening(prefilter: Prefilter, entries: Sequence[Named], from_ns: int) -> int | None:
    """The time of the first entry from then on that opens a passage."""
    later = [entry for entry, _ in entries if entry.at_ns >= from_ns]
    first = prefilter.opening([entry.line for entry in later])
    return None if first is None else later[first].at_ns
