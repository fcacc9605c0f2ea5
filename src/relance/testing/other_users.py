"""Running this very Relance as another user of the machine: a Python and code that this user can read.

An interpreter in root's home, or a checkout in a private folder, is closed to other users. What is closed is copied;
what is open is used where it lies.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import relance

_CHECK = "import relance.cli.main, pydantic_core, sqlalchemy, re2, uvicorn"
"""What has to be readable, compiled parts included."""
_CHECK_LIMIT_S = 60.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOT_NEEDED = shutil.ignore_patterns(
    "__pycache__", "test", "idlelib", "ensurepip", "turtledemo", "lib2to3", "site-packages", "tkinter"
)
_NOT_NEEDED_TO_RUN = shutil.ignore_patterns(
    "__pycache__", "mypy*", "ruff*", "uv*", "sphinx*", "hypothesis*", "babel*", "pip*", "docutils*"
)


class NoPythonError(Exception):
    """There is no Python that the user could run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPython:
    """A Python that every user of the machine can run: its path, and where it finds Relance."""

    program: str
    path: tuple[str, ...]

    def environment(self) -> dict[str, str]:
        """What it needs in the environment."""
        return {"PYTHONPATH": os.pathsep.join(self.path), "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user of the machine by name, uid, gid and home."""

    name: str
    uid: int
    gid: int
    home: str

    def identity(self) -> Mapping[str, object]:
        """The arguments of `subprocess.Popen` that run a program as this user, and without our groups."""
        return {"user": self.uid, "group": self.gid, "extra_groups": os.getgrouplist(self.name, self.gid)}

    def environment(self, python: OpenPython) -> dict[str, str]:
        """A clean environment of this user."""
        names = {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "PATH": _PATH, "LC_ALL": "C.UTF-8"}
        return {**names, **python.environment()}


def user_of(name: str) -> User:
    """A user by name. Raises KeyError for one that the machine does not know."""
    entry = pwd.getpwnam(name)
    return User(name=name, uid=entry.pw_uid, gid=entry.pw_gid, home=entry.pw_dir)


def open_python(folder: Path, user: User) -> OpenPython:
    """A Python with this Relance in it that `user` can run; what is closed to that user is copied below `folder`.

    Raises NoPythonError when none can be had.
    """
    source = Path(relance.__file__).resolve().parent.parent
    packages = Path(sysconfig.get_paths()["purelib"])
    places = enumerate((source, packages))
    path = tuple(str(_opened(each, folder / "code" / str(number), user)) for number, each in places)
    for program in _programs(folder):
        found = OpenPython(program=program, path=path)
        if _works(found, user):
            return found
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    raise NoPythonError(f"no Python {version} that user {user.name} can run; install one for all: python{version}")


def _programs(folder: Path) -> Iterator[str]:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    real = os.path.realpath(sys.executable)
    yield from dict.fromkeys([real, f"/usr/local/bin/{version}", f"/usr/bin/{version}"])
    base = Path(sys.base_prefix)
    copy = folder / "python"
    if not copy.exists():
        (copy / "bin").mkdir(parents=True)
        shutil.copy2(real, copy / "bin" / version)
        shutil.copytree(base / "lib" / version, copy / "lib" / version, ignore=_NOT_NEEDED, symlinks=True)
        for library in (base / "lib").glob("libpython*.so*"):
            shutil.copy2(library, copy / "lib" / library.name, follow_symlinks=False)
    yield str(copy / "bin" / version)


def _opened(place: Path, copy: Path, user: User) -> Path:
    """The folder if the user can read it, else a copy of it."""
    if can_read(place, user):
        return place
    if not copy.exists():
        shutil.copytree(place, copy, ignore=_NOT_NEEDED_TO_RUN, symlinks=False)
    return copy


def can_read(place: Path, user: User) -> bool:
    """Whether this user can read the folder, and every folder above it lets them through."""
    done = subprocess.run(
        ["ls", str(place)],
        check=False,
        capture_output=True,
        env={"PATH": _PATH},
        cwd="/",
        user=user.uid,
        group=user.gid,
        extra_groups=[],
    )
    return done.returncode == 0


def _works(python: OpenPython, user: User) -> bool:
    try:
        done = subprocess.run(
            [python.program, "-c", _CHECK],
            check=False,
            capture_output=True,
            env=user.environment(python),
            cwd="/",
            timeout=_CHECK_LIMIT_S,
            user=user.uid,
            group=user.gid,
            extra_groups=[],
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
