"""What sees to it that no process of a private cluster outlives it: daemons, steps, jobs and the jobs' children."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from relance.simulation.private_slurm.daemons import LOOK_EVERY_S, MARK
from relance.simulation.private_slurm.failures import PrivateSlurmError

_ROUNDS_S = 10.0


def kill_processes_of(folder: Path) -> None:
    """Kill all processes of the cluster in `folder` and wait until none is left.

    Raises:
        PrivateSlurmError: Some could not be killed.
    """
    _kill_until_none(folder, None)


def kill_jobs_on(folder: Path, node: str) -> None:
    """Kill the steps and jobs that run on one node, as the loss of its power does.

    Raises:
        PrivateSlurmError: Some could not be killed.
    """
    _kill_until_none(folder, node)


def processes_of(folder: Path, node: str | None = None) -> set[int]:
    """The processes of the cluster in `folder`; with `node`, only the steps and jobs on that node.

    Daemons are known by our mark in their environment, what runs in a job by SLURM_CONF and SLURMD_NODENAME, and a
    slurmstepd, which overwrites its environment, by its working directory. Their descendants belong to them, whatever
    they did to their own environment.
    """
    parents: dict[int, int] = {}
    found: set[int] = set()
    for pid in _pids():
        with suppress(OSError):
            parents[pid] = _parent(pid)
            if _belongs(pid, folder, node):
                found.add(pid)
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found - {os.getpid(), os.getppid()}


def _kill_until_none(folder: Path, node: str | None) -> None:
    end = time.monotonic() + _ROUNDS_S
    while found := processes_of(folder, node):
        if time.monotonic() > end:
            raise PrivateSlurmError(f"Processes of the cluster in {folder} cannot be killed: {sorted(found)}")
        # Steps first: one that outlived its ranks for a moment would report their end to slurmctld.
        for pid in sorted(found, key=_is_step, reverse=True):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_EVERY_S)


def _belongs(pid: int, folder: Path, node: str | None) -> bool:
    if _is_step(pid):
        return _steps_place(pid).is_relative_to(folder / "spool" / node if node else folder)
    environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    if node is None and f"{MARK}={folder}".encode() in environ:
        return True
    if f"SLURM_CONF={folder}/slurm.conf".encode() not in environ:
        return False
    at = f"SLURMD_NODENAME={node or ''}".encode()
    return any(each == at if node else each.startswith(at) for each in environ)


def _is_step(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("slurmstepd")
    except OSError:
        return False


def _steps_place(pid: int) -> Path:
    """The working directory of a slurmstepd: that of its slurmd, the spool folder of the node."""
    return Path(str(Path(f"/proc/{pid}/cwd").readlink()).removesuffix(" (deleted)"))


def _pids() -> Iterator[int]:
    for entry in os.listdir("/proc"):  # noqa: PTH208 -- names are all that is wanted, a thousand times
        if entry.isdigit():
            yield int(entry)


def _parent(pid: int) -> int:
    """The parent of a living process. Raises ProcessLookupError for one that waits to be collected."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if fields[0] in "ZX":
        raise ProcessLookupError(pid)
    return int(fields[1])
