"""Where things lie in the folder of a cluster."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from relance.simulation.private_slurm.plans import ClusterPlan

_ROOM_BYTES = 1024**3
_IN_MEMORY = Path("/dev/shm")  # noqa: S108 -- the folder made there is new and its name cannot be guessed


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder of one cluster, readable for every user, because their commands read slurm.conf in it."""

    folder: Path

    @classmethod
    def create(cls, plan: ClusterPlan) -> Layout:
        """Make a new folder with a short path: the path of a socket in it may have 107 bytes.

        It lies in memory where there is room and programs may be run from there (slurmd starts batch scripts from its
        spool folder), else among the temporary files.
        """
        layout = cls(Path(tempfile.mkdtemp(prefix="relance-slurm-", dir=_memory())))
        layout.folder.chmod(0o755)
        for each in (layout.logs, layout.pids, layout.state, layout.work):
            each.mkdir(mode=0o755)
        for node in plan.nodes:
            layout.spool(node).mkdir(mode=0o755, parents=True)
        return layout

    @property
    def slurm_conf(self) -> Path:
        """What SLURM_CONF names."""
        return self.folder / "slurm.conf"

    @property
    def slurmdbd_conf(self) -> Path:
        """Read by slurmdbd only, from the folder of slurm.conf."""
        return self.folder / "slurmdbd.conf"

    @property
    def munge_socket(self) -> Path:
        """The socket of the private munged."""
        return self.folder / "munge.sock"

    @property
    def munge_key(self) -> Path:
        """The key of the private munged."""
        return self.folder / "munge.key"

    @property
    def database_socket(self) -> Path:
        """The socket of the private MariaDB."""
        return self.folder / "db.sock"

    @property
    def database(self) -> Path:
        """The data of the private MariaDB."""
        return self.folder / "db"

    @property
    def logs(self) -> Path:
        """Log and output of each daemon, called as the daemon is."""
        return self.folder / "logs"

    @property
    def pids(self) -> Path:
        """One file per daemon that was started, called as the daemon is."""
        return self.folder / "pids"

    @property
    def state(self) -> Path:
        """StateSaveLocation of slurmctld."""
        return self.folder / "state"

    @property
    def work(self) -> Path:
        """One folder per user, theirs."""
        return self.folder / "work"

    def spool(self, node: str) -> Path:
        """SlurmdSpoolDir of a node."""
        return self.folder / "spool" / node

    def log(self, daemon: str) -> Path:
        """The log that a daemon of Slurm writes, with times: slurmdbd, slurmctld, or the name of a node."""
        return self.logs / f"{daemon}.log"

    def output(self, daemon: str) -> Path:
        """What a daemon says on standard output and error: the same without times, and what came before its log."""
        return self.logs / f"{daemon}.out"


def _memory() -> Path | None:
    try:
        runs_programs = not os.statvfs(_IN_MEMORY).f_flag & os.ST_NOEXEC
        roomy = shutil.disk_usage(_IN_MEMORY).free > _ROOM_BYTES
    except OSError:
        return None
    return _IN_MEMORY if runs_programs and roomy else None
