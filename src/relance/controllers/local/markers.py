"""A job of our own on the simulated scheduler that prints a line."""

from __future__ import annotations

from pathlib import Path

from relance.controllers.local.connections import Connection
from relance.controllers.local.schedulers import SOCKET_NAME
from relance.ports.markers import MARKER
from relance.ports.schedulers import SchedulerSilentError

_ANSWER_S = 5.0


class LocalMarkerJob:
    """Implements `relance.ports.markers.MarkerJob`."""

    def __init__(self, *, state_dir: Path, partition: str = "", output: str = "") -> None:
        """Take the folder of the scheduler's socket, and where the job runs and writes."""
        self._connection = Connection(state_dir / SOCKET_NAME)
        self._partition = {"partition": partition} if partition else {}
        self._output = {"output": output} if output else {}

    async def submit(self, mark: str, give_up_s: float) -> str:
        line = f'printf "{MARKER} {mark} %s %s\\n" "$(date +%s.%N)" "$NODE_NAME"'
        answer = await self._connection.ask(
            "submit", _ANSWER_S, name=MARKER, nodes=1, argv=["/bin/sh", "-c", line], requeue=False,
            comment="relance:off", **self._partition, **self._output,
        )  # fmt: skip
        job_id = answer.get("job_id")
        if not isinstance(job_id, int):
            raise SchedulerSilentError("the scheduler did not say which job it made")
        return str(job_id)

    async def withdraw(self, raw_id: str) -> None:
        await self._connection.ask("cancel", _ANSWER_S, job_id=int(raw_id))

    async def close(self) -> None:
        await self._connection.close()
