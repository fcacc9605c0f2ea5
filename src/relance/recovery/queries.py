"""The read side: what people ask of the history, answered with typed values."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

from relance.domain.fleet import Storm
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.progress import Progress
from relance.domain.records import ClusterRecord, JobRecord
from relance.domain.recoveries import recoveries_under_way
from relance.domain.streams import Stream
from relance.domain.trials import is_trial
from relance.domain.views import ClusterReport, JobView
from relance.ports.clocks import Clock
from relance.ports.histories import History
from relance.recovery import figures, storytelling, subjects, tables
from relance.recovery.answers import JobFacts, first_quote
from relance.recovery.banners import Banner, banner
from relance.recovery.gatings import Around
from relance.recovery.job_checks import JobCheck, job_check
from relance.recovery.kept_logs import is_jobs_own, kept_logs
from relance.recovery.live import Live
from relance.recovery.owning import is_own
from relance.recovery.proving.gathering import Scope, gather
from relance.recovery.proving.reports import proofs
from relance.recovery.proving.values import Proofs
from relance.recovery.rows import AdviceRow, HistoryRow, IncidentItem, JobRow, JobStage, NodeRow, StageRow, StormRow
from relance.recovery.sites import Site
from relance.recovery.standings import lease_seen
from relance.recovery.stories import IncidentStory, JobStory
from relance.recovery.storms import members, with_canary

_OPEN = 10_000
MOST_ROWS = 1000
"""No list is longer than this; the history feed is read in pages."""


class Queries:
    """What people may ask. Raises NotKnownError and AmbiguousError, and what the history raises.

    `live`, where the server's loop runs in this process, has newer looks and progress than the history.
    """

    def __init__(self, history: History, site: Site, clock: Clock, live: Live | None = None) -> None:
        """Take the parts."""
        self._history = history
        self._site = site
        self._clock = clock
        self._live = live

    async def jobs(self, cluster: str | None = None, user: str | None = None, limit: int = 200) -> tuple[JobRow, ...]:
        """Jobs, most recently changed first."""
        look = self._look()
        records = await self._history.jobs(cluster, min(limit if user is None else MOST_ROWS, MOST_ROWS))
        wanted = [record for record in records if user in (None, record.user)]
        return tuple([tables.job_row(await look.facts(record, newest_only=True)) for record in wanted[:limit]])

    async def job_story(self, text: str) -> JobStory:
        """The story of the job that `text` means."""
        record = await subjects.job_meant(self._history, text)
        facts = await self._look().facts(record)
        return storytelling.job_story(facts, await self._history.read(Stream.of_job(record.job)))

    async def attachment(self, digest: str) -> bytes:
        """The bytes of something that was kept beside an incident, masked when it was. Raises NotKnownError."""
        data = await self._history.kept_bytes(digest)
        if data is None:
            message = f"nothing is kept as {digest!r}"
            raise subjects.NotKnownError(message)
        return data

    async def kept_log(self, text: str, digest: str, *, of_owner: bool = False) -> bytes:
        """What was kept of a log of the job that `text` means; an owner's own logs only. Raises NotKnownError."""
        record = await subjects.job_meant(self._history, text)
        facts = await self._look().facts(record, newest_only=True)
        recorded = await self._history.read(Stream.of_job(record.job))
        found = next((item for item in kept_logs(recorded) if item.digest == digest), None)
        paths = facts.view.log_paths if facts.view is not None else ()
        if found is None or (of_owner and not is_jobs_own(found.file, paths)):
            message = f"nothing is kept of job {record.job.raw_id} as {digest!r}"
            raise subjects.NotKnownError(message)
        return await self.attachment(digest)

    async def banner(self, text: str, restart_count: int) -> Banner:
        """What the attempt with that restart count is told about the one before it."""
        record = await subjects.job_meant(self._history, text)
        facts = await self._look().facts(record)
        before = AttemptKey(job=record.job, restart_count=restart_count - 1)
        incident = next((item for item in reversed(record.incidents) if item.attempt == before), None)
        quote = first_quote(incident.verdict) if incident is not None else None
        own = quote if quote is not None and is_own(quote) else None
        return banner(facts, restart_count, own, self._site.zone)

    async def job_check(self, text: str) -> JobCheck:
        """What is seen of the job that `text` means, and what would be done."""
        record = await subjects.job_meant(self._history, text)
        check = job_check(await self._look().facts(record, newest_only=True))
        desks = self._live.desks if self._live is not None else ()
        return replace(check, providers=tuple(desk.state for desk in desks))

    async def incidents(
        self, *, open_only: bool = False, cluster: str | None = None, since: datetime | None = None, limit: int = 200
    ) -> tuple[IncidentItem, ...]:
        """Incidents, newest first. Those that are open say what happens next."""
        rows = await self._history.incidents(
            open_only=open_only, cluster=cluster, since=since, limit=min(limit, MOST_ROWS)
        )
        look = self._look()
        found: list[IncidentItem] = []
        for row in rows:
            if not row.incident.is_open:
                found.append(tables.incident_item(row))
                continue
            facts = await look.facts(await self._record(row.job), newest_only=True)
            found.append(tables.incident_of(facts, row.incident))
        return tuple(found)

    async def incident_story(self, text: str) -> IncidentStory:
        """The story of the incident with this id, or a unique beginning of it, or with this advice or action."""
        row = await subjects.incident_meant(self._history, text)
        record = await self._record(row.job)
        facts = await self._look().facts(record)
        incident = record.incident(row.incident.id) or row.incident
        return storytelling.incident_story(facts, incident, await self._history.read(Stream.of_job(row.job)))

    async def advice(self, cluster: str | None = None) -> tuple[AdviceRow, ...]:
        """The advice in force of all open incidents, newest incident first."""
        look = self._look()
        found: list[AdviceRow] = []
        for row in await self._history.incidents(open_only=True, cluster=cluster, limit=MOST_ROWS):
            record = await self._record(row.job)
            advised = tables.advice_row(await look.facts(record, newest_only=True), row.incident)
            if advised is not None:
                found.append(advised)
        return tuple(found)

    async def nodes(self, cluster: str | None = None) -> tuple[NodeRow, ...]:
        """Nodes that the scheduler shows or that have a history."""
        look = self._look()
        names = [cluster] if cluster else [record.cluster for record in await self._history.clusters()]
        reports = [await look.report(name) for name in names]
        known = await self._history.nodes(cluster)
        return tables.node_rows(known, tuple(report for report in reports if report is not None), look.now)

    async def history(self, after: int | None = None, limit: int = 100) -> tuple[HistoryRow, ...]:
        """Events in order: those beyond `after`, or the newest ones."""
        limit = min(limit, MOST_ROWS)
        if after is None:
            after = max(0, await self._history.head() - limit)
        return tuple(tables.history_row(item) for item in await self._history.follow(after, limit))

    async def job_history(self, text: str) -> tuple[HistoryRow, ...]:
        """All events of one job."""
        record = await subjects.job_meant(self._history, text)
        return tuple(tables.history_row(item) for item in await self._history.read(Stream.of_job(record.job)))

    async def stages(self, cluster: str | None = None) -> tuple[StageRow, ...]:
        """What the stages of each cluster are set to, and what caps them."""
        look = self._look()
        records = [record for record in await self._history.clusters() if cluster in (None, record.cluster)]
        return tuple([tables.stage_row(record, await look.report(record.cluster), look.now) for record in records])

    async def storms(self, cluster: str | None = None, *, open_only: bool = False) -> tuple[StormRow, ...]:
        """Shared incidents with those of their jobs, newest first; of each cluster the newest 20 are known."""
        look, found = self._look(), list[StormRow]()
        for record in await self._history.clusters():
            wanted = record.open_storms if open_only else record.storms
            if cluster in (None, record.cluster) and wanted:
                found += [await self._storm(look, record.cluster, storm) for storm in wanted]
        return tuple(sorted(found, key=lambda row: row.opened_at, reverse=True))

    async def storm(self, text: str) -> StormRow:
        """The shared incident with this id, or a unique beginning of it. Raises NotKnownError."""
        found = [
            (record.cluster, storm)
            for record in await self._history.clusters()
            for storm in record.storms
            if text and storm.storm_id.startswith(text)
        ]
        if len(found) != 1:
            message = f"no storm is known by {text!r}" if not found else f"{text!r} may mean {len(found)} storms"
            raise subjects.NotKnownError(message)
        return await self._storm(self._look(), *found[0])

    async def _storm(self, look: _Look, cluster: str, storm: Storm) -> StormRow:
        rules = self._site.rules(cluster)
        since = storm.opened_at - timedelta(seconds=rules.limits.storms.window_s)
        rows = await self._history.incidents(cluster=cluster, since=since, limit=_OPEN)
        shared = members(storm, rows, rules.limits.storms, rules.file_systems)
        items = [
            tables.incident_of(await look.facts(await self._record(row.job), newest_only=True), row.incident)
            if row.incident.is_open
            else tables.incident_item(row)
            for row in shared[:MOST_ROWS]
        ]
        if not storm.is_open:
            storm = with_canary(storm, rows, look.now, rules.file_systems)
        return tables.storm_row(cluster, storm, tuple(items))

    async def job_stage(self, text: str) -> JobStage:
        """The effective stage of one job and why."""
        record = await subjects.job_meant(self._history, text)
        facts = await self._look().facts(record, newest_only=True)
        return JobStage(job=record.job, name=record.name, partition=record.partition, effective=facts.stage)

    async def figures(self, since: datetime | None = None, cluster: str | None = None) -> figures.Figures:
        """The figures of incidents opened since then; at most the newest 10 000."""
        rows = await self._history.incidents(cluster=cluster, since=since, limit=10_000)
        counted = (row.incident for row in rows if not is_trial(row.name))
        return figures.figures(counted, since, self._clock.now())

    async def proofs(self, since: datetime, cluster: str | None = None, partition: str | None = None) -> Proofs:
        """What observing proved since then. Raises NotKnownError for a cluster or partition without jobs."""
        evidence = await gather(self._history, self._site, self._live, self._clock, Scope(since, cluster, partition))
        return await asyncio.to_thread(proofs, evidence)

    def _look(self) -> _Look:
        return _Look(self._history, self._site, self._live, self._clock.now())

    async def _record(self, job: JobKey) -> JobRecord:
        record = (await self._history.load(Stream.of_job(job))).record
        return record if isinstance(record, JobRecord) else JobRecord(job=job)


