"""Two hundred healthy trainings over a day: what is told of them; and five faults: how soon they are told."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from bench.healthy_jobs import DAY_S, Change, Line, habitus, lines
from bench.measures import Limit, Result, spread
from bench.soaks import BEGAN, LOOK_S, NODES, OFTEN_S, STEP_LOOK_S, Seen, Trouble, Watch, shipped
from relance.domain.events import IncidentOpened
from relance.domain.findings import Certainty, FindingKind, RuleHit
from relance.domain.records import JobRecord
from relance.recovery.intake import finding_events
from relance.rules import Pack, Scanner
from relance.rules.metric_rules import Point, Series
from relance.rules.metrics import evaluate

JOBS, QUICK_JOBS = 200, 12
PROCESSES = 2
DETECTORS = ("crash", "hang", "resume", "node", "slowdown", "divergence")
_OUTAGES = 2
_OUTAGE_S = 600.0
_RESTARTS = 3
_AFTER_S = 3600.0
_SLOWER = 1.3
_LONGEST = 1.5
"""A pause takes up to so many times its usual time."""
_STEPS_OF_A_SLOWDOWN = 60
_PLAIN = 20
"""So many steps with nothing between them make a quiet moment."""
_COMPILED: list[tuple[Pack, Scanner]] = []
"""The rules, compiled once in each process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was told of one training."""

    number: int
    step_s: float
    findings: tuple[tuple[float, str, str, str], ...]
    """When, kind, certainty, summary."""
    incidents: int
    judged: dict[str, int]
    checkpoint_bytes: int


def measure(*, quick: bool) -> Result:
    """Follow the trainings on a virtual clock, through outages of the source and restarts of the watcher."""
    count = QUICK_JOBS if quick else JOBS
    with ProcessPoolExecutor(PROCESSES) as pool:
        healthy = list(pool.map(follow_healthy, range(count), chunksize=4))
        struck = list(pool.map(follow_struck, FAULTS))
    return _result(healthy, struck)


def follow_healthy(number: int) -> Told:
    """A day of a healthy training."""
    watch = Watch(_rules(), number, trouble=_trouble(number))
    return _told(watch, watch.run(lines(number, BEGAN, DAY_S), DAY_S))


# ------------------------------------------------------------------------------------------------------------- faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What strikes a training at the end of its day, and by when what has to be told of it."""

    name: str
    number: int
    kind: FindingKind
    certainty: Certainty
    within_s: float
    in_steps: int = 0
    """So many steps more."""
    in_gaps: float = 0.0
    """Or so many usual gaps between reports of steps, if that is longer."""
    in_pauses: float = 0.0
    """Or so many times the longest pause that nobody announces, if that is longer: it got over such before."""


FAULTS = (
    Fault(
        name="a rank is killed", number=0, kind=FindingKind.CRASH, certainty=Certainty.CONFIRMED,
        within_s=4.0 + 2 * OFTEN_S,
    ),
    Fault(
        name="it stands still", number=3, kind=FindingKind.HANG, certainty=Certainty.SUSPECTED,
        within_s=12.0 + OFTEN_S, in_gaps=4.0, in_pauses=3.0,
    ),
    Fault(
        name="it stands still and a node is silent", number=6, kind=FindingKind.HANG, certainty=Certainty.CONFIRMED,
        within_s=182.0 + OFTEN_S, in_gaps=5.0,
    ),
    Fault(
        name="its loss is no number", number=9, kind=FindingKind.DIVERGENCE, certainty=Certainty.CONFIRMED,
        within_s=OFTEN_S, in_steps=8,
    ),
    Fault(
        name="a node becomes 1.3 times slower", number=33, kind=FindingKind.SLOWDOWN, certainty=Certainty.CONFIRMED,
        within_s=OFTEN_S, in_steps=_STEPS_OF_A_SLOWDOWN,
    ),
)  # fmt: skip


def follow_struck(fault: Fault) -> tuple[Fault, Told, float]:
    """A day, and what comes after the fault; the last figure is when it struck."""
    rules = _rules()
    strikes_s = _quiet_moment(fault.number)
    watch = Watch(rules, fault.number, trouble=_trouble(fault.number))
    signals = [(strikes_s + 45.0, _silent_node(rules[0], strikes_s))] if "silent" in fault.name else []
    seen = watch.run(_struck(fault, strikes_s), strikes_s + _AFTER_S, signals, strikes_s)
    return fault, _told(watch, seen), strikes_s


def _quiet_moment(number: int) -> float:
    """When a fault strikes: with a step, after a while in which nothing but steps went by."""
    steps_s: list[float] = []
    for line in lines(number, BEGAN, 2 * DAY_S):
        steps_s = [*steps_s, line.at_s][-_PLAIN:] if line.is_step else []
        if line.at_s > DAY_S and len(steps_s) == _PLAIN:
            return line.at_s
    message = f"training {number} has no quiet moment"
    raise RuntimeError(message)


def _struck(fault: Fault, strikes_s: float) -> Iterator[Line]:
    """The lines of a training until a fault strikes, and those after it."""
    change = None
    if fault.kind in (FindingKind.SLOWDOWN, FindingKind.DIVERGENCE):
        slower = _SLOWER if fault.kind is FindingKind.SLOWDOWN else 1.0
        without = fault.kind is FindingKind.DIVERGENCE
        change = Change(at_s=strikes_s, slower=slower, without_number=without)
    for line in lines(fault.number, BEGAN, strikes_s + _AFTER_S, change):
        if change is None and line.at_s > strikes_s:
            break
        yield line
    if fault.kind is FindingKind.CRASH:
        yield Line(strikes_s + 0.2, "srun: error: n3: task 5: Killed")


