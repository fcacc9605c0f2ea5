"""What Slurm would refuse our account, by the name of the command. Pure.

Who may do what is SchedMD's own rule (the manual page of scontrol), and each line of it is tried on a real cluster by
the tests, as a plain user, an account's coordinator, an Operator and an Administrator.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from relance.controllers.slurm.levels import Fitness, Level, Rights
from relance.domain.requests import RequestKind
from relance.slurm.site_records import ControlFacts


class Need(Enum):
    """The least that a command needs, for a job or a node that is not one's own."""

    COORDINATOR = "coordinator"
    """Coordinator of the job's account."""
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"

    def is_met(self, rights: Rights) -> bool:
        """Whether an account has it, for jobs of the accounts that it coordinates."""
        if self is Need.ADMINISTRATOR:
            return rights.admin_level == "administrator"
        return rights.may_act_everywhere or (self is Need.COORDINATOR and bool(rights.coordinates))


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """A command that changes something, what it needs, and what it is for.

    `asked` is the kind of a person's request that it serves; None: it is part of restarts.
    """

    command: str
    need: Need
    purpose: str
    asked: RequestKind | None = None


POWERS = (
    Power(command="scontrol requeue", need=Need.COORDINATOR, purpose="restart a job"),
    Power(command="scontrol requeuehold", need=Need.COORDINATOR, purpose="restart a job where the window is short"),
    Power(command="scontrol update ExcNodeList StartTime", need=Need.COORDINATOR, purpose="exclude nodes, start now"),
    Power(command="scontrol update Dependency", need=Need.COORDINATOR, purpose="let dependents wait anew"),
    Power(command="scontrol update Requeue", need=Need.COORDINATOR, purpose="let a job be requeued (arming)"),
    Power(command="scontrol update StdOut", need=Need.COORDINATOR, purpose="keep the log of the attempt before"),
    Power(
        command="scontrol release",
        need=Need.COORDINATOR,
        purpose="free a held job; undo a hold",
        asked=RequestKind.HOLD_JOBS,
    ),
    Power(
        command="scancel",
        need=Need.COORDINATOR,
        purpose="end a job that a person wants ended, or that must not run twice",
        asked=RequestKind.CANCEL_JOBS,
    ),
    Power(
        command="scontrol hold",
        need=Need.COORDINATOR,
        purpose="keep a waiting job from starting",
        asked=RequestKind.HOLD_JOBS,
    ),
    Power(
        command="scontrol create reservation",
        need=Need.OPERATOR,
        purpose="quarantine a node",
        asked=RequestKind.RESERVE_NODES,
    ),
    Power(
        command="scontrol delete ReservationName",
        need=Need.OPERATOR,
        purpose="undo a quarantine",
        asked=RequestKind.RESERVE_NODES,
    ),
    Power(
        command="scontrol update State=DRAIN",
        need=Need.ADMINISTRATOR,
        purpose="drain a node",
        asked=RequestKind.DRAIN_NODES,
    ),
    Power(
        command="scontrol update State=UNDRAIN",
        need=Need.ADMINISTRATOR,
        purpose="undo a drain",
        asked=RequestKind.DRAIN_NODES,
    ),
)
"""Every command that changes something, in the order in which it is shown."""
CHANGES = ("scontrol requeue", "scontrol update ExcNodeList StartTime", "scancel")
"""What a restart does to jobs of others."""
_HIDDEN = {
    "jobs": ("squeue", "sacct"),
    "all": ("squeue", "sacct", "scontrol show node"),
    "nodes": ("scontrol show node",),
    "reservations": ("scontrol show reservation",),
}
"""Commands that leave out what is private, by the word in PrivateData."""


def refused(rights: Rights) -> tuple[str, ...]:
    """The commands that Slurm refuses an account for what is not its own, and not of an account it coordinates."""
    return tuple(power.command for power in POWERS if not power.need.is_met(rights))


def refuses(rights: Rights) -> tuple[tuple[str, str], ...]:
    """The kinds of people's requests that Slurm would refuse the account, each with the sentence that says why."""
    found: dict[str, str] = {}
    for power in POWERS:
        if power.asked is not None and not power.need.is_met(rights):
            why = f"Slurm would refuse {power.command}: {rights.user} is no {power.need.value}"
            found.setdefault(power.asked.value, why)
    return tuple(found.items())


def refused_commands(facts: ControlFacts, rights: Rights) -> Fitness:
    """What of a restart Slurm would refuse, or answer only in part."""
    if rights.may_act_everywhere or rights.uid == 0:
        text = "nothing that Relance does would be refused; to drain nodes, if the site wants that, takes more"
        return Fitness(name="commands", level=Level.OK, text=text, read="none refused")
    partly = hidden(facts)
    cut = f"; {', '.join(partly)} would leave out what is others'" if partly else ""
    if rights.admin_level is None:
        text = f"whether {', '.join(CHANGES)} would be refused cannot be told{cut}"
        remedy = "see that slurmdbd answers: sacctmgr show user"
        return Fitness(name="commands", level=Level.WARN, text=text, remedy=remedy, read="not readable")
    read = f"refused: {', '.join(CHANGES)}"
    if rights.coordinates:
        text = f"refused for jobs outside of {', '.join(rights.coordinates)}: {', '.join(CHANGES)}{cut}"
        remedy = "enough for a pilot; for all jobs the account has to be an operator"
        return Fitness(name="commands", level=Level.WARN, text=text, remedy=remedy, read=read)
    text = f"refused for jobs of others: {', '.join(CHANGES)}{cut}; reading them is not, so observe needs no more"
    remedy = "for act make the account an operator"
    return Fitness(name="commands", level=Level.WARN, text=text, remedy=remedy, read=read)


def hidden(facts: ControlFacts) -> tuple[str, ...]:
    """The commands that would leave out what is others', for an account that is no operator."""
    return tuple(dict.fromkeys(command for word in facts.private_data for command in _HIDDEN.get(word, ())))


def asked_for(allowed: Collection[RequestKind], rights: Rights) -> Fitness:
    """What people may ask Relance to do here, and whether Slurm would let our account do it."""
    on = [kind.value for kind in RequestKind if kind in allowed]
    lacking = dict(refuses(rights))
    read = f"actions: {', '.join(on) or 'none'}"
    bad = [f"{name} ({lacking[name]})" for name in on if name in lacking]
    if rights.admin_level is None and on:
        text = f"whether Slurm lets {rights.user} do what people may ask for cannot be told"
        return Fitness(name="requests", level=Level.WARN, text=text, remedy="see that slurmdbd answers", read=read)
    if bad:
        text = f"people may ask for what Slurm would refuse: {'; '.join(bad)}"
        remedy = "switch it off (`actions` in the cluster's settings), or give the account that right"
        return Fitness(name="requests", level=Level.WARN, text=text, remedy=remedy, read=read)
    if not on:
        text = "people can ask for nothing here: `actions` in the cluster's settings switches each kind on"
        return Fitness(name="requests", level=Level.OK, text=text, read=read)
    return Fitness(name="requests", level=Level.OK, text="what people may ask for is in the account's power", read=read)
