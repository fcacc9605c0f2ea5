"""A source of signals in memory, for tests of what is above such sources. It obeys the contract of signals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from relance.domain.faults import Scope
from relance.domain.findings import Coverage, Sight
from relance.domain.keys import AttemptKey
from relance.domain.observations import DevicePicture
from relance.domain.views import Assignment
from relance.ports.clocks import Clock
from relance.ports.signals import Signal, Signals
from relance.rules.metric_rules import MetricRule, Point, Series
from relance.rules.metrics import evaluate
from relance.sources.metrics.deciding import moments
from relance.sources.metrics.pictures import Device, picture
from relance.sources.metrics.shapes import since
from relance.sources.metrics.tellings import Tellings

_Key = tuple[str, str, tuple[tuple[str, str], ...]]
_PRESENT_S = 120.0


@dataclass(slots=True)
class MemorySamples:
    """All samples, shared by the sources that look at them. `trouble`: why they cannot be asked for now."""

    points: dict[_Key, list[Point]] = field(default_factory=dict)
    trouble: str = ""

    def put(self, node: str, name: str, value: float, at: datetime, **labels: str) -> None:
        """Have a series of a node measured."""
        held = self.points.setdefault((name, node, tuple(sorted(labels.items()))), [])
        held.append(Point(at.timestamp(), value, "", 0))

    def series(self) -> list[Series]:
        """All series."""
        return [
            Series(name=name, node=node, labels=dict(labels), points=tuple(points))
            for (name, node, labels), points in self.points.items()
        ]


class MemorySignalSource:
    """Implements `relance.ports.signals.SignalSource` over samples in memory; the rules decide over all of them."""

    def __init__(
        self,
        samples: MemorySamples,
        clock: Clock,
        rules: Sequence[MetricRule] = (),
        *,
        name: str = "memory",
        poll_s: float = 15.0,
    ) -> None:
        self.looks = 0
        """How often it has looked."""
        self._samples = samples
        self._clock = clock
        self._rules = rules
        self._name = name
        self._poll_s = poll_s
        self._tellings = Tellings(name, level_quiet_s=2 * poll_s + 5.0)
        self._assignments: dict[AttemptKey, Assignment] = {}
        self._closely: frozenset[AttemptKey] = frozenset()
        self._due = clock.monotonic()
        self._looked_at: datetime | None = None
        self._lost_at: datetime | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def assign(self, assignments: Sequence[Assignment], closely: frozenset[AttemptKey]) -> None:
        """Follow exactly these attempts."""
        self._assignments = {each.attempt: each for each in assignments}
        self._closely = closely
        self._tellings.follow(assignments)

    def tell(self, attempt: AttemptKey, *signals: Signal) -> None:
        """Have an attempt told of something that no sample says."""
        self._tellings.queue(attempt, signals)

    async def look(self) -> None:
        """Ask the rules of all samples."""
        while (wait_s := self._due - self._clock.monotonic()) > 0:
            await self._clock.sleep(wait_s)
        self._due = self._clock.monotonic() + self._poll_s
        self.looks += 1
        now = self._clock.now()
        if self._samples.trouble:
            self._lost_at = self._lost_at or now
            return
        self._looked_at, self._lost_at = now, None
        series = [each for each in self._samples.series() if each.points[0].at <= now.timestamp()]
        for rule in self._rules:
            self._ask(rule, series, now)
        self._tellings.forget(now.timestamp())
        for attempt in self._closely & self._assignments.keys():
            seen = self._picture(self._assignments[attempt], series, now.timestamp())
            if seen is not None:
                self._tellings.queue(attempt, (seen,))

    def take(self, attempt: AttemptKey) -> Signals:
        """What is new of an attempt."""
        assignment = self._assignments.get(attempt)
        if assignment is None:
            return Signals()
        coverage = list(self.sight())
        if self._looked_at is not None and not self._samples.trouble:
            since_s = self._looked_at.timestamp() - _PRESENT_S
            there = {node for (_, node, _), points in self._samples.points.items() if points[-1].at >= since_s}
            missing = [node for node in assignment.nodes if node not in there]
            if missing:
                note = f"no GPU metrics of {', '.join(missing)}"
                coverage.append(
                    Coverage(source=f"{self._name}: GPU metrics", sight=Sight.MISSING, note=note, scope=Scope.METRICS)
                )
        return Signals(signals=self._tellings.take(attempt), coverage=tuple(coverage))

    def sight(self) -> tuple[Coverage, ...]:
        """How it stands: as the samples can be asked for."""
        if self._lost_at is not None:
            return (
                self._covered(Sight.MISSING, f"since {self._lost_at:%Y-%m-%d %H:%M:%S UTC}: {self._samples.trouble}"),
            )
        if self._looked_at is None:
            return (self._covered(Sight.UNKNOWN, "not asked yet"),)
        return (self._covered(Sight.SEEN, ""),)

    async def close(self) -> None:
        """Nothing is held."""

    def _covered(self, sight: Sight, note: str) -> Coverage:
        return Coverage(source=self._name, sight=sight, up_to=self._looked_at, note=note, scope=Scope.METRICS)

    def _ask(self, rule: MetricRule, series: Sequence[Series], now: datetime) -> None:
        at = now.timestamp()
        if not rule.when.test.is_level:
            for _, hit in moments((rule,), series, now):
                self._tellings.meet(rule, hit, at)
            return
        now_only = since(series, at - self._poll_s)
        holding = {(hit.node, hit.device) for hit in evaluate((replace(rule, for_s=0.0),), now_only, now)}
        for hit in evaluate((rule,), since(series, at - rule.for_s - 2 * self._poll_s), now):
            if (hit.node, hit.device) in holding:
                self._tellings.meet(rule, hit, at)

    def _picture(self, assignment: Assignment, series: Sequence[Series], now: float) -> DevicePicture | None:
        measured: dict[tuple[str, str], Device] = {}
        for each in series:
            if each.node not in assignment.nodes or "gpu" not in each.labels:
                continue
            device = measured.setdefault((each.node or "", f"gpu{each.labels['gpu']}"), Device())
            last = each.points[-1]
            if "GPU_UTIL" in each.name:
                device.percent, device.at = last.value, last.at
            elif "POWER" in each.name:
                device.watts, device.peak_watts = last.value, max(point.value for point in each.points)
            elif "TENSOR" in each.name:
                device.tensor = last.value
        return picture(measured, assignment.nodes, {}, now)
