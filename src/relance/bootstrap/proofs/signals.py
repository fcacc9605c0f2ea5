"""`relance check signals`: every source of a cluster is asked, and what they said is judged together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from relance.bootstrap.proofs.asking_files import ask_files
from relance.bootstrap.proofs.asking_logs import Asked, ask_log_store
from relance.bootstrap.proofs.asking_metrics import MetricProbe, ask_metric_store
from relance.bootstrap.proofs.easing import eased
from relance.bootstrap.proofs.facts import FileFacts, Filter, LogFacts, MetricFacts, WantedJob
from relance.bootstrap.proofs.file_rows import file_rows
from relance.bootstrap.proofs.jobs import assignment_of, chosen, nodes_at_work, wanted_job
from relance.bootstrap.proofs.log_rows import log_rows
from relance.bootstrap.proofs.metric_rows import metric_rows
from relance.bootstrap.proofs.node_names import NodeNames, names_row
from relance.bootstrap.proofs.rows import Level, Row, SignalCheck
from relance.bootstrap.proofs.rule_outlooks import Sources, outlook
from relance.bootstrap.sites import rules_of
from relance.config import ClusterSettings
from relance.config.sources import LogStoreSettings, MetricStoreSettings
from relance.domain.faults import Scope
from relance.domain.findings import Sight
from relance.domain.views import ClusterReport, JobView
from relance.ports.clocks import Clock
from relance.ports.schedulers import Scheduler, SchedulerError
from relance.ports.sources import Source
from relance.recovery import wordings
from relance.rules import Pack
from relance.sources.stores.backs import LogStore

SCHEDULER = "scheduler"
_MATTER_MOST = (
    "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "node_memory_MemAvailable_bytes", "node_infiniband_state_id",
)  # fmt: skip
"""Series by which a store is looked at closely, before any other that a rule asks of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The sources of a cluster, ready to be asked; `closing` gives back what they hold.

    `broken` are those that could not be opened, each as its row.
    """

    scheduler: Scheduler | None = None
    files: Source | None = None
    logs: tuple[tuple[LogStoreSettings, LogStore], ...] = ()
    metrics: tuple[tuple[MetricStoreSettings, MetricProbe], ...] = ()
    broken: tuple[Row, ...] = ()
    own_filter: Filter | None = None
    """What the rules ask log stores for, of jobs' lines."""
    kernel_filter: Filter | None = None
    closing: tuple[Callable[[], Awaitable[None]], ...] = ()

    async def close(self) -> None:
        """Close everything."""
        for close in self.closing:
            await close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked: one job (or a few that run), how far back, and how long new lines are watched for, in seconds."""

    job: str | None = None
    since_s: float = 3600.0
    watch_s: float = 5.0


async def check_signals(
    cluster: ClusterSettings, pack: Pack, question: Question, opened: Opened, clock: Clock
) -> SignalCheck:
    """Ask all sources, and judge. Nothing is changed anywhere."""
    rules = rules_of(cluster)
    report, seen = await _look(opened.scheduler)
    views = () if report is None else chosen(report, question.job, clock.now())
    jobs = tuple(wanted_job(view, rules) for view in views)
    if question.job is not None and not jobs:
        jobs = (WantedJob(raw_id=question.job, is_known=False),)
    names = frozenset() if report is None else frozenset(node.name for node in report.nodes)
    asked = Asked(
        cluster=cluster.name, since_s=question.since_s, watch_s=question.watch_s, jobs=jobs, scheduler_nodes=names,
        own_filter=opened.own_filter, kernel_filter=opened.kernel_filter,
    )  # fmt: skip
    wanted = wanted_series(pack)
    logs, metrics, files = await asyncio.gather(
        asyncio.gather(*(ask_log_store(store, settings, asked, clock) for settings, store in opened.logs)),
        asyncio.gather(
            *(ask_metric_store(probe, settings, wanted, asked, clock) for settings, probe in opened.metrics)
        ),
        _ask_files(opened.files, cluster, views, clock),
    )
    at_work = frozenset() if report is None else nodes_at_work(report, views)
    now, rows = clock.now(), [*seen, _jobs_row(question, report, jobs), *opened.broken]
    for file_facts in files:
        rows += file_rows("files", file_facts, now)
    for (settings, _), found in zip(opened.logs, logs, strict=True):
        rows += [*log_rows(settings.called, settings, found, now), *_names_in_logs(settings, found, names)]
    for (metric_settings, _), told in zip(opened.metrics, metrics, strict=True):
        rows += metric_rows(metric_settings.called, metric_settings, told, frozenset(wanted), now)
        rows += _names_in_metrics(metric_settings, told, names, at_work)
    return SignalCheck(
        cluster=cluster.name,
        since_s=question.since_s,
        jobs=tuple(job.raw_id for job in jobs),
        rows=eased(rows, [settings for settings, _ in opened.logs], [job.raw_id for job in jobs]),
        rules=outlook(pack, _sources(cluster, opened, files, logs, metrics)),
    )


def wanted_series(pack: Pack) -> tuple[str, ...]:
    """The names of all series that rules ask of, those that matter most first."""
    every = {name for rule in pack.metrics for name in rule.names}
    return (*(name for name in _MATTER_MOST if name in every), *sorted(every - set(_MATTER_MOST)))


async def _look(scheduler: Scheduler | None) -> tuple[ClusterReport | None, list[Row]]:
    if scheduler is None:
        text = "the settings do not say how to reach it, so jobs and nodes are known by the sources alone"
        remedy = "add `scheduler` to this cluster, or run this on the controller's host"
        return None, [
            Row(source=SCHEDULER, name="answers", level=Level.WARN, read="-", means=text, remedy=remedy)
        ]  # fmt: skip
    try:
        report = await scheduler.look()
    except SchedulerError as error:
        text = f"it does not answer, so jobs and names of nodes are not known: {error}"
        remedy = "see that this host reaches it: `relance check cluster`"
        return None, [
            Row(source=SCHEDULER, name="answers", level=Level.BAD, read="-", means=text, remedy=remedy)
        ]  # fmt: skip
    read = f"{wordings.count(len(report.jobs), 'job')}, {wordings.count(len(report.nodes), 'node')}"
    return report, [Row(source=SCHEDULER, name="answers", level=Level.OK, read=read, means="it answers")]


def _jobs_row(question: Question, report: ClusterReport | None, jobs: Sequence[WantedJob]) -> Row:
    if question.job is not None:
        known = jobs[0].is_known
        level = Level.OK if known or report is None else Level.WARN
        text = "looked for by its id" if known else "the scheduler does not know it (any more); its id is looked for"
        remedy = "" if level is Level.OK else "see that the id is right: squeue"
        return Row(
            source=SCHEDULER, name="jobs", level=level, read=f"job {question.job}", means=text, remedy=remedy
        )  # fmt: skip
    if not jobs:
        why = "no job runs" if report is not None else "without the scheduler no running job is known"
        text = f"{why}, so whether lines of jobs arrive cannot be told"
        remedy = "name one that ran: --job ID; or send a line through: `relance check marker`"
        return Row(source=SCHEDULER, name="jobs", level=Level.WARN, read="none", means=text, remedy=remedy)
    read = ", ".join(job.raw_id for job in jobs)
    return Row(source=SCHEDULER, name="jobs", level=Level.OK, read=read, means="these running jobs are looked for")


async def _ask_files(
    source: Source | None, cluster: ClusterSettings, views: Sequence[JobView], clock: Clock
) -> tuple[FileFacts, ...]:  # fmt: skip
    if source is None:
        return ()
    rules = rules_of(cluster)
    return tuple([
        await ask_files(source, wanted_job(view, rules), assignment_of(view, cluster.name, rules), clock)
        for view in views
    ])  # fmt: skip


def _names_in_logs(settings: LogStoreSettings, found: LogFacts, names: frozenset[str]) -> Iterable[Row]:
    if found.failure is not None or not settings.node_label or settings.node_label not in found.labels:
        return
    lines = [*found.jobs, *([found.kernel] if found.kernel is not None else [])]
    # A store may have other clusters' nodes too: those on lines of this one say more than all that it has.
    values = frozenset(node for each in lines for node in each.nodes) or frozenset(found.nodes)
    told = NodeNames(source=settings.called, label=settings.node_label, template=settings.node_value, values=values)
    yield names_row(told, names)


def _names_in_metrics(
    settings: MetricStoreSettings, found: MetricFacts, names: frozenset[str], at_work: frozenset[str]
) -> Iterable[Row]:  # fmt: skip
    if found.failure is not None or not found.series:
        return
    label = found.node_label or "node_label"
    told = NodeNames(
        source=settings.called, label=label, template=settings.node_value, values=frozenset(found.nodes),
        wanted=at_work, drops_port=True,
    )  # fmt: skip
    yield names_row(told, names)


def _sources(
    cluster: ClusterSettings, opened: Opened, files: Sequence[FileFacts], logs: Sequence[LogFacts],
    metrics: Sequence[MetricFacts],
) -> Sources:  # fmt: skip
    kinds = [_of_files(cluster, files)] if opened.files is not None else []
    kinds += [_of_store(settings, found) for (settings, _), found in zip(opened.logs, logs, strict=True)]
    given = {scope for each in kinds for scope, delivers in each.items() if delivers}
    named = {scope for each in kinds for scope in each}
    if cluster.evidence.collect:
        given.add(Scope.TRACES)
    return Sources(
        scopes=frozenset(given),
        lost=frozenset(named - given),
        series=frozenset(name for found in metrics for name in found.names) if cluster.metrics else None,
        metrics_lost=any(found.failure is not None for found in metrics) or len(metrics) < len(cluster.metrics),
    )


def _of_files(cluster: ClusterSettings, files: Sequence[FileFacts]) -> dict[Scope, bool]:
    """The kinds of logs that are read as files, and whether they can be; where no job was looked at it is believed."""
    kinds = {Scope.APPLICATION: True}
    if cluster.kernel_log:
        seen = [each for found in files for each in found.coverage if each.source in found.kernel_paths]
        kinds[Scope.KERNEL] = not seen or any(each.sight in (Sight.SEEN, Sight.LAGGING) for each in seen)
    return kinds


def _of_store(settings: LogStoreSettings, found: LogFacts) -> dict[Scope, bool]:
    """The kinds of logs that a store should have, and whether it has their labels."""
    kinds = {Scope.APPLICATION: settings.job_label in found.labels}
    if settings.kernel_match:
        kinds[Scope.KERNEL] = settings.kernel_match.keys() <= found.labels
    return kinds
