"""Keeps one private cluster alive for as long as its owner lives and not a moment longer.

Run as `python -m relance.simulation.private_slurm` with {"plan": …, "owner": process id} on standard input. It
starts the cluster, says {"cluster": …} or {"error": …} in one line, and waits for the end of the owner or for TERM.
Then it kills every process of the cluster and removes folder and users: an owner that is killed leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from relance.simulation.private_slurm.daemons import Daemons
from relance.simulation.private_slurm.failures import DaemonFailedError, PrivateSlurmError
from relance.simulation.private_slurm.layouts import Layout
from relance.simulation.private_slurm.leftovers import kill_processes_of
from relance.simulation.private_slurm.plans import ClusterPlan
from relance.simulation.private_slurm.ports import PortReservation
from relance.simulation.private_slurm.starting import check_machine, start_daemons
from relance.simulation.private_slurm.users import hold_users, release_users

NAME = "keeper"
"""What the keeper calls itself among the process ids of its cluster."""

_STARTS = 3
_PORT_TAKEN = ("address already in use", "bind() failed", "unable to bind")


class _Ended(BaseException):
    """Somebody asked for the end."""


def keep(plan: ClusterPlan, owner: int) -> None:
    """Start a cluster, say so, and remove it when process `owner` has ended or this one is told to end."""
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it comes to the owner too, who then ends
    with suppress(_Ended):
        _keep(plan, owner)


def remove_cluster(folder: Path) -> None:
    """Kill every process of the cluster in `folder`, remove the folder, and the users that nobody needs now.

    Raises:
        PrivateSlurmError: Something could not be removed.
    """
    kill_processes_of(folder)
    shutil.rmtree(folder, ignore_errors=True)
    release_users(folder)


def _keep(plan: ClusterPlan, owner: int) -> None:
    try:
        check_machine(plan)
    except PrivateSlurmError as error:
        return _say({"error": str(error)})
    for left in reversed(range(_STARTS)):
        layout = Layout.create(plan)
        try:
            if _keep_one(layout, plan, owner, last=not left):
                return None
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            remove_cluster(layout.folder)
            signal.signal(signal.SIGTERM, _end)
    return None


def _keep_one(layout: Layout, plan: ClusterPlan, owner: int, *, last: bool) -> bool:
    """Keep the cluster until its end; False: a port was taken after all, so that another start is worth it."""
    with PortReservation(["slurmctld", "slurmdbd", *plan.nodes]) as reserved:
        try:
            Daemons(layout, plan).write_pid(NAME, os.getpid())
            hold_users(plan.users, cluster=layout.folder, keeper=os.getpid())
            start_daemons(layout, plan, reserved.ports)
        except DaemonFailedError as error:
            if not last and any(words in str(error).lower() for words in _PORT_TAKEN):
                return False
            _say({"error": str(error)})
            return True
        except (PrivateSlurmError, OSError) as error:
            _say({"error": str(error)})
            return True
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel collects what ends from now on
        _say({"cluster": {"folder": str(layout.folder), "ports": reserved.ports}})
        with suppress(ProcessLookupError):
            select.select([os.pidfd_open(owner)], [], [])
        return True


def _say(words: dict[str, Any]) -> None:
    """The only line on standard output; whoever waits for its end gets it now."""
    with suppress(BrokenPipeError):
        print(json.dumps(words), flush=True)  # noqa: T201 -- the answer to the starter
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)


def _end(_number: int, _frame: FrameType | None) -> None:
    raise _Ended
