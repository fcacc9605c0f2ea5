"""`relance check marker`: a job of our own prints a line, and each source of logs is asked for it until it has it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from relance.bootstrap.proofs.asking_logs import AHEAD_S, failure_of
from relance.bootstrap.proofs.facts import Failure
from relance.bootstrap.proofs.jobs import assignment_of
from relance.bootstrap.proofs.marker_rows import Delivered, Marked, Sent, marker_rows, read_line
from relance.bootstrap.proofs.rows import Level, Row
from relance.bootstrap.proofs.signals import Opened
from relance.bootstrap.sites import rules_of
from relance.config import ClusterSettings
from relance.config.sources import LogStoreSettings
from relance.domain.views import JobState, JobView
from relance.ports.clocks import Clock
from relance.ports.markers import MarkerJob
from relance.ports.schedulers import JobGoneError, Scheduler, SchedulerError
from relance.ports.sources import Source
from relance.sources.stores.backs import Entry, LogStore, Selection
from relance.sources.stores.times import NS_PER_S, ns_of, span_ns
from relance.sources.templates import job_value, node_value

_BEFORE_S = 120.0
"""Lines are looked for from so long before the submission: clocks of nodes may be behind."""
_PAUSE_S = 1.0
_ENDING_S = 10.0
"""How long a job is waited for whose line is everywhere: it ends within a second, unless nobody can tell."""
_ENTRIES = 10
_VALUES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerCheck:
    """What became of the marker on one cluster. `raw_id` is the job's; empty: it was not submitted."""

    cluster: str
    mark: str
    raw_id: str
    rows: tuple[Row, ...]

    @property
    def fit(self) -> bool:
        """Whether every source has the line, as it should have it."""
        return all(row.level is not Level.BAD for row in self.rows)


@dataclass(slots=True)
class _Search:
    """What is known so far."""

    sent: Sent
    view: JobView | None = None
    is_gone: bool = False
    found: dict[str, Delivered] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)


async def check_marker(
    cluster: ClusterSettings, opened: Opened, marker: MarkerJob, clock: Clock, timeout_s: float
) -> MarkerCheck:
    """Submit the job, wait until each source has its line or the time is over, and take it back if it never began."""
    mark, since = secrets.token_hex(8), clock.now()
    try:
        raw_id = await marker.submit(mark, timeout_s)
    except SchedulerError as error:
        text, remedy = f"the job could not be submitted: {error}", "run it as a user who may submit; name a --partition"
        row = Row(source="scheduler", name="marker", level=Level.BAD, read="-", means=text, remedy=remedy)
        return MarkerCheck(cluster=cluster.name, mark=mark, raw_id="", rows=(row,))
    search = _Search(sent=Sent(mark=mark, cluster=cluster.name, raw_id=raw_id, submitted_at=since))
    try:
        await _wait(search, cluster, opened, clock, timeout_s)
    finally:
        if search.view is None or not (search.is_gone or search.view.state.is_over):
            with suppress(SchedulerError):
                await marker.withdraw(raw_id)
    astray = {
        settings.called: where
        for settings, store in opened.logs
        if settings.called not in search.found and (where := await _astray(settings, store, search, clock)) is not None
    }
    marked = Marked(
        sent=search.sent, view=search.view, found=search.found, failures=search.failures, astray=astray,
        waited_s=timeout_s,
    )  # fmt: skip
    settings = tuple(each for each, _ in opened.logs)
    rows = (*opened.broken, *marker_rows(marked, settings, with_files=opened.files is not None))
    return MarkerCheck(cluster=cluster.name, mark=mark, raw_id=raw_id, rows=rows)


async def _wait(search: _Search, cluster: ClusterSettings, opened: Opened, clock: Clock, timeout_s: float) -> None:
    end_s, all_found_s = clock.monotonic() + timeout_s, float("inf")
    names = [settings.called for settings, _ in opened.logs] + (["files"] if opened.files is not None else [])
    while True:
        if opened.scheduler is not None and not search.is_gone:
            await _look(search, opened.scheduler)
        asked = [_ask_store(search, settings, store, cluster, clock) for settings, store in opened.logs]
        if opened.files is not None:
            asked.append(_ask_files(search, opened.files, cluster, clock))
        await asyncio.gather(*asked)
        is_over = search.is_gone or (search.view is not None and search.view.state.is_over)
        now_s = clock.monotonic()
        if all(name in search.found for name in names):
            all_found_s = min(all_found_s, now_s)
        if (is_over and all_found_s <= now_s) or now_s >= min(end_s, all_found_s + _ENDING_S):
            return
        if search.view is not None and search.view.state in (JobState.CANCELLED, JobState.DEADLINE):
            return
        await clock.sleep(_PAUSE_S)


