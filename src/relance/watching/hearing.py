"""Hearing: who wrote lines in finished logs, and when each was last heard.

Only the beginning and the end of each log are listened to: ranks introduce themselves at first, and who falls silent is
missed at the end. So the cost does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from relance.domain.faults import Scope
from relance.domain.log_labels import read_label
from relance.domain.log_texts import LogText
from relance.domain.log_times import dated, read_time
from relance.domain.observations import LogBlock
from relance.domain.verdicts import Presence

K = TypeVar("K")
_HEAD_BYTES = 192 * 1024
_TAIL_BYTES = 192 * 1024


@dataclass(slots=True)
class Ears:
    """Listens to blocks of several logs, each from its beginning; `now` is the time of reading."""

    now: datetime
    _heads: dict[str, bytes] = field(default_factory=dict)
    _tails: dict[str, bytes] = field(default_factory=dict)
    _of: dict[str, LogBlock] = field(default_factory=dict)

    def take(self, block: LogBlock) -> None:
        """The next block of its log."""
        data = block.data[block.overlap :]
        head = self._heads.get(block.file, b"")
        room = _HEAD_BYTES - len(head)
        if room > 0:
            self._heads[block.file] = head + data[:room]
        if len(data) > room:
            rest = data[max(room, 0) :]
            self._tails[block.file] = (self._tails.get(block.file, b"") + rest[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        self._of.setdefault(block.file, block)

    def presence(self) -> Presence:
        """Who was heard in the job's own output."""
        ranks: set[int] = set()
        nodes: set[str] = set()
        last_at: dict[int, datetime] = {}
        node_last_at: dict[str, datetime] = {}
        for name, block in self._of.items():
            if block.scope is not Scope.APPLICATION:
                continue
            for rank, host, at in self._voices(name, block):
                if rank is not None:
                    ranks.add(rank)
                    if block.rank is not None:
                        _keep_latest(last_at, rank, at)
                if host is not None:
                    nodes.add(host)
                    _keep_latest(node_last_at, host, at)
        return Presence(
            ranks=frozenset(ranks),
            nodes=frozenset(nodes),
            last_at=last_at,
            node_last_at=node_last_at,
            first_at=self._first_at(),
        )

    def latest(self) -> datetime | None:
        """The latest time that any line near the end of a log of the job or its scheduler bears."""
        times = (
            at
            for name, block in self._of.items()
            if block.scope in (Scope.APPLICATION, Scope.SCHEDULER)
            for line in self._lines(self._tails.get(name) or self._heads[name])
            if (at := read_time(line, read_at=self.now)) is not None
        )
        return max(times, default=None)

    def _first_at(self) -> datetime | None:
        """The first time that the job's own output bears."""
        times = (
            next((at for line in self._lines(head) if (at := read_time(line, read_at=self.now)) is not None), None)
            for name, head in self._heads.items()
            if self._of[name].scope is Scope.APPLICATION
        )
        return min((at for at in times if at is not None), default=None)

    def _voices(self, name: str, block: LogBlock) -> Iterator[tuple[int | None, str | None, datetime | None]]:
        for part in (self._heads[name], self._tails.get(name, b"")):
            for line in self._lines(part):
                label = read_label(line)
                rank = label.best_rank if block.rank is None else block.rank
                host = label.host if block.node is None else block.node
                if rank is not None or host is not None:
                    yield rank, host, read_time(line, read_at=self.now)

    def _lines(self, part: bytes) -> list[bytes]:
        return LogText(part).text.splitlines()


def _keep_latest(kept: dict[K, datetime], key: K, at: datetime | None) -> None:
    if at is not None and (key not in kept or kept[key] < at):
        kept[key] = at


def reading_time(logs: Iterable[Callable[[], Iterable[bytes]]], otherwise: datetime) -> datetime:
    """The time at which finished logs are taken to be read: a day after the last date that any of them ends with.

    So the same logs give the same answer whenever they are read, and a clock that was ahead does not make a line one
    of the future. Logs without dates are read at `otherwise`.
    """
    ends = [at for chunks in logs if (at := _last_date(chunks())) is not None]
    return max(ends) + timedelta(days=1) if ends else otherwise


def _last_date(chunks: Iterable[bytes]) -> datetime | None:
    tail = b""
    for chunk in chunks:
        tail = (tail + chunk)[-_TAIL_BYTES:]
    lines = LogText(tail).text.splitlines()
    return next((at for line in reversed(lines) if (at := dated(line)) is not None), None)
