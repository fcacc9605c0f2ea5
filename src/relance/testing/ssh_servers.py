"""A real sshd on loopback with keys of its own, to reach a cluster by: for tests, measurements and demonstrations.

It takes one key, whose only command is the script `relance-slurm`, and nothing of this machine's own sshd, if there is
one. OpenSSH's server has to be installed (package openssh-server); where we are root, root has to have a shell.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from relance.simulation.private_slurm.ports import PortReservation, listens
from relance.slurm.scripts import script_text
from relance.slurm.ssh import Ssh
from relance.testing.processes import Program, Running

_SERVERS = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
_PRIVILEGE_FOLDER = Path("/run/sshd")
"""sshd refuses to start as root without it; Debian's service makes it."""
_START_S = 30.0
_CONNECT_S = 20
"""A busy machine is slow, not away."""
_LOOK_EVERY_S = 0.02


class NoSshServerError(Exception):
    """There is no sshd on this machine, or it does not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What the one key may do.

    Attributes:
        run: What stands before the script's path, such as a program that changes the user.
        client_uid: The user whose key it is.
        forced: Whether the script is the only thing that the key may do.
        script: The text of the script; empty: nothing is installed.
    """

    run: tuple[str, ...] = ()
    client_uid: int = -1
    forced: bool = True
    script: str = ""


class SshServer:
    """An sshd that runs, in a folder of its own that everybody may enter."""

    def __init__(self, folder: Path, login: Login) -> None:
        self._program = shutil.which("sshd", path=_SERVERS)
        if self._program is None or shutil.which("ssh-keygen") is None:
            raise NoSshServerError("sshd is not on this machine: install openssh-server")
        self.folder = folder
        self.script = folder / "relance-slurm"
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self.key_file = folder / "client_key"
        self.known_hosts = folder / "known_hosts"
        self._held = PortReservation(["sshd"])
        self.port = self._held.ports["sshd"]
        self._running: Running | None = None
        folder.chmod(0o755)
        self.install(login.script or script_text())
        self._make_keys(login)
        self._configure(login)

    def install(self, text: str) -> None:
        """Put another script in the place of the one that is there."""
        self.script.write_text(text, encoding="utf-8")
        self.script.chmod(0o755)

    @property
    def ssh(self) -> Ssh:
        """How it is reached."""
        return Ssh(
            host="127.0.0.1",
            user=self.user,
            port=self.port,
            key_file=str(self.key_file),
            known_hosts=str(self.known_hosts),
            connect_timeout_s=_CONNECT_S,
        )

    @property
    def settings(self) -> dict[str, object]:
        """The same as a part of the settings file."""
        return {
            "kind": "ssh",
            "host": "127.0.0.1",
            "user": self.user,
            "port": self.port,
            "key_file": str(self.key_file),
            "known_hosts": str(self.known_hosts),
        }

    def start(self) -> None:
        """Start it and wait until it listens. Raises NoSshServerError."""
        if os.geteuid() == 0:
            _PRIVILEGE_FOLDER.mkdir(mode=0o755, exist_ok=True)
        argv = [str(self._program), "-D", "-e", "-f", str(self.folder / "sshd_config")]
        log = self.folder / "sshd.log"
        self._running = Running(Program(name="sshd", argv=argv, log=log, env={"PATH": _SERVERS}))
        end = time.monotonic() + _START_S
        while not listens(self.port):
            if self._running.exit_code is not None or time.monotonic() > end:
                said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
                self.stop()
                raise NoSshServerError(f"sshd did not start: {said}")
            time.sleep(_LOOK_EVERY_S)

    def stop(self) -> None:
        """End it with all its connections, as when its host goes away; may be called twice."""
        if self._running is None:
            return
        pids = [self._running.pid, *_descendants(self._running.pid)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._running.stop()
        self._running = None

    def cut(self) -> None:
        """End its connections, and go on listening."""
        if self._running is not None:
            for pid in _descendants(self._running.pid):
                if _name(pid) == "sshd":
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    def change_host_key(self) -> None:
        """Stop, and have another host key from the next start on."""
        self.stop()
        self._make_key(self.folder / "host_key")

    def close(self) -> None:
        """Stop, and let the port go."""
        self.stop()
        self._held.close()

    def _make_keys(self, login: Login) -> None:
        self._make_key(self.folder / "host_key")
        self._make_key(self.key_file)
        if login.client_uid >= 0:
            os.chown(self.key_file, login.client_uid, -1)
        host = (self.folder / "host_key.pub").read_text(encoding="ascii").split()[:2]
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {' '.join(host)}\n", encoding="ascii")
        self.known_hosts.chmod(0o644)
        key = (self.folder / "client_key.pub").read_text(encoding="ascii").strip()
        run = " ".join((*login.run, str(self.script)))
        options = f'restrict,command="{run}" ' if login.forced else ""
        authorized = self.folder / "authorized_keys"
        authorized.write_text(f"{options}{key}\n", encoding="ascii")
        authorized.chmod(0o644)

    def _make_key(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "relance", "-f", str(path)]
        subprocess.run(argv, check=True, capture_output=True, timeout=_START_S, stdin=subprocess.DEVNULL)

    def _configure(self, login: Login) -> None:
        root = "forced-commands-only" if login.forced else "prohibit-password"
        lines = (
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.folder}/host_key",
            f"AuthorizedKeysFile {self.folder}/authorized_keys",
            f"PermitRootLogin {root}",
            f"SetEnv PATH={self.folder}:/usr/local/bin:/usr/bin:/bin",
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PidFile none",
            "MaxStartups 100",
            "LogLevel VERBOSE",
        )
        (self.folder / "sshd_config").write_text("\n".join((*lines, "")), encoding="ascii")


@contextlib.contextmanager
def ssh_server(login: Login, *, place: Path | None = None) -> Iterator[SshServer]:
    """An sshd until the end of the block, below `place`. Raises NoSshServerError."""
    folder = Path(tempfile.mkdtemp(prefix="relance-sshd-", dir=place))
    server: SshServer | None = None
    try:
        server = SshServer(folder, login)
        server.start()
        yield server
    finally:
        if server is not None:
            server.close()
        shutil.rmtree(folder, ignore_errors=True)


def as_account(name: str) -> tuple[str, ...]:
    """What runs a program as this user, where root logs in."""
    entry = pwd.getpwnam(name)
    return ("setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "--")


def _descendants(pid: int) -> list[int]:
    """The processes below one, nearest first."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                below.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    wanted: Sequence[int] = [pid]
    while wanted:
        wanted = [child for each in wanted for child in below.get(each, [])]
        found += wanted
    return found


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
