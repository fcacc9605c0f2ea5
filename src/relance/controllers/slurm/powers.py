"""What Slurm would refuse our account, by the name of the command. Pure.

Who may do what is SchedMD's own rule (the manual page of scontrol), and is tried on a real cluster by the tests.
"""

from __future__ import annotations

from relance.controllers.slurm.levels import Fitness, Level, Rights
from relance.slurm.site_records import ControlFacts

CHANGES = ("scontrol requeue", "scontrol update ExcNodeList StartTime", "scancel")
"""What Relance does to jobs of others; nothing else of it changes anything."""
_HIDDEN = {
    "jobs": ("squeue", "sacct"),
    "all": ("squeue", "sacct", "scontrol show node"),
    "nodes": ("scontrol show node",),
    "reservations": ("scontrol show reservation",),
}
"""Commands that leave out what is private, by the word in PrivateData."""


def refused_commands(facts: ControlFacts, rights: Rights) -> Fitness:
    """The commands that Slurm would refuse, or answer only in part."""
    if rights.may_act_everywhere or rights.uid == 0:
        text = "nothing that Relance does would be refused; it drains no nodes"
        return Fitness(name="commands", level=Level.OK, text=text, read="none refused")
    partly = tuple(
        dict.fromkeys(command for word in facts.private_data for command in _HIDDEN.get(word, ()))
    )  # fmt: skip
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
