"""What a check of signals comes to: rows of a table, each with what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit


class Level(Enum):
    """How a row stands."""

    OK = "ok"
    WARN = "warn"
    """Something is less than it could be, or cannot be told."""
    BAD = "bad"
    """It does not work: with this, what rests on it is not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that was looked at: of which source, what was read, what it means, and what mends it."""

    source: str
    name: str
    level: Level
    read: str
    means: str
    remedy: str = ""


def place_of(url: str) -> str:
    """Host and port of a store, for people: the path of its address may be secret."""
    return urlsplit(url).netloc


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleGroup:
    """Rules that stand alike: they can hit, or cannot for one reason. `rules` are their ids."""

    needs: str
    """What they are asked of: a kind of log, or series."""
    can_hit: bool
    rules: tuple[str, ...]
    means: str
    remedy: str = ""
    lacks: tuple[str, ...] = ()
    """The series that are not there, where that is why they never hit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalCheck:
    """What was found on one cluster, looking back `since_s` seconds, with which jobs (their ids)."""

    cluster: str
    since_s: float
    jobs: tuple[str, ...]
    rows: tuple[Row, ...]
    rules: tuple[RuleGroup, ...] = ()

    @property
    def fit(self) -> bool:
        """Whether nothing is red."""
        return all(row.level is not Level.BAD for row in self.rows)
