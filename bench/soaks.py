"""One training read by the real pipeline on a virtual clock, with restarts of the watcher and outages of the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import inf

from bench.healthy_jobs import Line
from relance.domain.faults import Scope
from relance.domain.findings import Finding, RuleHit
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.limits import Limits
from relance.domain.observations import Activity, DevicePicture, LogBlock, SeenUpTo
from relance.domain.views import Assignment
from relance.ports.sources import Reading
from relance.rules import Pack, Scanner, load_pack
from relance.rules.pack import read_texts
from relance.watching.checkpoints import Checkpoint, from_text, to_text
from relance.watching.pipelines import Memory, Pipeline, meanings_of, new_memory

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
LOOK_S = 15.0
"""Between two looks at a log that says nothing."""
OFTEN_S = 2.0
"""The same once a fault may have struck, as the shipped watcher looks."""
STEP_LOOK_S = 5.0
"""Between two looks at one that grows."""
NODES = ("n1", "n2", "n3", "n4")
_GPUS = 32
_FILE = "job.out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What befalls the watching, not the job: outages of the source, and restarts of the watcher."""

    outages: tuple[tuple[float, float], ...] = ()
    """From when to when nothing can be read, in seconds."""
    restarts: tuple[float, ...] = ()


NO_TROUBLE = Trouble()


@dataclass(slots=True)
class Seen:
    """What came of one training. `judged` counts what the detectors were given, by kind."""

    findings: list[tuple[float, Finding]] = field(default_factory=list)
    judged: Counter[str] = field(default_factory=Counter)
    checkpoint_bytes: int = 0
    """The longest checkpoint."""


class Watch:
    """Follows one attempt from its first line on, as a watcher does.

    Args:
        rules: The pack, and what scans by it.
        number: The job's id.
        limits: The site's limits.
        trouble: What befalls the watching.
    """

    def __init__(
        self, rules: tuple[Pack, Scanner], number: int, limits: Limits | None = None, trouble: Trouble = NO_TROUBLE
    ) -> None:
        pack, scanner = rules
        job = JobKey(cluster="alpha", raw_id=str(number), submitted_at=BEGAN)
        self.case = Assignment(
            attempt=AttemptKey(job=job, restart_count=0), owner_uid=0, nodes=NODES, log_paths=(), started_at=BEGAN
        )
        self.seen = Seen()
        self._pipeline = Pipeline(scanner, meanings_of(pack), (limits or Limits()).hang, self.case)
        self._memory: Memory = new_memory(BEGAN)
        self._trouble = trouble
        self._late: list[Line] = []
        self._offset = 0

    def run(
        self,
        lines: Iterable[Line],
        until_s: float,
        signals: Iterable[tuple[float, RuleHit]] = (),
        often_from_s: float = inf,
    ) -> Seen:
        """Read all lines and look on until `until_s`, from `often_from_s` on as often as a watcher does.

        `signals` are told when their time comes.
        """
        told, restarts = sorted(signals, key=lambda each: each[0]), list(self._trouble.restarts)
        for at_s, batch in looks(lines, until_s, often_from_s):
            while restarts and restarts[0] <= at_s:
                restarts.pop(0)
                self._restart()
            self._late += batch
            if any(begin <= at_s < end for begin, end in self._trouble.outages):
                continue
            self._look(at_s, self._late)
            self._late = []
            while told and told[0][0] <= at_s:
                self._hear(at_s, told.pop(0)[1])
            if self._memory.watch.hang.suspected:
                self._hear(at_s, _spinning(at_s))
        return self.seen

    def _look(self, at_s: float, lines: list[Line]) -> None:
        now = BEGAN + timedelta(seconds=at_s)
        data = "".join(f"{line.text}\n" for line in lines).encode()
        blocks: tuple[LogBlock, ...] = ()
        if data:
            blocks = (LogBlock(file=_FILE, offset=self._offset, data=data, scope=Scope.APPLICATION, read_at=now),)
            self._offset += len(data)
        reading = Reading(blocks=blocks, positions={}, coverage=(), seen=SeenUpTo(source="files", at=now))
        outcome = self._pipeline.take(self._memory, (("files", reading),), {"files": now}, self.case)
        self.seen.judged.update({"lines": len(lines), "steps": sum(line.is_step for line in lines), "watermarks": 1})
        self._keep(at_s, outcome.memory, outcome.findings)

    def _hear(self, at_s: float, signal: RuleHit | DevicePicture) -> None:
        outcome = self._pipeline.hear(self._memory, "prometheus", (signal,), self.case)
        self.seen.judged["pictures" if isinstance(signal, DevicePicture) else "hits of metrics"] += 1
        self._keep(at_s, outcome.memory, outcome.findings)

    def _keep(self, at_s: float, memory: Memory, findings: tuple[Finding, ...]) -> None:
        self._memory = memory
        self.seen.findings += [(at_s, finding) for finding in findings]

    def _restart(self) -> None:
        """The watcher starts anew from its checkpoint."""
        text = to_text(Checkpoint(positions={}, memory=self._memory))
        kept = from_text(text)
        assert kept is not None, "a checkpoint that was just written has to be read"
        self.seen.checkpoint_bytes = max(self.seen.checkpoint_bytes, len(text))
        self._memory = kept.memory


def looks(lines: Iterable[Line], until_s: float, often_from_s: float) -> Iterator[tuple[float, list[Line]]]:
    """The lines by the look that reads them: right after a line was written, and now and then when none is."""
    batch: list[Line] = []
    at_s = 0.0
    for line in lines:
        if line.at_s >= until_s:
            break
        while line.at_s > (due_s := at_s + (LOOK_S if at_s < often_from_s else OFTEN_S)):
            yield due_s, batch
            at_s, batch = due_s, []
        batch.append(line)
        if line.is_step and line.at_s >= at_s + STEP_LOOK_S:
            at_s = line.at_s
            yield at_s, batch
            batch = []
    while at_s < until_s:
        at_s = min(at_s + (LOOK_S if at_s < often_from_s else OFTEN_S), until_s)
        yield at_s, batch
        batch = []


def shipped() -> tuple[Pack, Scanner]:
    """The shipped rules, compiled."""
    pack = load_pack(read_texts())
    scanner = Scanner(pack)
    scanner.prepare()
    return pack, scanner


def _spinning(at_s: float) -> DevicePicture:
    """What the GPUs show while one rank saves, and while all wait in a collective."""
    return DevicePicture(at=BEGAN + timedelta(seconds=at_s), counts={Activity.SPINNING: _GPUS - 1, Activity.IDLE: 1})
