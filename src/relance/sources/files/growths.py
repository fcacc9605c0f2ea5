"""Checkpoint folders that grow: a sign of life that is no line (design 8).

No read of a log waits for a look at a folder, and what is wrong with a folder is no trouble of the logs.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from functools import partial
from typing import Final

from relance.domain.faults import Scope
from relance.domain.keys import AttemptKey
from relance.ports.clocks import Clock
from relance.sources.files.disks import AbsentError, Disk, Entry, Identity, RefusedError
from relance.sources.files.following import Following
from relance.sources.files.lanes import Errand, Lanes, Unit
from relance.sources.files.paces import Meter
from relance.sources.files.patterns import shown
from relance.sources.files.settings import FileSettings

_AT_ONCE: Final = 2
"""Looks that threads are at work on; the other threads are for logs."""
_HANGING_AT_MOST: Final = 4
"""Looks that hang on a file system that does not answer; with so many no other is begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much lay in a folder. `changed_ns` is the newest change, by the file system's clock, since the epoch."""

    changed_ns: int
    size_bytes: int
    entries: int

    def is_beyond(self, before: Extent) -> bool:
        """Whether something was written since."""
        return self.changed_ns > before.changed_ns or self.size_bytes > before.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderRequest:
    """What to look at: a folder of one of `owners` and one level below it, without the files that are `logs`."""

    path: str
    owners: frozenset[int]
    logs: frozenset[Identity]
    at_most: int


def extent_of(disk: Disk, request: FolderRequest) -> Extent:
    """Look once, of the folders in it at the last changed first. May block. Raises RefusedError, AbsentError."""
    found: list[Entry] = list(disk.entries(request.path, request.owners, request.at_most))
    inner = sorted((entry for entry in found[1:] if entry.is_folder), key=lambda entry: entry.changed_ns, reverse=True)
    for entry in inner:
        left = request.at_most - len(found)
        if left <= 0:
            break
        with contextlib.suppress(AbsentError, RefusedError):
            found += disk.entries(f"{request.path}/{entry.name}", request.owners, left)
    counted = [entry for entry in found if entry.identity not in request.logs]
    return Extent(
        changed_ns=max(entry.changed_ns for entry in counted),
        size_bytes=sum(entry.size_bytes for entry in counted if not entry.is_folder),
        entries=len(found),
    )


@dataclass(slots=True, kw_only=True)
class _Folder:
    """The folder of one attempt, and what the last look at it gave."""

    path: str
    due: float
    extent: Extent | None = None
    errand: Errand | None = None


class Growths:
    """The checkpoint folders of all attempts, looked at now and then by threads."""

    def __init__(self, disk: Disk, lanes: Lanes, clock: Clock, settings: FileSettings) -> None:
        self._disk = disk
        self._lanes = lanes
        self._clock = clock
        self._settings = settings
        self._folders: dict[AttemptKey, _Folder] = {}
        self._under_way: list[tuple[frozenset[int], Errand]] = []
        self._waits: set[asyncio.Task[None]] = set()
        self._meter = Meter(settings.network_metadata_per_s, clock.monotonic())

    def watch(self, attempt: AttemptKey, path: str) -> None:
        """Look at this folder of an attempt from now on."""
        path = path.rstrip("/")
        known = self._folders.get(attempt)
        if known is None or known.path != path:
            self._folders[attempt] = _Folder(path=path, due=self._clock.monotonic())

    def leave(self, attempt: AttemptKey) -> None:
        """Look at an attempt's folder no more."""
        self._folders.pop(attempt, None)

    def life(self, attempt: AttemptKey, following: Following) -> tuple[str, ...]:
        """The growth that was seen since it was last asked for, in words; begins the next look when it is time.

        The attempt's logs are no part of it, and none comes of what is the next attempt's.
        """
        folder = self._folders.get(attempt)
        if folder is None or following.job_over:
            return ()
        grown = _take(folder)
        owners, now = following.labels.owners(Scope.APPLICATION), self._clock.monotonic()
        if folder.errand is None and now >= folder.due and self._may_begin(folder, owners, now):
            at_most, logs = self._settings.folder_entries, frozenset(following.files)
            request = FolderRequest(path=folder.path, owners=owners, logs=logs, at_most=at_most)
            folder.due = now + self._settings.folder_look_s
            folder.errand = self._begin(request)
        return grown

    async def close(self) -> None:
        """Wait for no look any more."""
        for wait in list(self._waits):
            wait.cancel()
        await asyncio.gather(*self._waits, return_exceptions=True)

    def _begin(self, request: FolderRequest) -> Errand:
        work = partial(extent_of, self._disk, request)
        errand = self._lanes.begin([Unit(key=request.path, mount=request.path, work=work)])
        self._under_way.append((request.owners, errand))
        wait = asyncio.create_task(self._lanes.wait(errand, self._settings.limit_s), name="relance-folder")
        self._waits.add(wait)
        wait.add_done_callback(self._waits.discard)
        return errand

    def _may_begin(self, folder: _Folder, owners: frozenset[int], now: float) -> bool:
        """One look of an owner's at a time: a file system that hangs takes no more than one thread of each."""
        self._under_way = [(whose, errand) for whose, errand in self._under_way if not errand.is_stopped]
        hanging = sum(errand.hangs is not None for _, errand in self._under_way)
        if hanging >= _HANGING_AT_MOST or len(self._under_way) - hanging >= _AT_ONCE:
            return False
        if any(whose == owners for whose, _ in self._under_way):
            return False
        return self._meter.take(folder.extent.entries if folder.extent is not None else 1, now)


def _take(folder: _Folder) -> tuple[str, ...]:
    errand, before = folder.errand, folder.extent
    if errand is None or not errand.is_stopped:
        return ()
    folder.errand = None
    for _, result in errand.take()[0]:
        if isinstance(result, Extent):
            folder.extent = result
            if before is not None and result.is_beyond(before):
                return (f"the checkpoint folder {shown(folder.path)} grows",)
    return ()
