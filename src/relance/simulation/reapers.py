"""What sees to it that no process of a simulated cluster outlives its scheduler."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def start_reaper(state_dir: Path) -> None:
    """Leave a process behind that waits for the end of this one, however it comes, and then kills what it left running.

    The kernel kills the ranks themselves when the daemon dies, but not their children. The reaper holds the daemon's
    lock on the state directory with it, so that no new daemon starts ranks while it looks for old ones. Call it before
    any thread or event loop exists.
    """
    alive, _kept_open = os.pipe()  # the daemon's death closes its end, which nobody inherits
    if os.fork():
        os.close(alive)
        return
    try:
        os.close(_kept_open)
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _let_go_of_output()
        os.read(alive, 1)
        kill_leftovers(state_dir)
    finally:
        os._exit(0)


def kill_leftovers(state_dir: Path) -> list[int]:
    """Kill the processes that carry this state directory in NODE_DIR, as every rank and its children do.

    Gives their ids.
    """
    mark = f"NODE_DIR={state_dir}/nodes/".encode()
    killed: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if any(each.startswith(mark) for each in (entry / "environ").read_bytes().split(b"\0")):
                os.kill(int(entry.name), signal.SIGKILL)
                killed.append(int(entry.name))
    return killed


def _let_go_of_output() -> None:
    """Whoever waits for the end of the daemon's output must not wait for the reaper."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
