"""One look at what lies where an attempt's logs are expected. May block; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from relance.sources.files.disks import AbsentError, Disk, Identity, RefusedError, Sighting
from relance.sources.files.patterns import expand, rotated_from, rotated_siblings


@dataclass(frozen=True, slots=True, kw_only=True)
class LookRequest:
    """What to look at: a path or glob, and what is known.

    `sought` are, by path, the files that it held, and older ones that are not open: should it hold another file now,
    they are searched for under the names that rotation gives, with what came between.
    """

    pattern: str
    at_most: int
    sought: Mapping[str, frozenset[Identity]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What lies there. `siblings` are rotated files of a path by number (see `rotated_siblings`)."""

    pattern: str
    sightings: tuple[Sighting, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    absent: tuple[str, ...] = ()
    siblings: Mapping[str, Mapping[int, Sighting]] = field(default_factory=dict)
    cut: bool = False
    """Whether the pattern has more files than are followed."""


def look(disk: Disk, request: LookRequest) -> Look:
    """Look once."""
    try:
        paths, cut = expand(disk, request.pattern, request.at_most)
    except AbsentError:
        return Look(pattern=request.pattern, absent=(request.pattern,))
    except RefusedError as error:
        return Look(pattern=request.pattern, refused=((request.pattern, str(error)),))
    there = set(paths)
    # An earlier part of a file that is followed: what is unread of it is found through that one.
    paths = [path for path in paths if (rotated := rotated_from(path)) is None or rotated[0] not in there]
    sightings: list[Sighting] = []
    refused: list[tuple[str, str]] = []
    absent: list[str] = []
    siblings: dict[str, Mapping[int, Sighting]] = {}
    for path, found in zip(paths, disk.looks(paths), strict=True):
        if isinstance(found, Sighting):
            sightings.append(found)
        elif isinstance(found, RefusedError):
            refused.append((path, str(found)))
        else:
            absent.append(path)
        now = found.identity if isinstance(found, Sighting) else None
        if any(each != now for each in request.sought.get(path, ())):
            siblings[path] = _siblings(disk, path)
    return Look(
        pattern=request.pattern,
        sightings=tuple(sightings),
        refused=tuple(refused),
        absent=tuple(absent) or (() if paths else (request.pattern,)),
        siblings=siblings,
        cut=cut,
    )


def _siblings(disk: Disk, path: str) -> Mapping[int, Sighting]:
    try:
        return rotated_siblings(disk, path)
    except (AbsentError, RefusedError):
        return {}
