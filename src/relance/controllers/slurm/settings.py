"""How a Slurm cluster is reached and how often it is asked. Times in seconds."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass, field

from relance.domain.limits import Limits
from relance.domain.requests import RequestKind
from relance.slurm.running import Commands


def own_account() -> tuple[str, int]:
    """Name and uid of the user as whom this process runs; a uid without a name stands for itself."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name, uid
    except KeyError:
        return str(uid), uid


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """One cluster. The intervals' defaults are those of operators.md 3; all but `poll_s` count from read to read.

    Attributes:
        cluster: The name under which it is known to us.
        commands: Where Slurm's commands are, and how they are started.
        account: Name and uid of the user as which they run; None: the other side says so.
        partitions: Those that are served; empty: all.
        opted_in: Partitions whose jobs need no wish; None: all.
        opted_in_accounts: Accounts to which that is limited, too; None: any.
        watch_all: Whether jobs that nobody opted in are watched too.
        comment_forms: Forms of other engines' comments that are taken for wishes.
        arm_where_default: Whether jobs that the cluster's JobRequeue=0 keeps from being requeued may be changed.
        rename_logs: Whether each restart gets a log of its own, where a restart may empty it.
        read_wish_files: Whether `.relance.yaml` is looked for in jobs' folders.
        poll_s: How often the queue is looked at.
        nodes_s: How often nodes and reservations are read.
        accounting_s: How often accounting is asked again about running jobs that somebody asks about.
        settings_s: How often the settings of Slurm are read.
        requests_per_minute: How many commands may be run outside transactions.
        limits: The site's: jobs' own wishes are clipped by them.
        requests: What people may ask for, for the check of our rights.
    """

    cluster: str
    commands: Commands = field(default_factory=Commands)
    account: tuple[str, int] | None = field(default_factory=own_account)
    partitions: tuple[str, ...] = ()
    opted_in: tuple[str, ...] | None = ()
    opted_in_accounts: tuple[str, ...] | None = None
    watch_all: bool = True
    comment_forms: tuple[str, ...] = ()
    arm_where_default: bool = False
    rename_logs: bool = False
    read_wish_files: bool = True
    poll_s: float = 10.0
    nodes_s: float = 30.0
    accounting_s: float = 60.0
    settings_s: float = 60.0
    requests_per_minute: float | None = None
    limits: Limits = field(default_factory=Limits)
    requests: frozenset[RequestKind] = frozenset()

    @property
    def budget_per_minute(self) -> float:
        """The budget: 60, and where the queue is looked at more often, twice what that takes."""
        if self.requests_per_minute is not None:
            return self.requests_per_minute
        return max(60.0, 4 * 60.0 / self.poll_s)
