"""A folder of counters, first in Relance's PATH: each Slurm command is noted, and then carried out."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

from relance.testing.other_users import User

_COMMANDS = ("squeue", "scontrol", "sacct", "sacctmgr", "scancel", "sinfo", "sbatch")
_SHOWN = {"node": "nodes", "reservation": "reservations", "config": "settings", "partition": "partitions"}


class CommandCounts:
    """The folder, and what it noted.

    Args:
        folder: A new folder.
        user: As whom Relance runs: the calls are noted as that user.
        path: Where the commands themselves are.
    """

    def __init__(self, folder: Path, user: User, path: str) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._calls = folder / "calls"
        self._calls.touch()
        for name in _COMMANDS:
            real = shutil.which(name, path=path)
            if real is None:
                continue
            # `echo` is a builtin, and a line this short is appended whole: nothing else is started.
            (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{self._calls}\nexec {real} "$@"\n')
            (folder / name).chmod(0o755)
        for each in (folder, self._calls):
            shutil.chown(each, user.uid, user.gid)

    def counts(self) -> Counter[str]:
        """How many calls of each kind there were so far."""
        return Counter(_kind(line.split()) for line in self._calls.read_text(encoding="utf-8").splitlines())


def _kind(words: list[str]) -> str:
    name, arguments = words[0], words[1:]
    match name:
        case "squeue" if "--steps" in arguments:
            return "steps"
        case "squeue" if "--json" in arguments:
            ids = next((word.partition("=")[2] for word in arguments if word.startswith("--jobs=")), "")
            return "one job" if ids and "," not in ids else "jobs in full"
        case "squeue":
            return "glance"
        case "scontrol" if "show" in arguments:
            return _SHOWN.get(arguments[arguments.index("show") + 1], "scontrol show")
        case "sacct":
            return "accounting"
        case "sacctmgr":
            return "rights"
        case _:
            return f"{name} {arguments[0] if arguments else ''}".strip()
