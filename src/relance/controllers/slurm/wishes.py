"""What jobs ask for: the comment in the record, and the file in the work directory.

The file is read when an attempt is first seen, and once more at its end: what its owner wrote meanwhile counts before
anything is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from relance.controllers.slurm.states import job_state
from relance.controllers.slurm.wish_files import MOST_AT_ONCE, Found, Place, WishFiles
from relance.domain.limits import Limits
from relance.domain.views import Wish
from relance.domain.wishes import join_wishes, lowered, parse_wish
from relance.ports.clocks import Clock
from relance.slurm.records import SlurmJob

_WAIT_S = 0.5
"""How long a look waits for files; what comes later counts from the next look on."""
_AGAIN_S = 60.0

_Attempt = tuple[int, int | None, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """What the newest look after an attempt's file gave, when that was, and whether the attempt was over."""

    found: Found
    at_s: float = field(compare=False)
    was_over: bool


class Wishes:
    """The wishes of one cluster's jobs. Until a job's file is looked for, it stays in observe."""

    def __init__(
        self,
        limits: Limits,
        clock: Clock,
        *,
        read_files: bool = True,
        is_elsewhere: bool = False,
        forms: Collection[str] = (),
    ) -> None:
        """Clip by the site's limits; `forms` of other engines are taken for wishes.

        Where the cluster is `is_elsewhere`, a folder that is not here may have a file all the same.
        """
        self._is_elsewhere = is_elsewhere
        self._limits = limits
        self._forms = frozenset(forms)
        self._clock = clock
        self._files = WishFiles()
        self._read_files = read_files
        self._found: dict[_Attempt, _Kept] = {}
        self._reading: dict[_Attempt, asyncio.Task[None]] = {}

    async def prepare(self, jobs: Iterable[SlurmJob]) -> None:
        """Look for the files of attempts that are new, some at once, and wait for them for a moment at most."""
        began_s = now_s = self._clock.monotonic()
        wanted = [job for job in jobs if self._is_wanted(job, now_s)]
        while (wanted or self._reading) and now_s - began_s < _WAIT_S:
            while wanted and len(self._reading) < MOST_AT_ONCE:
                job = wanted.pop()
                task = asyncio.create_task(self._read(_attempt(job), job), name="relance-wish")
                self._reading[_attempt(job)] = task
            await asyncio.wait(self._reading.values(), timeout=began_s + _WAIT_S - now_s)
            now_s = self._clock.monotonic()

    def wish_of(self, job: SlurmJob) -> Wish:
        """What the job asks for, as far as it was read."""
        if not self._has_file(job):
            return self.own_wish(job)
        kept = self._found.get(_attempt(job))
        if kept is None:
            # Nothing is wrong with its settings, so there is nothing to note and to tell anybody.
            return lowered(self.own_wish(job))
        return join_wishes(job.comment or "", kept.found.in_file, self._limits, self._forms)

    def mark(self, job: SlurmJob) -> object:
        """What the wish rests on besides the record: the same object for as long as nothing new was read."""
        return self._found.get(_attempt(job))

    def own_wish(self, job: SlurmJob) -> Wish:
        """What the job's own comment asks for."""
        return parse_wish(job.comment or "", self._limits, self._forms)

    def keep_only(self, jobs: Iterable[SlurmJob]) -> None:
        """Forget the attempts that are not among these."""
        there = {_attempt(job) for job in jobs}
        self._found = {attempt: found for attempt, found in self._found.items() if attempt in there}

    def close(self) -> None:
        """Wait for no more files."""
        for task in self._reading.values():
            task.cancel()

    def _has_file(self, job: SlurmJob) -> bool:
        """Whether the file counts for this job: an array is opted in by its own comment alone."""
        return self._read_files and job.array_job_id is None and bool(job.work_dir)

    def _is_wanted(self, job: SlurmJob, now_s: float) -> bool:
        attempt = _attempt(job)
        if not self._has_file(job) or attempt in self._reading:
            return False
        kept = self._found.get(attempt)
        if kept is None or (_is_over(job) and not kept.was_over):
            return True
        return not kept.found.is_final and now_s - kept.at_s >= _AGAIN_S

    async def _read(self, attempt: _Attempt, job: SlurmJob) -> None:
        try:
            place = Place(work_dir=job.work_dir or "", owner_uid=job.uid, is_elsewhere=self._is_elsewhere)
            found = await self._files.read(place)
            self._found[attempt] = _Kept(found=found, at_s=self._clock.monotonic(), was_over=_is_over(job))
        finally:
            self._reading.pop(attempt, None)


def _is_over(job: SlurmJob) -> bool:
    return job_state(job.states).is_over


def _attempt(job: SlurmJob) -> _Attempt:
    return job.job_id, job.restart_count, job.submitted_at
