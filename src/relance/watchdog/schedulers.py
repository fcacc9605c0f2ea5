"""The scheduler as the watchdog asks it: the queue once a round, one job before a command, its attempts and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from relance.domain.views import Hold, JobState, JobView
from relance.slurm import commands
from relance.slurm.parsing.accounting import parse_accounting
from relance.slurm.parsing.replies import checked
from relance.slurm.parsing.settings import parse_settings
from relance.slurm.parsing.watches import parse_watched
from relance.slurm.records import AccountedJob, SlurmJob
from relance.slurm.running import Commands, leave, new_mark, run
from relance.watchdog.views import job_view

COMMAND_LIMIT_S = 10.0
_ANSWER_S = 8.0
_MOST_BYTES = 64 << 20
_ENDED_BADLY = (JobState.FAILED, JobState.NODE_FAIL)


class Scheduler:
    """One cluster's Slurm. Every method raises SlurmError where there is no answer that can be read."""

    def __init__(self, way: Commands) -> None:
        """Take how its commands are run."""
        self._way = way

    async def jobs(self, wanted: Mapping[str, datetime]) -> dict[str, JobView]:
        """The wanted jobs, by raw id and first submission.

        Where one of them ended badly or is held, all jobs of its owner are with them: one may be a copy of it.
        """
        mark = new_mark()
        table = await self._ask(commands.watch(mark=mark))
        own = {str(job.job_id): job for job in parse_watched(table, mark=mark) if str(job.job_id) in wanted}
        found = {raw_id: _view(job, wanted) for raw_id, job in own.items()}
        owners = {job.owner_uid for job in found.values() if job.state in _ENDED_BADLY or job.hold is not Hold.NONE}
        if owners:
            others = (job for job in parse_watched(table, mark=mark) if job.uid in owners)
            found |= {str(job.job_id): _view(job, wanted) for job in others}
        return found

    async def job(self, raw_id: str, wanted: Mapping[str, datetime]) -> JobView | None:
        """One job, and only that one; None: Slurm does not show it."""
        mark = new_mark()
        table = await self._ask(commands.watch(mark=mark, job=raw_id))
        own = [job for job in parse_watched(table, mark=mark) if str(job.job_id) == raw_id]
        return _view(own[0], wanted) if len(own) == 1 else None

    async def attempts(self, raw_id: str) -> tuple[AccountedJob, ...]:
        """What accounting has of a job: all attempts, with their steps."""
        mark = new_mark()
        return parse_accounting(await self._ask(commands.accounting_of((raw_id,), mark=mark)), mark=mark)

    async def min_job_age_s(self) -> float | None:
        """How long an ended job is known; None: not told, 0: for ever."""
        return parse_settings(await self._ask(commands.settings())).min_job_age_s

    async def send(self, argv: Sequence[str]) -> None:
        """Have something changed. A SilentError leaves it open whether it was."""
        checked(await run(self._way, argv, time_limit_s=COMMAND_LIMIT_S, max_output_bytes=_MOST_BYTES))

    async def close(self) -> None:
        """Give back the way to it."""
        await leave(self._way)

    async def _ask(self, argv: Sequence[str]) -> bytes:
        return checked(await run(self._way, argv, time_limit_s=_ANSWER_S, max_output_bytes=_MOST_BYTES))


def _view(job: SlurmJob, wanted: Mapping[str, datetime]) -> JobView:
    """The view; a job that the ledger names was first submitted when it says, unless the id was used again."""
    known = wanted.get(str(job.job_id))
    return job_view(job, known if job.restart_count and known is not None else None)
