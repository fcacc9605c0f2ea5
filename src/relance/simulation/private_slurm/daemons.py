"""The daemons of a cluster: how each is started, and how to see that it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from relance.simulation.private_slurm.failures import DaemonFailedError, tail
from relance.simulation.private_slurm.layouts import Layout
from relance.simulation.private_slurm.plans import ClusterPlan
from relance.simulation.private_slurm.programs import Programs

MARK = "RELANCE_PRIVATE_SLURM"
"""The environment variable that all daemons of a cluster carry: the cluster's folder."""

LOOK_EVERY_S = 0.02
_END_LIMIT_S = 10.0

_SMALL_AND_QUICK = (
    "--skip-networking",
    "--innodb-buffer-pool-size=32M",
    "--innodb-log-file-size=16M",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-lock-wait-timeout=900",
    "--performance-schema=OFF",
    "--skip-log-bin",
    "--skip-name-resolve",
    "--max-connections=50",
)


@dataclass(frozen=True, slots=True)
class Daemons:
    """The daemons of one cluster: munged, mariadbd, slurmdbd, slurmctld, and each slurmd under the name of its node."""

    layout: Layout
    plan: ClusterPlan

    def argv(self, name: str) -> list[str]:
        """The command that runs a daemon in the foreground.

        Raises:
            PrivateSlurmError: Its program is missing.
        """
        find, layout = Programs(prefix=self.plan.prefix).find, self.layout
        if name == "munged":
            files = [f"--{word}-file={layout.folder}/munge.{word}" for word in ("key", "pid", "seed")]
            return [str(find("munged")), "--foreground", "--force", f"--socket={layout.munge_socket}", *files]
        if name == "mariadbd":
            places = [f"--datadir={layout.database}", f"--socket={layout.database_socket}"]
            pid_file = f"--pid-file={layout.folder}/db.pid"
            return [str(find("mariadbd")), "--no-defaults", "--user=root", *_SMALL_AND_QUICK, *places, pid_file]
        if name == "slurmdbd":
            return [str(find("slurmdbd")), "-D"]
        if name == "slurmctld":
            return [str(find("slurmctld")), "-D", "-f", str(layout.slurm_conf)]
        stepd = find("slurmd").with_name("slurmstepd")
        own_stepd = ["-d", str(stepd)] if self.plan.prefix and stepd.exists() else []
        return [str(find("slurmd")), "-D", "-N", name, "-f", str(layout.slurm_conf), *own_stepd]

    def start(self, name: str) -> None:
        """Start a daemon, keep its output, and write down its process id.

        It lives on when the process that called this ends.
        """
        env = {
            **Programs(prefix=self.plan.prefix).env,
            MARK: str(self.layout.folder),
            "SLURM_CONF": str(self.layout.slurm_conf),
            "MYSQL_UNIX_PORT": str(self.layout.database_socket),
        }
        with self.layout.output(name).open("ab") as log:
            process = subprocess.Popen(
                self.argv(name),
                # A slurmstepd inherits it and is known by it, because it overwrites its environment.
                cwd=self.layout.spool(name) if name in self.plan.nodes else self.layout.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        process.returncode = 0  # it outlives this object by design: its process id is what counts
        self.write_pid(name, process.pid)

    def write_pid(self, name: str, pid: int) -> None:
        """Write down under which process id a daemon runs."""
        (self.layout.pids / name).write_text(f"{pid} {_born(pid)}")

    def pid(self, name: str) -> int | None:
        """The process id of a daemon; None: it does not run."""
        try:
            pid, born = (self.layout.pids / name).read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid) if born == _born(int(pid)) else None

    def kill(self, name: str) -> None:
        """Kill a daemon and wait until it is gone; nothing happens when it does not run.

        Raises:
            DaemonFailedError: It is still there ten seconds later.
        """
        self._end_by(name, signal.SIGKILL)

    def end(self, name: str) -> None:
        """Tell a daemon to shut down in order and wait until it is gone; nothing happens when it does not run.

        Raises:
            DaemonFailedError: It is still there ten seconds later.
        """
        self._end_by(name, signal.SIGTERM)

    def wait_until(self, name: str, is_ready: Callable[[], bool], *, time_limit_s: float) -> None:
        """Wait for a daemon to become ready.

        Raises:
            DaemonFailedError: It ended before, or the time is over; the text has the end of its log.
        """
        end = time.monotonic() + time_limit_s
        while not is_ready():
            if self.pid(name) is None:
                raise DaemonFailedError(f"{name} ended while it started. Its last words:\n{self.last_words(name)}")
            if time.monotonic() > end:
                words = self.last_words(name)
                raise DaemonFailedError(f"{name} was not ready after {time_limit_s:.0f} s. Its last words:\n{words}")
            time.sleep(LOOK_EVERY_S)

    def _end_by(self, name: str, number: signal.Signals) -> None:
        pid = self.pid(name)
        if pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        end = time.monotonic() + _END_LIMIT_S
        while self.pid(name) == pid:
            if time.monotonic() > end:
                raise DaemonFailedError(
                    f"{name} (process {pid}) did not end within {_END_LIMIT_S:.0f} s of {number.name}"
                )
            time.sleep(LOOK_EVERY_S)

    def last_words(self, name: str) -> str:
        """The end of what a daemon said."""
        return tail(self.layout.output(name))


def _born(pid: int) -> str | None:
    """When a process began, in the kernel's ticks since boot, which tells it from a later one with the same id.

    None: there is no such process, or it has ended and only waits to be collected by its parent.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
