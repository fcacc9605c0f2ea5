"""The histories that are recorded: of each detector at least one, as sources tell them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from relance.detectors.watched import Watched
from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import RuleHit
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import Activity, DevicePicture, Life, NodeSign, Observation, OddDevice, SeenUpTo
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Phase, PhaseSeen, StepSeen
from relance.testing.replays import BEGAN
from relance.watching.pipelines import meanings_of
from tests.unit.rules.packs import packaged

_MEANINGS: Final = meanings_of(packaged())
_USED: Final = (
    "metric-xid-off-bus", "metric-telemetry-gone", "metric-remap-pending", "stack-minority", "fr-missing-rank",
    "srun-task-killed", "xid-79-off-bus",
)  # fmt: skip
WATCHED: Final = Watched(
    attempt=AttemptKey(job=JobKey(cluster="alpha", raw_id="17", submitted_at=BEGAN), restart_count=1),
    nodes=("n1", "n2", "n3", "n4"),
    ranks_per_node=2,
    signs={rule: signs for rule, signs in _MEANINGS.signs.items() if rule in _USED},
    isolating=_MEANINGS.isolating & set(_USED),
)
History = Iterator[Observation]


class Log:
    """A log that is written line by line, and looked at."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.offset = 0
        self.step = 0

    @property
    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=self.seconds)

    def steps(
        self, count: int, every_s: float, loss: Callable[[int], float] = lambda step: 8.0 / (1 + step) ** 0.1
    ) -> History:
        """Steps go by; they are looked at every ten seconds or at each."""
        for number in range(count):
            self.seconds += every_s
            self.step += 1
            self.offset += 180
            yield StepSeen(
                at=self.now, step=self.step, total=10_000, loss=loss(self.step), grad_norm=1.0, file="job.out",
                offset=self.offset,
            )  # fmt: skip
            if every_s >= 10.0 or number % max(1, round(10.0 / every_s)) == 0:
                yield SeenUpTo(source="all", at=self.now)
        yield SeenUpTo(source="all", at=self.now)

    def quiet(self, for_s: float, every_s: float = 10.0, picture: Mapping[Activity, int] | None = None) -> History:
        """Nothing is written."""
        until_s = self.seconds + for_s
        while self.seconds < until_s:
            self.seconds += every_s
            if picture is not None:
                odd = OddDevice(node="n3", device=None, activity=Activity.IDLE)
                yield DevicePicture(at=self.now, counts=picture, odd=(odd,) if Activity.IDLE in picture else ())
            yield SeenUpTo(source="all", at=self.now)

    def hit(self, rule: str, symptom: str, scope: Scope, role: Role = Role.ROOT, **place: object) -> RuleHit:
        """A line, or what is made into one."""
        self.offset += 90
        whole = RuleHit(
            rule=rule, symptom=symptom, domain=FaultDomain.HARDWARE, role=role, suspect=SuspectKind.SELF,
            restart=RestartHint.EXCLUDE if role is Role.ROOT else RestartHint.NOTHING, weight=0.9, scope=scope,
            seen_at=self.now, at=self.now, file=f"{scope.value}.log", offset=self.offset, excerpt=f"{symptom} was told",
        )  # fmt: skip
        return replace(whole, **place)  # type: ignore[arg-type]

    def saved(self, for_s: float) -> History:
        """A save that is announced, and grows."""
        yield CheckpointSeen(at=self.now, event=CheckpointEvent.BEGUN, step=self.step, path="/ckpt")
        for _ in range(round(for_s / 30.0)):
            yield from self.quiet(30.0, 30.0)
            yield Life(at=self.now, what="/ckpt")
        yield CheckpointSeen(at=self.now, event=CheckpointEvent.DURABLE, step=self.step, path="/ckpt")


def _crash() -> History:
    log = Log()
    yield from log.steps(12, 0.5)
    yield log.hit("python-traceback", "python_exception", Scope.APPLICATION, rank=3)
    yield log.hit("srun-task-killed", "task_killed", Scope.SCHEDULER, Role.MAYBE, rank=3, node="n2")
    yield from log.quiet(10.0, 0.5)
    yield log.hit("xid-79-off-bus", "gpu_fell_off_bus", Scope.KERNEL, node="n2")
    yield from log.quiet(10.0, 0.5)
    yield NodeSign(node="n2", sign="down", at=log.now)
    yield from log.quiet(10.0, 0.5)


