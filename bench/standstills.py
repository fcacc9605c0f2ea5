"""One training that stands still, on a virtual clock, read by the real pipeline: lines, metrics, traces, GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from relance.domain.faults import Scope
from relance.domain.findings import Certainty, Finding, RuleHit
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.limits import HangLimits
from relance.domain.observations import Activity, DevicePicture, LogBlock, OddDevice, SeenUpTo
from relance.domain.views import Assignment
from relance.ports.signals import Signal
from relance.ports.sources import Reading
from relance.rules import Scanner, load_pack
from relance.rules.metric_rules import Point, Series
from relance.rules.metrics import evaluate
from relance.rules.pack import read_texts
from relance.watching.pipelines import Memory, Pipeline, meanings_of, new_memory

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
LOOK_S = 1.0
"""Between two looks at the logs."""
SIGNALS_EVERY_S = 15.0
STORE_DELAY_S = 5.0
COLLECTING_S = 20.0
"""The longest that a command for evidence takes."""
_BETWEEN = 0.63
"""So long after the last line is the next look."""
NODES = ("n1", "n2", "n3", "n4")
RULES = load_pack(read_texts())
_SCANNER = Scanner(RULES)
_MEANINGS = meanings_of(RULES)
_GONE_S = 150.0
"""So long the metrics of a node have to have ended before its rule says so."""


class Standing:
    """A training that makes steps, and then none."""

    def __init__(self) -> None:
        job = JobKey(cluster="alpha", raw_id="7", submitted_at=BEGAN)
        self.case = Assignment(
            attempt=AttemptKey(job=job, restart_count=0), owner_uid=0, nodes=NODES, log_paths=(), ranks_per_node=2,
            started_at=BEGAN,
        )  # fmt: skip
        self.confirmed = 0
        """Hangs that were told as confirmed."""
        self.now_s = 0.0
        self._pipeline = Pipeline(_SCANNER, _MEANINGS, HangLimits(), self.case)
        self._memory: Memory = new_memory(BEGAN)
        self._offsets: dict[str, int] = {}
        self._step = 0
        self._lines: list[LogBlock] = []
        self._signals: list[tuple[float, Signal]] = []
        self._picture: Mapping[Activity, int] | None = None
        self._to_collect: list[tuple[str, int]] = []
        self._collected_at_s: float | None = None
        self._last_step_s = 0.0

    @property
    def now(self) -> datetime:
        """The virtual time."""
        return BEGAN + timedelta(seconds=self.now_s)

    def write(self, text: str, *, file: str = "job.out", node: str | None = None) -> None:
        """A line is written."""
        data = f"[{self.now:%Y-%m-%d %H:%M:%S.%f}] {text}\n".encode()
        offset = self._offsets.get(file, 0)
        self._offsets[file] = offset + len(data)
        scope = Scope.APPLICATION if node is None else Scope.KERNEL
        self._lines.append(LogBlock(file=file, offset=offset, data=data, scope=scope, read_at=self.now, node=node))

    def train(self, steps: int, step_s: float) -> None:
        """Steps go by; the last one is read by the next look."""
        for number in range(steps):
            self._step += 1
            self.now_s += step_s
            self.write(
                f" iteration {self._step:8d}/   10000 | consumed samples: {self._step * 32:12d} | elapsed time per "
                f"iteration (ms): {step_s * 1000:.1f} | learning rate: 1.0E-04 | global batch size:    32 | "
                "lm loss: 3.2E+00 | grad norm: 1.000 |"
            )
            self._last_step_s = self.now_s
            if number < steps - 1:
                self._look()
        self._picture = None

    def tell(self, signal: Callable[[Standing], tuple[float, Signal]]) -> None:
        """A store will tell of it."""
        self._signals.append(signal(self))

    def collect(self, rule: str, rank: int) -> None:
        """A command will collect traces that show this, once the silence lasts."""
        self._to_collect.append((rule, rank))

    def show(self, counts: Mapping[Activity, int]) -> None:
        """What the GPUs show from now on, whenever they are looked at closely."""
        self._picture = counts

    def wish(self, hang_after_s: float) -> None:
        """The owner has set a limit."""
        self.case = replace(self.case, hang_after_s=hang_after_s)

    def look_on(self, for_s: float, until: Callable[[Finding], bool], every_s: float = LOOK_S) -> float | None:
        """Look for so long, until a finding is of this kind; how long after the last step it came."""
        end_s = self.now_s + for_s
        self.now_s += _BETWEEN - every_s
        next_signals_s = self.now_s + SIGNALS_EVERY_S
        while self.now_s < end_s:
            self.now_s += every_s
            if self._collected_at_s is not None and self.now_s >= self._collected_at_s:
                hits = tuple(collected(rule, rank, self.now) for rule, rank in self._to_collect)
                self.case, self._to_collect = replace(self.case, collected=hits or self.case.collected), []
            found = list(self._look())
            if self.now_s >= next_signals_s:
                next_signals_s += SIGNALS_EVERY_S
                found += self._hear()
            if any(until(finding) for finding in found):
                return round(self.now_s - self._last_step_s, 3)
        return None

    def _look(self) -> tuple[Finding, ...]:
        seen = SeenUpTo(source="files", at=self.now)
        reading = Reading(blocks=tuple(self._lines), positions={}, coverage=(), seen=seen)
        self._lines = []
        outcome = self._pipeline.take(self._memory, (("files", reading),), {"files": self.now}, self.case)
        return self._kept(outcome.memory, outcome.findings)

    def _hear(self) -> tuple[Finding, ...]:
        due = [signal for at_s, signal in self._signals if at_s <= self.now_s]
        self._signals = [(at_s, signal) for at_s, signal in self._signals if at_s > self.now_s]
        if self._picture is not None and self._memory.watch.hang.suspected:
            at = self.now - timedelta(seconds=STORE_DELAY_S)
            odd = OddDevice(node=NODES[0], device="gpu0", activity=Activity.IDLE)
            is_odd = Activity.SPINNING in self._picture
            due.append(DevicePicture(at=at, counts=self._picture, odd=(odd,) if is_odd else ()))
        outcome = self._pipeline.hear(self._memory, "prometheus", due, self.case)
        return self._kept(outcome.memory, outcome.findings)

    def _kept(self, memory: Memory, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        self._memory = memory
        if any(finding.detector == "hang" and not finding.is_passing for finding in findings):
            self._collected_at_s = self._collected_at_s or self.now_s + COLLECTING_S
        self.confirmed += sum(
            finding.detector == "hang" and finding.certainty is Certainty.CONFIRMED for finding in findings
        )  # fmt: skip
        return findings


def xid_metric(standing: Standing) -> tuple[float, Signal]:
    """The last Xid of a GPU changes; when the store tells it."""
    at = standing.now.timestamp()
    points = (Point(at - 15.0, 0.0, "prometheus", 1), Point(at, 79.0, "prometheus", 1))
    series = Series(name="DCGM_FI_DEV_XID_ERRORS", node=NODES[2], points=points, labels={"gpu": "3"})
    told_s = standing.now_s + STORE_DELAY_S
    return told_s, _hit([series], "gpu_fell_off_bus", BEGAN + timedelta(seconds=told_s))


def silent_node(standing: Standing) -> tuple[float, Signal]:
    """The metrics of one node end while those of the others go on."""
    at, told_s = standing.now.timestamp(), standing.now_s + _GONE_S + STORE_DELAY_S
    series = [
        Series(
            name="DCGM_FI_DEV_GPU_TEMP", node=node, labels={"gpu": "0"},
            points=tuple(
                Point(at + seconds, 60.0, "prometheus", 1)
                for seconds in (-30.0, -15.0, 0.0, _GONE_S)
                if seconds <= 0.0 or node != NODES[2]
            ),
        )
        for node in NODES
    ]  # fmt: skip
    return told_s, _hit(series, "metrics_absent", BEGAN + timedelta(seconds=told_s))


def collected(rule: str, rank: int, at: datetime) -> RuleHit:
    """What traces of the ranks show, by a rule of the pack."""
    derived = RULES.derived_by_id[rule]
    return RuleHit(
        rule=rule, symptom=derived.symptom, domain=derived.domain, role=derived.role, suspect=derived.suspect,
        restart=derived.restart, weight=derived.weight, scope=Scope.TRACES, seen_at=at, rank=rank, file=rule,
        excerpt=derived.title,
    )  # fmt: skip


def _hit(series: list[Series], symptom: str, seen_at: datetime) -> RuleHit:
    return next(
        hit for hit in evaluate(RULES.metrics, series, seen_at) if hit.symptom == symptom and hit.node == NODES[2]
    )  # fmt: skip
