"""Progress that jobs export as series: one query for each series of all jobs, and what is new as marks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from relance.domain.keys import AttemptKey
from relance.domain.progress import StepSeen
from relance.domain.views import Assignment
from relance.rules.metric_queries import ASK_LABEL, Naming, tagged
from relance.sources.metrics.clients import MetricClient
from relance.sources.metrics.settings import ProgressSeries
from relance.sources.templates import job_value

OLDEST_S = 60.0
"""Older samples are of jobs that export no longer; nobody else is to wait for them."""
_HIGHEST_STEP = 1e15
"""A float counts no further; no training does."""
_VALUE, _AT = "value", "at"


@dataclass(slots=True)
class _Known:
    step: int
    at: float
    is_of_before: bool = False
    """Whether it is what the attempt before has left: some gateways keep that until something new is pushed."""


class ExportedProgress:
    """Reads the steps of all jobs."""

    def __init__(self, client: MetricClient, series: ProgressSeries, naming: Naming, source: str) -> None:
        self._client = client
        self._series = series
        self._naming = naming
        self._source = source
        self._jobs: dict[str, AttemptKey] = {}
        self._starts: dict[AttemptKey, float] = {}
        self._known: dict[AttemptKey, _Known] = {}
        self._sampled: dict[AttemptKey, float] = {}
        self._now = 0.0
        self.age_s = 0.0
        """How old the oldest of the last samples was: a silence of steps is known only up to then."""

    def follow(self, assignments: Sequence[Assignment]) -> None:
        """Follow the newest attempt of each job."""
        before, self._jobs, self._starts = self._jobs, {}, {}
        for each in sorted(assignments, key=lambda each: each.attempt.restart_count):
            key = each.attempt.job
            self._jobs[job_value(self._series.job_value, key.cluster, key.raw_id)] = each.attempt
            if each.started_at is not None:
                self._starts[each.attempt] = each.started_at.timestamp()
        for job, attempt in self._jobs.items():
            left = self._known.get(before.get(job, attempt))
            if left is not None and attempt not in self._known:
                self._known[attempt] = _Known(left.step, left.at, is_of_before=True)
        followed = {each.attempt for each in assignments}
        self._known = {attempt: known for attempt, known in self._known.items() if attempt in followed}
        self._sampled = {attempt: at for attempt, at in self._sampled.items() if attempt in followed}

    @property
    def newest_at(self) -> float | None:
        """The time of the newest sample that was ever seen of those followed now, in seconds since 1970."""
        return max(self._sampled.values(), default=None)

    async def look(self, at: float | None) -> dict[AttemptKey, StepSeen]:
        """The attempts that have made a step since the last look. Raises StoreError."""
        if not self._series.step:
            return {}
        steps = await self._read(self._series.step, at, timed=True)
        self.age_s = min(max((self._now - at for _, at in steps.values()), default=0.0), OLDEST_S)
        self._sampled |= {attempt: at for attempt, (_, at) in steps.items()}
        others = {
            field: {attempt: value for attempt, (value, _) in (await self._read(name, at, timed=False)).items()}
            for field, name in (
                ("loss", self._series.loss),
                ("grad_norm", self._series.grad_norm),
                ("step_time_s", self._series.step_time_s),
                ("throughput", self._series.throughput),
            )
            if name and steps
        }
        marks = {}
        for attempt, (value, step_at) in steps.items():
            mark = self._mark(attempt, value, step_at, {field: told.get(attempt) for field, told in others.items()})
            if mark is not None:
                marks[attempt] = mark
        return marks

    def _mark(
        self, attempt: AttemptKey, value: float, at: float, others: Mapping[str, float | None]
    ) -> StepSeen | None:
        if not 0 <= value <= _HIGHEST_STEP or at < self._starts.get(attempt, math.inf):
            return None  # no number, or what an earlier attempt of the job left behind
        step, before = int(value), self._known.get(attempt)
        if before is not None and (step == before.step or at <= before.at):
            return None
        self._known[attempt] = _Known(step, at)
        took_s = others.get("step_time_s")
        if took_s is None and before is not None and not before.is_of_before and step > before.step:
            took_s = (at - before.at) / (step - before.step)
        return StepSeen(
            at=datetime.fromtimestamp(at, UTC),
            step=step,
            step_time_s=took_s if took_s is not None and math.isfinite(took_s) and took_s > 0 else None,
            loss=others.get("loss"),
            grad_norm=others.get("grad_norm"),
            throughput=others.get("throughput"),
            file=f"{self._source}/{self._series.step}",
            offset=int(at),
        )

    async def _read(self, name: str, at: float | None, *, timed: bool) -> dict[AttemptKey, tuple[float, float]]:
        """The value and its time by attempt; of several ranks the highest value."""
        label, selector = self._series.job_label, self._naming.selector(name)
        query = tagged(f"max by ({label}) ({selector})", _VALUE)
        if timed:
            query += " or " + tagged(f"max by ({label}) (timestamp({selector}))", _AT)
        answer = await self._client.vector(query, at)
        found: dict[AttemptKey, dict[str, float]] = {}
        for labels, value in zip(answer.labels, answer.values, strict=True):
            attempt = self._jobs.get(labels.get(label, ""))
            if attempt is not None and (not timed or math.isfinite(value)):
                found.setdefault(attempt, {})[labels.get(ASK_LABEL, _VALUE)] = value
        now = self._now = answer.at or 0.0
        return {
            attempt: (told[_VALUE], min(told.get(_AT, now), now)) for attempt, told in found.items() if _VALUE in told
        }
