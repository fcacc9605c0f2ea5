"""Hyperscan (in its portable form, Vectorscan): all patterns in one pass over the bytes, and the engine of choice.

Where its wheel is missing, google-re2 finds the same.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from relance.ports.caches import NO_CACHE, Cache
from relance.rules.engines import Engine, EngineMaker, Found, Re2Engine
from relance.rules.finders import Finder, finder
from relance.rules.patterns import LineMatchers, Pattern
from relance.rules.trees import UnfitError

try:
    import hyperscan
except ImportError:
    IS_THERE = False
else:
    IS_THERE = True
    _VERSION: Final = str(getattr(hyperscan, "__version__", ""))

_FORMAT: Final = 3
"""Counts the ways in which finders were made; a database made in another way is not taken from a cache."""


def best_engine(cache: Cache = NO_CACHE) -> EngineMaker:
    """What makes engines here: Hyperscan where its wheel is installed and the processor can run it, else google-re2.

    Compiled patterns are kept in `cache`.
    """
    return partial(_hyperscan_or_re2, cache) if IS_THERE else Re2Engine


def _hyperscan_or_re2(cache: Cache, patterns: Sequence[Pattern], /) -> Engine:
    try:
        return HyperscanEngine(patterns, cache)
    except hyperscan.ArchitectureError:
        return Re2Engine(patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiled:
    """Patterns as Hyperscan has them, by their indexes; `inexact` are those whose finders find too many lines."""

    database: hyperscan.Database | None
    indexes: frozenset[int] = frozenset()
    inexact: frozenset[int] = frozenset()


class HyperscanEngine:
    """Hyperscan in block mode; what it cannot compile is left to google-re2.

    It reports each end of each match, several to a line; these are collapsed. SINGLEMATCH, which would do so, means
    once in a block and hides lines. Every scan has a scratch of its own, so that threads do not meet in one.
    """

    __slots__ = ("_database", "_inexact", "_rest", "_rest_at", "_scratches", "name")

    def __init__(self, patterns: Sequence[Pattern], cache: Cache = NO_CACHE) -> None:
        self.name = f"hyperscan {_VERSION}"
        compiled = _known(tuple(patterns)) if cache is NO_CACHE else _kept(tuple(patterns), cache)
        self._database = compiled.database
        self._inexact = LineMatchers({at: patterns[at] for at in compiled.inexact})
        self._rest_at = [at for at in range(len(patterns)) if at not in compiled.indexes]
        self._rest = Re2Engine([patterns[at] for at in self._rest_at]) if self._rest_at else None
        self._scratches: list[hyperscan.Scratch] = []

    @property
    def left_to_re2(self) -> tuple[int, ...]:
        """The indexes of the patterns that Hyperscan does not take."""
        return tuple(self._rest_at)

    def find(self, data: bytes) -> list[Found]:
        found = [] if self._database is None else self._confirmed(data, _lines(data, self._ends(self._database, data)))
        if self._rest is None:
            return found
        others = [(start, end, self._rest_at[index]) for start, end, index in self._rest.find(data)]
        return sorted(found + others) if others else found

    def _confirmed(self, data: bytes, found: list[Found]) -> list[Found]:
        """Of the lines found those that match the pattern itself, where the finder finds too many."""
        inexact = self._inexact
        return [
            each
            for each in found
            if each[2] not in inexact or inexact[each[2]].span(data[each[0] : each[1]]) is not None
        ]

    def _ends(self, database: hyperscan.Database, data: bytes) -> list[tuple[int, int]]:
        """Where matches end, each with the index of its pattern."""
        ends: list[tuple[int, int]] = []
        append = ends.append

        def take(index: int, _start: int, end: int, _flags: int, _context: object) -> None:
            append((end, index))

        try:
            scratch = self._scratches.pop()
        except IndexError:
            scratch = hyperscan.Scratch(database)
        database.scan(data, match_event_handler=take, scratch=scratch)
        self._scratches.append(scratch)
        return ends


def _lines(data: bytes, ends: list[tuple[int, int]]) -> list[Found]:
    """The lines in which the ends of matches lie, which is at the latest right before a newline."""
    found: set[Found] = set()
    start, line_end = 0, -1
    for end, index in sorted(ends):
        if end > line_end:
            start = data.rfind(b"\n", 0, end) + 1
            line_end = data.find(b"\n", end)
            line_end = len(data) if line_end < 0 else line_end
        found.add((start, line_end, index))
    return sorted(found)


def _kept(patterns: tuple[Pattern, ...], cache: Cache) -> _Compiled:
    """Compiled patterns from the cache, else compiled and put there."""
    key = _key(patterns)
    kept = cache.get(key)
    if kept is not None and (loaded := _loaded(kept)) is not None:
        return loaded
    compiled = _known(patterns)
    if compiled.database is not None:
        told = [" ".join(map(str, sorted(each))).encode("ascii") for each in (compiled.indexes, compiled.inexact)]
        cache.put(key, b"\n".join([*told, hyperscan.dumpb(compiled.database)]))
    return compiled


@lru_cache(maxsize=64)
def _known(patterns: tuple[Pattern, ...]) -> _Compiled:
    """Patterns, compiled; the last ones are kept, because many scanners of one process have the same rules."""
    finders: dict[int, Finder] = {}
    for at, pattern in enumerate(patterns):
        with contextlib.suppress(UnfitError):
            finders[at] = finder(pattern.text)
    texts = {at: (each.text.encode("ascii"), _flags(patterns[at])) for at, each in finders.items()}
    try:
        database = _database(texts) if texts else None
    except hyperscan.ArchitectureError:
        raise
    except hyperscan.error:
        texts = {at: each for at, each in texts.items() if _is_taken(each)}
        database = _database(texts) if texts else None
    inexact = frozenset(at for at in texts if not finders[at].is_exact)
    return _Compiled(database=database, indexes=frozenset(texts), inexact=inexact)


def _flags(pattern: Pattern) -> int:
    return int(hyperscan.HS_FLAG_MULTILINE | (hyperscan.HS_FLAG_CASELESS if pattern.ignore_case else 0))


def _database(texts: Mapping[int, tuple[bytes, int]]) -> hyperscan.Database:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[text for text, _ in texts.values()],
        ids=list(texts),
        flags=[flags for _, flags in texts.values()],
    )
    return database


def _is_taken(one: tuple[bytes, int]) -> bool:
    try:
        _database({0: one})
    except hyperscan.error:
        return False
    return True


def _loaded(kept: bytes) -> _Compiled | None:
    """What an earlier run compiled, if it fits this build and this processor."""
    indexes, inexact, serialized = kept.split(b"\n", 2)
    try:
        database = hyperscan.loadb(serialized, hyperscan.HS_MODE_BLOCK)
    except hyperscan.error:
        return None
    return _Compiled(
        database=database,
        indexes=frozenset(map(int, indexes.split())),
        inexact=frozenset(map(int, inexact.split())),
    )


def _key(patterns: tuple[Pattern, ...]) -> str:
    told = repr((_FORMAT, _VERSION, [(pattern.text, pattern.ignore_case) for pattern in patterns]))
    return f"hyperscan-{hashlib.sha256(told.encode('ascii')).hexdigest()}"
