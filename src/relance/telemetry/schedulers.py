"""Our own figures of what is asked of a scheduler: how often, how long it takes, how often nothing came of it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

PROCESS_METRICS = CollectorRegistry()
"""What this process counts by itself, beside what a server counts from its history; `GET /metrics` gives both."""
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10)

_requests = Counter(
    "relance_scheduler_requests", "Commands run for the scheduler", ["cluster", "kind"], registry=PROCESS_METRICS
)
_failures = Counter(
    "relance_scheduler_failures",
    "Commands that brought no answer that can be used",
    ["cluster", "kind"],
    registry=PROCESS_METRICS,
)
_answer = Histogram(
    "relance_scheduler_answer_seconds",
    "From the start of a command to its answer",
    ["cluster", "kind"],
    buckets=_SECONDS,
    registry=PROCESS_METRICS,
)
_interval = Gauge(
    "relance_scheduler_interval_seconds",
    "How long is waited at least between two such commands; doubled while answers are slow",
    ["cluster", "kind"],
    registry=PROCESS_METRICS,
)
_token_left = Gauge(
    "relance_scheduler_token_left_seconds",
    "How long the token for the scheduler is still good; negative: it has expired",
    ["cluster"],
    registry=PROCESS_METRICS,
)
_waited = Counter(
    "relance_scheduler_waited_seconds", "Time that commands waited for their budget", ["cluster"],
    registry=PROCESS_METRICS,
)  # fmt: skip


class SchedulerMeter:
    """The figures of one cluster's scheduler. Durations in seconds."""

    def __init__(self, cluster: str) -> None:
        """Count under this cluster's name."""
        self._cluster = cluster

    def asked(self, kind: str, seconds: float, *, failed: bool) -> None:
        """A command of this kind ended after so long."""
        _requests.labels(self._cluster, kind).inc()
        _answer.labels(self._cluster, kind).observe(seconds)
        if failed:
            _failures.labels(self._cluster, kind).inc()

    def interval(self, kind: str, seconds: float) -> None:
        """The interval that commands of this kind keep now."""
        _interval.labels(self._cluster, kind).set(seconds)

    def token_left(self, seconds: float) -> None:
        """The token for the scheduler is good for so long."""
        _token_left.labels(self._cluster).set(seconds)

    def waited(self, seconds: float) -> None:
        """A command waited for its budget."""
        _waited.labels(self._cluster).inc(seconds)
