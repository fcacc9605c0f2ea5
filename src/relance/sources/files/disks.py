"""The machine's files, opened so that no link and no special file below a configured root is ever followed (design 12).

Everything here may block for as long as a file system likes, so it is called from threads only.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Identity = tuple[int, int]
"""Device and inode: what a file is, under whatever name."""

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NAMES_AT_MOST = 20_000
_LISTINGS_AT_MOST = 256
_SETTLED_S = 1.0
"""Longer than the tick of any file system's clock."""
_LIST_AGAIN_S = 30.0
"""For file systems whose folders do not tell when they changed."""


class RefusedError(Exception):
    """A file is there and not ours to read. The text says why and what would help."""


class AbsentError(Exception):
    """There is no such file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A plain file as a look found it. `modified_at_s` is in seconds since the epoch, by the file system's clock."""

    path: str
    identity: Identity
    size_bytes: int
    modified_at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A plain file or a folder in a folder. `changed_ns` is its last change, by the file system's clock."""

    name: str
    identity: Identity
    is_folder: bool
    size_bytes: int
    changed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """The names of a folder, when they were listed, and since when its time of change has been the same."""

    changed_ns: int
    unchanged_since: float
    listed_at: float
    names: tuple[str, ...]

    def holds(self, changed_ns: int, now: float) -> bool:
        """Whether the names are still the same: a change shows in the folder's time, if it came a tick after it."""
        settled = self.listed_at - self.unchanged_since >= _SETTLED_S
        return changed_ns == self.changed_ns and settled and now - self.listed_at < _LIST_AGAIN_S


class Disk:
    """Files below the roots."""

    def __init__(self, roots: Sequence[str], monotonic: Callable[[], float] | None = None) -> None:
        """Take the roots; one that is not an absolute path is a ValueError.

        With a clock, a folder that has not changed is not listed again each time.
        """
        for root in roots:
            if not root.startswith("/"):
                message = f"a root of log files is an absolute path, not {root!r}"
                raise ValueError(message)
        self._monotonic = monotonic
        self._listed: dict[str, _Listing] = {}
        self._roots = sorted((os.path.normpath(root) for root in roots), key=len, reverse=True)

    def root_of(self, path: str) -> str:
        """The innermost root that a path lies below. Raises RefusedError."""
        for root in self._roots:
            if path.startswith(root.rstrip("/") + "/"):
                return root
        allowed = ", ".join(sorted(self._roots)) or "none"
        message = f"outside the folders that Relance may read ({allowed}): an operator can add one"
        raise RefusedError(message)

    def look(self, path: str) -> Sighting:
        """What lies at a path, by its metadata alone. Raises RefusedError for what is no plain file, AbsentError."""
        (found,) = self.looks([path])
        if isinstance(found, Sighting):
            return found
        raise found

    def looks(self, paths: Sequence[str]) -> list[Sighting | RefusedError | AbsentError]:
        """What lies at each path; those of one folder together cost less."""
        found: list[Sighting | RefusedError | AbsentError] = []
        for folder, group in itertools.groupby(paths, key=lambda path: path.rpartition("/")[0]):
            together = list(group)
            try:
                with self._reached(folder or "/") as parent:
                    found += [_look_in(parent, path) for path in together]
            except (RefusedError, AbsentError) as error:
                found += [error] * (len(together))
        return found

    def names(self, folder: str) -> tuple[str, ...]:
        """The names in a folder, of a very full one only the first 20,000. Raises RefusedError, AbsentError."""
        with self._reached(folder) as reached, _said():
            listed = os.open(".", _LISTED, dir_fd=reached)
            try:
                now = self._monotonic() if self._monotonic is not None else None
                changed_ns = os.fstat(listed).st_mtime_ns
                known = self._listed.get(folder)
                if known is not None and now is not None and known.holds(changed_ns, now):
                    return known.names
                with os.scandir(listed) as entries:
                    names = tuple(entry.name for _, entry in zip(range(_NAMES_AT_MOST), entries, strict=False))
            finally:
                os.close(listed)
        if now is not None:
            same = known is not None and known.changed_ns == changed_ns
            since = known.unchanged_since if same and known is not None else now
            if len(self._listed) >= _LISTINGS_AT_MOST:
                self._listed.clear()
            self._listed[folder] = _Listing(changed_ns=changed_ns, unchanged_since=since, listed_at=now, names=names)
        return names

    def entries(self, folder: str, owners: frozenset[int], at_most: int) -> tuple[Entry, ...]:
        """A folder that belongs to one of `owners`, as `.`, and of what is in it their plain files and folders.

        Of a full one only the first `at_most` names count. Raises RefusedError, AbsentError.
        """
        with self._reached(folder) as reached, _said():
            status = os.fstat(reached)
            _check_owner(status.st_uid, owners)
            found = [_entry(".", status)]
            listed = os.open(".", _LISTED, dir_fd=reached)
            try:
                with os.scandir(listed) as names:
                    for each in itertools.islice(names, at_most):
                        with contextlib.suppress(FileNotFoundError):
                            status = each.stat(follow_symlinks=False)
                            plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
                            found += [_entry(each.name, status)] if plain and status.st_uid in owners else []
            finally:
                os.close(listed)
        return tuple(found)

    def open(self, path: str, owners: frozenset[int]) -> tuple[int, Sighting]:
        """Open a plain file that belongs to one of `owners`: its descriptor and what it is.

        It is first looked at without being opened, since opening a device can have effects; what counts is the state
        of the file that was opened in the end. Raises RefusedError, AbsentError.
        """
        folder, name = _split(path)
        with self._reached(folder) as parent, _said():
            place = os.open(name, _PLACE, dir_fd=parent)
            try:
                _sighting(path, os.fstat(place))
            finally:
                os.close(place)
            fd = os.open(name, _READ, dir_fd=parent)
            try:
                status = os.fstat(fd)
                found = _sighting(path, status)
                _check_owner(status.st_uid, owners)
            except BaseException:
                os.close(fd)
                raise
            return fd, found

    def look_at(self, fd: int, path: str) -> Sighting:
        """What an open file is now; `path` is only passed on. Raises RefusedError."""
        return _sighting(path, os.fstat(fd))

    def read(self, fd: int, size_bytes: int, offset: int) -> bytes:
        """Up to so many bytes from a position of an open file."""
        return os.pread(fd, size_bytes, offset)

    def close(self, fd: int) -> None:
        """Give back an open file."""
        os.close(fd)

    @contextlib.contextmanager
    def _reached(self, folder: str) -> Iterator[int]:
        """A folder's descriptor, reached component by component from its root."""
        root = self.root_of(f"{folder.rstrip('/')}/.")
        parts = [part for part in folder[len(root.rstrip("/")) :].split("/")[1:] if folder != "/"]
        if any(part in ("", ".", "..") for part in parts):
            message = "not a plain path: it has empty parts, `.` or `..`"
            raise RefusedError(message)
        with _said():
            held = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                with _said():
                    inner = os.open(part, _FOLDER, dir_fd=held)
                os.close(held)
                held = inner
            yield held
        finally:
            os.close(held)


