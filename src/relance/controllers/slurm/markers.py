"""A job of our own on Slurm that prints a line, to see which way it goes."""

from __future__ import annotations

import re

from relance.controllers.slurm.own_jobs import SlurmOwnJobs
from relance.controllers.slurm.settings import SlurmSettings
from relance.ports.markers import MARKER
from relance.ports.schedulers import SchedulerRefusedError

_MARK = re.compile(r"[0-9a-f]{8,64}\Z", re.ASCII)
_PARTITION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z", re.ASCII)
_LIMIT_MIN = 1


class SlurmMarkerJob:
    """Implements `relance.ports.markers.MarkerJob`."""

    def __init__(self, settings: SlurmSettings, *, partition: str = "", output: str = "") -> None:
        """Take the cluster, and where the job runs and writes; empty: as Slurm does by itself."""
        self._jobs = SlurmOwnJobs(settings)
        self._partition = partition
        self._output = output

    async def submit(self, mark: str, give_up_s: float) -> str:
        return await self._jobs.submit_by(
            submission(mark, give_up_s, partition=self._partition, output=self._output)
        )  # fmt: skip

    async def withdraw(self, raw_id: str) -> None:
        await self._jobs.cancel(raw_id)

    async def close(self) -> None:
        """Nothing is held."""


def submission(mark: str, give_up_s: float, *, partition: str = "", output: str = "") -> tuple[str, ...]:
    """The command that submits the job. Raises SchedulerRefusedError for a value that is not fit for a command."""
    if not _MARK.match(mark):
        raise SchedulerRefusedError("the mark is no hexadecimal number")
    if partition and not _PARTITION.match(partition):
        raise SchedulerRefusedError(f"not the name of a partition: {partition[:80]!r}")
    if output and (not output.startswith("/") or "\n" in output):
        raise SchedulerRefusedError("the output should be an absolute path")
    deadline_s = int(give_up_s) + 60 * _LIMIT_MIN
    line = f'printf "{MARKER} {mark} %s %s\\n" "$(date +%s.%N)" "$SLURMD_NODENAME"'
    return (
        "sbatch", "--parsable", f"--job-name={MARKER}", "--comment=relance:off", "--no-requeue", "--nodes=1",
        "--ntasks=1", f"--time={_LIMIT_MIN}", f"--deadline=now+{deadline_s}",
        *((f"--partition={partition}",) if partition else ()),
        *((f"--output={output}",) if output else ()),
        f"--wrap={line}",
    )  # fmt: skip
