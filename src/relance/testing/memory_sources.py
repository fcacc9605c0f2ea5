"""A source of logs in memory, for tests of what is above sources. It obeys the source contract."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from relance.domain.faults import Scope
from relance.domain.findings import Coverage, Sight
from relance.domain.keys import AttemptKey
from relance.domain.observations import Attachment, LogBlock, SeenUpTo
from relance.domain.views import Assignment
from relance.ports.clocks import Clock
from relance.ports.sources import Reading
from relance.rules import mask

_BLOCK_BYTES = 256 * 1024


@dataclass(slots=True)
class MemoryLog:
    """What one attempt has written to one log, and since when there is something that was not told."""

    attempt: AttemptKey
    file: str = "job.out"
    scope: Scope = Scope.APPLICATION
    node: str | None = None
    rank: int | None = None
    data: bytes = b""


@dataclass(slots=True)
class MemoryFolder:
    """A folder that grows."""

    owner_uid: int
    size_bytes: int = 0


@dataclass(slots=True)
class MemoryLogs:
    """All logs and folders, shared by the sources that look at them."""

    logs: list[MemoryLog] = field(default_factory=list)
    changed: set[AttemptKey] = field(default_factory=set)
    folders: dict[str, MemoryFolder] = field(default_factory=dict)

    def write(
        self,
        attempt: AttemptKey,
        data: bytes,
        *,
        file: str = "job.out",
        node: str | None = None,
        rank: int | None = None,
    ) -> None:
        """Have an attempt write; with `node` it is that node's kernel log."""
        log = next((each for each in self.logs if (each.attempt, each.file) == (attempt, file)), None)
        if log is None:
            scope = Scope.KERNEL if node is not None else Scope.APPLICATION
            log = MemoryLog(attempt=attempt, file=file, scope=scope, node=node, rank=rank)
            self.logs.append(log)
        log.data += data
        self.changed.add(attempt)

    def grow(self, path: str, owner_uid: int = 0) -> None:
        """Have something written into a folder."""
        self.folders.setdefault(path, MemoryFolder(owner_uid=owner_uid)).size_bytes += 1


class MemorySource:
    """Implements `relance.ports.sources.Source` over logs in memory."""

    def __init__(self, logs: MemoryLogs, clock: Clock, name: str = "memory") -> None:
        self.is_behind = False
        """Whether it never comes to the end of anything."""
        self.fails: set[AttemptKey] = set()
        """Attempts of which reading raises an error that nobody expects."""
        self.learned: dict[AttemptKey, str] = {}
        self.stands: tuple[Coverage, ...] = ()
        """What `sight` tells."""
        self._logs = logs
        self._clock = clock
        self._name = name
        self._offsets: dict[AttemptKey, dict[str, int]] = {}
        self._owners: dict[AttemptKey, int] = {}
        self._watched: dict[AttemptKey, tuple[str, int | None]] = {}

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def assign(self, assignments: Sequence[Assignment], positions: Mapping[AttemptKey, Mapping[str, object]]) -> None:
        """Follow these attempts; positions of an earlier attempt of the job mean nothing here."""
        known = self._offsets
        self._offsets = {}
        for assignment in assignments:
            key = assignment.attempt
            given = positions.get(key, {})
            mine = given.get("attempt") == str(key)
            restored = {str(file): at for file, at in given.items() if mine and isinstance(at, int)}
            self._offsets[key] = known.get(key, restored)
        self._owners = {assignment.attempt: assignment.owner_uid for assignment in assignments}
        self._watched = {key: watched for key, watched in self._watched.items() if key in self._owners}

    def watch_folder(self, attempt: AttemptKey, path: str) -> None:
        """Compare the folder's size from one read to the next."""
        if attempt in self._owners and self._watched.get(attempt, ("", None))[0] != path:
            self._watched[attempt] = (path, None)

    def learn(self, attempt: AttemptKey, pattern: str) -> None:
        """All lines are delivered anyway; what was asked for is kept for tests."""
        self.learned[attempt] = pattern

    async def read(self, attempt: AttemptKey) -> Reading:
        """One block of each log, at most."""
        offsets = self._offsets.get(attempt)
        if offsets is None:
            return Reading(blocks=(), positions={}, coverage=())
        if attempt in self.fails:
            message = "no such thing"
            raise KeyError(message)
        now = self._clock.now()
        blocks = [block for log in self._mine(attempt) for block in self._next(log, offsets)]
        at_end = all(offsets.get(log.file, 0) == len(log.data) for log in self._mine(attempt)) and not self.is_behind
        if at_end:
            self._logs.changed.discard(attempt)
        sight = Sight.SEEN if at_end else Sight.LAGGING
        return Reading(
            blocks=tuple(blocks),
            positions={"attempt": str(attempt), **offsets},
            coverage=(Coverage(source=self._name, sight=sight, up_to=now),),
            seen=SeenUpTo(source=self._name, at=now) if at_end else None,
            more=not at_end,
            life=self._life(attempt),
        )

    async def tails(self, attempt: AttemptKey, at_most_bytes: int) -> tuple[Attachment, ...]:
        """The last part of each log that was read."""
        if attempt not in self._offsets:
            return ()
        found = []
        for log in self._mine(attempt):
            begin = max(len(log.data) - at_most_bytes, 0)
            begin = log.data.find(b"\n", begin - 1) + 1 if begin else 0
            text = mask(log.data[begin:].decode("utf-8", "surrogateescape"))
            found.append(Attachment(file=log.file, start_offset=begin, data=text.encode("utf-8", "surrogateescape")))
        return tuple(found)

    async def changed(self, timeout_s: float) -> frozenset[AttemptKey]:
        """Attempts that have written something."""
        if not (self._logs.changed & self._offsets.keys()) and timeout_s > 0:
            await self._clock.sleep(min(timeout_s, 0.1))
        await asyncio.sleep(0)
        return frozenset(self._logs.changed & self._offsets.keys())

    def sight(self) -> tuple[Coverage, ...]:
        """What a test says of it in `stands`."""
        return self.stands

    async def close(self) -> None:
        """Nothing is held."""

    def offset(self, attempt: AttemptKey, file: str = "job.out") -> int:
        """How far a log has been delivered, in bytes."""
        return self._offsets.get(attempt, {}).get(file, 0)

    def _life(self, attempt: AttemptKey) -> tuple[str, ...]:
        path, before = self._watched.get(attempt, ("", None))
        folder = self._logs.folders.get(path)
        if folder is None or folder.owner_uid != self._owners[attempt]:
            return ()
        self._watched[attempt] = (path, folder.size_bytes)
        return (f"the checkpoint folder {path} grows",) if before is not None and folder.size_bytes > before else ()

    def _mine(self, attempt: AttemptKey) -> list[MemoryLog]:
        return [log for log in self._logs.logs if log.attempt == attempt]

    def _next(self, log: MemoryLog, offsets: dict[str, int]) -> list[LogBlock]:
        begin = offsets.get(log.file, 0)
        data = log.data[begin : begin + _BLOCK_BYTES]
        data = data[: data.rfind(b"\n") + 1] or data
        if not data:
            return []
        offsets[log.file] = begin + len(data)
        return [
            LogBlock(
                file=log.file,
                offset=begin,
                data=data,
                scope=log.scope,
                read_at=self._clock.now(),
                line=log.data.count(b"\n", 0, begin) + 1,
                node=log.node,
                rank=log.rank,
            )
        ]