def _look_in(folder: int, path: str) -> Sighting | RefusedError | AbsentError:
    try:
        _, name = _split(path)
        with _said():
            return _sighting(path, os.stat(name, dir_fd=folder, follow_symlinks=False))
    except (RefusedError, AbsentError) as error:
        return error


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    if name in ("", ".", ".."):
        message = "not the path of a file"
        raise RefusedError(message)
    return folder or "/", name


def _sighting(path: str, status: os.stat_result) -> Sighting:
    if not stat.S_ISREG(status.st_mode):
        raise RefusedError(_not_plain(status.st_mode))
    return Sighting(
        path=path,
        identity=(status.st_dev, status.st_ino),
        size_bytes=status.st_size,
        modified_at_s=status.st_mtime,
    )


def _entry(name: str, status: os.stat_result) -> Entry:
    return Entry(
        name=name,
        identity=(status.st_dev, status.st_ino),
        is_folder=stat.S_ISDIR(status.st_mode),
        size_bytes=status.st_size,
        changed_ns=status.st_mtime_ns,
    )


def _check_owner(uid: int, owners: frozenset[int]) -> None:
    if uid not in owners:
        wanted = " or ".join(str(owner) for owner in sorted(owners))
        message = f"belongs to user {uid}, not to {wanted}: only the owner's own files are read"
        raise RefusedError(message)


def _not_plain(mode: int) -> str:
    kinds = (
        (stat.S_ISLNK, "a symbolic link: name the file that it points to"),
        (stat.S_ISDIR, "a folder: name a file, or a pattern such as FOLDER/*.log"),
        (stat.S_ISFIFO, "a FIFO: write the log to a plain file"),
        (stat.S_ISSOCK, "a socket: write the log to a plain file"),
    )
    return next((words for test, words in kinds if test(mode)), "a device: write the log to a plain file")


@contextlib.contextmanager
def _said() -> Iterator[None]:
    """Turn the kernel's refusals into words."""
    try:
        yield
    except FileNotFoundError as error:
        raise AbsentError from error
    except PermissionError as error:
        message = "cannot be read by the watcher: give its group read access (chmod g+r, setfacl -m g:GROUP:rX)"
        raise RefusedError(message) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            message = "a part of its path is a symbolic link or no folder: name the real path"
            raise RefusedError(message) from error
        if error.errno == errno.ENXIO:
            message = "a socket or device: write the log to a plain file"
            raise RefusedError(message) from error
        message = f"cannot be read: {os.strerror(error.errno or 0)}"
        raise RefusedError(message) from error
