"""From records, accounting and wishes to the views that are reported; each is made once for what it rests on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from relance.controllers.slurm.attempts import FIRST_NOT_KNOWN, Attempts, Known
from relance.controllers.slurm.hets import is_component, is_leader, joined, joined_past
from relance.controllers.slurm.kinds import arming, component_against, only_watched
from relance.controllers.slurm.logs import logs_of
from relance.controllers.slurm.presences import somebody_at_work
from relance.controllers.slurm.queues import Queue
from relance.controllers.slurm.rows import Told, job_view
from relance.controllers.slurm.settings import SlurmSettings
from relance.controllers.slurm.sites import Site
from relance.controllers.slurm.states import job_state
from relance.controllers.slurm.wishes import Wishes
from relance.domain.stages import Stage
from relance.domain.views import JobState, JobView, PastAttempt
from relance.slurm.log_names import name_for
from relance.slurm.records import SlurmJob, SlurmStep

_NO_NAME = (
    "its log keeps its name at a restart, which may empty it: the name is not made of plain signs; use letters, digits "
    "and ._/%+@=:,~- in --output"
)


class Views:
    """The views of one cluster's jobs."""

    def __init__(self, settings: SlurmSettings, queue: Queue, attempts: Attempts, wishes: Wishes) -> None:
        """Take what the views rest on."""
        self._settings = settings
        self._queue = queue
        self._attempts = attempts
        self._wishes = wishes
        self._at_work: dict[str, tuple[int | None, tuple[SlurmStep, ...]]] = {}
        self._made: dict[str, tuple[tuple[object, ...], JobView]] = {}
        self._of_all: dict[str, tuple[tuple[object, ...], JobView]] = {}
        """The views of whole heterogeneous jobs, with what each was made of."""

    def every(self, site: Site) -> list[JobView | None]:
        """The jobs that are served. None: one that cannot be told of, as not all of it could be read."""
        alone = [job for job in self._queue.jobs.values() if not self._is_told_with_its_leader(job)]
        served = [job for job in alone if self.is_served(_partitions(job)) and self._is_watched(job)]
        # Whoever's jobs are served may have a copy elsewhere, which the guard against two writers has to see.
        users = {job.uid for job in served}
        chosen = {job.job_id for job in served}
        others = [job for job in alone if job.uid in users and job.job_id not in chosen]
        return [self.of(job, site) for job in (*served, *others)]

    def of(self, job: SlurmJob, site: Site) -> JobView | None:
        """The view of one job; None: when it was first submitted is not known yet.

        Of a heterogeneous job's leader it is that of all components.
        """
        leader = self._one(job, site)
        if leader is None or not is_leader(job):
            return leader
        parts = self._components(job)
        known = [view for part in parts if (view := self._one(part, site)) is not None]
        release = site.facts.release
        reasons = (component_against(part, release) or self._not_served(part, site) for part in parts)
        against = next((reason for reason in reasons if reason), "")
        return self._joined(leader, tuple(known), is_whole=len(known) == len(job.het_ids) - 1, against=against)

    def parts(self, raw_id: str) -> tuple[str, ...]:
        """The raw ids of which a job consists: its own, and those of a heterogeneous job's other components."""
        job = self._queue.jobs.get(raw_id)
        if job is None or not is_leader(job):
            return (raw_id,)
        return (raw_id, *(str(part) for part in job.het_ids if part != job.job_id))

    def past(self, rows: Sequence[PastAttempt]) -> tuple[PastAttempt, ...]:
        """Ended attempts as they are reported: those of components with their leader's."""
        leaders = {str(job.job_id): str(job.het_job_id) for job in self._queue.jobs.values() if is_component(job)}
        if not leaders:
            return tuple(rows)
        others: defaultdict[str, list[PastAttempt]] = defaultdict(list)
        for row in rows:
            if row.raw_id in leaders:
                others[leaders[row.raw_id]].append(row)
        own = [row for row in rows if row.raw_id not in leaders]
        return tuple(joined_past(row, others[row.raw_id]) if row.raw_id in others else row for row in own)

    def _joined(self, leader: JobView, others: tuple[JobView, ...], *, is_whole: bool, against: str) -> JobView:
        """The view of all components: the same one for as long as nothing of any of them has changed."""
        mark = (leader, *others, is_whole, against)
        kept = self._of_all.get(leader.raw_id)
        if kept is not None and kept[0] == mark:
            return kept[1]
        view = joined(leader, others, is_whole=is_whole, against=against)
        self._of_all[leader.raw_id] = (mark, view)
        return view

    def _components(self, leader: SlurmJob) -> list[SlurmJob]:
        found = [self._queue.jobs.get(str(part)) for part in leader.het_ids if part != leader.job_id]
        return [job for job in found if job is not None and job.het_job_id == leader.het_job_id]

    def _is_told_with_its_leader(self, job: SlurmJob) -> bool:
        return is_component(job) and str(job.het_job_id) in self._queue.jobs

    def _one(self, job: SlurmJob, site: Site) -> JobView | None:
        raw_id = str(job.job_id)
        known = self._attempts.known(raw_id)
        if known is None or known.first_submitted_at is None:
            return None
        mark = (job, known, self._wishes.mark(job), self._at_work.get(raw_id), site.facts.release, site.rights,
                site.control.job_requeue)  # fmt: skip
        kept = self._made.get(raw_id)
        if kept is not None and all(one is other or one == other for one, other in zip(kept[0], mark, strict=True)):
            return kept[1]
        view = self._make(job, known, known.first_submitted_at, site)
        self._made[raw_id] = (mark, view)
        return view

    def note_steps(self, job: SlurmJob, steps: tuple[SlurmStep, ...]) -> None:
        """Take in the steps of a running job that live now."""
        self._at_work[str(job.job_id)] = (job.restart_count, steps)

    def keep_only(self, raw_ids: Collection[str]) -> None:
        """Forget the jobs that are not among these."""
        self._at_work = {raw_id: kept for raw_id, kept in self._at_work.items() if raw_id in raw_ids}
        self._made = {raw_id: kept for raw_id, kept in self._made.items() if raw_id in raw_ids}
        self._of_all = {raw_id: kept for raw_id, kept in self._of_all.items() if raw_id in raw_ids}

    def is_served(self, partitions: Sequence[str]) -> bool:
        """Whether the site has one of these partitions served."""
        wanted = self._settings.partitions
        return not wanted or any(part in wanted for part in partitions)

    def _log_notes(self, job: SlurmJob, site: Site) -> tuple[str, ...]:
        """What stands in the way of a log of its own for each attempt, where the site wants that."""
        wanted = self._settings.rename_logs and not site.control.job_file_append and job.is_batch is not False
        if not wanted or (job.array_job_id is not None and job.array_task_id is None) or job.stdout == "/dev/null":
            return ()
        return () if name_for(job, 1) is not None else (_NO_NAME,)

    def _make(self, job: SlurmJob, known: Known, first_submitted_at: datetime, site: Site) -> JobView:
        wish = self._wishes.wish_of(job)
        paths, notes = logs_of(job, wish)
        restart_count, steps = self._at_work.get(str(job.job_id), (None, ()))
        own_wish = self._wishes.own_wish(job)
        site_arms = self._settings.arm_where_default and site.control.job_requeue is False
        armed_by = arming(job, own_wish, site_allows=site_arms)
        # Steps are asked for while a job runs; of one that has ended they tell nothing any more.
        are_known = known.state is JobState.RUNNING and restart_count == job.restart_count
        watched_as = only_watched(job, own_wish, site.facts.release, is_armable=bool(armed_by))
        if watched_as and wish.mode in (Stage.APPROVE, Stage.ACT):
            # Said at enrolment, and not when it has failed.
            said = f"it asks for {wish.mode.value}, and is only watched: {watched_as}"
            wish = replace(wish, notes=(*wish.notes, said))
        told = Told(
            first_submitted_at=first_submitted_at,
            wish=wish,
            steps=known.steps if job_state(job.states) is not JobState.PENDING else (),
            cancelled_by=known.cancelled_by,
            log_paths=paths,
            log_notes=(*notes, *self._log_notes(job, site)),
            somebody_at_work=somebody_at_work(job, steps if are_known else None),
            only_watched=self._not_served(job, site) or ("" if known.is_first_sure else FIRST_NOT_KNOWN) or watched_as,
            arming=armed_by,
        )
        return job_view(job, told)

    def _is_watched(self, job: SlurmJob) -> bool:
        opted_in, accounts = self._settings.opted_in, self._settings.opted_in_accounts
        if self._settings.watch_all:
            return True
        is_of_account = accounts is None or job.account in accounts
        if is_of_account and (opted_in is None or any(part in opted_in for part in _partitions(job))):
            return True
        return self._wishes.wish_of(job).mode is not None

    def _not_served(self, job: SlurmJob, site: Site) -> str:
        if not self.is_served(_partitions(job)):
            return f"its partition {job.partition} is not served: the site's setting `partitions` does not name it"
        rights = site.rights
        if not rights.may_act_everywhere and rights.coordinates and job.account not in rights.coordinates:
            return f"{rights.user} may act for {', '.join(rights.coordinates)}, not for its account {job.account}"
        return ""


def _partitions(job: SlurmJob) -> list[str]:
    """The partitions that the job is in; one that waits may name several."""
    return (job.partition or "").split(",")
