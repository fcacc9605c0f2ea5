"""Where the programs of a cluster are: on PATH, or in one installation of Slurm."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from relance.simulation.private_slurm.failures import PrivateSlurmError

SLURM_PROGRAMS = ("slurmctld", "slurmd", "slurmdbd", "sacctmgr", "scontrol", "sinfo", "sbatch", "srun", "scancel")
OTHER_PROGRAMS = ("munged", "munge", "mariadbd", "mariadb-install-db")
PACKAGES = "slurm-wlm slurmdbd slurm-wlm-mysql-plugin munge mariadb-server"
"""The Debian packages that have them all."""

_SERVERS_TOO = ("/usr/local/sbin", "/usr/sbin", "/sbin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The programs of one release.

    Attributes:
        prefix: The folder with bin, sbin and lib of an installation of Slurm; empty means the programs of PATH. Munge
            and MariaDB may be there too, else they are those of PATH.
    """

    prefix: str = ""

    @property
    def path(self) -> str:
        """A value of PATH that finds them, servers included."""
        usual = os.environ.get("PATH", os.defpath).split(os.pathsep)
        own = [f"{self.prefix}/bin", f"{self.prefix}/sbin"] if self.prefix else []
        return os.pathsep.join(dict.fromkeys([*own, *usual, *_SERVERS_TOO]))

    @property
    def env(self) -> dict[str, str]:
        """PATH, and where an installation needs it the place of its libraries."""
        if not self.prefix:
            return {"PATH": self.path}
        libraries = [str(each) for each in (Path(self.prefix, "lib"), Path(self.prefix, "lib", "slurm"))]
        return {"PATH": self.path, "LD_LIBRARY_PATH": os.pathsep.join(libraries)}

    @property
    def plugin_dir(self) -> Path | None:
        """The folder of Slurm's plugins in an installation; None: Slurm knows it by itself."""
        if not self.prefix:
            return None
        for pattern in ("lib*/slurm*/auth_munge.so", "lib*/*/slurm*/auth_munge.so"):
            for found in sorted(Path(self.prefix).glob(pattern)):
                return found.parent
        return None

    def find(self, name: str) -> Path:
        """The path of a program.

        Raises:
            PrivateSlurmError: It is not there.
        """
        found = shutil.which(name, path=self.path)
        if found is None or (self.prefix and name in SLURM_PROGRAMS and not Path(found).is_relative_to(self.prefix)):
            where = f"in {self.prefix}" if self.prefix else "on this machine"
            raise PrivateSlurmError(
                f"The program {name} is not {where}. On Debian or Ubuntu: apt-get install {PACKAGES} (as root). "
                "Another installation of Slurm is named by its folder, the one with bin and sbin in it."
            )
        return Path(found)

    def check(self) -> None:
        """See that all are there.

        Raises:
            PrivateSlurmError: One is not.
        """
        for name in (*SLURM_PROGRAMS, *OTHER_PROGRAMS):
            self.find(name)
