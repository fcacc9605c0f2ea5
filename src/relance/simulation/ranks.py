"""One rank of an attempt: a real process of its own, its output on the way to the job's log, its end.

A rank is the leader of a session of its own, so that it can be ended with all its children, and the kernel kills it
when the daemon dies (PR_SET_PDEATHSIG); its children fall to `relance.simulation.reapers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_READ_BYTES = 65536
_LONGEST_LINE_BYTES = 1024 * 1024
"""A longer line is passed on in pieces of this size."""
_NOT_EXECUTABLE = 2
"""The exit code of a rank whose command could not be run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """What a rank is to run, and where."""

    rank: int
    node: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    work_dir: str


class Rank:
    """A rank's process.

    Args:
        plan: What to run.
        write: Takes each whole line of its output, its newline included.
        ended: Called once, in the event loop, when the process has ended and all its output has been passed on.
    """

    def __init__(self, plan: RankPlan, write: Callable[[bytes], None], ended: Callable[[Rank], None]) -> None:
        self.plan = plan
        self.out_of_memory = False
        self.returncode: int | None = None
        self.problem = ""
        """Why the command could not be run."""
        self._write = write
        self._ended = ended
        self._rest = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._output = -1

    @property
    def pid(self) -> int | None:
        """The process id, None if it never ran."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the process; one that cannot be run has ended at once, with `problem` set."""
        self._output, child_end = os.pipe()
        os.set_blocking(self._output, False)
        loop = asyncio.get_running_loop()
        try:
            self._process = subprocess.Popen(
                self.plan.argv,
                stdin=subprocess.DEVNULL,
                stdout=child_end,
                stderr=child_end,
                cwd=self.plan.work_dir,
                env=dict(self.plan.env),
                start_new_session=True,
                preexec_fn=_tied_to(os.getpid()),  # noqa: PLW1509 -- the daemon has no other thread
            )
        except OSError as error:
            self.problem = os.strerror(error.errno) if error.errno else str(error)
            os.close(self._output)
            self.returncode = _NOT_EXECUTABLE
            loop.call_soon(self._ended, self)
            return
        finally:
            os.close(child_end)
        self._pidfd = os.pidfd_open(self._process.pid)
        loop.add_reader(self._output, self._read)
        loop.add_reader(self._pidfd, self._reap)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process alone, if it still lives."""
        if self._process is not None and self.returncode is None:
            self._process.send_signal(number)

    def send_to_group(self, number: signal.Signals) -> None:
        """Send a signal to the process and all that it started in its session's group."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def has_left(self) -> bool:
        """Whether the process and its group are gone."""
        if self._process is None:
            return True
        if self.returncode is None:
            return False
        try:
            os.killpg(self._process.pid, 0)
        except (ProcessLookupError, PermissionError):  # the latter: the number is somebody else's by now
            return True
        return not _group_lives(self._process.pid)

    def _read(self) -> bool:
        """Pass on what is there; False at the end of the output."""
        while True:
            try:
                block = os.read(self._output, _READ_BYTES)
            except BlockingIOError:
                return True
            if not block:
                asyncio.get_running_loop().remove_reader(self._output)
                return False
            self._pass_on(block)

    def _pass_on(self, block: bytes) -> None:
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            self._write(line + b"\n")
        if len(self._rest) >= _LONGEST_LINE_BYTES:
            self._write(self._rest + b"\n")
            self._rest = b""

    def _reap(self) -> None:
        process = self._process
        if process is None or process.poll() is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._read()  # all that the process wrote is in the pipe by now; what its children may still write is let go
        loop.remove_reader(self._output)
        os.close(self._output)
        if self._rest:
            self._write(self._rest + b"\n")
            self._rest = b""
        self.returncode = process.returncode
        self._ended(self)


def _group_lives(group: int) -> bool:
    """Whether a process of the group lives; one that has ended and waits for its new parent's care does not."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, _parent, its_group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
                if int(its_group) == group and state not in ("Z", "X"):
                    return True
    return False


def _tied_to(daemon: int) -> Callable[[], None]:
    """What a rank's process does before its command: it asks to be killed when the daemon dies, and leaves no core."""

    def tie() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != daemon:  # it died before we asked
            os._exit(1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return tie
