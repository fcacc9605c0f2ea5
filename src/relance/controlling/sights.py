"""The controller's sight of its cluster: numbered whole looks, what jobs showed before, fast single reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from relance.controlling.joint_looks import JointLook
from relance.domain.twins import with_former_dependencies
from relance.domain.views import ClusterReport, Impairment, JobState, JobView
from relance.ports.backends import Order
from relance.ports.clocks import Clock
from relance.ports.schedulers import JobGoneError, Scheduler, SchedulerSilentError

SUSPECTED_S: Final = 30.0
"""A job is read by itself for so long after what is said of it has changed: one that dies of what was just seen does so
within seconds, and one that hangs for a day is not asked about every second of it."""
RARELY_S: Final = 60.0
"""After that it is read by itself so seldom: its steps tell whether somebody has come to work in it, or has left."""

_Said = tuple[str, int, JobState, int]
"""A job, its restart count and state, and the generation of what is advised on it."""


class Sight:
    """What was seen last, and how it is seen anew."""

    def __init__(self, scheduler: Scheduler, clock: Clock, holder: str) -> None:
        """Begin with nothing seen; the session tells this start of the controller from others."""
        self.report: ClusterReport | None = None
        self._scheduler = scheduler
        self._joint = JointLook(scheduler.look)
        self._clock = clock
        self._session = f"{holder}/{clock.now().isoformat(timespec='microseconds')}"
        self._sequence = 0
        self._looked_s: float | None = None
        self._windows_s = (float("inf"), float("inf"))
        self._dependencies: dict[str, str] = {}
        self._suspect = 0
        self._said_s: dict[_Said, float] = {}
        self._read_s: dict[str, float] = {}

    async def look(self, problems: Iterable[str] = (), begins_nothing: str = "") -> ClusterReport:
        """One whole look, to be reported; jobs keep the dependency they showed. Raises SchedulerSilentError.

        `begins_nothing` says why this controller begins nothing, if it does not.
        """
        begun_s = self._clock.monotonic()
        seen = await self.look_for_copies()
        self._sequence += 1
        self.report = replace(
            seen,
            session=self._session,
            sequence=self._sequence,
            problems=(*seen.problems, *problems),
            begins_nothing=begins_nothing,
        )
        self._looked_s = begun_s
        return self.report

    def again(self, missing: Impairment, problems: Iterable[str] = ()) -> ClusterReport | None:
        """The newest look once more, as old as it is, with what is missing since; None: there was none yet."""
        if self.report is None:
            return None
        self._sequence += 1
        facts = replace(self.report.facts, impairments=(missing,))
        return replace(
            self.report, sequence=self._sequence, facts=facts, complete=False, past=(), problems=tuple(problems)
        )

    async def look_for_copies(self) -> ClusterReport:
        """A whole look in which jobs keep the dependency they showed before. Raises SchedulerSilentError."""
        seen = await self._joint.look()
        self._remember(seen)
        return replace(seen, jobs=with_former_dependencies(seen.jobs, self._dependencies))

    def age_s(self) -> float:
        """How old the newest reported look is; infinite before the first."""
        return self._clock.monotonic() - self._looked_s if self._looked_s is not None else float("inf")

    @property
    def window_s(self) -> float:
        """How long a requeued job waits before it starts by itself, as far as is known; infinite before a look."""
        told_s = self.report.facts.requeue_delay_s if self.report is not None else float("inf")
        return min(told_s, max(self._windows_s))

    def note_window(self, window_s: float) -> None:
        """A requeued job showed this wait; settings that a scheduler reads once may say another. One alone is none."""
        self._windows_s = (self._windows_s[1], window_s)

    def job(self, raw_id: str) -> JobView | None:
        """A job as the newest look showed it."""
        return next((job for job in self.report.jobs if job.raw_id == raw_id), None) if self.report else None

    async def suspicious_change(self, orders: Iterable[Order]) -> bool:
        """Read one job that may be about to end, each time the next one; whether it has changed since the last look."""
        suspects = self._suspects(orders)
        if not suspects:
            return False
        self._suspect += 1
        known = suspects[self._suspect % len(suspects)]
        self._read_s[known.raw_id] = self._clock.monotonic()
        try:
            now = await self._scheduler.read(known.raw_id)
        except JobGoneError:
            return True
        except SchedulerSilentError:
            return False
        return (now.state, now.restart_count) != (known.state, known.restart_count)

    def _suspects(self, orders: Iterable[Order]) -> list[JobView]:
        """Jobs with an open incident whose attempt runs, and jobs whose attempt is ending, while that is news.

        One that waits is not about to end: after a storm there may be many of them, for hours.
        """
        wanted = {order.raw_id: order.advice.generation for order in orders}
        jobs = self.report.jobs if self.report is not None else ()
        now_s = self._clock.monotonic()
        said = {
            (job.raw_id, job.restart_count, job.state, wanted.get(job.raw_id, 0)): job
            for job in jobs
            if job.state is JobState.COMPLETING
            or (job.raw_id in wanted and job.state is not JobState.PENDING and not job.state.is_over)
        }
        self._said_s = {what: self._said_s.get(what, now_s) for what in said}
        ids = {job.raw_id for job in said.values()}
        self._read_s = {raw_id: at_s for raw_id, at_s in self._read_s.items() if raw_id in ids}
        return [
            job
            for what, job in said.items()
            if now_s - self._said_s[what] < SUSPECTED_S
            or now_s - self._read_s.get(job.raw_id, float("-inf")) >= RARELY_S
        ]

    def _remember(self, seen: ClusterReport) -> None:
        self._dependencies.update({job.raw_id: job.dependency for job in seen.jobs if job.dependency})
        if seen.complete:
            listed = {job.raw_id for job in seen.jobs}
            self._dependencies = {raw_id: text for raw_id, text in self._dependencies.items() if raw_id in listed}
