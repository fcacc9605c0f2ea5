"""Logs that are finished: where their bytes are, and what is known of who wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from relance.domain.faults import Scope
from relance.watching.evidence.naming import read_name


def no_trouble() -> str:
    """Nothing was wrong with a file."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedLog:
    """One log. `chunks` gives its bytes from the beginning, in pieces of any size, each time it is called.

    Several logs may have one name: they are parts of one file, each with all its lines in their places and those of
    the others blank. `trouble` says, after it was read, what was wrong with its packing, if anything was.
    """

    name: str
    chunks: Callable[[], Iterable[bytes]]
    scope: Scope = Scope.APPLICATION
    node: str | None = None
    rank: int | None = None
    trouble: Callable[[], str] = no_trouble


def named(name: str, chunks: Callable[[], Iterable[bytes]]) -> FinishedLog:
    """A log with what its file's name tells: `dmesg-<node>.log` is that node's kernel log, `rank-3.log` a rank's."""
    told = read_name(name)
    scope = told.scope or Scope.APPLICATION
    rank = told.rank if told.rank is not None else told.worker
    return FinishedLog(name=name, chunks=chunks, scope=scope, node=told.node, rank=rank)
