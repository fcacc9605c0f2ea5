"""The words in which a cluster's fitness is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How much a finding matters."""

    OK = "ok"
    WARN = "warn"
    """Something is worse than it could be."""
    BLOCKS_ACT = "blocks_act"
    """Nothing may be changed on this cluster while it lasts."""
    BLOCKS_OBSERVE = "blocks_observe"
    """What would be observed is not worth it, or may not be observed like this; nothing may be changed either."""
    UNREADABLE = "unreadable"
    """It cannot be told, which is not the same as well: nothing may be changed."""

    @property
    def allows_act(self) -> bool:
        """Whether changes may be made in spite of it."""
        return self in (Level.OK, Level.WARN)

    @property
    def allows_observe(self) -> bool:
        """Whether it is worth observing in spite of it."""
        return self is not Level.BLOCKS_OBSERVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What the account may do under which the commands run.

    `admin_level` is accounting's word (`none`, `operator`, `administrator`); None: it could not be read.
    `coordinates` are the accounts whose coordinator it is. `is_known` says whether accounting has the user at all.
    """

    user: str
    uid: int
    admin_level: str | None
    coordinates: tuple[str, ...] = ()
    is_known: bool = True

    @property
    def may_act_everywhere(self) -> bool:
        """Whether Slurm lets the account requeue everybody's jobs."""
        return self.admin_level in ("operator", "administrator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """One finding: what was looked at, how much it matters, what was read, what that means, and what helps."""

    name: str
    level: Level
    text: str
    remedy: str = ""
    read: str = ""
    """As Slurm shows it."""
