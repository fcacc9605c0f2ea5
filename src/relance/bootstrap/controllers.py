"""The controller role: a scheduler's adapter, a ledger, and the controller between them and the server."""

from __future__ import annotations

import hashlib
import socket
from dataclasses import dataclass
from pathlib import Path

from relance.bootstrap.accesses import commands_of
from relance.bootstrap.sites import opted_in_of
from relance.bootstrap.states import StateFolder
from relance.config import ClusterSettings, SettingError
from relance.config.access import LocalAccess
from relance.config.settings import LocalSchedulerSettings, SlurmSchedulerSettings
from relance.controllers.local import LocalScheduler
from relance.controllers.slurm import SlurmScheduler, SlurmSettings
from relance.controllers.slurm.settings import own_account
from relance.controlling.controller import Controller
from relance.controlling.evidence_commands import EvidencePlan
from relance.controlling.ledger import Ledger, LedgerUnusableError
from relance.controlling.paces import ControllerSettings, Pace
from relance.ports.backends import Backend
from relance.ports.clocks import Clock
from relance.ports.schedulers import Scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRole:
    """A controller with what it uses."""

    controller: Controller
    scheduler: Scheduler
    ledger: Ledger

    async def close(self) -> None:
        """Close the ledger and the way to the scheduler."""
        self.ledger.close()
        await self.scheduler.close()


def open_controller(cluster: ClusterSettings, folder: StateFolder, backend: Backend, clock: Clock) -> ControllerRole:
    """The controller of one cluster.

    Raises SettingError when the cluster has no scheduler, or its ledger is another controller's or cannot be used.
    """
    if cluster.scheduler is None:
        message = f"cluster {cluster.name} has no scheduler in the settings: say how to reach it"
        raise SettingError(message)
    scheduler = scheduler_of(cluster, cluster.scheduler, clock)
    place = folder.controller(cluster.name)
    try:
        ledger = Ledger(place, cluster.name, clock)
    except LedgerUnusableError as error:
        raise SettingError(str(error)) from error
    controller = Controller(
        backend=backend,
        scheduler=scheduler,
        ledger=ledger,
        clock=clock,
        settings=ControllerSettings(
            holder=holder_name(place),
            limits=cluster.limits,
            requests=cluster.actions.kinds,
            pace=Pace(look_s=cluster.poll_s),
            evidence=EvidencePlan(
                command=cluster.evidence.command, collect=cluster.evidence.collect, limit_s=cluster.evidence.limit_s
            ),
        ),
    )
    return ControllerRole(controller=controller, scheduler=scheduler, ledger=ledger)


def scheduler_of(
    cluster: ClusterSettings, settings: LocalSchedulerSettings | SlurmSchedulerSettings, clock: Clock
) -> Scheduler:
    """The adapter that the settings choose."""
    if isinstance(settings, LocalSchedulerSettings):
        return LocalScheduler(
            cluster=cluster.name,
            state_dir=settings.state_dir,
            clock=clock,
            limits=cluster.limits,
            comment_forms=cluster.accept_comment_forms,
        )
    return SlurmScheduler(slurm_settings(cluster, settings), clock)


def slurm_settings(cluster: ClusterSettings, settings: SlurmSchedulerSettings) -> SlurmSettings:
    """What the adapter of a Slurm cluster is told."""
    opted_in, accounts = opted_in_of(cluster)
    return SlurmSettings(
        cluster=cluster.name,
        commands=commands_of(settings),
        account=own_account() if isinstance(settings.access, LocalAccess) else None,
        partitions=settings.partitions,
        opted_in=tuple(sorted(opted_in)) if opted_in is not None else None,
        opted_in_accounts=tuple(sorted(accounts)) if accounts is not None else None,
        watch_all=settings.watch_all,
        comment_forms=cluster.accept_comment_forms,
        arm_where_default=settings.arm_requeue_where_default,
        rename_logs=settings.keep_logs == "rename",
        read_wish_files=settings.wish_files,
        poll_s=settings.jobs_s or cluster.poll_s,
        nodes_s=settings.nodes_s,
        accounting_s=settings.accounting_s,
        settings_s=settings.settings_s,
        requests_per_minute=settings.requests_per_minute,
        limits=cluster.limits,
        requests=cluster.actions.kinds,
    )


def holder_name(folder: Path) -> str:
    """This controller's name in leases: the same after a restart, another for another state folder."""
    mark = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:8]
    return f"{socket.gethostname()}-{mark}"