class _Look:
    """Gathers the facts of several jobs at one moment, reading each cluster once."""

    def __init__(self, history: History, site: Site, live: Live | None, now: datetime) -> None:
        """Look at `now`."""
        self._history = history
        self._site = site
        self._live = live
        self.now = now
        self._clusters: dict[str, ClusterRecord] = {}
        self._reports: dict[str, ClusterReport | None] = {}
        self._views: dict[str, dict[JobKey, JobView]] = {}
        self._arounds: dict[str, Around] = {}

    async def facts(self, record: JobRecord, *, newest_only: bool = False) -> JobFacts:
        """All that is known of a job.

        `newest_only`, for lists, leaves out the progress of earlier attempts.
        """
        cluster = record.job.cluster
        facts = JobFacts(
            record=record,
            cluster=await self.cluster(cluster),
            report=await self.report(cluster),
            view=(await self._views_of(cluster)).get(record.job),
            rules=self._site.rules(cluster),
            progress={},
            now=self.now,
            around=await self._around(cluster),
        )
        earlier = () if newest_only else (item.attempt for item in record.attempts)
        coverage = self._live.coverage.get(facts.current, ()) if self._live else ()
        return replace(facts, progress=await self._progress({facts.current, *earlier}), coverage=coverage)

    async def cluster(self, name: str) -> ClusterRecord:
        """The record of a cluster."""
        if name not in self._clusters:
            record = (await self._history.load(Stream.of_cluster(name))).record
            self._clusters[name] = record if isinstance(record, ClusterRecord) else ClusterRecord(cluster=name)
        return self._clusters[name]

    async def _around(self, cluster: str) -> Around:
        """What the gates ask about a cluster; of its lease and controller this process knows only beside its agents."""
        if cluster not in self._arounds:
            rows = await self._history.incidents(open_only=True, cluster=cluster, limit=_OPEN)
            report = await self.report(cluster)
            self._arounds[cluster] = Around(
                lease=lease_seen(self._live.leases.get(cluster) if self._live else None, self.now),
                stopped=self._live.stopped_on(cluster) if self._live else report.begins_nothing if report else "",
                recoveries=recoveries_under_way(row.incident for row in rows),
            )
        return self._arounds[cluster]

    async def report(self, cluster: str) -> ClusterReport | None:
        """The newest look at a cluster."""
        if cluster not in self._reports:
            newest = self._live.reports.get(cluster) if self._live else None
            self._reports[cluster] = newest or await self._history.report(cluster)
        return self._reports[cluster]

    async def _views_of(self, cluster: str) -> dict[JobKey, JobView]:
        if cluster not in self._views:
            report = await self.report(cluster)
            self._views[cluster] = {view.job_key(cluster): view for view in report.jobs} if report else {}
        return self._views[cluster]

    async def _progress(self, keys: set[AttemptKey]) -> dict[AttemptKey, Progress]:
        found: dict[AttemptKey, Progress] = {}
        for key in keys:
            newest = self._live.progress.get(key) if self._live else None
            progress = newest or await self._history.progress(key)
            if progress is not None:
                found[key] = progress
        return found
