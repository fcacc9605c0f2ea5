"""Asks a log store what a check of signals wants to know: bounded in lines and calls, and no answer raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from relance.bootstrap.proofs.facts import (
    Clue,
    Failure,
    Filter,
    FilterFacts,
    JobLines,
    LagFacts,
    LogFacts,
    StepFacts,
    WantedJob,
)
from relance.bootstrap.proofs.node_names import template_for
from relance.bootstrap.proofs.steps import steps_of
from relance.config.sources import LogStoreSettings
from relance.domain.faults import Scope
from relance.domain.observations import LogBlock
from relance.ports.clocks import Clock
from relance.progress import PatternError
from relance.sources.exchanges import StoreError
from relance.sources.stores.backs import Entry, LogStore, Selection
from relance.sources.stores.times import NS_PER_S, ns_of, span_ns
from relance.sources.templates import job_value

AHEAD_S = 3600.0
"""Lines from the future are looked for so far ahead."""
FUTURE_S = 5.0
"""Clocks that differ by less are no wrong times."""
LINES = 2000
"""Of one job, the newest."""
VALUES = 2000
"""Of one label."""
_LABELS_TRIED = 40
_KERNEL_LINES = 200
_BASELINES_S = (120.0, 20.0, 5.0)
_WATCHED_LINES = 4000
_POLL_S = 1.0
_FILTERED_S = 300.0
_NAMED = {"raw_id": "job", "node": "node"}
_FILTERED_LINES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is wanted of every store: how far back, which jobs, and how long to watch for late lines, in seconds."""

    cluster: str
    since_s: float
    watch_s: float
    jobs: tuple[WantedJob, ...]
    scheduler_nodes: frozenset[str] = frozenset()
    own_filter: Filter | None = None
    """What the rules ask for of jobs' lines."""
    kernel_filter: Filter | None = None
    """What they ask for of kernel lines."""


def failure_of(error: Exception) -> Failure:
    """An error as a failure; one that nobody thought of is told by its kind."""
    if isinstance(error, StoreError):
        return Failure(why=str(error), remedy=error.remedy)
    return Failure(why=f"what came could not be read ({type(error).__name__}: {error})"[:300])


async def ask_log_store(store: LogStore, settings: LogStoreSettings, asked: Asked, clock: Clock) -> LogFacts:
    """What a store says."""
    asker = _Asker(store, settings, asked, clock)
    try:
        begun = clock.now()
        version = await store.version()
        ahead_s = _ahead_s(store.told_at, begun, clock.now())
        labels = await store.label_names(asker.since_ns)
        nodes = await asker.values(settings.node_label, labels)
        found = LogFacts(version=version, labels=labels, nodes=nodes, clock_ahead_s=ahead_s)
    except Exception as error:  # noqa: BLE001 - whatever a server sends, it is a row of the table and no traceback
        return LogFacts(failure=failure_of(error))
    jobs = tuple([await asker.job(job) for job in asked.jobs])
    found = replace(found, jobs=jobs)
    if any(not each.lines and each.failure is None for each in jobs):
        found = replace(found, job_clue=await asker.clue_of_jobs(labels))
    if settings.node_label and settings.node_label not in labels:
        found = replace(found, node_clue=await asker.clue_of_nodes(labels))
    if settings.kernel_match:
        found = replace(found, kernel=await asker.kernel())
    found = replace(found, filters=await asker.filters())
    if asked.watch_s > 0 and any(each.lines for each in jobs):
        found = replace(found, lag=await asker.lag([each for each in jobs if each.lines]))
    return found


def _ahead_s(told: datetime | None, begun: datetime, ended: datetime) -> float | None:
    """How far a clock is ahead, at least, that told its time, cut to seconds, between two times of ours."""
    if told is None:
        return None
    behind_s = (begun - told).total_seconds() - 1.0
    return -behind_s if behind_s > 0 else max((told - ended).total_seconds(), 0.0)


