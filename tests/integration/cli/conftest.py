"""A world behind a server, and the command line pointed at it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from relance.cli.main import main
from relance.ports.tokens import TokenRole
from tests.served.servers import Served, served
from tests.served.worlds import secret, world

Run = Callable[..., Result]


@pytest.fixture
def server() -> Iterator[Served]:
    """A server with the small world behind it."""
    with served(world) as running:
        yield running


@pytest.fixture
def state(server: Served, tmp_path: Path) -> Path:
    """The state folder of that server, with the admin's token."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (folder / "server.json").write_text(json.dumps({"url": server.url}))
    token_file(folder / "admin-token", TokenRole.ADMIN)
    return folder


@pytest.fixture
def run(state: Path) -> Run:
    """Runs `relance` as on the machine of the server."""

    def invoke(*words: str, input: str | None = None, env: dict[str, str] | None = None) -> Result:  # noqa: A002 - click's name
        return CliRunner().invoke(main, list(words), input=input, env={"RELANCE_STATE_DIR": str(state), **(env or {})})

    return invoke


def token_file(path: Path, role: TokenRole) -> Path:
    """A file of mode 0600 with a role's token."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(secret(role) + "\n")
    return path
