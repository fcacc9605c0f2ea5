"""Log paths as a job or site gives them: absolute, with globs but without `**`, and what a file's name tells."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from functools import lru_cache

from relance.sources.files.disks import AbsentError, Disk, RefusedError, Sighting

PATTERNS_AT_MOST = 16
"""Log paths of one job (design 12)."""

_MAGIC = re.compile(r"[*?\[]")
_ROTATED = re.compile(r"^(?P<name>.+)\.(?P<index>\d{1,4})$")


def check_pattern(pattern: str) -> None:
    """Raises RefusedError, which says why, for a log path that is not followed."""
    if not pattern.startswith("/"):
        message = "not an absolute path"
        raise RefusedError(message)
    if "**" in pattern:
        message = "has `**`: name the folders"
        raise RefusedError(message)
    if any(part in ("", ".", "..") for part in pattern[1:].split("/")):
        message = "not a plain path: it has empty parts, `.` or `..`"
        raise RefusedError(message)
    if "\0" in pattern:
        message = "not a path"
        raise RefusedError(message)


def expand(disk: Disk, pattern: str, at_most: int) -> tuple[list[str], bool]:
    """The paths that a pattern stands for, sorted, and whether there were more than `at_most`.

    A path without wildcards stands for itself, whether it is there or not. Raises RefusedError when a folder on the
    way cannot be listed, AbsentError when it is not there.
    """
    if not _MAGIC.search(pattern):
        return [pattern], False
    parts = pattern[1:].split("/")
    root_depth = disk.root_of(pattern).rstrip("/").count("/")
    if any(_MAGIC.search(part) for part in parts[:root_depth]):
        message = "has a wildcard above the folders that Relance may read"
        raise RefusedError(message)
    paths = [""]
    for depth, part in enumerate(parts):
        if not _MAGIC.search(part):
            paths = [f"{path}/{part}" for path in paths]
            continue
        listed: list[str] = []
        for path in paths:
            listed += _matching(disk, path, part, alone=len(paths) == 1)
        paths = sorted(listed)
        if len(paths) > at_most:
            return [path + "".join(f"/{rest}" for rest in parts[depth + 1 :]) for path in paths[:at_most]], True
    return paths, False


def rotated_from(path: str) -> tuple[str, int] | None:
    """The path that a rotated file such as `job.out.1` had, and its number; None for other names."""
    found = _ROTATED.match(path)
    return (found["name"], int(found["index"])) if found else None


def rotated_siblings(disk: Disk, path: str) -> dict[int, Sighting]:
    """The files that a path's earlier contents may have been renamed to, by number; others count from 10,000."""
    folder, _, name = path.rpartition("/")
    others = [other for other in sorted(disk.names(folder or "/")) if other != name and other.startswith(name)]
    found: dict[int, Sighting] = {}
    for other, sighting in zip(others, disk.looks([f"{folder}/{other}" for other in others]), strict=True):
        if isinstance(sighting, Sighting):
            rotated = rotated_from(other)
            known = rotated is not None and rotated[0] == name
            found[rotated[1] if rotated is not None and known else 10_000 + len(found)] = sighting
    return found


def shown(path: str) -> str:
    """A path as people and databases can have it: bytes that are no text are replaced."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def rank_of(path: str, patterns: Sequence[re.Pattern[str]], ranks: int | None) -> int | None:
    """The rank that a file's name tells; None when it tells none, or one that the attempt does not have."""
    name = path.rpartition("/")[2]
    for pattern in patterns:
        found = pattern.search(name)
        if found:
            rank = int(found[1])
            return rank if ranks is None or rank < ranks else None
    return None


def node_of(path: str, nodes: Sequence[str]) -> str | None:
    """The node whose name is a word of the file's name; None when there is not exactly one."""
    name = path.rpartition("/")[2]
    words = [node for node in nodes if re.search(rf"(?<![A-Za-z0-9]){re.escape(node)}(?![A-Za-z0-9])", name)]
    found = [node for node in words if not any(node in other for other in words if other != node)]
    return found[0] if len(found) == 1 else None


def _matching(disk: Disk, folder: str, pattern: str, *, alone: bool) -> list[str]:
    try:
        names = disk.names(folder or "/")
    except (AbsentError, RefusedError):
        if alone:
            raise
        return []
    return [f"{folder}/{name}" for name in _selected(names, pattern)]


@lru_cache(maxsize=1024)
def _selected(names: tuple[str, ...], pattern: str) -> tuple[str, ...]:
    """The names that a pattern selects; the same question comes again with every look."""
    hidden = pattern.startswith(".")
    return tuple(name for name in names if (hidden or not name.startswith(".")) and fnmatch.fnmatchcase(name, pattern))