class _Asker:
    def __init__(self, store: LogStore, settings: LogStoreSettings, asked: Asked, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._asked = asked
        self._clock = clock
        self._now = clock.now()
        self.since_ns = _ns(self._now, -asked.since_s)

    async def values(self, label: str, labels: frozenset[str]) -> tuple[str, ...]:
        if not label or label not in labels:
            return ()
        return await self._store.label_values(label, self.since_ns, VALUES)

    async def job(self, job: WantedJob) -> JobLines:
        settings = self._settings
        value = job_value(settings.job_value, self._asked.cluster, job.raw_id)
        wanted = Selection(labels={**_exactly(settings.match), settings.job_label: (value,)})
        try:
            entries = await self._newest(wanted, LINES)
            progress = self._steps(job, entries)
        except PatternError as error:
            return JobLines(job=job, value=value, failure=Failure(why=str(error), remedy=error.remedy))
        except Exception as error:  # noqa: BLE001 - as above
            return JobLines(job=job, value=value, failure=failure_of(error))
        return replace(self._lines(job, value, entries), progress=progress, is_whole=len(entries) < LINES)

    async def kernel(self) -> JobLines:
        settings, nobody = self._settings, WantedJob(raw_id="")
        wanted = Selection(labels={**_exactly(settings.match), **_exactly(settings.kernel_match)})
        try:
            entries = await self._newest(wanted, _KERNEL_LINES)
        except Exception as error:  # noqa: BLE001 - as above
            return JobLines(job=nobody, value="", failure=failure_of(error))
        return replace(self._lines(nobody, "", entries), is_whole=len(entries) < _KERNEL_LINES)

    async def filters(self) -> tuple[FilterFacts, ...]:
        """Whether the store takes what the rules ask for, as a watcher asks for it."""
        settings, asked = self._settings, self._asked
        values = tuple(job_value(settings.job_value, asked.cluster, job.raw_id) for job in asked.jobs)
        wanted = (
            (asked.own_filter, {settings.job_label: values}, bool(values)),
            (asked.kernel_filter, _exactly(settings.kernel_match), bool(settings.kernel_match)),
        )
        since_ns = _ns(self._now, -min(asked.since_s, _FILTERED_S))
        found = []
        for each, labels, is_wanted in wanted:
            if each is None or not is_wanted:
                continue
            selection = Selection(labels={**_exactly(settings.match), **labels}, lines=each.lines)
            begun_s = self._clock.monotonic()
            try:
                await self._store.page(selection, since_ns, _ns(self._now, 0.0), _FILTERED_LINES)
            except Exception as error:  # noqa: BLE001 - as above
                found.append(FilterFacts(filter=each, failure=failure_of(error)))
            else:
                found.append(FilterFacts(filter=each, took_s=self._clock.monotonic() - begun_s))
        return tuple(found)

    async def clue_of_jobs(self, labels: frozenset[str]) -> Clue | None:
        """The label whose values are made of the jobs' ids."""
        return await self._clue(labels, frozenset(job.raw_id for job in self._asked.jobs), "raw_id")

    async def clue_of_nodes(self, labels: frozenset[str]) -> Clue | None:
        """The label whose values are made of the scheduler's names of nodes."""
        return await self._clue(labels, self._asked.scheduler_nodes, "node")

    async def lag(self, jobs: Sequence[JobLines]) -> LagFacts:
        """Watch for new lines, and see how old each is when it is there first."""
        settings, watch_s = self._settings, self._asked.watch_s
        values = tuple(lines.value for lines in jobs)
        wanted = Selection(labels={**_exactly(settings.match), settings.job_label: values})
        lags: list[float] = []
        try:
            for back_s in _BASELINES_S:  # less of the past where there is much of it
                since_ns = _ns(self._clock.now(), -back_s)
                seen = frozenset(await self._entries(wanted, since_ns))
                if len(seen) < _WATCHED_LINES / 2:
                    break
            else:
                return LagFacts(watched_s=0.0, why_not="there are too many lines to tell new ones from old ones")
            begun_s = self._clock.monotonic()
            while self._clock.monotonic() - begun_s < watch_s:
                await self._clock.sleep(_POLL_S)
                current, now = await self._entries(wanted, since_ns), self._clock.now()
                lags += [
                    max(now.timestamp() - at_ns / NS_PER_S, 0.0) for at_ns, line in current if (at_ns, line) not in seen
                ]
                seen |= frozenset(current)
        except Exception as error:  # noqa: BLE001 - as above
            return LagFacts(watched_s=watch_s, why_not=f"it could not be watched: {failure_of(error).why}")
        return LagFacts(watched_s=watch_s, lags_s=tuple(lags))

    async def _entries(self, wanted: Selection, since_ns: int) -> list[tuple[int, bytes]]:
        entries = await self._store.newest(wanted, since_ns, _ns(self._clock.now(), AHEAD_S), _WATCHED_LINES)
        return [(entry.at_ns, entry.line) for entry in entries]

    async def _newest(self, wanted: Selection, at_most: int) -> tuple[Entry, ...]:
        return await self._store.newest(wanted, self.since_ns, _ns(self._clock.now(), AHEAD_S), at_most)

    async def _clue(self, labels: frozenset[str], names: frozenset[str], word: str) -> Clue | None:
        """The label most of whose values are made of these names."""
        best: tuple[tuple[bool, int], Clue] | None = None
        try:
            for label in sorted(labels)[:_LABELS_TRIED] if names else ():
                values = await self._store.label_values(label, self.since_ns, VALUES)
                of_us = [value for value in values if template_for([value], names, word=word)]
                template = template_for(of_us, names, word=word)
                # Short numbers are in many labels; one that is called after what it holds is the likeliest.
                rank = (_NAMED[word] in label.lower(), len(of_us))
                if template and (best is None or rank > best[0]):
                    best = (rank, Clue(label=label, template=template))
        except Exception:  # noqa: BLE001 - a clue is worth no failure
            return None
        return best[1] if best else None

    def _lines(self, job: WantedJob, value: str, entries: Sequence[Entry]) -> JobLines:
        node_label, limit_ns = self._settings.node_label, _ns(self._clock.now(), FUTURE_S)
        future = [entry.at_ns for entry in entries if entry.at_ns > limit_ns]
        nodes = [entry.labels.get(node_label, "") for entry in entries] if node_label else []
        return JobLines(
            job=job,
            value=value,
            lines=len(entries),
            newest_ns=max((entry.at_ns for entry in entries if entry.at_ns <= limit_ns), default=None),
            future_lines=len(future),
            furthest_ns=max(future, default=None),
            nodes=frozenset(node for node in nodes if node),
            without_node=sum(not node for node in nodes),
        )

    def _steps(self, job: WantedJob, entries: Sequence[Entry]) -> StepFacts:
        blocks, offsets = [], dict[str, int]()
        for entry in entries:
            name = ",".join(f"{label}={value}" for label, value in sorted(entry.labels.items()))
            data, read_at = entry.line + b"\n", datetime.fromtimestamp(entry.at_ns / NS_PER_S, self._now.tzinfo)
            offset = offsets.get(name, 0)
            blocks.append(LogBlock(file=name, offset=offset, data=data, scope=Scope.APPLICATION, read_at=read_at))
            offsets[name] = offset + len(data)
        return steps_of(blocks, job.progress_pattern, self._now)


def _exactly(labels: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {name: (value,) for name, value in labels.items()}


def _ns(now: datetime, by_s: float) -> int:
    return ns_of(now) + span_ns(by_s)
