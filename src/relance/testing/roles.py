"""Relance itself as real processes, all roles in one or each in its own, to demonstrate, measure and test with."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from relance.testing.other_users import OpenPython, User
from relance.testing.processes import Program, Running

_SERVER_FILE = "server.json"
_ADMIN_TOKEN_FILE = "admin-token"  # noqa: S105 -- the name of a file
_READY_S = 90.0
"""A busy machine is slow, not broken."""
_ANSWER_S = 2.0
_READY = "/readyz"
_OURS = "RELANCE_"
_APART = ("server", "watcher", "controller")
_WATCHDOG = "watchdog"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """How a server of ours is reached."""

    url: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """As whom Relance runs, with which Python and in which environment; `user` None: as whom we run."""

    user: User | None
    python: str
    environment: Mapping[str, str]


class RelanceProcesses:
    """Relance on a settings file of its own.

    Args:
        folder: Where settings and logs go; the state folder is `folder/state`.
        settings: The settings, as they would be in the file; `state_dir` is added.
        apart: Whether server, watcher and controller are processes of their own.
        account: As whom they run; default: as whom we do.
        watchdog: The watchdog's settings; None: there is none. `folder` of a cluster is set where it is missing.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, object],
        *,
        apart: bool = False,
        account: Account | None = None,
        watchdog: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = folder
        self.state_dir = folder / "state"
        self.config = folder / "relance.yaml"
        self.apart = apart
        self._settings = {"state_dir": str(self.state_dir), **settings}
        self._account = account or _own_account()
        self._watchdog = watchdog
        self._running: dict[str, Running] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of the roles that run."""
        return {name: each.pid for name, each in self._running.items() if each.exit_code is None}

    @property
    def server(self) -> ServerInfo:
        """How the server is reached, once it has started."""
        data = json.loads((self.state_dir / _SERVER_FILE).read_text(encoding="utf-8"))
        return ServerInfo(url=str(data["url"]), token=self.token_file.read_text(encoding="utf-8").strip())

    @property
    def token_file(self) -> Path:
        """Where the admin's token lies."""
        return self.state_dir / _ADMIN_TOKEN_FILE

    def start(self) -> None:
        """Start all roles. Raises ProcessFailedError when one does not come up."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._account.user is not None:
            os.chown(self.folder, self._account.user.uid, self._account.user.gid)
        self.config.write_text(json.dumps(self._settings, indent=2), encoding="utf-8")  # JSON is YAML
        for role in _APART if self.apart else ("up",):
            self.start_role(role)
        if self._watchdog is not None:
            self._watchdog_file.write_text(json.dumps(self._watchdog_settings()), encoding="utf-8")
            self.start_role(_WATCHDOG)

    def start_role(self, role: str, *, wait: bool = True) -> Running:
        """Start one role, anew if it ran before; with `wait`, return when a server answers. Raises ProcessFailedError.

        It ends with the thread that starts it, at the latest.
        """
        if role in ("up", "server"):
            (self.state_dir / _SERVER_FILE).unlink(missing_ok=True)
        program = Program(
            name=f"relance {role}",
            argv=[self._account.python, "-m", *self._words(role)],
            log=self.folder / f"{role}.log",
            env=self._account.environment,
            identity=self._account.user.identity() if self._account.user is not None else {},
            cwd=self.folder if self._account.user is not None else None,
        )
        running = Running(program)
        self._running[role] = running
        if wait and role in ("up", "server"):
            running.wait_until(self._answers, _READY_S)
        return running

    def role(self, name: str) -> Running:
        """One role's process. Raises KeyError when it was never started."""
        return self._running[name]

    def ended(self) -> tuple[str, ...]:
        """The roles that have ended by themselves."""
        return tuple(name for name, each in self._running.items() if each.exit_code is not None)

    def stop(self) -> None:
        """End all roles, the server last. May be called twice."""
        for running in reversed(self._running.values()):
            running.stop()

    def kill(self) -> None:
        """End all roles at once, as a crash does."""
        for running in reversed(self._running.values()):
            running.kill()

    @property
    def _watchdog_file(self) -> Path:
        return self.folder / "watchdog.json"

    def _words(self, role: str) -> tuple[str, ...]:
        if role == _WATCHDOG:
            return ("relance.watchdog", str(self._watchdog_file))
        return ("relance", role, "--config", str(self.config))

    def _watchdog_settings(self) -> dict[str, Any]:
        given = dict(self._watchdog or {})
        clusters = [
            {"folder": str(self.state_dir / "controllers" / each["name"]), **each} for each in given["clusters"]
        ]
        return {**given, "clusters": clusters}

    def _answers(self) -> bool:
        try:
            url = urlsplit(self.server.url)
            connection = HTTPConnection(url.hostname or "", url.port, timeout=_ANSWER_S)
            with contextlib.closing(connection):
                connection.request("GET", _READY)
                return connection.getresponse().status == HTTPStatus.OK
        except (OSError, ValueError, KeyError, HTTPException):
            return False


def account_of(user: User, python: OpenPython, environment: Mapping[str, str]) -> Account:
    """Another user of the machine, who needs this in the environment beside what every user has."""
    return Account(user=user, python=python.program, environment={**user.environment(python), **environment})


def _own_account() -> Account:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return Account(user=None, python=sys.executable, environment=clean)
