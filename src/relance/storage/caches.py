"""What was decoded before, kept in memory by stream and version: a version never changes, so this is never stale."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry(Generic[T]):
    version: int
    value: T
    size: int


class VersionedCache(Generic[T]):
    """The most recently used values, one a stream, of at most `most_chars` characters as payloads in all.

    Python objects take several times the space of their JSON. Any thread may use it.
    """

    def __init__(self, most_chars: int) -> None:
        self._most_chars = most_chars
        self._chars = 0
        self._entries: OrderedDict[int, _Entry[T]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, stream_id: int, version: int) -> T | None:
        """The value at exactly this version, if it is in memory."""
        with self._lock:
            known = self._entries.get(stream_id)
            if known is None or known.version != version:
                return None
            self._entries.move_to_end(stream_id)
            return known.value

    def put(self, stream_id: int, version: int, value: T, chars: int) -> None:
        """Keep the value of a version whose transaction is committed, unless a later one is there."""
        with self._lock:
            known = self._entries.pop(stream_id, None)
            entry = _Entry(version=version, value=value, size=chars)
            if known is not None:
                self._chars -= known.size
                entry = known if known.version > version else entry
            self._entries[stream_id] = entry
            self._chars += entry.size
            while self._chars > self._most_chars and self._entries:
                self._chars -= self._entries.popitem(last=False)[1].size

    def advance(self, stream_id: int, versions: tuple[int, int], change: Callable[[T], T], chars: int) -> None:
        """Bring a value from the first of two versions to the second, `chars` longer, if it is in memory."""
        with self._lock:
            known = self._entries.get(stream_id)
        if known is not None and known.version == versions[0]:
            self.put(stream_id, versions[1], change(known.value), known.size + chars)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._entries.clear()
            self._chars = 0
