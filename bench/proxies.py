"""A proxy on the scheduler's socket that can kill whoever asks, at a chosen moment of a chosen request.

It stands between the controller and the scheduler, so that the code under test needs no switch for faults.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from relance.simulation.protocols import SOCKET_NAME

CHANGES = frozenset({"requeue", "requeuehold", "hold", "release", "cancel", "update"})
"""The operations that change a job."""


class Moment(Enum):
    """When the asker is killed."""

    BEFORE = "before"
    """The request never reaches the scheduler."""
    DURING = "during"
    """The scheduler has done it; the answer never arrives."""
    AFTER = "after"
    """The answer has just arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """Kill the asker at this moment of the n-th request (from 1) of this kind about this job."""

    job_id: int
    op: str
    number: int
    moment: Moment

    @property
    def name(self) -> str:
        """For reports."""
        return f"{self.moment.value} {self.op} {self.number}"


class SocketProxy:
    """The proxy: `folder` gets the socket, requests go on to the scheduler in `state_dir`.

    Args:
        folder: Where the controller is told to find the scheduler.
        state_dir: Where the scheduler's own socket is.
        pid: Gives the process to kill.
    """

    def __init__(self, folder: Path, state_dir: Path, pid: Callable[[], int]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / SOCKET_NAME
        self._target = state_dir / SOCKET_NAME
        self._pid = pid
        self._lock = threading.Lock()
        self._shot: Shot | None = None
        self._counts: Counter[str] = Counter()
        self.has_fired = threading.Event()
        self.seen: list[str] = []
        """The changes and reads of the job that is watched, in order, since `watch`."""
        self._watched = 0
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> Self:
        self._listener.bind(str(self._path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def watch(self, job_id: int, shot: Shot | None = None) -> None:
        """Begin to count the requests about a job, and to shoot if asked to."""
        with self._lock:
            self._watched, self._shot = job_id, shot
            self._counts.clear()
            self.seen = []
            self.has_fired.clear()

    def _accept(self) -> None:
        while True:
            try:
                asker, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(asker,), daemon=True).start()

    def _serve(self, asker: socket.socket) -> None:
        with contextlib.suppress(OSError), asker, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as scheduler:
            scheduler.connect(str(self._target))
            questions, answers = asker.makefile("rb"), scheduler.makefile("rb")
            while line := questions.readline():
                moment = self._moment_of(line)
                if moment is Moment.BEFORE:
                    self._kill()
                    return
                scheduler.sendall(line)
                answer = answers.readline()
                if moment is Moment.DURING:
                    self._kill()
                    return
                asker.sendall(answer)
                if moment is Moment.AFTER:
                    self._kill()
                    return

    def _moment_of(self, line: bytes) -> Moment | None:
        request: dict[str, Any] = json.loads(line)
        op = str(request.get("op"))
        with self._lock:
            if request.get("job_id") != self._watched or (op not in CHANGES and op != "job"):
                return None
            self._counts[op] += 1
            self.seen.append(op)
            shot = self._shot
            if shot is None or self.has_fired.is_set() or (op, self._counts[op]) != (shot.op, shot.number):
                return None
            return shot.moment

    def _kill(self) -> None:
        os.kill(self._pid(), signal.SIGKILL)
        self.has_fired.set()
