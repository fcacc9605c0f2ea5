"""What can befall the processes, the wires and the database around a restart, and how each is mended again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import pymysql

from bench.cuts import Cut, Wire
from bench.rigs import folder
from bench.shims import Shims
from bench.sites import free_port, until
from bench.slurm_lanes import LIMITS
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite
from relance.domain.stages import EndRunning
from relance.simulation.private_slurm import ClusterPlan, PrivateSlurmError, RunningCluster, start_cluster
from relance.testing.other_users import open_python, user_of

ROLES = ("controller", "server", "watcher", "watchdog")
DAEMONS = ("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd")
_ACCOUNT, _WORD, _DATABASE = "history", "history", "relance"
_READY_S = 60.0
_SLURMD_TIMEOUT_S = 24
"""Longer than a slurmd is stopped. Slurm asks its nodes what runs there every 20/3 of it: 160 s, after which a job that
it shows as running though it has ended is found out (seen: 22.05)."""


class Way(Enum):
    """How it is struck."""

    KILL = "kill -9"
    STOP = "SIGSTOP"
    REFUSED = "refused"
    SILENT = "silent"
    READ_ONLY = "read-only"


AWAY_S = {Way.KILL: 4.0, Way.STOP: 12.0, Way.REFUSED: 6.0, Way.SILENT: 12.0, Way.READ_ONLY: 6.0}
"""How long it lasts: what is stopped or silent outlasts the time limit of a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One thing that is struck in one way.

    `target` is a role of Relance, a daemon (`slurmd` is that of the job's first node), "agents to server", "commands to
    slurmctld" or "database". `on_mariadb` says that the history is there and not in SQLite.
    """

    target: str
    way: Way
    on_mariadb: bool = False

    @property
    def name(self) -> str:
        """For reports."""
        return f"{self.target} {self.way.value}{', history on MariaDB' if self.on_mariadb else ''}"


TROUBLES = (
    *(Trouble(target=target, way=way) for target in (*ROLES, *DAEMONS) for way in (Way.KILL, Way.STOP)),
    *(
        Trouble(target=target, way=way)
        for target in ("agents to server", "commands to slurmctld")
        for way in (Way.REFUSED, Way.SILENT)
    ),
    Trouble(target="database", way=Way.READ_ONLY),
    Trouble(target="database", way=Way.READ_ONLY, on_mariadb=True),
    *(Trouble(target="mariadbd", way=way, on_mariadb=True) for way in (Way.KILL, Way.STOP)),
    *(Trouble(target="server", way=way, on_mariadb=True) for way in (Way.KILL, Way.STOP)),
)


@dataclass(slots=True, kw_only=True)
class Stand:
    """A cluster of its own, Relance's roles apart beside it, shims before its commands, and wires that can be cut."""

    site: SlurmSite
    shims: Shims
    to_server: Cut
    to_slurmctld: Cut
    on_mariadb: bool
    jobs: int = 0
    _frozen: list[int] = field(default_factory=list)

    @property
    def cluster(self) -> RunningCluster:
        """Its cluster."""
        return self.site.cluster

    @contextmanager
    def befallen(self, trouble: Trouble, node: str) -> Iterator[None]:
        """The trouble lasts while this is open, and is mended after it; `node` is whose slurmd is meant."""
        if trouble.target in ROLES:
            with self._role(trouble.target, trouble.way):
                yield
        elif trouble.target in DAEMONS:
            name = node if trouble.target == "slurmd" else trouble.target
            with self._daemon(name, trouble.way):
                yield
        elif trouble.target == "database":
            with (
                _read_only_mariadb(self.cluster) if self.on_mariadb else _read_only_sqlite(self.site.relance.state_dir)
            ):
                yield
        else:
            wire = self.to_server if trouble.target == "agents to server" else self.to_slurmctld
            wire.be(Wire(trouble.way.value))
            try:
                yield
            finally:
                wire.be(Wire.WHOLE)

    def mend_roles(self) -> None:
        """Start what ended by itself, as a service manager does."""
        for role in self.site.relance.ended():
            self.site.relance.start_role(role)

    @contextmanager
    def _role(self, role: str, way: Way) -> Iterator[None]:
        running = self.site.relance.role(role)
        if way is Way.STOP:
            running.signal(signal.SIGSTOP)
            try:
                yield
            finally:
                running.signal(signal.SIGCONT)
            return
        running.kill()
        yield
        if role == "server":
            self.site.reconnect()
        self.site.relance.start_role(role)

    @contextmanager
    def _daemon(self, name: str, way: Way) -> Iterator[None]:
        pid = self.cluster.pids[name]
        if way is Way.STOP:
            os.kill(pid, signal.SIGSTOP)
            try:
                yield
            finally:
                os.kill(pid, signal.SIGCONT)
            return
        self.cluster.kill_daemon(name)
        yield
        self.cluster.start_daemon(name)


@contextmanager
def stand(*, on_mariadb: bool = False, nodes: int = 3) -> Iterator[Stand]:
    """A stand; all of it is gone afterwards."""
    with folder() as place, ExitStack() as running:
        place.chmod(0o755)
        cluster = start_cluster(ClusterPlan(node_count=nodes, slurmd_timeout_s=_SLURMD_TIMEOUT_S))
        running.callback(cluster.stop)
        made = _stand(cluster, place, running, on_mariadb=on_mariadb)
        running.callback(made.site.stop)
        made.site.start()
        yield made


def _stand(cluster: RunningCluster, place: Path, running: ExitStack, *, on_mariadb: bool) -> Stand:
    port = free_port()
    to_server = running.enter_context(Cut(port))
    to_slurmctld = running.enter_context(Cut(cluster.ports["slurmctld"]))
    conf = Path(cluster.folder) / "through-the-wire.conf"
    lines = Path(cluster.slurm_conf).read_text(encoding="utf-8").splitlines()
    other = [line for line in lines if not line.startswith("SlurmctldPort=")]
    conf.write_text("\n".join([*other, f"SlurmctldPort={to_slurmctld.port}", ""]), encoding="utf-8")
    operator = user_of(cluster.plan.operator)
    shims = Shims(place / "shims", operator, open_python(place, operator))
    setup = SlurmSetup(
        scheduler={**FAST_POLLS, "jobs_s": 1, "conf": str(conf)},
        site={"limits": LIMITS},
        settings={
            "server": {"port": port, **({"database": _mariadb(cluster)} if on_mariadb else {})},
            "agent": {"server": f"http://127.0.0.1:{to_server.port}"},
        },
        environment={"PATH": f"{shims.folder}:{cluster.env['PATH']}"},
        end_running=frozenset(EndRunning),
        apart=True,
        watchdog={"stage": "act", "every_s": 2.0},
    )
    site = SlurmSite(cluster, place / "site", setup)
    return Stand(site=site, shims=shims, to_server=to_server, to_slurmctld=to_slurmctld, on_mariadb=on_mariadb)


def _mariadb(cluster: RunningCluster) -> str:
    """The URL of a new database on the cluster's own MariaDB, for an account that may do all in it and no more."""
    for statement in (
        f"CREATE DATABASE {_DATABASE} CHARACTER SET utf8mb4",
        f"CREATE USER '{_ACCOUNT}'@'localhost' IDENTIFIED BY '{_WORD}'",
        f"GRANT ALL ON {_DATABASE}.* TO '{_ACCOUNT}'@'localhost'",
    ):
        _as_root(cluster, statement)
    return f"mysql+pymysql://{_ACCOUNT}:{_WORD}@localhost/{_DATABASE}?unix_socket={cluster.layout.database_socket}"


def _as_root(cluster: RunningCluster, statement: str) -> None:
    connection = pymysql.connect(unix_socket=str(cluster.layout.database_socket), user="root")
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(statement)


@contextmanager
def _read_only_mariadb(cluster: RunningCluster) -> Iterator[None]:
    _as_root(cluster, "SET GLOBAL read_only = 1")
    try:
        yield
    finally:
        _as_root(cluster, "SET GLOBAL read_only = 0")


@contextmanager
def _read_only_sqlite(state: Path) -> Iterator[None]:
    """Database and log refuse every write, also through a descriptor that is open: SQLite says so, as on a full disk.

    Not its shared memory: to write to a mapped page that refuses it is a SIGBUS (seen), and that is a killed server.
    """
    files = [str(path) for name in ("relance.db", "relance.db-wal") if (path := state / name).exists()]
    subprocess.run(["chattr", "+i", *files], check=True)
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", *files], check=True)


def can_be_read_only(place: Path) -> bool:
    """Whether files in this folder can be made to refuse writes; not every file system and container lets one."""
    probe = place / "probe"
    probe.touch()
    done = subprocess.run(["chattr", "+i", str(probe)], check=False, capture_output=True)
    subprocess.run(["chattr", "-i", str(probe)], check=False, capture_output=True)
    probe.unlink()
    return done.returncode == 0


def wait_for_cluster(made: Stand) -> None:
    """Return when slurmctld and accounting answer again. Raises TooLateError."""

    def answers() -> bool:
        try:
            made.cluster.must("root", ["scontrol", "ping"])
            made.cluster.must("root", ["sacct", "-n", "-X"])
        except (PrivateSlurmError, subprocess.TimeoutExpired):
            time.sleep(0.2)
            return False
        return True

    until(answers, _READY_S, "an answer of slurmctld and slurmdbd")
