"""A small client of the simulated scheduler, for tests and demonstrations."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from relance.simulation.protocols import SOCKET_NAME


class SchedulerRefused(Exception):
    """The scheduler refused; the message is its answer."""


class SchedulerClient:
    """One connection to a scheduler; not for use by several threads at once.

    Args:
        state_dir: The scheduler's state directory.
        timeout_s: The longest wait for an answer, beyond the time that a `wait` itself asks for.

    Raises:
        OSError: There is no scheduler.
    """

    def __init__(self, state_dir: Path, *, timeout_s: float = 10.0) -> None:
        self._timeout_s = timeout_s
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(str(state_dir / SOCKET_NAME))
        except OSError:
            self._socket.close()
            raise
        self._answers = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self._answers.close()
        self._socket.close()

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- JSON is any value
        """The answer to one request; the operations are those of `relance.simulation.protocols`.

        Raises:
            SchedulerRefused: It was refused.
            OSError: The connection is lost, or the answer took too long (TimeoutError).
        """
        own_s = float(fields.get("timeout_s", 0.0)) if op == "wait" else 0.0
        self._socket.settimeout(self._timeout_s + own_s)
        self._socket.sendall(json.dumps({"op": op, **fields}).encode() + b"\n")
        line = self._answers.readline()
        if not line:
            raise ConnectionError("the scheduler closed the connection")
        answer: dict[str, Any] = json.loads(line)
        if not answer.get("ok"):
            raise SchedulerRefused(answer.get("error", ""))
        return answer
