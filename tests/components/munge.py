"""A private munged with a key of its own, for as long as a test needs it.

The machine's own, if there is one, is neither used nor touched.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from relance.slurm.munge import Asked, Munge, credential
from tests.components.presence import missing_component, require_component

REASON: Final = "owners who prove their uid"
START_LIMIT_S: Final = 60.0
POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Munged:
    """A munged that runs: its folder, its socket, and its process."""

    folder: Path
    socket: Path
    process: subprocess.Popen[bytes]

    @property
    def munge(self) -> Munge:
        """Munge as this process asks it: with our own uid."""
        return Munge(socket=str(self.socket))

    def of(self, uid: int) -> Munge:
        """Munge as a process of another uid asks it."""
        return Munge(
            encode=("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "munge"), socket=str(self.socket)
        )

    def header(self, uid: int, asked: Asked) -> dict[str, str]:
        """The header with which a process of that uid asks for something."""
        return {"Authorization": f"Munge {credential(asked, self.of(uid))}"}

    def end(self) -> None:
        """End it, as when it dies."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def start_munged() -> Munged:
    """Start a munged with a new key, in a folder that everybody may enter as pytest's own may not."""
    program = require_component("munge", REASON, program="munged")
    require_component("munge", REASON, program="munge")
    folder = Path(tempfile.mkdtemp(prefix="relance-munge-"))
    folder.chmod(0o755)
    key, socket = folder / "key", folder / "socket"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    files = [f"--{name}-file={folder / name}" for name in ("key", "log", "pid", "seed")]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [str(program), "--foreground", "--force", f"--socket={socket}", *files],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
    running = Munged(folder=folder, socket=socket, process=process)
    give_up_at = time.monotonic() + START_LIMIT_S
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > give_up_at:
            words = (folder / "said").read_text()
            running.end()
            pytest.fail(f"munged did not start: {words}")
        time.sleep(POLL_S)
    return running


@contextmanager
def running_munged() -> Iterator[Munged]:
    """A munged until the end of the block; a test without root is skipped."""
    if os.geteuid() != 0:
        missing_component("root", REASON)
    running = start_munged()
    try:
        yield running
    finally:
        running.end()


@pytest.fixture
def munged() -> Iterator[Munged]:
    """A munged for one test, which may end it."""
    with running_munged() as running:
        yield running
