"""A timeline of one attempt for tests of detectors: what is seen when, in seconds from its start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from relance.detectors.watched import Watched
from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import Finding, RuleHit, Sign
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import Observation, SeenUpTo
from relance.domain.progress import Phase, Progress, StepSeen

START = datetime(2026, 1, 1, tzinfo=UTC)
ATTEMPT = AttemptKey(job=JobKey(cluster="alpha", raw_id="7", submitted_at=START), restart_count=0)
SIGNS = {
    "srun-killed": frozenset({Sign.PROCESS_DEATH}),
    "node-failed": frozenset({Sign.NODE_DOWN}),
    "xid-79": frozenset({Sign.KERNEL}),
    "metric-xid": frozenset({Sign.DEVICE}),
    "metric-gone": frozenset({Sign.NODE_SILENT}),
    "ras-rank-dead": frozenset({Sign.COLLECTIVE}),
    "fr-missing-rank": frozenset({Sign.COLLECTIVE}),
    "stack-minority": frozenset({Sign.STACKS}),
}
_SCOPES = {"xid": Scope.KERNEL, "metric": Scope.METRICS, "ras": Scope.TRACES, "fr": Scope.TRACES, "stack": Scope.TRACES}
Step = Callable[[Any, Observation, datetime, Watched, Progress], tuple[Any, tuple[Finding, ...]]]


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def hit(seconds: float, rule: str = "traceback", **fields: Any) -> RuleHit:  # noqa: ANN401 - fields of a hit
    """A line that a rule matched, read at that second; `root` in the application's log unless said otherwise."""
    role = {"srun-killed": Role.MAYBE, "node-failed": Role.ROOT}.get(rule, Role.ROOT)
    whole = RuleHit(
        rule=rule,
        symptom=rule.replace("-", "_"),
        domain=FaultDomain.UNKNOWN,
        role=role,
        suspect=SuspectKind.NONE,
        restart=RestartHint.OK,
        weight=0.5,
        scope=_SCOPES.get(rule.partition("-")[0], Scope.APPLICATION),
        seen_at=at(seconds),
        file="job.out",
        offset=int(seconds * 1000),
        excerpt=f"{rule} at {seconds}",
    )
    return replace(whole, **fields)


@dataclass
class Timeline:
    """Feeds a detector, and keeps the progress as a fold of steps that take `median_s`."""

    step: Step
    state: Any
    watched: Watched = field(default_factory=lambda: Watched(attempt=ATTEMPT, signs=SIGNS, nodes=("n1", "n2")))
    median_s: float = 0.5
    progress: Progress = field(default_factory=lambda: Progress(as_of=START))
    watermark: datetime = START
    findings: list[tuple[float, Finding]] = field(default_factory=list)

    def see(self, observation: Observation) -> list[Finding]:
        """Give one observation; a SeenUpTo moves the watermark."""
        if isinstance(observation, SeenUpTo):
            self.watermark = observation.at
        self._fold(observation)
        self.state, found = self.step(self.state, observation, self.watermark, self.watched, self.progress)
        self.findings += [((self.watermark - START).total_seconds(), each) for each in found]
        return list(found)

    def steps(self, first: int, last: int, begin_s: float, every_s: float = 0.5) -> float:
        """Steps go by, each with a look after it; gives the time of the last."""
        seconds = begin_s
        for number in range(first, last + 1):
            self.see(StepSeen(at=at(seconds), step=number, file="job.out", offset=number * 100))
            self.see(SeenUpTo(source="files", at=at(seconds)))
            seconds += every_s
        return seconds - every_s

    def quiet(self, begin_s: float, end_s: float, every_s: float = 0.2) -> list[tuple[float, Finding]]:
        """Nothing but looks; gives what is found in that time."""
        before = len(self.findings)
        seconds = begin_s
        while seconds <= end_s + 1e-9:
            self.see(SeenUpTo(source="files", at=at(seconds)))
            seconds += every_s
        return self.findings[before:]

    def phase(self, phase: Phase) -> None:
        self.progress = replace(self.progress, phase=phase)

    def _fold(self, observation: Observation) -> None:
        if not isinstance(observation, StepSeen):
            return
        highest = max(observation.step, self.progress.highest_step or 0)
        self.progress = replace(
            self.progress,
            as_of=self.watermark,
            phase=Phase.TRAINING,
            step=observation.step,
            step_at=observation.at,
            highest_step=highest,
            steps_seen=self.progress.steps_seen + 1,
            median_step_s=self.median_s,
        )
