"""Asking a cluster of the settings whether it is fit: for `relance check cluster`, without a server."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from relance.bootstrap.controllers import slurm_settings
from relance.bootstrap.gate_checks import GateCheck
from relance.config import ClusterSettings, SettingError
from relance.config.settings import LocalSchedulerSettings
from relance.controllers.slurm.inspections import Inspection, inspect
from relance.domain.stages import Stage
from relance.ports.clocks import Clock
from relance.slurm.munge import SOCKET_VARIABLE, Munge


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One thing that was looked at. `level` is one of ok, warn, blocks_act, blocks_observe, unreadable."""

    name: str
    level: str
    read: str
    means: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCheck:
    """What was found on one cluster, and for which stages it is fit."""

    cluster: str
    scheduler: str
    release: str
    account: str
    fit_for_observe: bool
    fit_for_act: bool
    points: tuple[Point, ...]
    gates: tuple[GateCheck, ...] = ()
    """What lets something begin here, and when, as settings and this host have it."""

    def is_fit(self, stage: Stage) -> bool:
        """Whether the cluster and this account are fit for a stage; what acts may begin in approve and act alone."""
        return self.fit_for_act if stage.rank >= Stage.APPROVE.rank else self.fit_for_observe


def check_cluster(cluster: ClusterSettings, clock: Clock) -> ClusterCheck:
    """Ask a cluster. Raises SettingError where the settings do not say how to reach it."""
    if cluster.scheduler is None:
        message = f"cluster {cluster.name} has no scheduler in the settings: say how to reach it"
        raise SettingError(message)
    if isinstance(cluster.scheduler, LocalSchedulerSettings):
        return _simulated(cluster.name)
    settings = slurm_settings(cluster, cluster.scheduler)
    munge = Munge(socket=os.environ.get(SOCKET_VARIABLE, ""))
    return _check_of(cluster.name, asyncio.run(inspect(settings, cluster.log_roots, clock, munge)))


def _check_of(cluster: str, found: Inspection) -> ClusterCheck:
    points = tuple(
        Point(name=item.name, level=item.level.value, read=item.read, means=item.text, remedy=item.remedy)
        for item in found.findings
    )
    return ClusterCheck(
        cluster=cluster,
        scheduler="slurm",
        release=found.release,
        account=found.account,
        fit_for_observe=all(item.level.allows_observe for item in found.findings),
        fit_for_act=all(item.level.allows_act for item in found.findings),
        points=points,
    )


def _simulated(cluster: str) -> ClusterCheck:
    point = Point(
        name="scheduler", level="ok", read="kind: local", means="a simulated scheduler asks for nothing", remedy=""
    )
    return ClusterCheck(
        cluster=cluster,
        scheduler="local",
        release="",
        account="",
        fit_for_observe=True,
        fit_for_act=True,
        points=(point,),
    )
