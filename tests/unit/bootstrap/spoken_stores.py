"""Log and metric stores in memory, and jobs whose lines are in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from relance.bootstrap.proofs.asking_metrics import Sample
from relance.domain.views import ClusterReport, JobState, JobView, NodeState, NodeView, SchedulerFacts
from relance.sources.stores.backs import Entry, Page, Selection

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
NODES = ("gpu001", "gpu002")


def ns(seconds: float = 0.0) -> int:
    """A time so many seconds after now."""
    return int((NOW.timestamp() + seconds) * 1e9)


def titan(step: int) -> str:
    """A step line as torchtitan writes it."""
    return f"[titan] 2026-11-30 11:59:00,000 - root - INFO - step: {step}  loss: 6.8  grad_norm: 1.9"


def entry(at_s: float, line: str, **labels: str) -> Entry:
    """A line so many seconds after now."""
    return Entry(ns(at_s), labels, line.encode())


def steps(raw_id: str, count: int = 20, **labels: str) -> list[Entry]:
    """Lines of a job that steps each two seconds until five seconds ago."""
    of_job = {"job_id": raw_id, "node": NODES[0], **labels}
    return [Entry(ns(-5.0 - 2 * (count - step)), of_job, titan(step).encode()) for step in range(1, count + 1)]


@dataclass
class SpokenLogs:
    """A log store that holds entries; with `fails` every question raises that, or those of its methods named."""

    entries: list[Entry] = field(default_factory=list)
    fails: Exception | None = None
    failing: tuple[str, ...] = ("version", "page", "newest", "label_names", "label_values")
    closed: int = 0

    async def page(self, wanted: Selection, since_ns: int, until_ns: int, at_most: int) -> Page:
        self._fail("page")
        found = self._found(wanted, since_ns, until_ns)
        return Page(entries=tuple(found[:at_most]), is_whole=len(found) <= at_most)

    async def newest(self, wanted: Selection, since_ns: int, until_ns: int, at_most: int) -> tuple[Entry, ...]:
        self._fail("newest")
        return tuple(self._found(wanted, since_ns, until_ns)[-at_most:])

    async def label_names(self, since_ns: int) -> frozenset[str]:
        self._fail("label_names")
        return frozenset(name for each in self.entries if each.at_ns >= since_ns for name in each.labels)

    @property
    def told_at(self) -> datetime | None:
        return None

    async def label_values(self, name: str, since_ns: int, at_most: int) -> tuple[str, ...]:
        self._fail("label_values")
        values = {each.labels[name] for each in self.entries if name in each.labels and each.at_ns >= since_ns}
        return tuple(sorted(values))[:at_most]

    async def version(self) -> str:
        self._fail("version")
        return "spoken 1.0"

    async def close(self) -> None:
        self.closed += 1

    def _fail(self, method: str) -> None:
        if self.fails is not None and method in self.failing:
            raise self.fails

    def _found(self, wanted: Selection, since_ns: int, until_ns: int) -> list[Entry]:
        pattern = re.compile(wanted.lines.encode())
        found = [
            each
            for each in self.entries
            if since_ns <= each.at_ns < until_ns
            and all(each.labels.get(name) in values for name, values in wanted.labels.items())
            and pattern.search(each.line)
        ]
        return sorted(found, key=lambda each: each.at_ns)


@dataclass
class SpokenMetrics:
    """A metric store that answers each query as it is told; what it was not told about gives nothing."""

    present: frozenset[str]
    answers: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    fails: Exception | None = None

    async def version(self) -> str:
        if self.fails is not None:
            raise self.fails
        return "2.42.0"

    async def names(self) -> frozenset[str]:
        return self.present

    async def vector(self, query: str, at_s: float) -> Sequence[Sample]:
        ahead = "later " if at_s > NOW.timestamp() else ""
        return self.answers.get(ahead + query, ())


class SpokenScheduler:
    """A scheduler that has been looked at."""

    cluster = "alpha"

    def __init__(self, report: ClusterReport) -> None:
        self.report = report

    async def look(self) -> ClusterReport:
        return self.report


def job(raw_id: str = "17", **changes: object) -> JobView:
    """A job that has run for an hour on both nodes."""
    began = NOW - timedelta(hours=1)
    plain: dict[str, object] = {
        "raw_id": raw_id, "first_submitted_at": began, "submitted_at": began, "restart_count": 0, "name": "llm",
        "user": "ada", "owner_uid": 1001, "partition": "gpu", "state": JobState.RUNNING, "nodes": NODES,
        "node_count": 2, "started_at": began,
    }  # fmt: skip
    return JobView(**(plain | changes))  # type: ignore[arg-type] # fields of many types


def report(*jobs: JobView, nodes: Sequence[str] = NODES) -> ClusterReport:
    """What the scheduler shows."""
    return ClusterReport(
        cluster="alpha", session="", sequence=0, as_of=NOW, facts=SchedulerFacts(release="25.11.7"), jobs=jobs,
        nodes=tuple(NodeView(name=name, state=NodeState.ALLOCATED) for name in nodes),
    )  # fmt: skip
