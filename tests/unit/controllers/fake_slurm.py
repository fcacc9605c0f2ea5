"""Programs that print what Slurm would: what the adapter does with good, bad and late answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relance.controllers.slurm import SlurmScheduler, SlurmSettings
from relance.ports.clocks import Clock, SystemClock
from relance.slurm.running import Commands
from tests.unit.slurm.recorded import recorded

_SQUEUE = """case "$*" in
*--json*) cat {folder}/jobs.json ;;
*--steps*) mark=$(echo "$*" | sed 's/.*--format=%i\\(~[0-9a-f]*~\\).*/\\1/'); sed "s/@/$mark/g" {folder}/steps.txt ;;
*) mark=$(echo "$*" | sed 's/.*jobid:\\(~[0-9a-f]*~\\).*/\\1/'); sed "s/@/$mark/g" {folder}/glances.txt ;;
esac"""
SACCT = (
    """mark=$(echo "$*" | sed 's/.*--delimiter=\\(~[0-9a-f]*~\\).*/\\1/'); sed "s/@/$mark/g" {folder}/accounting.txt"""
)
SCONTROL = """case "$*" in
*node*) cat {folder}/nodes.txt ;;
*config*) cat {folder}/config.txt ;;
*reservation*) echo "No reservations in the system" ;;
esac"""
TITLES = (
    "JobID", "JobIDRaw", "State", "ExitCode", "DerivedExitCode", "Submit", "Eligible", "Start", "End", "ElapsedRaw",
    "TimelimitRaw", "NNodes", "NodeList", "UID", "User", "Account", "Partition", "Reason", "AllocTRES", "WorkDir",
    "Comment", "AdminComment", "JobName",
)  # fmt: skip


class FakeSlurm:
    """A folder of such programs. `calls` gives the arguments with which each was called."""

    def __init__(self, folder: Path, *, release: str = "25.11", scene: str = "1-mixed") -> None:
        self.folder = folder
        self.put("jobs.json", recorded(release, scene, "squeue.json"))
        self.put("nodes.txt", recorded(release, scene, "scontrol-show-node.txt"))
        self.put("config.txt", recorded(release, "scontrol-show-config.txt"))
        self.account()
        self.put("steps.txt", b"STEPID@USER@START_TIME@NODELIST@NAME@\n")
        self.program("squeue", _SQUEUE)
        self.program("scontrol", SCONTROL)
        self.program("sacct", SACCT)
        self.program("sacctmgr", 'echo "relance|Operator|"')
        self.program("scancel", "true")

    def put(self, name: str, content: bytes) -> None:
        """Have this printed."""
        (self.folder / name).write_bytes(content)

    def program(self, name: str, script: str) -> None:
        """Have a command do this."""
        draft = self.folder / f".{name}"
        draft.write_text(f'#!/bin/sh\necho "$*" >> {self.folder}/{name}.calls\n{script.format(folder=self.folder)}\n')
        draft.chmod(0o755)
        draft.replace(self.folder / name)

    def account(self, *rows: dict[str, str], titles: Sequence[str] = TITLES) -> None:
        """Have accounting show these rows, each by column."""
        lines = [titles, *(tuple(row.get(title, "") for title in titles) for row in rows)]
        self.put("accounting.txt", "".join("".join(f"{cell}@" for cell in line) + "\n" for line in lines).encode())

    def calls(self, name: str) -> list[str]:
        """The arguments of each call of a command so far."""
        log = self.folder / f"{name}.calls"
        return log.read_text().splitlines() if log.exists() else []

    def scheduler(self, clock: Clock | None = None, **settings: object) -> SlurmScheduler:
        """An adapter that asks these programs."""
        plain: dict[str, object] = {
            "cluster": "alpha", "commands": Commands(bin_dir=str(self.folder)), "account": ("relance", 999),
            "poll_s": 0.5, "read_wish_files": False,
        }  # fmt: skip
        return SlurmScheduler(SlurmSettings(**(plain | settings)), clock or SystemClock())  # type: ignore[arg-type]
