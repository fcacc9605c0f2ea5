"""Stands before a Slurm command: `slurm_shim.py FOLDER NAME ARGUMENTS…`. Standard library only.

FOLDER has `orders.json`, which says what is to happen at which call, `calls` with one line for each call so far about
the job that is watched, and `fired` once it has happened. What pauses goes on when there is a file `go`, and in any
case before the command's time limit. A call is numbered by what it does: `requeue`, `update`,
`cancel`, `read` (one job), `accounting`. Any other call is passed on as it is.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_LATE_S = 14.0
"""Longer than a command may take (10 s)."""
_PAUSE_S = 8.0
"""Shorter than that."""


def main() -> int:
    """Do what was ordered, at the call for which it was ordered."""
    folder, name, arguments = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    command = [_real(folder, name), *arguments]
    orders = json.loads((folder / "orders.json").read_text(encoding="utf-8"))
    kind = _kind_for_this_call(folder, orders, _operation(name, arguments, str(orders["job"])))
    if not kind:
        os.execv(command[0], command)  # noqa: S606 -- it stands for the command
    return _befall(kind, folder, name, command)


def _befall(kind: str, folder: Path, name: str, command: list[str]) -> int:
    """Let it happen; the exit code."""
    code = 1
    match kind:
        case "pause before":
            _pause(folder)
            code = subprocess.run(command, check=False).returncode
        case "pause after":
            code = subprocess.run(command, check=False).returncode
            (folder / "done").touch()
            _pause(folder)
        case "kill before":
            _kill(folder)
        case "kill during":
            done = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            )
            _kill(folder)
            code = done.wait()
        case "kill after":
            code = subprocess.run(command, check=False).returncode
            _kill(folder)
        case "hang":
            time.sleep(3600)
        case "late answer":
            code = subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode
            time.sleep(_LATE_S)
        case "late":
            _do_it_late(command)
            time.sleep(_LATE_S)
        case "fail after":
            subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            sys.stderr.write(f"{name}: error: Unable to contact slurm controller (connect failure)\n")
        case _:
            sys.stderr.write(f"shim: no such kind of fault: {kind}\n")
    return code


def _real(folder: Path, name: str) -> str:
    others = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if Path(part) != folder)
    found = shutil.which(name, path=others)
    if found is None:
        sys.stderr.write(f"shim: there is no {name} behind it\n")
        sys.exit(127)
    return found


def _operation(name: str, arguments: list[str], job: str) -> str:
    """What the call does to the job that is watched; empty when it is about something else."""
    words = {part for argument in arguments for part in argument.replace("=", ",").split(",")}
    if not job or job not in words:
        return ""
    match name, arguments[:1]:
        case "scontrol", ["requeue" | "update" as verb]:
            return verb
        case "scontrol", ["show", *_]:
            return "read"
        case "squeue", _:
            return "read"
        case "scancel", _:
            return "cancel"
        case "sacct", _:
            return "accounting"
        case _:
            return name


def _kind_for_this_call(folder: Path, orders: dict[str, object], operation: str) -> str:
    """Number the call; the kind of fault if it is the one that was ordered."""
    if not operation:
        return ""
    with (folder / "calls").open("a+", encoding="utf-8") as calls:
        fcntl.flock(calls, fcntl.LOCK_EX)
        calls.seek(0)
        number = sum(line.strip() == operation for line in calls) + 1
        calls.write(f"{operation}\n")
        is_it = (operation, number) == (orders.get("operation"), orders.get("number"))
        if not is_it or (folder / "fired").exists():
            return ""
        (folder / "fired").touch()
        return str(orders["kind"])


def _pause(folder: Path) -> None:
    """Wait until whoever ordered it has done something to the job."""
    end = time.monotonic() + _PAUSE_S
    while not (folder / "go").exists() and time.monotonic() < end:
        time.sleep(0.01)


def _kill(folder: Path) -> None:
    os.kill(int((folder / "pid").read_text(encoding="ascii")), signal.SIGKILL)


def _do_it_late(command: list[str]) -> None:
    """As a request does that waits in the scheduler's queue: whoever sent it has long given up."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(_LATE_S - 2.0)
        os.execv(command[0], command)  # noqa: S606 -- it stands for the command


if __name__ == "__main__":
    sys.exit(main())
