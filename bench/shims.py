"""A folder of shims, first in Relance's PATH: each Slurm command goes through one that can fail as it is told to."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from relance.testing.other_users import OpenPython, User

_COMMANDS = ("scontrol", "squeue", "sacct", "scancel")
_PROGRAM = Path(__file__).resolve().parent / "programs" / "slurm_shim.py"


class Kind(Enum):
    """What happens at a call."""

    KILL_BEFORE = "kill before"
    """Relance is killed; the command is never run."""
    KILL_DURING = "kill during"
    """Relance is killed while the command runs; it is carried out."""
    KILL_AFTER = "kill after"
    """The command is carried out, then Relance is killed."""
    HANG = "hang"
    """The command does nothing and does not end."""
    LATE_ANSWER = "late answer"
    """It is carried out at once; the answer comes after the time limit."""
    LATE = "late"
    """It is carried out after the time limit, whatever became of the caller."""
    FAIL_AFTER = "fail after"
    """It is carried out, and then says that it could not reach the scheduler."""

    PAUSE_BEFORE = "pause before"
    """It is carried out when `Shims.go_on` is called, and at the latest after 8 s."""
    PAUSE_AFTER = "pause after"
    """It is carried out at once, and answers when `Shims.go_on` is called, and at the latest after 8 s."""

    @property
    def pauses(self) -> bool:
        """Whether it is no fault: it waits until a person has done something to the job."""
        return self in (Kind.PAUSE_BEFORE, Kind.PAUSE_AFTER)

    @property
    def kills(self) -> bool:
        """Whether Relance is killed."""
        return self in (Kind.KILL_BEFORE, Kind.KILL_DURING, Kind.KILL_AFTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A kind of fault at the n-th call (from 1) of this operation: requeue, update, cancel, read, accounting."""

    operation: str
    number: int
    kind: Kind

    @property
    def name(self) -> str:
        """For reports."""
        return f"{self.kind.value} {self.operation} {self.number}"


class Shims:
    """The folder, and what is ordered in it.

    Args:
        folder: A new folder below one that the user can enter.
        user: As whom Relance runs: the shims write there as that user.
        python: A Python that this user can run.
    """

    def __init__(self, folder: Path, user: User, python: OpenPython) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        program = shutil.copy(_PROGRAM, folder / "slurm_shim.py")
        for name in _COMMANDS:
            shim = folder / name
            shim.write_text(
                f'#!/bin/sh\nexec {python.program} -I -S {program} {folder} {name} "$@"\n', encoding="utf-8"
            )
            shim.chmod(0o755)
        shutil.chown(folder, user.uid, user.gid)
        self.watch(0, 0)

    def watch(self, job_id: int, pid: int, fault: Fault | None = None) -> None:
        """Begin to number the calls about a job anew; at the fault's call let it happen, to the process `pid`."""
        for name in ("calls", "fired", "done", "go"):
            (self.folder / name).unlink(missing_ok=True)
        self.of(pid)
        orders: dict[str, object] = {"job": str(job_id) if job_id else ""}
        if fault is not None:
            orders |= {"operation": fault.operation, "number": fault.number, "kind": fault.kind.value}
        new = self.folder / "orders.new"
        new.write_text(json.dumps(orders), encoding="utf-8")
        new.replace(self.folder / "orders.json")

    def of(self, pid: int) -> None:
        """It is this process now that a fault kills."""
        (self.folder / "pid").write_text(str(pid), encoding="ascii")

    @property
    def has_fired(self) -> bool:
        """Whether it has happened."""
        return (self.folder / "fired").exists()

    @property
    def is_paused(self) -> bool:
        """Whether a call has come to the pause that was ordered: the command is not sent yet, or carried out."""
        orders = json.loads((self.folder / "orders.json").read_text(encoding="utf-8"))
        return (self.folder / ("done" if orders.get("kind") == Kind.PAUSE_AFTER.value else "fired")).exists()

    def go_on(self) -> None:
        """End the pause."""
        (self.folder / "go").touch()

    @property
    def fired_at(self) -> float | None:
        """When it has happened, in seconds since the epoch."""
        path = self.folder / "fired"
        return path.stat().st_mtime if path.exists() else None

    @property
    def calls(self) -> tuple[str, ...]:
        """The calls about the job since `watch`, in order."""
        path = self.folder / "calls"
        return tuple(path.read_text(encoding="utf-8").split()) if path.exists() else ()
