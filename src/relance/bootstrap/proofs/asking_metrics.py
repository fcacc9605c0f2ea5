"""Asks a metric store what a check of signals wants to know: a few queries that count, and no answer raises."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from relance.bootstrap.proofs.asking_logs import Asked, failure_of
from relance.bootstrap.proofs.facts import Failure, MetricFacts, SeriesFacts
from relance.config.sources import MetricStoreSettings, ProgressSeriesSettings
from relance.ports.clocks import Clock
from relance.rules.metric_queries import DEFAULT_NODE_LABELS, Naming
from relance.sources.templates import job_value

CLOSELY = 12
"""Of so many series it is asked how they stand; they are the first of those wanted that are there."""
LOOK_BACK_S = 300.0
"""A query gives the last sample of the five minutes before its time: asked for five minutes from now, the future's."""
Sample = tuple[Mapping[str, str], float]


class MetricProbe(Protocol):
    """What is asked of a metric store. Every call may raise `relance.sources.exchanges.StoreError`."""

    async def version(self) -> str:
        """What the store says that it is."""
        ...

    async def names(self) -> frozenset[str]:
        """The names of all series of this cluster."""
        ...

    async def vector(self, query: str, at_s: float) -> Sequence[Sample]:
        """What a query gives at a time, in seconds since 1970: labels and value of each sample."""
        ...


async def ask_metric_store(
    probe: MetricProbe, settings: MetricStoreSettings, wanted: Sequence[str], asked: Asked, clock: Clock
) -> MetricFacts:
    """What a store says about the series of these names, those that matter most first."""
    try:
        version, names = await probe.version(), await probe.names()
    except Exception as error:  # noqa: BLE001 - whatever a server sends, it is a row of the table and no traceback
        return MetricFacts(failure=failure_of(error))
    asker = _Asker(probe, settings, clock)
    there = [name for name in dict.fromkeys(wanted) if name in names][:CLOSELY]
    series = {name: found for name in there if (found := await asker.series(name)) is not None}
    nodes = await asker.nodes(there)
    label = settings.node_label or next((label for label in DEFAULT_NODE_LABELS if nodes.get(label)), "")
    progress = {
        job.raw_id: await asker.progress(settings.progress, asked.cluster, job.raw_id)
        for job in asked.jobs
        if settings.progress is not None
    }
    return MetricFacts(
        version=version,
        names=names,
        series=series,
        node_label=label,
        nodes=tuple(sorted(nodes.get(label, ()))),
        progress=progress,
        problems=tuple(asker.problems),
    )


class _Asker:
    def __init__(self, probe: MetricProbe, settings: MetricStoreSettings, clock: Clock) -> None:
        self._probe = probe
        self._settings = settings
        self._naming = Naming(match=settings.match)
        self._now_s = clock.now().timestamp()
        self.problems: list[Failure] = []

    async def series(self, name: str) -> SeriesFacts | None:
        """How the series of a name stand; None: none has a sample now, or it cannot be asked."""
        one, now_s = self._naming.selector(name), self._now_s
        count = await self._number(f"count({one})", now_s)
        later = await self._number(f"count({one})", now_s + LOOK_BACK_S)
        if not count and not later:
            return None
        return SeriesFacts(
            count=int(count or 0),
            newest_s=await self._number(f"max(timestamp({one}))", now_s),
            not_numbers=int(await self._number(f"count({one} != {one})", now_s) or 0),
            from_future=int(later or 0),
        )

    async def nodes(self, names: Sequence[str]) -> dict[str, set[str]]:
        """The values of the labels that may name nodes, by label."""
        labels = (self._settings.node_label,) if self._settings.node_label else DEFAULT_NODE_LABELS
        found: dict[str, set[str]] = {}
        for name in names:
            grouped = f"count by ({', '.join(labels)}) ({self._naming.selector(name)})"
            for sample, _ in await self._vector(grouped, self._now_s):
                # The first label that a series has is its node's, as when it is followed.
                first = next((label for label in labels if sample.get(label)), None)
                if first is not None:
                    found.setdefault(first, set()).add(sample[first])
        return found

    async def progress(self, settings: ProgressSeriesSettings, cluster: str, raw_id: str) -> dict[str, int]:
        """How many series of progress there are of a job, by name."""
        value = job_value(settings.job_value, cluster, raw_id)
        names = (settings.step, settings.loss, settings.grad_norm, settings.step_time_s, settings.throughput)
        of_job = {settings.job_label: value}
        return {
            name: int(await self._number(f"count({self._naming.selector(name, of_job)})", self._now_s) or 0)
            for name in names
            if name
        }

    async def _number(self, query: str, at_s: float) -> float | None:
        for _, value in await self._vector(query, at_s):
            return value if math.isfinite(value) else None
        return None

    async def _vector(self, query: str, at_s: float) -> Sequence[Sample]:
        try:
            return await self._probe.vector(query, at_s)
        except Exception as error:  # noqa: BLE001 - as above
            failure = failure_of(error)
            if failure not in self.problems:
                self.problems.append(failure)
            return ()
