"""Relance on a private Slurm cluster that it reaches in one of three ways: commands of its host, SSH, a container."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path

from bench.rigs import folder
from bench.slurm_sites import SlurmSetup, SlurmSite
from relance.simulation.private_slurm import ClusterPlan, RunningCluster, start_cluster
from relance.slurm.scripts import script_text
from relance.testing.other_users import user_of
from relance.testing.ssh_servers import Login, as_account, ssh_server

_ENTER = (
    "unshare", "--user", "--map-current-user", "--mount", "--",
    "env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
)  # fmt: skip
"""A place of its own, entered anew by each command, without our environment: what `kubectl exec` does, less the API
server in between."""


class Way(Enum):
    """How Slurm's commands are reached."""

    LOCAL = "local"
    SSH = "ssh"
    CONTAINER = "container"


@contextlib.contextmanager
def reached(way: Way, plan: ClusterPlan, setup: SlurmSetup) -> Iterator[SlurmSite]:
    """A private cluster with Relance on it that reaches it this way; all is gone afterwards.

    Raises NoSshServerError where there is no sshd.
    """
    with contextlib.ExitStack() as running:
        place = running.enter_context(folder())
        place.chmod(0o755)  # Relance's own user has its folder below it
        cluster = start_cluster(plan)
        running.callback(cluster.stop)
        scheduler = {**setup.scheduler, **running.enter_context(_scheduler(way, cluster, place))}
        made = SlurmSite(cluster, place / "site", replace(setup, scheduler=scheduler))
        running.callback(made.stop)
        made.start()
        yield made


@contextlib.contextmanager
def _scheduler(way: Way, cluster: RunningCluster, place: Path) -> Iterator[Mapping[str, object]]:
    """The settings of the scheduler that choose the way."""
    operator = cluster.plan.operator
    bin_dir = f"{cluster.plan.prefix}/bin" if cluster.plan.prefix else ""
    if way is Way.LOCAL:
        yield {}
    elif way is Way.CONTAINER:
        commands = {"bin_dir": bin_dir} if bin_dir else {}
        yield {"access": {"kind": "container", "prefix": list(_ENTER)}, "conf": cluster.slurm_conf, **commands}
    else:
        login = Login(
            run=as_account(operator),
            client_uid=user_of(operator).uid,
            script=script_text(bin_dir=bin_dir, slurm_conf=cluster.slurm_conf),
        )
        with ssh_server(login, place=place) as server:
            yield {"access": server.settings}
