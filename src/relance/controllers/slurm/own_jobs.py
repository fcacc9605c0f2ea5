"""Small jobs of our own on Slurm, submitted by the user who runs the command, on this host."""

from __future__ import annotations

import re

from relance.controllers.slurm.inspections import ANSWER_S
from relance.controllers.slurm.settings import SlurmSettings
from relance.ports.own_jobs import OwnJob
from relance.ports.schedulers import SchedulerRefusedError, SchedulerSilentError
from relance.slurm import commands
from relance.slurm.errors import RefusedError, SlurmError, UnknownJobError
from relance.slurm.parsing.replies import checked
from relance.slurm.running import run
from relance.slurm.ssh import Ssh

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z", re.ASCII)
_PATH = re.compile(r"/[^\x00-\x1f\x7f]{0,4000}\Z")
_WORD = re.compile(r"[^\x00-\x1f\x7f]{0,4000}\Z")
_COMMENT = re.compile(r"[a-z:,_=0-9]{0,200}\Z", re.ASCII)
_ANSWERED = re.compile(rb"(\d{1,10})(?:;[^\n]*)?\s*\Z")
_MOST_NODES = 1000
_WAITS_H = 2
"""So long after its submission Slurm forgets a job that never began, should nobody be there to cancel it."""


class SlurmOwnJobs:
    """Implements `relance.ports.own_jobs.OwnJobs`."""

    def __init__(self, settings: SlurmSettings) -> None:
        """Take the cluster; nothing is asked yet."""
        self._settings = settings

    async def submit(self, job: OwnJob) -> str:
        return await self.submit_by(submission(job))

    async def submit_by(self, argv: tuple[str, ...]) -> str:
        """Submit by a command made here, and give the raw id; raises as `submit` does."""
        if isinstance(way := self._settings.commands.way, Ssh):
            raise SchedulerRefusedError(f"no job is submitted over SSH, which is for asking: run this on {way.host}")
        try:
            answer = await self._run(argv)
        except RefusedError as error:
            raise SchedulerRefusedError(str(error)) from error
        except SlurmError as error:
            raise SchedulerSilentError(str(error)) from error
        found = _ANSWERED.match(answer.strip())
        if found is None:
            raise SchedulerSilentError(f"sbatch did not say which job it made: {answer[:80]!r}")
        return found[1].decode()

    async def cancel(self, raw_id: str) -> None:
        try:
            await self._run(commands.cancel(raw_id))
        except UnknownJobError:
            return
        except RefusedError as error:
            raise SchedulerRefusedError(str(error)) from error
        except SlurmError as error:
            raise SchedulerSilentError(str(error)) from error

    async def close(self) -> None:
        """Nothing is held."""

    async def _run(self, argv: tuple[str, ...]) -> bytes:
        return checked(await run(self._settings.commands, argv, time_limit_s=ANSWER_S))


def submission(job: OwnJob) -> tuple[str, ...]:
    """The command that submits a job. Raises SchedulerRefusedError for a value that is not fit for a command."""
    _fit(_NAME, job.name, "the name of a job")
    _fit(_PATH, job.script, "the absolute path of a script")
    _fit(_PATH, job.output, "the absolute path of an output")
    _fit(_COMMENT, job.comment, "a comment")
    for word in job.arguments:
        _fit(_WORD, word, "an argument")
    if job.partition:
        _fit(_NAME, job.partition, "the name of a partition")
    if not 0 < job.nodes <= _MOST_NODES or job.limit_min < 1:
        raise SchedulerRefusedError(f"not a size of a job of ours: {job.nodes} nodes for {job.limit_min} minutes")
    return (
        "sbatch", "--parsable", f"--job-name={job.name}", "--requeue", "--open-mode=append", f"--nodes={job.nodes}",
        "--ntasks-per-node=1", f"--time={job.limit_min}", f"--deadline=now+{_WAITS_H}hours",
        *((f"--comment={job.comment}",) if job.comment else ()),
        *((f"--partition={job.partition}",) if job.partition else ()),
        f"--output={job.output}", job.script, *job.arguments,
    )  # fmt: skip


def _fit(pattern: re.Pattern[str], text: str, what: str) -> None:
    if not pattern.match(text):
        raise SchedulerRefusedError(f"not {what}: {text[:80]!r}")
