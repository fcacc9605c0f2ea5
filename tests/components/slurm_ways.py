"""Other ways to a private cluster than the commands of this host: a real sshd, and a place of its own to enter."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from relance.simulation.private_slurm import RunningCluster
from relance.slurm.containers import Container
from relance.slurm.running import Commands
from relance.slurm.scripts import script_text
from relance.testing.containers import NoPlaceError, closed_place
from relance.testing.ssh_servers import Login, NoSshServerError, SshServer, as_account, ssh_server
from tests.components.presence import missing_component, require_component
from tests.components.slurm_benches import OPERATOR, bin_dir

REASON = "the tests of clusters that are reached by SSH"


@contextlib.contextmanager
def sshd(login: Login, place: Path | None = None) -> Iterator[SshServer]:
    """An sshd for one test; skipped, or failed where CI=true, where there is none."""
    require_component("openssh-server", REASON, program="sshd")
    require_component("openssh-client", REASON, program="ssh")
    if os.geteuid() != 0:
        missing_component("the user root", REASON)
    try:
        with ssh_server(login, place=place) as running:
            yield running
    except NoSshServerError as error:
        missing_component(f"a working sshd ({error})", REASON)


def login_of(conf: Path, cluster: RunningCluster) -> Login:
    """A key that runs the script as the cluster's operator."""
    text = script_text(bin_dir=bin_dir(cluster) or "", slurm_conf=str(conf))
    return Login(run=as_account(OPERATOR), script=text)


@contextlib.contextmanager
def place_to_enter() -> Iterator[tuple[str, ...]]:
    """The prefix that enters a place of its own as the operator, for one test."""
    try:
        with closed_place(as_account(OPERATOR)) as prefix:
            yield prefix
    except NoPlaceError as error:
        missing_component(f"a place of its own ({error})", "the tests of clusters that are reached in a container")


def in_place(prefix: tuple[str, ...], conf: Path, cluster: RunningCluster) -> Commands:
    """The commands of a cluster behind the prefix."""
    return Commands(bin_dir=bin_dir(cluster), slurm_conf=str(conf), way=Container(prefix=prefix))