def _silent_node(pack: Pack, since_s: float) -> RuleHit:
    """The telemetry of one node ends while that of the others goes on."""
    series = []
    for node in NODES:
        until_s = since_s if node == NODES[2] else since_s + 300.0
        points = tuple(
            Point(BEGAN.timestamp() + at, 65.0, "prometheus", 1)
            for at in (since_s - 30.0, since_s - 15.0, since_s, since_s + 150.0, since_s + 300.0)
            if at <= until_s
        )
        series.append(Series(name="DCGM_FI_DEV_GPU_TEMP", node=node, points=points, labels={"gpu": "0"}))
    hits = evaluate(pack.metrics, series, BEGAN + timedelta(seconds=since_s + 45.0))
    return next(hit for hit in hits if hit.symptom == "metrics_absent" and hit.node == NODES[2])


# ------------------------------------------------------------------------------------------------------------ results


def _rules() -> tuple[Pack, Scanner]:
    if not _COMPILED:
        _COMPILED.append(shipped())
    return _COMPILED[0]


def _trouble(number: int) -> Trouble:
    """Outages that all trainings share, as of one store, and restarts of the watcher."""
    shared, own = random.Random("outages"), random.Random(f"restarts {number}")
    outages = [shared.uniform(7200.0, DAY_S - 7200.0) for _ in range(_OUTAGES)]
    restarts = sorted(own.uniform(600.0, DAY_S) for _ in range(_RESTARTS))
    return Trouble(outages=tuple((at, at + _OUTAGE_S) for at in outages), restarts=tuple(restarts))


def _told(watch: Watch, seen: Seen) -> Told:
    incidents = sum(
        isinstance(event, IncidentOpened)
        for event in finding_events(
            JobRecord(job=watch.case.attempt.job), tuple(finding for _, finding in seen.findings), BEGAN
        )
    )
    return Told(
        number=int(watch.case.attempt.job.raw_id),
        step_s=habitus(int(watch.case.attempt.job.raw_id)).step_s,
        findings=tuple(
            (at_s, finding.kind.value, finding.certainty.value, finding.summary) for at_s, finding in seen.findings
        ),
        incidents=incidents,
        judged=dict(seen.judged),
        checkpoint_bytes=seen.checkpoint_bytes,
    )


def _limit_s(fault: Fault, step_s: float) -> float:
    pause_s = habitus(fault.number).pause_s * _LONGEST + 2 * step_s
    return max(
        fault.within_s,
        fault.in_pauses * pause_s,
        fault.in_gaps * step_s + OFTEN_S,
        fault.in_steps * step_s * _SLOWER + OFTEN_S,
    )


def _result(healthy: list[Told], struck: list[tuple[Fault, Told, float]]) -> Result:
    found: dict[str, float | None] = {}
    wrong: list[str] = []
    for fault, told, strikes_s in struck:
        times = [
            at_s - strikes_s
            for at_s, kind, certainty, _ in told.findings
            if at_s >= strikes_s and kind == fault.kind.value and certainty == fault.certainty.value
        ]
        limit_s = _limit_s(fault, told.step_s)
        found[fault.name] = round(min(times), 1) if times else None
        if not times or min(times) > limit_s:
            wrong.append(f"{fault.name}: found after {found[fault.name]} s, {limit_s:.0f} s at most are allowed")
    kinds = Counter((kind, certainty) for told in healthy for _, kind, certainty, _ in told.findings)
    suspected = kinds[FindingKind.HANG.value, Certainty.SUSPECTED.value]
    confirmed = sum(count for (_, certainty), count in kinds.items() if certainty == Certainty.CONFIRMED.value)
    judged = sum((Counter(told.judged) for told in healthy), Counter())
    return Result(
        name="soak",
        measure="healthy trainings over a day, then five faults",
        limits=(
            Limit(name="confirmed findings of healthy trainings", value=confirmed, most=0, unit=""),
            Limit(name="incidents of healthy trainings", value=sum(t.incidents for t in healthy), most=0, unit=""),
            Limit(name="suspected hangs a job-day", value=round(suspected / len(healthy), 3), most=1.0, unit=""),
            Limit(name="faults found", value=len(FAULTS) - len(wrong), most=len(FAULTS), unit="", is_least=True),
        ),
        figures={
            "findings_of_healthy": {f"{kind} {certainty}": count for (kind, certainty), count in sorted(kinds.items())},
            "judged_by_each_detector": {name: sum(judged.values()) for name in DETECTORS},
            "judged": dict(judged),
            "found_after_s": found,
            "checkpoint_bytes": spread([float(told.checkpoint_bytes) for told in healthy]).data,
        },
        wrong=tuple(wrong),
        conditions=(
            f"{len(healthy)} generated trainings of {DAY_S / 3600:.0f} h on a virtual clock through scanning, reading "
            f"of progress and all detectors: three formats of logs, saves that steps wait for or not (up to 20 min), "
            f"evaluations, pauses nobody announces, frights, drift, variable lengths; {_OUTAGES} outages of the source "
            f"of {_OUTAGE_S / 60:.0f} min, {_RESTARTS} restarts of the watcher each; a look each {STEP_LOOK_S:g} s "
            f"while lines come, else each {LOOK_S:g} s; limits as shipped"
        ),
    )
