"""The start of a whole cluster, in the order in which the daemons need each other."""

from __future__ import annotations

import os
import pwd
import re
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from relance.simulation.private_slurm.configuration import write_configuration
from relance.simulation.private_slurm.daemons import LOOK_EVERY_S, Daemons
from relance.simulation.private_slurm.failures import DaemonFailedError, PrivateSlurmError
from relance.simulation.private_slurm.layouts import Layout
from relance.simulation.private_slurm.plans import ClusterPlan
from relance.simulation.private_slurm.ports import listens
from relance.simulation.private_slurm.programs import Programs

_STATE = re.compile(r"^NodeName=(\S+).*? State=(\S+)", re.MULTILINE)
_SILENT = re.compile(r"\*|DOWN|UNKNOWN|NOT_RESPONDING")

READY_WITHIN_S = 40.0
"""The longest wait for one daemon: a busy machine is slow, not broken."""


def check_machine(plan: ClusterPlan) -> None:
    """See that a cluster can be started here at all.

    Raises:
        PrivateSlurmError: A program is missing, or this is not root.
    """
    if os.geteuid() != 0:
        raise PrivateSlurmError(
            "A private Slurm cluster runs each job as its owner, which only root may do: be root, in a container."
        )
    Programs(prefix=plan.prefix).check()


def start_again(daemons: Daemons, name: str, ports: Mapping[str, int]) -> None:
    """Start any one daemon of a cluster that runs, and wait until it can be spoken with; nothing when it runs.

    Raises:
        DaemonFailedError: It did not come up.
    """
    if daemons.pid(name) is not None:
        return
    sockets = {"munged": daemons.layout.munge_socket, "mariadbd": daemons.layout.database_socket}
    if name in sockets:
        daemons.start(name)
        daemons.wait_until(name, lambda: _accepts(sockets[name]), time_limit_s=READY_WITHIN_S)
    else:
        start_and_wait(daemons, name, ports)


def start_daemons(layout: Layout, plan: ClusterPlan, ports: Mapping[str, int]) -> None:
    """Start everything in an empty layout and wait until all nodes answer. The users must be there.

    Raises:
        PrivateSlurmError: A daemon or a command failed; the text has the end of its log.
    """
    write_configuration(layout, plan, ports)
    for user in plan.users:
        _make_work_folder(layout.work / user, user)
    daemons = Daemons(layout, plan)
    daemons.start("munged")
    _install_database(layout, plan)
    daemons.start("mariadbd")
    daemons.wait_until("munged", layout.munge_socket.exists, time_limit_s=READY_WITHIN_S)
    daemons.wait_until("mariadbd", lambda: _accepts(layout.database_socket), time_limit_s=READY_WITHIN_S)
    start_and_wait(daemons, "slurmdbd", ports)
    _fill_accounting(layout, plan)
    start_and_wait(daemons, "slurmctld", ports)
    for node in plan.nodes:
        daemons.start(node)
    wait_until_answering(layout, plan, plan.nodes)


def start_and_wait(daemons: Daemons, name: str, ports: Mapping[str, int]) -> None:
    """Start slurmdbd, slurmctld or the slurmd of a node and wait until it listens.

    Raises:
        DaemonFailedError: It did not come up.
    """
    daemons.start(name)
    daemons.wait_until(name, lambda: listens(ports[name]), time_limit_s=READY_WITHIN_S)


def wait_until_answering(layout: Layout, plan: ClusterPlan, nodes: tuple[str, ...]) -> None:
    """Wait until slurmctld hears from these nodes: none of them is unknown, silent or down.

    Raises:
        DaemonFailedError: One did not come up in time; the text has the end of its log.
    """
    daemons = Daemons(layout, plan)
    waiting = set(nodes)
    end = time.monotonic() + READY_WITHIN_S
    while waiting:
        for name in waiting:
            if daemons.pid(name) is None:
                raise DaemonFailedError(f"{name} ended while it started. Its last words:\n{daemons.last_words(name)}")
        states = node_states(layout, plan, nodes)
        waiting = {name for name in waiting if _SILENT.search(states.get(name, "UNKNOWN"))}
        if waiting and time.monotonic() > end:
            name = min(waiting)
            raise DaemonFailedError(
                f"{', '.join(sorted(waiting))} did not come up within {READY_WITHIN_S:.0f} s; Slurm says {states}."
                f" The last words of {name}:\n{daemons.last_words(name)}\n"
                f"and of slurmctld:\n{daemons.last_words('slurmctld')}"
            )
        time.sleep(LOOK_EVERY_S)


def node_states(layout: Layout, plan: ClusterPlan, nodes: Sequence[str]) -> dict[str, str]:
    """The states of nodes, as `scontrol show node` has them; those of which it says nothing are missing."""
    done = _command(layout, plan, ["scontrol", "show", "node", "--oneliner", ",".join(nodes)])
    return dict(_STATE.findall(done.stdout))


def _fill_accounting(layout: Layout, plan: ClusterPlan) -> None:
    """Name the cluster, an account, the users and the operator's admin level in accounting."""
    add = ["sacctmgr", "--immediate", "--quiet", "add"]
    words = [f"cluster={plan.cluster_name}", f"account={plan.account}"]
    _must(layout, plan, [*add, "cluster", plan.cluster_name])
    _must(layout, plan, [*add, "account", plan.account, words[0], "Description=private", "Organization=private"])
    _must(layout, plan, [*add, "user", *plan.owners, *words])
    _must(layout, plan, [*add, "user", plan.operator, *words, "AdminLevel=Operator"])


def _must(layout: Layout, plan: ClusterPlan, argv: list[str]) -> None:
    done = _command(layout, plan, argv)
    if done.returncode != 0:
        words = Daemons(layout, plan).last_words("slurmdbd")
        raise PrivateSlurmError(f"{' '.join(argv)} failed: {done.stdout}{done.stderr}\nslurmdbd:\n{words}")


def _command(layout: Layout, plan: ClusterPlan, argv: list[str]) -> subprocess.CompletedProcess[str]:
    env = {**Programs(prefix=plan.prefix).env, "SLURM_CONF": str(layout.slurm_conf)}
    return subprocess.run(argv, env=env, check=False, capture_output=True, text=True, timeout=READY_WITHIN_S)


def _install_database(layout: Layout, plan: ClusterPlan) -> None:
    program = Programs(prefix=plan.prefix).find("mariadb-install-db")
    argv = [str(program), "--no-defaults", "--user=root", f"--datadir={layout.database}", "--skip-test-db"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=READY_WITHIN_S)
    if done.returncode != 0:
        raise PrivateSlurmError(f"mariadb-install-db failed:\n{done.stdout}{done.stderr}")


def _make_work_folder(folder: Path, user: str) -> None:
    folder.mkdir(mode=0o755)
    entry = pwd.getpwnam(user)
    os.chown(folder, entry.pw_uid, entry.pw_gid)


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
