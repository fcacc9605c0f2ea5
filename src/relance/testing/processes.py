"""Processes that somebody starts and ends: each by its own id, with its output in a file, and never left behind.

A process is the leader of a session of its own, so that an interrupt from the keyboard reaches the starter alone, which
then ends the others in order. If the starter dies, the kernel ends them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_LOOK_EVERY_S = 0.02
_TAIL_BYTES = 4000


class ProcessFailedError(Exception):
    """A process ended or did not become ready; the text has the end of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to start. Output and errors go to `log`, added to what is there.

    `identity` has the arguments `user`, `group` and `extra_groups` of `subprocess.Popen`; empty: as whom we run.
    """

    name: str
    argv: Sequence[str]
    log: Path
    env: Mapping[str, str]
    identity: Mapping[str, Any] = field(default_factory=dict)
    cwd: Path | None = None


class Running:
    """A program that was started."""

    def __init__(self, program: Program) -> None:
        """Start it. Raises OSError when that is not possible."""
        self.program = program
        self._starter = os.getpid()
        with program.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                program.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(program.env),
                cwd=program.cwd,
                **program.identity,
                start_new_session=True,
                preexec_fn=self._die_with_the_starter,  # noqa: PLW1509 -- started before any thread is
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def output(self) -> str:
        """What it has written since this start."""
        with self.program.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def wait_until(self, is_ready: Callable[[], bool], timeout_s: float) -> None:
        """Wait for it to become ready.

        Raises ProcessFailedError when it ends before, or the time is over.
        """
        end = time.monotonic() + timeout_s
        while not is_ready():
            if self.exit_code is not None:
                raise ProcessFailedError(f"{self.program.name} ended with {self.exit_code}:\n{self._tail()}")
            if time.monotonic() > end:
                raise ProcessFailedError(f"{self.program.name} was not ready after {timeout_s:.0f} s:\n{self._tail()}")
            time.sleep(_LOOK_EVERY_S)

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end; gives its exit code, None if it still runs then."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self.exit_code is None:
            self._process.send_signal(number)

    def stop(self, timeout_s: float = 10.0) -> None:
        """End it: TERM, and after the time KILL. May be called twice."""
        self.signal(signal.SIGTERM)
        if self.wait(timeout_s) is None:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def _tail(self) -> str:
        return self.output()[-_TAIL_BYTES:].strip() or "(it said nothing)"

    def _die_with_the_starter(self) -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != self._starter:  # it died before the kernel was asked
            os._exit(1)
