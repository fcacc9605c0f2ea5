"""The queue: a cheap glance at every look, and the full record of each job whose glance has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from relance.controllers.slurm.kinds import LONG_QUEUE
from relance.controllers.slurm.questions import Questions
from relance.ports.clocks import Clock
from relance.ports.schedulers import JobGoneError
from relance.slurm.parsing.glances import Glance
from relance.slurm.records import SlurmJob

_FULL_S = 60.0
"""All records are read again after this long: no glance shows exclusions, features or licences."""
_FEW = 50
"""Up to so many changed jobs are asked for by id."""
_ENDING = frozenset({"COMPLETING", "CANCELLED"})
_SMALL = LONG_QUEUE
"""A queue of so few jobs is read in full at once: one command instead of two."""


class Queue:
    """The records of all jobs that Slurm knows, by raw id."""

    def __init__(self, questions: Questions, clock: Clock) -> None:
        """Begin with nothing read."""
        self.jobs: dict[str, SlurmJob] = {}
        self._questions = questions
        self._clock = clock
        self._prints: dict[str, int] = {}
        self._full_s = float("-inf")
        self._doubted: set[str] = set()
        self._taken: dict[str, float] = {}
        self._one_at_a_time = asyncio.Lock()

    def doubt(self, raw_id: str) -> None:
        """The job was changed in what no glance shows: read it in full at the next look."""
        self._doubted.add(raw_id)

    def take(self, job: SlurmJob) -> SlurmJob:
        """Take in a record that was read by itself; gives it as one of the attempt that it shows."""
        raw_id = str(job.job_id)
        taken = still_ending(job, self.jobs.get(raw_id))
        self.jobs[raw_id] = taken
        self._taken[raw_id] = self._clock.monotonic()
        self._doubted.add(raw_id)
        return taken

    async def look(self, *, urgent: bool) -> list[str]:
        """Read the queue; gives the raw ids whose record was read anew. Raises SchedulerSilentError."""
        async with self._one_at_a_time:
            begun_s = self._clock.monotonic()
            changed = await self._look(begun_s, urgent=urgent)
            self._taken = {raw_id: at_s for raw_id, at_s in self._taken.items() if at_s >= begun_s}
            return [raw_id for raw_id in changed if raw_id not in self._taken]

    async def _look(self, begun_s: float, *, urgent: bool) -> list[str]:
        if len(self.jobs) <= _SMALL:
            self._doubted.clear()
            self._prints = {}
            records = {str(job.job_id): job for job in await self._questions.jobs(urgent=urgent)}
            self.jobs = self._newest(records, begun_s)
            self._full_s = begun_s
            return list(records)
        doubted = set(self._doubted)
        glances = {str(glance.job_id): glance for glance in await self._questions.glances(urgent=urgent)}
        changed = [
            raw_id for raw_id, glance in glances.items()
            if raw_id in doubted or self._prints.get(raw_id) != glance.print_ or raw_id not in self.jobs
        ]  # fmt: skip
        is_full = begun_s - self._full_s >= _FULL_S
        if not changed and not (is_full and glances):
            self._keep(glances, {}, begun_s)
            return []
        by_id = not is_full and len(changed) <= _FEW
        records = await self._records(changed if by_id else None, urgent=urgent)
        self._keep(glances, records, begun_s)
        self._doubted -= doubted
        if not by_id:
            self._full_s = begun_s
        return changed

    async def _records(self, ids: list[str] | None, *, urgent: bool) -> dict[str, SlurmJob]:
        try:
            found = await (
                self._questions.jobs(urgent=urgent) if ids is None
                else self._questions.some_jobs(ids, urgent=urgent)
            )  # fmt: skip
        except JobGoneError:
            return {}  # all of them were forgotten since the glance
        return {str(job.job_id): job for job in found}

    def _keep(self, glances: dict[str, Glance], records: dict[str, SlurmJob], begun_s: float) -> None:
        """Keep what both the glance and a record show; a job without a record was forgotten in between."""
        asked = {raw_id: records.get(raw_id) or self._former(raw_id, glance) for raw_id, glance in glances.items()}
        self.jobs = self._newest({raw_id: job for raw_id, job in asked.items() if job is not None}, begun_s)
        self._prints = {
            raw_id: glance.print_ for raw_id, glance in glances.items()
            if raw_id in records or self._prints.get(raw_id) == glance.print_
        }  # fmt: skip

    def _newest(self, records: dict[str, SlurmJob], begun_s: float) -> dict[str, SlurmJob]:
        """The records, but for those that were read by themselves since this look began."""
        newer = {raw_id: self.jobs[raw_id] for raw_id, at_s in self._taken.items() if at_s >= begun_s}
        read = {raw_id: _same(still_ending(job, self.jobs.get(raw_id)), self.jobs.get(raw_id))
                for raw_id, job in records.items()}  # fmt: skip
        return {**read, **newer}

    def _former(self, raw_id: str, glance: Glance) -> SlurmJob | None:
        known = self.jobs.get(raw_id)
        return known if known is not None and self._prints.get(raw_id) == glance.print_ else None


def still_ending(job: SlurmJob, former: SlurmJob | None) -> SlurmJob:
    """The record as one of the attempt that it shows, told by what was shown before.

    At the requeue of a running job Slurm (22.05) counts the restart and sets the start time anew at once, while the
    attempt that the requeue ends is still COMPLETING; the submit time changes only when the next attempt is PENDING.
    Who cancels the job in between cancels that next attempt before there is one: accounting never has a row of it.
    """
    if former is None or former.submitted_at != job.submitted_at:
        return job
    if not _ENDING.intersection(job.states):
        return job
    if (job.restart_count or 0) != (former.restart_count or 0) + 1:
        return job
    return replace(job, restart_count=former.restart_count, started_at=former.started_at)


def _same(job: SlurmJob, former: SlurmJob | None) -> SlurmJob:
    """The former record where nothing in it has changed: it is not kept twice, and its view is made only once."""
    if former is job or former is None:
        return job
    return former if former == job else job


def array_ids(jobs: Iterable[SlurmJob]) -> frozenset[str]:
    """The ids that stand for whole arrays."""
    return frozenset(str(job.array_job_id) for job in jobs if job.array_job_id is not None)
