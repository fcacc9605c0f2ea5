"""From a cluster's settings to the ground of its canary."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from relance.bootstrap.canaries.grounds import Ground
from relance.bootstrap.canaries.procedures import CanaryReport, Plan, run_canary
from relance.bootstrap.controllers import scheduler_of, slurm_settings
from relance.client.people import ApiClient
from relance.config import ClusterSettings, SettingError
from relance.config.settings import LocalSchedulerSettings
from relance.controllers.local.own_jobs import LocalOwnJobs
from relance.controllers.slurm.own_jobs import SlurmOwnJobs
from relance.domain.trials import TRIAL
from relance.ports.clocks import SystemClock
from relance.ports.own_jobs import OwnJobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a canary's jobs run and write, and how long things are waited for. `keep`: its files stay."""

    partition: str
    folder: Path
    nodes: int = 1
    patience_s: float = 300.0
    quiet_s: float = 20.0
    keep: bool = False


def canary(
    cluster: ClusterSettings, client: ApiClient, place: Place, plan: Plan, tell: Callable[[str], None]
) -> CanaryReport:
    """Run a canary on a cluster. Raises SettingError where it has no scheduler, or its folder cannot be made.

    Told to end by a signal, or by a terminal that goes away, it cancels its job and sets its partition back to observe,
    as on Ctrl-C, and raises KeyboardInterrupt.
    """

    def said(text: str) -> None:
        with suppress(OSError):  # a terminal that went away keeps nothing from being put in order
            tell(text)

    if cluster.scheduler is None:
        message = f"cluster {cluster.name} has no scheduler in the settings: say how to reach it"
        raise SettingError(message)
    folder = place.folder.absolute() / f"{TRIAL}-{secrets.token_hex(4)}"
    try:
        folder.mkdir(mode=0o755)
    except OSError as error:
        message = f"no folder for the canary can be made: {error}; name another --folder"
        raise SettingError(message) from error
    try:
        report = asyncio.run(_run(cluster, client, place, folder, plan, said))
    except asyncio.CancelledError:
        said(f"what its jobs wrote is in {folder}")
        raise KeyboardInterrupt from None
    except BaseException:
        said(f"what its jobs wrote is in {folder}")
        raise
    if report.fit and not place.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        said(f"what its jobs wrote is in {folder}")
    return report


async def _run(
    cluster: ClusterSettings,
    client: ApiClient,
    place: Place,
    folder: Path,
    plan: Plan,
    tell: Callable[[str], None],
) -> CanaryReport:
    assert cluster.scheduler is not None  # noqa: S101 - asked before
    _end_on_signals()
    clock = SystemClock()
    scheduler = scheduler_of(cluster, cluster.scheduler, clock)
    jobs: OwnJobs
    if isinstance(cluster.scheduler, LocalSchedulerSettings):
        jobs = LocalOwnJobs(state_dir=cluster.scheduler.state_dir)
    else:
        jobs = SlurmOwnJobs(slurm_settings(cluster, cluster.scheduler))
    ground = Ground(
        cluster=cluster.name, partition=place.partition, folder=folder, nodes=place.nodes,
        patience_s=place.patience_s, quiet_s=place.quiet_s, jobs=jobs, scheduler=scheduler,
        client=client, clock=clock, tell=tell,
    )  # fmt: skip
    try:
        return await run_canary(ground, plan)
    finally:
        await jobs.close()
        await scheduler.close()


def _end_on_signals() -> None:
    """Have the running task cancelled by signals that would end this process; not by one that it ignores (nohup)."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - asked from within one
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
