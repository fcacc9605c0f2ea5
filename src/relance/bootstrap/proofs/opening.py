"""From a cluster's settings to its sources, ready to be asked, and the checks run over them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from relance.bootstrap.controllers import scheduler_of, slurm_settings
from relance.bootstrap.proofs.asking_metrics import MetricProbe, Sample
from relance.bootstrap.proofs.facts import Filter
from relance.bootstrap.proofs.markers import MarkerCheck, check_marker
from relance.bootstrap.proofs.rows import Level, Row, SignalCheck, place_of
from relance.bootstrap.proofs.signals import Opened, Question, check_signals
from relance.bootstrap.senses import log_store_of
from relance.bootstrap.stores import exchange_of
from relance.config import ClusterSettings, SettingError
from relance.config.settings import LocalSchedulerSettings
from relance.config.sources import FilesSettings, LogStoreSettings, MetricStoreSettings, StoreSettings
from relance.controllers.local.markers import LocalMarkerJob
from relance.controllers.slurm.markers import SlurmMarkerJob
from relance.domain.faults import Scope
from relance.ports.clocks import Clock, SystemClock
from relance.ports.markers import MarkerJob
from relance.progress.wanted import wanted_patterns
from relance.rules import Pack
from relance.rules.metric_queries import Naming
from relance.rules.pushdown import Prefilter
from relance.sources.exchanges import Exchange, StoreRefusedError
from relance.sources.files.settings import FileSettings
from relance.sources.files.sources import FileSource
from relance.sources.metrics.clients import MetricClient
from relance.sources.stores.wanted import wanted_of
from relance.sources.turns import Turns

_T = TypeVar("_T")
_Settings = TypeVar("_Settings", bound=StoreSettings)
_BUILD = "/api/v1/status/buildinfo"


def run_signals(cluster: ClusterSettings, pack: Pack, question: Question) -> SignalCheck:
    """Open what the settings name, ask, close. What cannot be opened is a row of the answer."""
    clock = SystemClock()
    own, kernel = filters_of(cluster, pack)

    async def check(opened: Opened) -> SignalCheck:
        with_filters = replace(opened, own_filter=own, kernel_filter=kernel)
        return await check_signals(cluster, pack, question, with_filters, clock)

    return asyncio.run(with_opened(cluster, clock, check))


def filters_of(cluster: ClusterSettings, pack: Pack) -> tuple[Filter | None, Filter | None]:
    """What the watcher asks log stores for, of jobs' and of kernel lines; None where there is no log store."""
    if not any(isinstance(each, LogStoreSettings) for each in cluster.logs):
        return None, None
    wanted = wanted_of(pack)
    also = [pattern for each in cluster.progress_patterns.values() for pattern in wanted_patterns(each)]
    return (
        Filter(kind="lines of jobs", lines=wanted.lines(Scope.APPLICATION, also), unfit=_unfit(wanted.own)),
        Filter(kind="kernel lines", lines=wanted.lines(Scope.KERNEL, ()), unfit=_unfit(wanted.kernel)),
    )


def _unfit(found: Prefilter | None) -> tuple[str, ...]:
    return found.unfit if found is not None else ()


def run_marker(cluster: ClusterSettings, timeout_s: float, *, partition: str = "", output: str = "") -> MarkerCheck:
    """Send a marker through a cluster. Raises SettingError where the settings do not say how to reach its scheduler."""
    clock = SystemClock()
    marker = marker_of(cluster, partition, output)

    async def check(opened: Opened) -> MarkerCheck:
        try:
            return await check_marker(cluster, opened, marker, clock, timeout_s)
        finally:
            await marker.close()

    return asyncio.run(with_opened(cluster, clock, check))


def marker_of(cluster: ClusterSettings, partition: str, output: str) -> MarkerJob:
    """The job of a marker on this cluster's scheduler. Raises SettingError where there is none in the settings."""
    if cluster.scheduler is None:
        message = f"cluster {cluster.name} has no scheduler in the settings: say how to reach it"
        raise SettingError(message)
    if isinstance(cluster.scheduler, LocalSchedulerSettings):
        return LocalMarkerJob(state_dir=cluster.scheduler.state_dir, partition=partition, output=output)
    return SlurmMarkerJob(slurm_settings(cluster, cluster.scheduler), partition=partition, output=output)


async def with_opened(cluster: ClusterSettings, clock: Clock, use: Callable[[Opened], Awaitable[_T]]) -> _T:
    """Do something with the sources of a cluster, and close them."""
    opened = open_sources(cluster, clock)
    try:
        return await use(opened)
    finally:
        await opened.close()


def open_sources(cluster: ClusterSettings, clock: Clock) -> Opened:
    """The sources of a cluster; nothing is asked yet."""
    broken: list[Row] = []
    scheduler = None if cluster.scheduler is None else scheduler_of(cluster, cluster.scheduler, clock)
    by_files = any(isinstance(each, FilesSettings) for each in cluster.logs)
    files = FileSource(FileSettings(roots=tuple(map(str, cluster.log_roots))), clock) if by_files else None
    stores = [each for each in cluster.logs if isinstance(each, LogStoreSettings)]
    logs = tuple(_opened(stores, log_store_of, broken))
    metrics = tuple(_opened(cluster.metrics, lambda settings: PrometheusProbe(settings, clock), broken))
    closing = [each.close for each in (scheduler, files) if each is not None]
    closing += [store.close for _, store in logs] + [probe.close for _, probe in metrics]
    return Opened(
        scheduler=scheduler, files=files, logs=logs, metrics=metrics, broken=tuple(broken), closing=tuple(closing)
    )


def _opened(
    every: Iterable[_Settings], open_one: Callable[[_Settings], _T], broken: list[Row]
) -> Iterator[tuple[_Settings, _T]]:
    """Each with its settings; one that cannot be opened becomes a row instead."""
    for settings in every:
        try:
            yield settings, open_one(settings)
        except SettingError as error:
            text, remedy = f"it cannot be opened with these settings: {error}", "mend the settings of this source"
            broken.append(
                Row(
                    source=settings.called, name="answers", level=Level.BAD, read=place_of(settings.url), means=text,
                    remedy=remedy,
                )
            )  # fmt: skip


class PrometheusProbe(MetricProbe):
    """What a check asks of Prometheus or VictoriaMetrics."""

    def __init__(self, settings: MetricStoreSettings, clock: Clock) -> None:
        """Raises SettingError for a secret or certificate that cannot be used."""
        self._exchange: Exchange = exchange_of(settings)
        self._client = MetricClient(self._exchange, Turns(settings.requests_per_s, clock))
        self._match = Naming(match=settings.match).braces({}) if settings.match else ""

    async def version(self) -> str:
        """Its version, where it says one; raises StoreError when nobody answers."""
        try:
            answer = self._exchange.document(await self._exchange.get(_BUILD))
        except StoreRefusedError:
            return ""
        data = answer.get("data") if isinstance(answer, Mapping) else None
        return str(data.get("version", ""))[:60] if isinstance(data, Mapping) else ""

    async def names(self) -> frozenset[str]:
        """The names of all series of this cluster."""
        return await self._client.names(self._match)

    async def vector(self, query: str, at_s: float) -> Sequence[Sample]:
        """Labels and value of each sample."""
        found = await self._client.vector(query, at_s)
        return list(zip(found.labels, found.values, strict=True))

    async def close(self) -> None:
        """Give the connections back."""
        await self._client.close()
