"""A private MariaDB server for the tests: one for a whole run, on loopback, with a folder and an account of its own.

The machine's own server, if there is one, is neither used nor touched.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pymysql
import pytest

from tests.components import keeper
from tests.components.presence import require_component

REASON: Final = "the storage contract on the database of a fleet"
ACCOUNT: Final = "relance"
START_LIMIT_S: Final = 60.0
POLL_S: Final = 0.05
ROOM_BYTES: Final = 1024**3
SMALL_AND_QUICK: Final = (
    "--innodb-buffer-pool-size=32M",
    "--innodb-log-file-size=16M",
    "--innodb-flush-log-at-trx-commit=2",
    "--performance-schema=OFF",
    "--skip-log-bin",
    "--skip-name-resolve",
    "--max-connections=200",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MariaDbServer:
    """Where the run's server listens, and the account that may do everything on it."""

    port: int
    password: str

    def url(self, database: str) -> str:
        """The SQLAlchemy URL of a database on this server."""
        return f"mysql+pymysql://{ACCOUNT}:{self.password}@127.0.0.1:{self.port}/{database}?charset=utf8mb4"

    def run(self, statement: str) -> None:
        """Execute one statement outside any database."""
        connection = pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=ACCOUNT,
            password=self.password,
            ssl_disabled=True,  # reading the certificates takes longer than the statement
        )
        with closing(connection), connection.cursor() as cursor:
            cursor.execute(statement)


@pytest.fixture(scope="session")
def mariadb_server(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> MariaDbServer:
    """The server that all processes of this test run share; the first to ask starts it."""
    require_component("mariadb", REASON, program="mariadb-install-db")
    program = require_component("mariadb", REASON, program="mariadbd")
    alone = worker_id == "master"
    base = tmp_path_factory.getbasetemp()
    with _locked(base if alone else base.parent) as shared:
        known = shared / "mariadb.json"
        if not (known.exists() and _answers(MariaDbServer(**json.loads(known.read_text())))):
            server = _start(program, run=os.getpid() if alone else os.getppid())
            known.write_text(json.dumps(asdict(server)))
        return MariaDbServer(**json.loads(known.read_text()))


def _answers(server: MariaDbServer) -> bool:
    """Whether it can be asked; one that is dead is replaced, for a test that is tried again."""
    with suppress(pymysql.err.OperationalError):
        server.run("SELECT 1")
        return True
    return False


@pytest.fixture
def mariadb_url(mariadb_server: MariaDbServer) -> Iterator[str]:
    """The SQLAlchemy URL of a database that is empty, utf8mb4, and this test's alone."""
    database = f"test_{secrets.token_hex(8)}"
    mariadb_server.run(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
    yield mariadb_server.url(database)
    mariadb_server.run(f"DROP DATABASE {database}")


@contextmanager
def _locked(shared: Path) -> Iterator[Path]:
    """The folder that the processes of one test run share, with everybody else kept out."""
    with (shared / "mariadb.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield shared


def _start(program: Path, *, run: int) -> MariaDbServer:
    """Start a server that lives as long as the process `run`, and wait until it answers.

    Its folder is a short path under the system's own, because a socket's path may not be longer than 107 bytes.
    """
    folder = Path(tempfile.mkdtemp(prefix="relance-mariadb-", dir=_in_memory()))
    account = ["--user=root"] if os.geteuid() == 0 else []
    _install(folder, account)
    server = MariaDbServer(port=_free_port(), password=secrets.token_hex(16))
    first_words = folder / "first.sql"
    first_words.write_text(
        f"CREATE USER '{ACCOUNT}'@'127.0.0.1' IDENTIFIED BY '{server.password}';\n"
        f"GRANT ALL ON *.* TO '{ACCOUNT}'@'127.0.0.1';\n"
    )
    command = [
        *(str(program), "--no-defaults", *account, *SMALL_AND_QUICK, f"--datadir={folder / 'data'}"),
        *("--bind-address=127.0.0.1", f"--port={server.port}", f"--socket={folder / 's'}"),
        *(f"--pid-file={folder / 'pid'}", f"--init-file={first_words}"),
    ]
    kept = subprocess.Popen(
        [sys.executable, keeper.__file__, str(run), str(folder), *command],
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # an interrupt at the terminal ends the tests first, then the server
    )
    _wait_until_ready(server, kept, folder / "server.log")
    return server


def _in_memory() -> Path | None:
    """Where files live in memory, if there is room: each test makes and drops a database, some hundred synced files."""
    shared = Path("/dev/shm")
    if shared.is_dir() and os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > ROOM_BYTES:
        return shared
    return None


def _install(folder: Path, account: list[str]) -> None:
    """Write the system tables of a new server into `folder`/data."""
    program = require_component("mariadb", REASON, program="mariadb-install-db")
    done = subprocess.run(
        [str(program), "--no-defaults", *account, f"--datadir={folder / 'data'}", "--skip-test-db"],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        pytest.fail(f"mariadb-install-db failed:\n{done.stdout}{done.stderr}", pytrace=False)


def _wait_until_ready(server: MariaDbServer, kept: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and kept.poll() is None:
        with suppress(pymysql.err.OperationalError):
            server.run("SELECT 1")
            kept.returncode = 0  # it outlives this process by design: nobody here waits for it
            return
        time.sleep(POLL_S)
    kept.kill()
    pytest.fail(f"mariadbd did not start:\n{log.read_text()}", pytrace=False)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
