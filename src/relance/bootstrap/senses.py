"""From a cluster's settings to the sources of its logs and signals, ready to be followed."""

from __future__ import annotations

from relance.bootstrap.stores import exchange_of, exchange_settings_of, refusals
from relance.config import ClusterSettings
from relance.config.sources import FilesSettings, LogSourceSettings, LogStoreSettings, MetricStoreSettings
from relance.ports.clocks import Clock
from relance.ports.signals import SignalSource
from relance.ports.sources import Source
from relance.rules import Pack
from relance.sources.files.settings import FileSettings
from relance.sources.files.sources import FileSource
from relance.sources.loki.stores import LokiStore
from relance.sources.metrics.settings import MetricSettings, ProgressSeries
from relance.sources.metrics.sources import MetricSource
from relance.sources.stores.backs import LogStore
from relance.sources.stores.settings import StoreSourceSettings
from relance.sources.stores.sources import StoreSource
from relance.sources.stores.wanted import Wanted, wanted_of
from relance.sources.victorialogs.stores import VictoriaLogsStore
from relance.watching.senses import Senses


def open_senses(cluster: ClusterSettings, pack: Pack, clock: Clock) -> Senses:
    """The sources of a cluster. Raises SettingError for a secret or certificate that cannot be used."""
    wanted: Wanted | None = None
    if any(isinstance(each, LogStoreSettings) for each in cluster.logs):
        wanted = wanted_of(pack)
    return Senses(
        logs=tuple(_log_source(each, cluster, wanted, clock) for each in cluster.logs),
        signals=tuple(metric_source_of(each, pack, clock) for each in cluster.metrics),
    )


def _log_source(settings: LogSourceSettings, cluster: ClusterSettings, wanted: Wanted | None, clock: Clock) -> Source:
    if isinstance(settings, FilesSettings):
        return FileSource(FileSettings(roots=tuple(str(root) for root in cluster.log_roots)), clock)
    filtered = wanted if settings.prefilter else None
    return StoreSource(log_store_of(settings), store_settings_of(settings), filtered, clock=clock)


def log_store_of(settings: LogStoreSettings) -> LogStore:
    """What talks to a log store. Raises SettingError for a secret or certificate that cannot be used."""
    exchange = exchange_of(settings)
    return LokiStore(exchange) if settings.kind == "loki" else VictoriaLogsStore(exchange)


def store_settings_of(settings: LogStoreSettings) -> StoreSourceSettings:
    """How a log store is read."""
    return StoreSourceSettings(
        name=settings.called,
        match=settings.match,
        job_label=settings.job_label,
        job_value=settings.job_value,
        node_label=settings.node_label,
        node_value=settings.node_value,
        rank_label=settings.rank_label,
        kernel_match=settings.kernel_match,
        poll_s=settings.poll_s,
        delay_s=settings.delay_s,
        requests_per_s=settings.requests_per_s,
    )


def metric_source_of(settings: MetricStoreSettings, pack: Pack, clock: Clock) -> SignalSource:
    """A metric store as a source of signals. Raises SettingError for a secret or certificate that cannot be used."""
    series = settings.progress
    wanted = MetricSettings(
        exchange=exchange_settings_of(settings),
        name=settings.called,
        match=settings.match,
        node_label=settings.node_label,
        node_value=settings.node_value,
        poll_s=settings.poll_s,
        requests_per_s=settings.requests_per_s,
        progress=None if series is None else ProgressSeries(**series.model_dump()),
    )
    with refusals():
        return MetricSource(wanted, pack.metrics, clock)
