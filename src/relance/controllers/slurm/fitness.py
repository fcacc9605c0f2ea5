"""Whether a cluster, and our rights on it, are fit for acting: findings with their remedies. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from relance.slurm.site_records import ControlFacts


class Level(Enum):
    """How much a finding matters."""

    OK = "ok"
    WARN = "warn"
    """Something is worse than it could be."""
    BLOCKS_ACT = "blocks_act"
    """Nothing may be changed on this cluster while it lasts."""
    UNREADABLE = "unreadable"
    """It cannot be told, which is not the same as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What the account may do under which the commands run.

    `admin_level` is accounting's word (`none`, `operator`, `administrator`); None: it could not be read.
    `coordinates` are the accounts whose coordinator it is.
    """

    user: str
    uid: int
    admin_level: str | None
    coordinates: tuple[str, ...] = ()

    @property
    def may_act_everywhere(self) -> bool:
        """Whether Slurm lets the account requeue everybody's jobs."""
        return self.admin_level in ("operator", "administrator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """One finding: what was looked at, how much it matters, what was seen, and what helps."""

    name: str
    level: Level
    text: str
    remedy: str = ""


def fitness(facts: ControlFacts, rights: Rights) -> tuple[Fitness, ...]:
    """All findings, in the order in which they are shown."""
    return (_account(facts, rights),)


def _account(facts: ControlFacts, rights: Rights) -> Fitness:
    own = "run Relance as an account of its own: sacctmgr add user relance account=… adminlevel=operator"
    if rights.uid == 0 or rights.user == facts.slurm_user:
        text = f"commands run as {rights.user}, which may do everything on this cluster"
        return Fitness(name="account", level=Level.BLOCKS_ACT, text=text, remedy=own)
    if rights.admin_level is None:
        text = f"the rights of {rights.user} cannot be read"
        return Fitness(name="account", level=Level.UNREADABLE, text=text, remedy="see that slurmdbd answers sacctmgr")
    if rights.may_act_everywhere:
        return Fitness(name="account", level=Level.OK, text=f"{rights.user} is {rights.admin_level}")
    if rights.coordinates:
        text = f"{rights.user} coordinates {', '.join(rights.coordinates)} and may change jobs of no other account"
        return Fitness(name="account", level=Level.WARN, text=text)
    text = f"{rights.user} may change nobody else's jobs"
    return Fitness(name="account", level=Level.BLOCKS_ACT, text=text, remedy=own)
