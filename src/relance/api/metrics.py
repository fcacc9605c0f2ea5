"""Our own metrics. Counters and histograms are fed from the history, read on when somebody scrapes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from relance.api.provider_metrics import ProviderMetrics
from relance.domain import events as e
from relance.domain.clocks import (
    Milestones,
    time_to_action_s,
    time_to_detect_s,
    time_to_progress_s,
    time_to_step_s,
)
from relance.domain.incidents import Incident
from relance.domain.stages import Stage
from relance.recovery.figures import NOT_JUDGED
from relance.serving.feeds import Feeds
from relance.serving.parts import ServerParts
from relance.telemetry.schedulers import PROCESS_METRICS

CONTENT_TYPE = CONTENT_TYPE_LATEST
_PAGE = 500
_PAGES_A_SCRAPE = 40
"""A scrape reads at most 20 000 events; what is left shows as a backlog and is read by the next one."""
_SECONDS = (0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600, 1800, 3600)
_LATENCIES: tuple[tuple[str, str, Callable[[Milestones], float | None]], ...] = (
    ("relance_detect_seconds", "Symptom to stored finding (MTTD's term)", time_to_detect_s),
    ("relance_act_seconds", "Symptom to the scheduler's acceptance (time to action)", time_to_action_s),
    ("relance_step_seconds", "Symptom to the new attempt's first step (MTTR's term)", time_to_step_s),
    ("relance_progress_seconds", "Symptom to the first step beyond the highest before", time_to_progress_s),
)


class Metrics:
    """The metrics of one server since its start. Incidents count once, when they close."""

    def __init__(self, parts: ServerParts, feeds: Feeds) -> None:
        """Begin to count at the first call of `start` or `scrape`."""
        self._parts = parts
        self._feeds = feeds
        self._position: int | None = None
        self._turn = asyncio.Lock()
        self.registry = registry = CollectorRegistry()
        self._latencies = [
            (Histogram(name, text, ["domain"], buckets=_SECONDS, registry=registry), term)
            for name, text, term in _LATENCIES
        ]
        self._opened = Counter("relance_incidents_opened", "Incidents opened", registry=registry)
        self._closed = Counter("relance_incidents_closed", "Incidents closed", ["domain", "end"], registry=registry)
        self._advice = Counter("relance_advice", "Advice issued", ["action", "hold"], registry=registry)
        self._actions = Counter("relance_actions", "Actions ended", ["end"], registry=registry)
        self._open = Gauge("relance_incidents_open", "Incidents that are open", registry=registry)
        self._head = Gauge("relance_history_position", "Newest position of the history", registry=registry)
        self._read = Gauge("relance_metrics_position", "Position up to which these metrics count", registry=registry)
        self._overdue = Gauge(
            "relance_overdue_streams", "Streams whose timer has passed and that wait for the loop", registry=registry
        )
        self._streams = Gauge("relance_event_streams", "Open event streams", registry=registry)
        self._age = Gauge(
            "relance_report_age_seconds", "Age of a cluster's newest report", ["cluster"], registry=registry
        )
        self._stage = Gauge(
            "relance_cluster_stage", "Stage set: 0 off, 1 observe, 2 approve, 3 act", ["cluster"], registry=registry
        )
        self._storm = Gauge(
            "relance_storm_open", "1 while restarts wait for a shared cause", ["cluster"], registry=registry
        )
        self._lost = Gauge(
            "relance_source_lost", "1 while an agent or a source is lost", ["cluster", "source"], registry=registry
        )
        self._found = Counter(
            "relance_findings", "Findings stored", ["detector", "kind", "certainty"], registry=registry
        )
        self._providers = ProviderMetrics(parts.live, registry)

    async def start(self) -> None:
        """Count from the newest position on. Raises HistoryError."""
        if self._position is None:
            self._position = await self._parts.history.head()

    async def scrape(self) -> bytes:
        """Read on and give everything in the text format. Raises HistoryError."""
        async with self._turn:
            await self.start()
            await self._read_on()
            await self._look()
            return generate_latest(self.registry) + generate_latest(PROCESS_METRICS)

    async def _read_on(self) -> None:
        for _ in range(_PAGES_A_SCRAPE):
            page = await self._parts.history.follow(self._position or 0, _PAGE)
            for recorded in page:
                await self._count(recorded.event)
                self._position = recorded.position
            if len(page) < _PAGE:
                return

    async def _count(self, event: e.Event) -> None:
        match event:
            case e.IncidentOpened():
                self._opened.inc()
            case e.FindingReported():
                found = event.finding
                self._found.labels(found.detector, found.kind.value, found.certainty.value).inc()
            case e.AdviceIssued():
                self._advice.labels(event.advice.action.value, str(event.advice.hold).lower()).inc()
            case e.ActionEnded():
                self._actions.labels(type(event).__name__.removeprefix("Action").lower()).inc()
            case e.IncidentClosed():
                row = await self._parts.history.find_incident(event.incident_id)
                if row is not None:
                    self._count_closed(row.incident, event.end)
            case _:
                pass

    def _count_closed(self, incident: Incident, end: e.IncidentEnd) -> None:
        domain = incident.verdict.domain.value if incident.verdict else NOT_JUDGED
        self._closed.labels(domain, end.value).inc()
        for histogram, term in self._latencies:
            seconds = term(incident.times)
            if seconds is not None:
                histogram.labels(domain).observe(seconds)

    async def _look(self) -> None:
        history, now = self._parts.history, self._parts.clock.now()
        self._head.set(await history.head())
        self._read.set(self._position or 0)
        self._open.set(len(await history.incidents(open_only=True, limit=10_000)))
        self._overdue.set(len(await history.due(now)))
        self._streams.set(self._feeds.open)
        self._providers.look()
        self._lost.clear()
        for row in await self._parts.queries().stages():
            for source, _ in row.lost_sources:
                self._lost.labels(row.cluster, source).set(1)
            stage = row.setting.stage if row.setting else Stage.OBSERVE
            self._stage.labels(row.cluster).set(stage.rank)
            self._storm.labels(row.cluster).set(row.storm_is_open)
            if row.report_age_s is not None:
                self._age.labels(row.cluster).set(row.report_age_s)
