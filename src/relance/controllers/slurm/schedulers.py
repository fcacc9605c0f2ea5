"""`SlurmScheduler`: the port to a real Slurm, by its own commands and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from relance.controllers.site_commands import collect
from relance.controllers.slurm import orders
from relance.controllers.slurm.attempts import Attempts
from relance.controllers.slurm.budgets import Interval
from relance.controllers.slurm.kinds import shows_all_for_one
from relance.controllers.slurm.questions import Questions
from relance.controllers.slurm.queues import Queue, array_ids
from relance.controllers.slurm.settings import SlurmSettings
from relance.controllers.slurm.sites import Site, SiteReader, has_accounting
from relance.controllers.slurm.states import job_state
from relance.controllers.slurm.viewing import Views
from relance.controllers.slurm.wishes import Wishes
from relance.domain.advice import Command
from relance.domain.collecting import EVIDENCE_STEP, Collected
from relance.domain.nodes import NodeChange, NodeSight
from relance.domain.views import ClusterReport, JobState, JobView
from relance.ports.clocks import Clock
from relance.ports.schedulers import JobGoneError, SchedulerRefusedError, SchedulerSilentError
from relance.slurm.commands import marked_step
from relance.slurm.errors import UnknownJobError
from relance.slurm.log_names import name_for
from relance.slurm.parsing.jobs import pick_job
from relance.slurm.records import AccountedJob, SlurmJob
from relance.slurm.running import leave
from relance.telemetry.schedulers import SchedulerMeter

_PREPARED_S = 30.0
_SENT_S = 150.0
"""A job is read without waiting for a budget for so long after a command about it was prepared, or sent: a transaction
goes on. While one that was sent may go on, whole looks do not wait either."""
_MOST_IDS = 500
"""So many jobs are asked of accounting in one question; the rest with the next look."""
_PAUSES_S = (0.1, 0.2, 0.4)
"""Accounting hears of an end up to some tenths of a second after slurmctld (seen: 0.2 s)."""
_LEAST_WAIT_S = 0.05
_NODE_SIGNS = (JobState.NODE_FAIL, JobState.BOOT_FAIL, JobState.FAILED, JobState.COMPLETING, JobState.UNKNOWN)


class SlurmScheduler:
    """Implements `relance.ports.schedulers.Scheduler`."""

    def __init__(self, settings: SlurmSettings, clock: Clock) -> None:
        """Take how the cluster is reached; nothing is asked yet."""
        meter = SchedulerMeter(settings.cluster)
        self._settings = settings
        self._clock = clock
        self._questions = Questions(settings.commands, clock, meter, per_minute=settings.budget_per_minute)
        self._queue = Queue(self._questions, clock)
        self._sites = SiteReader(
            self._questions, clock, meter, account=settings.account,
            intervals_s=(settings.nodes_s, settings.settings_s),
        )  # fmt: skip
        self._looks = Interval("jobs", settings.poll_s, meter)
        self._attempts = Attempts(settings.cluster, living_again_s=settings.accounting_s)
        self._wishes = Wishes(
            settings.limits, clock, read_files=settings.read_wish_files, forms=settings.comment_forms,
            is_elsewhere=settings.commands.way is not None,
        )  # fmt: skip
        self._site: Site | None = None
        self._urgent: dict[str, float] = {}
        self._sent_s = float("-inf")
        self._views = Views(settings, self._queue, self._attempts, self._wishes)
        self._to_end: dict[str, int] = {}
        """The restart counts of running jobs about which a command was made that ends them."""
        self._keep_names: set[str] = set()
        """Jobs whose log Slurm did not let us rename."""

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self._settings.cluster

    async def look(self) -> ClusterReport:
        as_of, begun_s = self._clock.now(), self._clock.monotonic()
        is_sent = begun_s - self._sent_s < _SENT_S
        if is_sent:
            self._sites.hurry()
        # Many jobs may wait for this look, each of them to be saved before Slurm forgets it.
        urgent = is_sent or self._is_any_urgent()
        await self._know_site()
        begun_s = self._clock.monotonic()
        try:
            changed = await self._queue.look(urgent=urgent)
        except SchedulerSilentError:
            # Whoever answers next may have been started anew.
            self._sites.doubt()
            raise
        finally:
            self._looks.asked(begun_s, self._clock.monotonic())
        problems: list[str] = []
        for raw_id in changed:
            problems += self._meet(self._queue.jobs.get(raw_id))
        site, told, _ = await asyncio.gather(
            self._sites.read(urgent=urgent),
            self._account(urgent=urgent),
            self._wishes.prepare(self._queue.jobs.values()),
        )
        self._site = site
        views = self._views.every(site)
        return ClusterReport(
            cluster=self.cluster,
            session="",
            sequence=0,
            as_of=as_of,
            facts=site.facts,
            jobs=tuple(view for view in views if view is not None),
            nodes=tuple(node for node in site.nodes if self._views.is_served(node.partitions)),
            past=self._views.past(self._attempts.past(begun_s)),
            windows=site.windows,
            complete=not problems and all(view is not None for view in views),
            problems=(*site.problems, *problems, *told),
        )

    async def read(self, raw_id: str) -> JobView:
        if not raw_id.isascii() or not raw_id.isdecimal():
            raise SchedulerSilentError(f"not the id of a job: {raw_id!r}")
        urgent = self._is_urgent(raw_id)
        site = await self._know_site()
        found = [self._queue.take(job) for job in await self._records(raw_id, urgent=urgent)]
        if problems := [text for job in found for text in self._meet(job)]:
            raise SchedulerSilentError(problems[0])
        job, parts = found[0], self._views.parts(raw_id)
        for part in parts:
            self._attempts.want_steps(part, self._clock.monotonic())
        await asyncio.gather(
            self._account_one(parts, urgent=urgent), self._wishes.prepare(found), self._see_who_works(job, parts)
        )
        view = self._views.of(job, site)
        if view is None:
            raise SchedulerSilentError(f"when job {raw_id} was first submitted cannot be read from accounting")
        return view

    def requeue(self, job: JobView) -> Command:
        self._note_end(job)
        # A person may cancel what runs, or it may complete, between our read and our command: then it stays so.
        return orders.requeue(self._shown(job), if_living=job.state is JobState.RUNNING)

    def constrain(self, job: JobView, exclude: tuple[str, ...], start_at: datetime | None) -> Command:
        return orders.constrain(self._shown(job), exclude, start_at, self._output(job))

    def cancel(self, job: JobView) -> Command:
        self._note_end(job)
        return orders.cancel(self._shown(job))

    def arm(self, job: JobView, *, allowed: bool) -> Command:
        return orders.arm(self._shown(job), allowed=allowed)

    def hold(self, job: JobView) -> Command:
        return orders.hold(self._shown(job))

    async def read_node(self, name: str) -> NodeSight:
        sight = await self._sites.read_one(name)
        if sight is None:
            raise SchedulerRefusedError(f"the cluster has no node {name[:80]!r}")
        return sight

    def change_node(self, change: NodeChange) -> Command:
        return orders.change_node(change)

    def exclude(self, job: JobView, nodes: tuple[str, ...]) -> Command:
        return orders.exclude(self._shown(job), nodes)

    def requeue_held(self, job: JobView) -> Command:
        self._note_end(job)
        return orders.requeue_held(self._shown(job), if_living=job.state is JobState.RUNNING)

    def release(self, job: JobView) -> Command:
        return orders.release(self._shown(job))

    def rearm(self, job: JobView, dependency: str) -> Command:
        return orders.rearm(self._shown(job), dependency)

    async def send(self, command: Command, time_limit_s: float) -> None:
        await self._know_site()
        arrays = array_ids(self._queue.jobs.values())
        shown_id = orders.check(command, self._sites.node_names, arrays)
        named = [raw_id for raw_id, job in self._queue.jobs.items() if _named(job) == shown_id]
        raw_ids = [part for raw_id in named for part in self._views.parts(raw_id)]
        try:
            await self._questions.change(command.argv, time_limit_s)
        except SchedulerRefusedError:
            # Whatever was wrong with it: an exclusion is not given up for the sake of a name.
            self._keep_names.update(named if any(word.startswith("StdOut=") for word in command.argv) else ())
            raise
        finally:
            self._sent_s = self._clock.monotonic()
            self._sites.hurry()
            for raw_id in raw_ids:
                self._hasten(raw_id, _SENT_S)
                self._queue.doubt(raw_id)

    def evidence(self, argv: tuple[str, ...]) -> Command:
        return Command(argv=marked_step(argv, EVIDENCE_STEP))

    async def collect(self, command: Command, time_limit_s: float, most_bytes: int) -> Collected:
        return await collect(self._settings.commands, command, time_limit_s, most_bytes)

    async def changed(self, timeout_s: float) -> None:
        """Slurm tells nobody of a change: what is waited for is the next look, or accounting that lags behind."""
        now_s = self._clock.monotonic()
        left_s = min(self._looks.left_s(now_s), self._attempts.next_s(now_s))
        # While answers are slow the interval is longer than what we are asked to wait at most.
        is_slow = self._looks.seconds > self._settings.poll_s
        await self._clock.sleep(max(_LEAST_WAIT_S, left_s if is_slow else min(timeout_s, left_s)))

    async def close(self) -> None:
        self._wishes.close()
        await leave(self._settings.commands)

    async def _know_site(self) -> Site:
        """The cluster, read now if it never was; whether there is accounting decides how jobs are told apart."""
        if self._site is None:
            self._site = await self._sites.read()
            self._attempts.has_accounting = has_accounting(self._site.control)
        return self._site

    def _meet(self, job: SlurmJob | None) -> list[str]:
        """Take in a record; gives why it cannot be placed."""
        if job is None:
            return []
        before = self._attempts.known(str(job.job_id))
        try:
            known = self._attempts.meet(job)
        except ValueError as error:
            return [str(error)]
        is_new_attempt = before is not None and before.restart_count != known.restart_count
        if is_new_attempt or (before is not None and before.state is not known.state and known.state in _NODE_SIGNS):
            self._sites.hurry()
        return []

    async def _account(self, *, urgent: bool) -> list[str]:
        """Ask accounting, in one question, about all that it owes; gives what went wrong."""
        now_s = self._clock.monotonic()
        missed = self._attempts.missed(self._queue.jobs, now_s)[:_MOST_IDS]
        self._wishes.keep_only(self._queue.jobs.values())
        self._views.keep_only(self._queue.jobs)
        self._keep_names &= self._queue.jobs.keys()
        self._to_end = {raw_id: count for raw_id, count in self._to_end.items() if raw_id in self._queue.jobs}
        owed = self._attempts.owed(now_s)[:_MOST_IDS]
        ids = [*owed, *missed]
        if not ids:
            return []
        problems = await self._learn(owed, missed, urgent=urgent)
        for pause_s in _PAUSES_S:
            fresh = [raw_id for raw_id in owed if self._attempts.is_fresh_debt(raw_id, only_failures=True)]
            if problems or not fresh:
                break
            await self._clock.sleep(pause_s)
            problems = await self._learn(fresh, (), urgent=urgent)
        living = [raw_id for raw_id in owed if self._lives(raw_id)]
        return [*problems, *(await self._see_steps(living, urgent=urgent))]

    async def _account_one(self, parts: tuple[str, ...], *, urgent: bool) -> None:
        """Ask about one job and its parts; its end is asked for again, as accounting hears of it a moment later."""
        all_owed = self._attempts.owed(self._clock.monotonic())
        owed = [part for part in parts if part in all_owed]
        if not owed:
            return
        known = self._attempts.known(parts[0])
        if urgent and known is not None and known.state is JobState.PENDING and known.first_submitted_at is not None:
            return  # how the attempt before it ended is asked with the look that comes before the update
        if self._lives(parts[0]):
            await asyncio.gather(self._learn(owed, (), urgent=urgent), self._see_steps(parts, urgent=urgent))
            return
        await self._learn(owed, (), urgent=urgent)
        for pause_s in _PAUSES_S:
            fresh = [part for part in owed if self._attempts.is_fresh_debt(part)]
            if not fresh:
                break
            await self._clock.sleep(pause_s)
            await self._learn(fresh, (), urgent=urgent)

    async def _learn(self, owed: Sequence[str], missed: Sequence[str], *, urgent: bool) -> list[str]:
        ids = [*owed, *missed]
        rows: tuple[AccountedJob, ...] = ()
        try:
            rows = await self._questions.accounting(ids, urgent=urgent)
            problems = []
        except (SchedulerSilentError, JobGoneError) as error:
            problems = [f"accounting cannot be read: {error}"]
        now_s = self._clock.monotonic()
        by_id: dict[int, list[AccountedJob]] = {}
        for row in rows:
            by_id.setdefault(row.job_id, []).append(row)
        for raw_id in owed:
            job = self._queue.jobs.get(raw_id)
            if job is not None:
                self._attempts.learn(job, None if problems else by_id.get(job.job_id, []), now_s)
        for raw_id in missed:
            self._attempts.bury(raw_id, by_id.get(int(raw_id), []), now_s)
        return problems

    async def _see_steps(self, ids: Sequence[str], *, urgent: bool) -> list[str]:
        """Look at the steps that live now, of jobs that somebody asks about."""
        if not ids:
            return []
        try:
            steps = await self._questions.steps(ids, urgent=urgent)
        except (SchedulerSilentError, JobGoneError) as error:
            return [f"the steps of running jobs cannot be read: {error}"]
        for raw_id in ids:
            job = self._queue.jobs.get(raw_id)
            if job is not None:
                own = tuple(step for step in steps if step.job_id in (raw_id, job.shown_id))
                self._views.note_steps(job, own)
        return []

    async def _see_who_works(self, job: SlurmJob, parts: tuple[str, ...]) -> None:
        """Of a running job that may be about to be ended, see who is at work in it now, and not a while ago.

        Raises SchedulerSilentError: that nobody is cannot be told.
        """
        raw_id = str(job.job_id)
        if not self._lives(raw_id) or self._to_end.get(raw_id) != job.restart_count:
            return
        if problems := await self._see_steps(parts, urgent=True):
            raise SchedulerSilentError(problems[0])

    async def _records(self, raw_id: str, *, urgent: bool) -> list[SlurmJob]:
        """The record of a job, and those of a heterogeneous job's other components behind it."""
        former, parts = self._queue.jobs.get(raw_id), self._views.parts(raw_id)
        is_plain = former is not None and former.array_job_id is None and len(parts) == 1
        if former is not None and is_plain and self._reads_all_for_one():
            brief = await self._questions.brief(former, urgent=urgent)
            if brief is not None:
                return [brief]
        try:
            answer = await self._questions.job(parts, urgent=urgent)
            picked = [pick_job(answer, raw_id)]
        except UnknownJobError as error:
            raise JobGoneError(str(error)) from error
        return picked + [job for job in answer if str(job.job_id) in parts[1:]]

    def _reads_all_for_one(self) -> bool:
        """Whether a full record costs the reading of a long queue."""
        return self._site is not None and shows_all_for_one(self._site.facts.release, len(self._queue.jobs))

    def _lives(self, raw_id: str) -> bool:
        known = self._attempts.known(raw_id)
        return known is not None and known.state is JobState.RUNNING

    def _note_end(self, job: JobView) -> None:
        if job.state is JobState.RUNNING:
            self._to_end[job.raw_id] = job.restart_count

    def _shown(self, job: JobView) -> str:
        """The id as commands take it; that of an array's task, as its raw id may stand for the whole array."""
        self._hasten(job.raw_id, _PREPARED_S)
        record = self._queue.jobs.get(job.raw_id)
        return _named(record) if record is not None else job.raw_id

    def _output(self, job: JobView) -> str | None:
        """The name for the log of the attempt that this update lets start; None: it keeps its own."""
        record, site = self._queue.jobs.get(job.raw_id), self._site
        if not self._settings.rename_logs or record is None or job.raw_id in self._keep_names:
            return None
        if site is None or site.control.job_file_append:
            return None
        waits = job_state(record.states) is JobState.PENDING
        return name_for(record, job.restart_count if waits else job.restart_count + 1)

    def _hasten(self, raw_id: str, seconds: float) -> None:
        until_s = self._clock.monotonic() + seconds
        self._urgent[raw_id] = max(until_s, self._urgent.get(raw_id, 0.0))

    def _is_urgent(self, raw_id: str) -> bool:
        """Whether a transaction with this job may be under way."""
        return self._is_any_urgent() and raw_id in self._urgent

    def _is_any_urgent(self) -> bool:
        """Whether a transaction with any job may be under way."""
        now_s = self._clock.monotonic()
        self._urgent = {each: until_s for each, until_s in self._urgent.items() if until_s > now_s}
        return bool(self._urgent)


def _named(job: SlurmJob) -> str:
    is_task = job.array_job_id is not None and job.array_task_id is not None
    return job.shown_id if is_task else str(job.job_id)
