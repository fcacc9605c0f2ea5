"""Small jobs of our own on the simulated scheduler."""

from __future__ import annotations

from pathlib import Path

from relance.controllers.local.connections import Connection
from relance.controllers.local.schedulers import SOCKET_NAME
from relance.ports.own_jobs import OwnJob
from relance.ports.schedulers import JobGoneError, SchedulerSilentError

_ANSWER_S = 5.0


class LocalOwnJobs:
    """Implements `relance.ports.own_jobs.OwnJobs`."""

    def __init__(self, *, state_dir: Path) -> None:
        """Take the folder of the scheduler's socket."""
        self._connection = Connection(state_dir / SOCKET_NAME)

    async def submit(self, job: OwnJob) -> str:
        partition = {"partition": job.partition} if job.partition else {}
        answer = await self._connection.ask(
            "submit", _ANSWER_S, name=job.name, nodes=job.nodes, argv=["/bin/sh", job.script, *job.arguments],
            requeue=True, comment=job.comment, output=job.output, **partition,
        )  # fmt: skip
        job_id = answer.get("job_id")
        if not isinstance(job_id, int):
            raise SchedulerSilentError("the scheduler did not say which job it made")
        return str(job_id)

    async def cancel(self, raw_id: str) -> None:
        try:
            await self._connection.ask("cancel", _ANSWER_S, job_id=int(raw_id))
        except JobGoneError:
            return

    async def close(self) -> None:
        await self._connection.close()
