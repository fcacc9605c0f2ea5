"""Gathers what the report is made from: jobs, newest progress, and what is seen now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from relance.domain.events import AttemptMeasured
from relance.domain.keys import AttemptKey
from relance.domain.records import JobRecord
from relance.domain.trials import is_trial
from relance.ports.clocks import Clock
from relance.ports.histories import History
from relance.recovery.live import Live
from relance.recovery.measuring import kernel_logs_of, measure_of
from relance.recovery.proving.reports import Evidence, to_ask_for
from relance.recovery.sites import Site
from relance.recovery.subjects import NotKnownError

MOST_JOBS = 100_000
"""More jobs than this are not read: the newest count."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Of what the report is: since when, and of which cluster and partition (None: all)."""

    since: datetime
    cluster: str | None = None
    partition: str | None = None


async def gather(history: History, site: Site, live: Live | None, clock: Clock, scope: Scope) -> Evidence:
    """The jobs with an event in the window, and what else is needed of them.

    `live`, where the server's loop runs in this process, knows what is seen of attempts that still run. Raises
    NotKnownError for a cluster that has no history, or a partition that none of the jobs ran in.
    """
    if scope.cluster is not None:
        _is_among(scope.cluster, {record.cluster for record in await history.clusters()}, "cluster")
    found = await history.jobs(scope.cluster, limit=MOST_JOBS, changed_since=scope.since)
    records = tuple(record for record in found if not is_trial(record.name))
    if scope.partition is not None:
        _is_among(scope.partition, {record.partition for record in found}, "partition")
    asked = {key: await history.progress(key) for key in to_ask_for(records, scope.since)}
    now = clock.now()
    return Evidence(
        records=records,
        since=scope.since,
        now=now,
        cluster=scope.cluster,
        partition=scope.partition,
        progress={key: progress for key, progress in asked.items() if progress is not None},
        seen=_seen(records, site, live, now) if live is not None else {},
    )


def _seen(records: Iterable[JobRecord], site: Site, live: Live, now: datetime) -> dict[AttemptKey, AttemptMeasured]:
    """What is seen so far of attempts that run."""
    found: dict[AttemptKey, AttemptMeasured] = {}
    for record in records:
        last = record.attempts[-1] if record.attempts else None
        coverage = live.coverage.get(last.attempt) if last is not None and last.outcome is None else None
        if last is None or not coverage:
            continue
        kernel_logs = kernel_logs_of(record, last.attempt, site.rules(record.job.cluster))
        progress = live.progress.get(last.attempt)
        found[last.attempt] = measure_of(last.attempt, kernel_logs, coverage, progress, now)
    return found


def _is_among(name: str, known: set[str], kind: str) -> None:
    if name not in known:
        names = ", ".join(sorted(known)) or "none with a job in this time"
        raise NotKnownError(f"no such {kind}: {name!r}; known: {names}")
