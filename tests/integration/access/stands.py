"""Slurm's commands as scripts of a test's own, for whatever stands between us and them."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from relance.slurm.outputs import Output

WAIT_S = 30.0
HOLD = "echo $$ > {folder}/pid; touch {folder}/begun; sleep 600; touch {folder}/done"
"""A command that says that it has begun, and then never ends by itself."""


class Stand:
    """A folder of commands, each a line of shell; every user may run them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for each in (folder, *folder.parents):
            if each.stat().st_uid == os.geteuid() and each != Path("/"):
                each.chmod(each.stat().st_mode | 0o055)
        folder.chmod(0o777)

    def has(self, name: str, line: str) -> None:
        """Let there be a command."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{line.replace('{folder}', str(self.folder))}\n")
        path.chmod(0o755)

    def begun(self) -> int:
        """The process of the command that holds, once it has begun."""
        until(
            lambda: (self.folder / "begun").exists() and (self.folder / "pid").read_text().strip(), "a command to begin"
        )
        return int((self.folder / "pid").read_text())

    def is_done(self) -> bool:
        """Whether the command that holds has come to its end."""
        return (self.folder / "done").exists()


async def once_run(ask: Callable[[], Awaitable[Output]]) -> Output:
    """What came of a command with a short limit, once a busy machine has begun it in time."""
    for _ in range(10):
        got = await ask()
        if not got.never_ran:
            return got
    raise AssertionError(got)


def until(ask: Callable[[], object], what: str) -> None:
    """Return when the answer is true."""
    end = time.monotonic() + WAIT_S
    while not ask():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has reaped yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
