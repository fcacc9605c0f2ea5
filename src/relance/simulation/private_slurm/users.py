"""System users for a cluster's operator and owners: made when missing, removed when no cluster needs them any more."""

from __future__ import annotations

import fcntl
import os
import pwd
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from relance.simulation.private_slurm.failures import PrivateSlurmError

_BOOKS = Path("/run/relance-private-slurm")
"""Which users were made here, and which clusters need them; it goes with the machine's next start, as they should."""


def hold_users(names: Iterable[str], *, cluster: Path, keeper: int) -> None:
    """Make the users that are missing, and note that the cluster needs them until `release_users` or its keeper's end.

    The users are system users without a home, a password or a shell.

    Raises:
        PrivateSlurmError: A user could not be made.
    """
    with _books() as books:
        _drop_the_dead(books)
        (books / "holders" / cluster.name).write_text(str(keeper))
        for name in names:
            if not _exists(name):
                (books / "made" / name).touch()
                _run("useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent",
                     "--shell", "/usr/sbin/nologin", "--comment", "private Slurm cluster", name)  # fmt: skip


def release_users(cluster: Path) -> None:
    """The cluster needs its users no more. When no other cluster does, those that were made here are removed.

    Raises:
        PrivateSlurmError: A user could not be removed.
    """
    with _books() as books:
        (books / "holders" / cluster.name).unlink(missing_ok=True)
        _drop_the_dead(books)
        if any((books / "holders").iterdir()):
            return
        for made in (books / "made").iterdir():
            if _exists(made.name):
                _run("userdel", made.name)
            made.unlink()


def _drop_the_dead(books: Path) -> None:
    for holder in (books / "holders").iterdir():
        if not Path("/proc", holder.read_text() or "0").exists():
            holder.unlink()


@contextmanager
def _books() -> Iterator[Path]:
    for each in (_BOOKS, _BOOKS / "made", _BOOKS / "holders"):
        each.mkdir(mode=0o700, exist_ok=True)
    with (_BOOKS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield _BOOKS


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _run(*argv: str) -> None:
    env = {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}
    try:
        done = subprocess.run(argv, env=env, check=False, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        raise PrivateSlurmError(f"{argv[0]} is not on this machine: install the package passwd") from None
    if done.returncode != 0:
        raise PrivateSlurmError(f"{argv[0]} {argv[-1]} failed: {done.stderr.strip()}")
