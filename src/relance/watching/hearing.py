"""Hearing: who wrote lines in finished logs, and when each was last heard.

Only the beginning and the end of each log are listened to: ranks introduce themselves at first, and who falls silent is
missed at the end. So the cost does not grow with the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
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
_BYTES = 192 * 1024
"""So much of the beginning and of the end: hundreds of ranks that write into one log introduce themselves in it."""
_BYTES_OF_A_RANK = 16 * 1024
"""The same for a log that is one rank's own, of which a job may have thousands."""
_OF_A_PROGRAM = re.compile(rb"\b(?:ranks?|process(?:es)?|workers?|iter(?:ation)?s?|steps?|epochs?)\b", re.IGNORECASE)
"""What an agent's word about the job names; load and temperatures of a node go on whatever becomes of the job."""
_SCOPES_OF_THE_JOB = (Scope.APPLICATION, Scope.SCHEDULER)


@dataclass(slots=True)
class Ears:
    """Listens to blocks of logs, one log after another, each from its beginning; `now` is the time of reading.

    Of a log that is over only who was heard in it is kept, so the room does not grow with the number of logs.
    """

    now: datetime
    _log: LogBlock | None = None
    """The first block of the log that is listened to."""
    _head: bytes = b""
    _tail: bytes = b""
    _ranks: set[int] = field(default_factory=set)
    _nodes: set[str] = field(default_factory=set)
    _last_at: dict[int, datetime] = field(default_factory=dict)
    _node_last_at: dict[str, datetime] = field(default_factory=dict)
    _first_at: datetime | None = None
    _latest: dict[str, datetime] = field(default_factory=dict)
    _told: dict[str, datetime] = field(default_factory=dict)

    def take(self, block: LogBlock) -> None:
        """The next block of its log."""
        if self._log is None or block.file != self._log.file:
            self._end()
            self._log = block
        data = block.data[block.overlap :]
        most = _BYTES if self._log.rank is None else _BYTES_OF_A_RANK
        room = most - len(self._head)
        self._head += data[:room]
        if len(data) > room:
            self._tail = (self._tail + data[room:][-most:])[-most:]

    def presence(self) -> Presence:
        """Who was heard in the job's own output."""
        self._end()
        return Presence(
            ranks=frozenset(self._ranks),
            nodes=frozenset(self._nodes),
            last_at=dict(self._last_at),
            node_last_at=dict(self._node_last_at),
            first_at=self._first_at,
        )

    def latest(self) -> Mapping[str, datetime]:
        """The latest time near the end of each log of the job or its scheduler, by its name, where lines bear any."""
        self._end()
        return dict(self._latest)

    def told(self) -> Mapping[str, datetime]:
        """The same of those lines alone that tell of a program's ranks, processes or steps."""
        self._end()
        return dict(self._told)

    def _end(self) -> None:
        """The log is over: keep who was heard in it, and when."""
        log, (head, tail) = self._log, self._whole_lines()
        self._log, self._head, self._tail = None, b"", b""
        if log is None or log.scope not in _SCOPES_OF_THE_JOB:
            return
        for line in tail or head:
            at = self._time(line)
            _keep_latest(self._latest, log.file, at)
            if _OF_A_PROGRAM.search(line):
                _keep_latest(self._told, log.file, at)
        if log.scope is Scope.APPLICATION:
            first = next(filter(None, map(self._time, head)), None)
            if first is not None:
                self._first_at = first if self._first_at is None else min(self._first_at, first)
            for line in (*head, *tail):
                self._hear(line, log)

    def _whole_lines(self) -> tuple[list[bytes], list[bytes]]:
        """The lines of the beginning and of the end: half a line may seem to name a rank that there is not."""
        if not self._tail:
            return _lines(self._head), []
        cut = max(self._head.rfind(b"\n"), self._head.rfind(b"\r")) + 1 or len(self._head)
        head, rest = self._head[:cut], self._head[cut:]
        left_out = len(self._tail) >= len(self._head)
        tail = _lines(self._tail)[1:] if left_out else _lines(rest + self._tail)
        return _lines(head), tail

    def _hear(self, line: bytes, log: LogBlock) -> None:
        label = read_label(line)
        rank = label.best_rank if log.rank is None else log.rank
        host = label.host if log.node is None else log.node
        at = self._time(line) if log.rank is not None or host is not None else None
        if rank is not None:
            self._ranks.add(rank)
            if log.rank is not None:
                _keep_latest(self._last_at, rank, at)
        if host is not None:
            self._nodes.add(host)
            _keep_latest(self._node_last_at, host, at)

    def _time(self, line: bytes) -> datetime | None:
        return read_time(line, read_at=self.now)


def _lines(part: bytes) -> list[bytes]:
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
        tail = (tail + chunk)[-_BYTES:]
    return next((at for line in reversed(_lines(tail)) if (at := dated(line)) is not None), None)
