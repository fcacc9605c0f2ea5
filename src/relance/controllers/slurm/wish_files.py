"""`.relance.yaml`: a job's settings in its work directory, in a file of the job's owner.

The file is other people's input on other people's file system. It is opened without following a link at its end, never
waited for, and read only if the open file proves to be regular, small, and its job's owner's. A mount that hangs holds
up one thread here and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

FILE_NAME = ".relance.yaml"
MOST_BYTES = 4096
MOST_AT_ONCE = 50
"""So many files are looked for side by side."""
TIME_LIMIT_S = 2.0
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_HIDDEN = (errno.EACCES, errno.EPERM)

InFile = Mapping[str, Any] | str | None
"""Settings by name, why they cannot be read, or None: there is no such file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a job's file would lie, and whose it has to be."""

    work_dir: str
    owner_uid: int
    is_elsewhere: bool = False
    """Whether the cluster's commands run on another host, or in a container: its folders need not be here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a look after a file gave; `is_final` False: nothing was learned, and it is worth another look later."""

    in_file: InFile
    is_final: bool = True


class WishFiles:
    """Reads the files, off the event loop and each within a time limit."""

    def __init__(self, *, time_limit_s: float = TIME_LIMIT_S, most_threads: int = 4) -> None:
        """Read nothing yet. With `most_threads` files that hang no other one is read until one of them comes."""
        self._time_limit_s = time_limit_s
        self._free = asyncio.Semaphore(most_threads)

    async def read(self, place: Place) -> Found:
        """What the file says. Never raises; a file that does not come in time counts as one that cannot be read."""
        if not place.work_dir.startswith("/"):
            return Found(in_file=None)
        try:
            async with asyncio.timeout(self._time_limit_s):
                await self._free.acquire()
        except TimeoutError:
            return Found(in_file=f"{FILE_NAME} was not read: other jobs' folders do not answer", is_final=False)
        coming = asyncio.get_running_loop().create_future()
        # A daemon: one that hangs does not keep the process from ending.
        threading.Thread(target=self._work, args=(place, coming), name="relance-wish", daemon=True).start()
        try:
            async with asyncio.timeout(self._time_limit_s):
                return Found(in_file=await asyncio.shield(coming))
        except TimeoutError:
            late = f"{FILE_NAME} was not read: {place.work_dir} does not answer within {self._time_limit_s:g} s"
            return Found(in_file=late, is_final=False)

    def _work(self, place: Place, coming: asyncio.Future[InFile]) -> None:
        try:
            found = read_file(place)
        except Exception as error:  # noqa: BLE001 - a thread of its own: there is nobody above it
            found = f"{FILE_NAME} cannot be read: {type(error).__name__}"
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            coming.get_loop().call_soon_threadsafe(self._came, coming, found)

    def _came(self, coming: asyncio.Future[InFile], found: InFile) -> None:
        self._free.release()
        if not coming.done():
            coming.set_result(found)


def read_file(place: Place) -> InFile:
    """What the file says, at once or for as long as the file system takes."""
    try:
        folder = os.open(place.work_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        if place.is_elsewhere and error.errno in _ABSENT:
            lacks = f"{place.work_dir} is not on this host, so {FILE_NAME} cannot be read"
            return f"{lacks}: mount it, or set wish_files: false"
        return None if error.errno in (*_ABSENT, *_HIDDEN) else _unread(error)
    try:
        descriptor = os.open(FILE_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        # A folder that we may not look into has no settings for us; its owner can use the comment.
        return None if error.errno in (*_ABSENT, *_HIDDEN) else _unread(error)
    finally:
        os.close(folder)
    try:
        text = _own_text(descriptor, place)
    except OSError as error:
        return _unread(error)
    finally:
        os.close(descriptor)
    return text if isinstance(text, str) else parse(text)


def _own_text(descriptor: int, place: Place) -> bytes | str:
    """The bytes of an open file that proves to be the owner's own, or why it is not read."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return f"{FILE_NAME} is not a regular file"
    if status.st_uid != place.owner_uid:
        return f"{FILE_NAME} does not belong to the job's owner (uid {place.owner_uid}) but to uid {status.st_uid}"
    text = b""
    while len(text) <= MOST_BYTES and (block := os.read(descriptor, MOST_BYTES + 1)):
        text += block
    return text if len(text) <= MOST_BYTES else f"{FILE_NAME} has more than {MOST_BYTES} bytes"


def parse(text: bytes) -> InFile:
    """The settings in a file's bytes, or why there are none."""
    try:
        if any(isinstance(token, (yaml.AliasToken, yaml.AnchorToken)) for token in yaml.scan(text)):
            return f"{FILE_NAME} uses anchors, which are not read"
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return f"{FILE_NAME} is not YAML: {' '.join(str(error).split())[:120]}"
    if found is None:
        return {}
    if not isinstance(found, dict):
        return f"{FILE_NAME} does not hold settings by name"
    return found


def _unread(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return f"{FILE_NAME} is a link, which is not followed"
    return f"{FILE_NAME} cannot be read: {error.strerror}"
