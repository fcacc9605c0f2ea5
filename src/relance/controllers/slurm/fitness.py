"""Whether a cluster, and our rights on it, are fit for observing and for acting: findings with their remedies. Pure.

Each finding rests on what was seen on real clusters (slurm.md 2 to 5, operators.md 1 and 3).
"""

from __future__ import annotations

from relance.controllers.slurm.levels import Fitness, Level, Rights
from relance.controllers.slurm.requirements import REQUIREMENTS, defects
from relance.slurm.site_records import ControlFacts

__all__ = ["Fitness", "Level", "Rights", "fitness"]

OWN_ACCOUNT = "run Relance as an account of its own: sacctmgr add user relance account=… adminlevel=operator"


def fitness(facts: ControlFacts, rights: Rights) -> tuple[Fitness, ...]:
    """All findings, in the order in which they are shown."""
    return (
        _account(facts, rights),
        _private_data(facts, rights),
        *(ask(facts) for ask in REQUIREMENTS),
        *defects(facts),
    )


def _account(facts: ControlFacts, rights: Rights) -> Fitness:
    read = f"{rights.user}, admin level {rights.admin_level or 'not readable'}"
    if rights.uid == 0 or rights.user == facts.slurm_user or rights.uid == facts.slurm_uid:
        text = f"{rights.user} may do everything on this cluster, and what its people do could not be told from ours"
        return Fitness(name="account", level=Level.BLOCKS_OBSERVE, text=text, remedy=OWN_ACCOUNT, read=read)
    if rights.admin_level is None:
        text = f"the rights of {rights.user} cannot be read"
        remedy = "see that slurmdbd answers: sacctmgr show user"
        return Fitness(name="account", level=Level.UNREADABLE, text=text, remedy=remedy, read=read)
    if rights.may_act_everywhere:
        return Fitness(name="account", level=Level.OK, text=f"{rights.user} may restart everybody's jobs", read=read)
    if rights.coordinates:
        accounts = ", ".join(rights.coordinates)
        text = f"{rights.user} coordinates {accounts} and may change jobs of no other account: enough for a pilot"
        return Fitness(name="account", level=Level.WARN, text=text, read=f"{read}, coordinator of {accounts}")
    text = f"{rights.user} may change nobody else's jobs: right for observe, where it cannot act by construction"
    command = "modify user where name={} set" if rights.is_known else "add user {} account=…"
    remedy = f"for act give it the right to: sacctmgr {command.format(rights.user)} adminlevel=operator"
    if not rights.is_known:
        read = f"{rights.user}, not known to accounting"
    return Fitness(name="account", level=Level.BLOCKS_ACT, text=text, remedy=remedy, read=read)


def _private_data(facts: ControlFacts, rights: Rights) -> Fitness:
    shown = ",".join(facts.private_data) or "none"
    read = f"PrivateData = {shown}"
    hidden = sorted({"jobs", "nodes", "usage", "all"}.intersection(facts.private_data))
    if not hidden:
        return Fitness(
            name="private_data", level=Level.OK, text="everybody's jobs and nodes are shown to us", read=read
        )
    if rights.may_act_everywhere:
        text = "what is private is shown to operators, and so to us"
        return Fitness(name="private_data", level=Level.OK, text=text, read=read)
    if "jobs" in hidden or "all" in hidden:
        text = f"the jobs of others are hidden from {rights.user}: hardly anything can be observed"
        remedy = "take jobs out of PrivateData in slurm.conf, or make the account an operator"
        return Fitness(name="private_data", level=Level.BLOCKS_OBSERVE, text=text, remedy=remedy, read=read)
    text = f"{' and '.join(hidden)} of others are hidden from {rights.user}"
    remedy = f"take {', '.join(hidden)} out of PrivateData in slurm.conf, or make the account an operator"
    return Fitness(name="private_data", level=Level.WARN, text=text, remedy=remedy, read=read)