async def _look(search: _Search, scheduler: Scheduler) -> None:
    try:
        search.view = await scheduler.read(search.sent.raw_id)
        search.failures.pop("scheduler", None)
    except JobGoneError:
        search.is_gone = search.view is not None
    except SchedulerError as error:
        search.failures["scheduler"] = Failure(why=str(error), remedy="see that this host reaches it")


async def _ask_store(
    search: _Search, settings: LogStoreSettings, store: LogStore, cluster: ClusterSettings, clock: Clock
) -> None:
    name = settings.called
    if name in search.found:
        return
    labels = {each: (value,) for each, value in settings.match.items()}
    labels[settings.job_label] = (job_value(settings.job_value, cluster.name, search.sent.raw_id),)
    entries = await _entries(search, name, store, labels, clock)
    for entry in entries:
        if (written := read_line(entry.line, search.sent.mark)) is not None:
            search.found[name] = Delivered(
                at=clock.now(), written=written, stamped_s=entry.at_ns / NS_PER_S, labels=dict(entry.labels)
            )
            return


async def _entries(
    search: _Search, name: str, store: LogStore, labels: dict[str, Sequence[str]] | dict[str, tuple[str]], clock: Clock
) -> Sequence[Entry]:
    since_ns = ns_of(search.sent.submitted_at) - span_ns(_BEFORE_S)
    wanted = Selection(labels=labels, lines=search.sent.mark)
    try:
        entries = await store.newest(wanted, since_ns, ns_of(clock.now()) + span_ns(AHEAD_S), _ENTRIES)
    except Exception as error:  # noqa: BLE001 - whatever a server sends, it is a row of the table and no traceback
        search.failures[name] = failure_of(error)
        return ()
    search.failures.pop(name, None)
    return entries


async def _ask_files(search: _Search, source: Source, cluster: ClusterSettings, clock: Clock) -> None:
    view = search.view
    if "files" in search.found or view is None or view.started_at is None or not view.log_paths:
        return
    assignment = assignment_of(view, cluster.name, rules_of(cluster))
    try:
        source.assign((assignment,), {})
        reading = await source.read(assignment.attempt)
    except Exception as error:  # noqa: BLE001 - as above
        search.failures["files"] = failure_of(error)
        return
    for block in reading.blocks:
        for line in block.data.splitlines():
            if (written := read_line(line, search.sent.mark)) is not None:
                search.found["files"] = Delivered(at=clock.now(), written=written, labels={"file": block.file})
                return
    wrong = next((each for each in reading.coverage if each.note), None)
    if wrong is not None:
        remedy = "see that this host mounts it, and that this account may read it"
        search.failures["files"] = Failure(why=f"{wrong.source}: {wrong.note}", remedy=remedy)


async def _astray(
    settings: LogStoreSettings, store: LogStore, search: _Search, clock: Clock
) -> dict[str, str] | None:  # fmt: skip
    """The labels under which the line is in a store that does not have it where it should; None: it is not found."""
    nodes = () if search.view is None else search.view.nodes
    tries: list[dict[str, tuple[str, ...]]] = []
    if settings.match:
        tries.append({each: (value,) for each, value in settings.match.items()})
    if settings.node_label and nodes:
        tries.append({settings.node_label: tuple(node_value(settings.node_value, node) for node in nodes)})
    since_ns = ns_of(search.sent.submitted_at) - span_ns(_BEFORE_S)
    until_ns = ns_of(clock.now()) + span_ns(AHEAD_S)
    with suppress(Exception):  # what it cannot say now was said before, by its own row
        for name in sorted(await store.label_names(since_ns))[:_ENTRIES]:
            values = await store.label_values(name, since_ns, _VALUES)
            tries += [{name: values}] if values else []
        for labels in tries:
            wanted = Selection(labels=labels, lines=search.sent.mark)
            for entry in await store.newest(wanted, since_ns, until_ns, _ENTRIES):
                if read_line(entry.line, search.sent.mark) is not None:
                    return dict(entry.labels)
    return None