def _hang_by_metrics() -> History:
    log = Log()
    yield from log.steps(40, 2.0)
    yield from log.quiet(25.0)
    yield log.hit("metric-xid-off-bus", "gpu_fell_off_bus", Scope.METRICS, node="n3", device="gpu4")
    yield from log.quiet(100.0)
    yield log.hit("metric-telemetry-gone", "metrics_absent", Scope.METRICS, Role.CONTEXT, node="n3")
    yield from log.quiet(300.0)


def _hang_by_pictures() -> History:
    log = Log()
    yield from log.steps(30, 2.0)
    yield from log.saved(900.0)
    yield from log.steps(30, 2.0)
    yield from log.quiet(2800.0, 20.0, {Activity.SPINNING: 6, Activity.IDLE: 2})


def _hang_by_traces() -> History:
    log = Log()
    yield from log.steps(30, 2.0)
    yield from log.quiet(60.0)
    yield log.hit("stack-minority", "stack_minority", Scope.TRACES, rank=0)
    outstanding_since = log.now - timedelta(seconds=60.0)
    yield log.hit("fr-missing-rank", "fr_missing_rank", Scope.TRACES, rank=5, at=outstanding_since)
    yield from log.quiet(200.0)
    yield from log.steps(10, 2.0)
    yield from log.quiet(60.0)


def _start_hang() -> History:
    log = Log()
    yield PhaseSeen(at=log.now, phase=Phase.STARTING)
    yield from log.quiet(2000.0, 30.0)


def _nodes() -> History:
    log = Log()
    yield log.hit("metric-remap-pending", "row_remap_pending", Scope.METRICS, Role.CONTEXT, node="n4", device="gpu1")
    yield from log.steps(10, 1.0)
    yield log.hit("xid-79-off-bus", "gpu_fell_off_bus", Scope.KERNEL, node="n1")
    yield from log.steps(10, 1.0)


def _resume() -> History:
    log = Log()
    yield CheckpointSeen(at=log.now, event=CheckpointEvent.LOADED, step=0)
    yield from log.steps(10, 1.0)


def _slowdown() -> History:
    log, noise = Log(), random.Random(11)
    for _ in range(500):
        yield from log.steps(1, noise.gauss(1.0, 0.03))
    yield log.hit(
        "metric-hw-throttle", "gpu_hw_throttle", Scope.METRICS, Role.CONTEXT, node="n2", captures={"slow": "yes"}
    )
    for _ in range(150):
        yield from log.steps(1, noise.gauss(3.0, 0.1))


def _divergence() -> History:
    log = Log()
    yield from log.steps(150, 1.0)
    yield from log.saved(30.0)
    yield from log.steps(10, 1.0, lambda _: float("nan"))
    yield from log.steps(20, 1.0, lambda _: 90.0)


def _a_long_day() -> History:
    """Everything that is usual, some of it often: pauses, saves, evaluations, signs that training goes on after."""
    log, chance = Log(), random.Random(5)
    for _ in range(60):
        yield from log.steps(chance.randint(3, 12), 10.0)
        match chance.randrange(6):
            case 0:
                yield from log.saved(chance.choice([30.0, 120.0, 900.0]))
            case 1:
                yield PhaseSeen(at=log.now, phase=Phase.EVALUATING)
                yield from log.quiet(chance.choice([60.0, 900.0]), 30.0, {Activity.SPINNING: 7, Activity.WORKING: 1})
            case 2:
                yield from log.quiet(chance.uniform(5.0, 60.0))
            case 3:
                yield log.hit("python-traceback", "python_exception", Scope.APPLICATION, rank=chance.randrange(8))
            case 4:
                yield log.hit("metric-telemetry-gone", "metrics_absent", Scope.METRICS, Role.CONTEXT, node="n4")
            case _:
                yield log.hit("fr-missing-rank", "fr_missing_rank", Scope.TRACES, rank=chance.randrange(8))


HISTORIES: Final[Mapping[str, tuple[Watched, Callable[[], History]]]] = {
    "crash": (replace(WATCHED, has_incident=True), _crash),
    "hang_by_metrics": (WATCHED, _hang_by_metrics),
    "hang_by_pictures": (WATCHED, _hang_by_pictures),
    "hang_by_traces": (WATCHED, _hang_by_traces),
    "start_hang": (replace(WATCHED, start_before_s=500.0), _start_hang),
    "nodes": (WATCHED, _nodes),
    "resume": (replace(WATCHED, durable_before=400), _resume),
    "slowdown": (WATCHED, _slowdown),
    "divergence": (WATCHED, _divergence),
    "a_long_day": (WATCHED, _a_long_day),
}
