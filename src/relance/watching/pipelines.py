"""From a reading to findings: blocks are scanned and read for progress, and all of it goes through the detectors.

Pure: the same readings give the same state and findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

from relance.detectors.watched import Meanings, Watched
from relance.detectors.watches import SINGLE_STEPS, WatchState, counted, shifted, watch, watch_steps
from relance.domain.findings import Finding, RuleHit
from relance.domain.keys import stable_id
from relance.domain.limits import DivergenceLimits, HangLimits, SlowdownLimits
from relance.domain.log_texts import LogText
from relance.domain.observations import Life, LogBlock, Observation, SeenUpTo
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Phase, Progress, ProgressMark, StepSeen
from relance.domain.replacing import replace
from relance.domain.views import Assignment
from relance.ports.signals import Signal
from relance.ports.sources import Reading
from relance.progress import (
    PatternError,
    ProgressReader,
    ProgressState,
    ReaderState,
    seen_up_to,
    start,
    track,
    track_steps,
    with_start,
)
from relance.rules import Pack, Scanner, ScanState
from relance.watching.copies import told_first

_SLOWDOWN = SlowdownLimits()
_DIVERGENCE = DivergenceLimits()
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
"""The watermark while nothing has been read to its end."""
_SAVES = frozenset({CheckpointEvent.BEGUN, CheckpointEvent.DURABLE})
_COLLECTED_AT_MOST = 512
"""So many pieces of collected evidence are told apart from those that were weighed already."""
_PATH_AT_MOST = 4096
"""The longest path that Linux takes (PATH_MAX)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What scanning, reading and detecting know of one attempt between two readings; part of its checkpoint.

    `save_folder` is where its lines say that it saves.
    """

    version: int = 1
    scan: ScanState
    reader: ReaderState
    progress: ProgressState
    watch: WatchState
    watermark: datetime
    save_folder: str | None = None
    steps_from: frozenset[str] = frozenset()
    """Sources of signals by which steps came."""
    leader: str | None = None
    """The source of logs that tells steps first; None: none has told any."""
    collected: frozenset[str] = frozenset()
    """What was collected by a command and has been weighed."""
    are_steps_shipped: bool = False
    """Whether the last steps came out of a store, to which an agent on the node sends them."""


def new_memory(now: datetime) -> Memory:
    """Nothing known yet."""
    return Memory(scan=ScanState(), reader=ReaderState(), progress=start(now), watch=WatchState(), watermark=_BEGINNING)


def after_clock_step(memory: Memory, by: timedelta) -> Memory:
    """The memory after the wall clock was set forward by so much (or back): no silence comes or goes by it."""
    return replace(memory, watch=shifted(memory.watch, by), watermark=max(memory.watermark + by, _BEGINNING))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What readings came to. `noticed` says that anything was found in them at all."""

    memory: Memory
    findings: tuple[Finding, ...]
    noticed: bool

    @property
    def progress(self) -> Progress:
        """The attempt's progress now."""
        return self.memory.progress.progress


class Pipeline:
    """One attempt's way from blocks to findings.

    Args:
        scanner: The compiled rules, shared by all attempts.
        meanings: What the hits of each rule mean to detectors.
        limits: The site's limits.
        assignment: What is known of the attempt.
        slowdown: The site's limits of slowness.
        divergence: The site's limits of divergence.
    """

    def __init__(
        self,
        scanner: Scanner,
        meanings: Meanings,
        limits: HangLimits,
        assignment: Assignment,
        slowdown: SlowdownLimits = _SLOWDOWN,
        divergence: DivergenceLimits = _DIVERGENCE,
    ) -> None:
        self._scanner = scanner
        self._meanings = meanings
        self._limits = limits
        self._slowdown = slowdown
        self._divergence = divergence
        self.problem = ""
        """What is wrong with the job's own step pattern; the usual ones are read instead."""
        try:
            self.reader = ProgressReader(assignment.progress_pattern, finders=scanner.finder_of)
        except PatternError as error:
            self.reader = ProgressReader(finders=scanner.finder_of)
            self.problem = f"{error}. {error.remedy}"

    def take(
        self, memory: Memory, readings: Sequence[tuple[str, Reading]], seen: Mapping[str, datetime], case: Assignment
    ) -> Outcome:
        """The memory after readings of several sources, and the findings.

        `seen` is up to when each source was read to its end; the attempt's watermark is the earliest of them.
        """
        watched = self._watched(case, memory)
        noticed = False
        # What was collected is older than what is read now: a step that is read now speaks against it.
        memory, weighed = self._weigh(memory, case, watched)
        findings = list(weighed)
        for name, reading in readings:
            steps = memory.progress.progress.steps_seen
            for block in reading.blocks:
                noticed = True
                memory, found = self._take_block(memory, name, block, watched)
                findings += found
            if memory.progress.progress.steps_seen != steps:
                memory = replace(memory, are_steps_shipped=reading.is_shipped)
            for what in reading.life:
                memory, found = observe(memory, Life(at=_latest(memory, seen), what=what), watched)
                findings += found
        watched = self._watched(case, memory)
        mark = min(seen.values(), default=None)
        if mark is not None and mark > memory.watermark:
            memory, found = observe(memory, SeenUpTo(source="all", at=mark), watched)
            findings += found
        memory = _started(memory, case)
        return Outcome(memory=memory, findings=tuple(findings), noticed=noticed or bool(findings))

    def hear(self, memory: Memory, source: str, signals: Sequence[Signal], case: Assignment) -> Outcome:
        """The memory after signals of a source, and the findings."""
        watched = self._watched(case, memory)
        findings: list[Finding] = []
        for signal in signals:
            if isinstance(signal, StepSeen):
                memory = replace(memory, steps_from=memory.steps_from | {source}, are_steps_shipped=True)
            memory, found = observe(memory, signal, watched)
            findings += found
        return Outcome(memory=_started(memory, case), findings=tuple(findings), noticed=bool(signals))

    def _watched(self, case: Assignment, memory: Memory) -> Watched:
        """What the detectors are told of the attempt."""
        return Watched(
            attempt=case.attempt,
            hang=self._limits,
            slowdown=self._slowdown,
            divergence=self._divergence,
            nodes=case.nodes,
            signs=self._meanings.signs,
            isolating=self._meanings.isolating,
            started_at=case.started_at,
            ended_at=case.ended_at,
            hang_after_s=case.hang_after_s,
            durable_before=case.durable_before,
            expects_steps=case.progress_pattern is not None or case.step_before is not None,
            has_incident=case.keep_tail,
            is_paused=case.is_paused,
            ranks_per_node=case.ranks_per_node,
            start_before_s=case.start_before_s,
            pause_before_s=case.pause_before_s,
            are_steps_shipped=memory.are_steps_shipped,
        )

    def _weigh(self, memory: Memory, case: Assignment, watched: Watched) -> tuple[Memory, tuple[Finding, ...]]:
        """Give the detectors what was collected by a command, each piece once."""
        findings: list[Finding] = []
        for hit in case.collected:
            key = stable_id("c", hit.rule, hit.file, hit.offset, hit.line, hit.node, hit.rank)
            if key in memory.collected or len(memory.collected) >= _COLLECTED_AT_MOST:
                continue
            memory = replace(memory, collected=memory.collected | {key})
            memory, found = observe(memory, hit, watched)
            findings += found
        return memory, tuple(findings)

    def _take_block(
        self, memory: Memory, source: str, block: LogBlock, watched: Watched
    ) -> tuple[Memory, tuple[Finding, ...]]:
        log = LogText(block.data)
        scan, result = self._scanner.scan(block, memory.scan, log)
        reader, told = self.reader.read(block, memory.reader, log)
        leader, marks = told_first(told, source, memory.leader, memory.progress.progress)
        memory = replace(memory, scan=scan, reader=reader, leader=leader)
        findings: list[Finding] = []
        for together in _runs(in_order(result.hits, marks)):
            memory, found = observe_all(memory, together, watched)
            findings += found
        left = dict(result.counts)
        for hit in result.hits:
            left[hit.rule] = left.get(hit.rule, 0) - 1
        rest = {rule: count for rule, count in left.items() if count > 0}
        return replace(memory, watch=counted(memory.watch, rest)) if rest else memory, tuple(findings)


def in_order(hits: Iterable[RuleHit], marks: Iterable[ProgressMark]) -> list[Observation]:
    """Hits and marks of one block in the order of their bytes.

    A mark that does not say where it stood stays with the step before it.
    """
    placed: list[tuple[int, Observation]] = [(hit.offset, hit) for hit in hits]
    offset = -1
    for mark in marks:
        offset = mark.offset if isinstance(mark, StepSeen) else offset
        placed.append((offset, mark))
    return [observation for _, observation in sorted(placed, key=lambda pair: pair[0])]


def _runs(observations: Iterable[Observation]) -> Iterator[list[Observation]]:
    """The same in order, steps that follow on each other together."""
    for is_step, group in groupby(observations, lambda each: isinstance(each, StepSeen)):
        if is_step:
            yield list(group)
        else:
            yield from ([each] for each in group)


def observe_all(
    memory: Memory, observations: Sequence[Observation], watched: Watched
) -> tuple[Memory, tuple[Finding, ...]]:
    """Fold observations: the first ones of many steps one by one, the others at once if they mean nothing more."""
    findings: list[Finding] = []
    for observation in observations[:SINGLE_STEPS]:
        memory, found = observe(memory, observation, watched)
        findings += found
    rest = [each for each in observations[SINGLE_STEPS:] if isinstance(each, StepSeen)]
    training = memory.progress.progress.phase is Phase.TRAINING
    state = watch_steps(memory.watch, rest, watched) if training else None
    if state is not None:
        progress = track_steps(memory.progress, rest, memory.progress.progress.as_of)
        return replace(memory, progress=progress, watch=state), tuple(findings)
    for seen in rest:
        memory, found = observe(memory, seen, watched)
        findings += found
    return memory, tuple(findings)


def meanings_of(pack: Pack) -> Meanings:
    """What the hits of each rule mean to detectors."""
    signs = {rule.id: rule.signs for rule in pack.rules if rule.signs}
    signs |= {rule.id: rule.signs for rule in pack.derived if rule.signs}
    signs |= {rule.id: rule.signs for rule in pack.metrics if rule.signs}
    return Meanings(
        signs=signs,
        isolating=frozenset(rule.id for rule in pack.metrics if rule.isolate),
    )


def observe(memory: Memory, observation: Observation, watched: Watched) -> tuple[Memory, tuple[Finding, ...]]:
    """Fold one observation into the progress, then into the detectors."""
    progress, watermark, save_folder = memory.progress, memory.watermark, memory.save_folder
    if isinstance(observation, SeenUpTo):
        watermark = observation.at
        progress = seen_up_to(progress, watermark)
    elif isinstance(observation, ProgressMark):
        progress = track(progress, observation, progress.progress.as_of)
        save_folder = _save_folder(observation) or save_folder
    state, findings = watch(memory.watch, observation, watermark, watched, progress.progress)
    return replace(memory, progress=progress, watch=state, watermark=watermark, save_folder=save_folder), findings


def _started(memory: Memory, case: Assignment) -> Memory:
    """With how long the attempt took to its first step, once that is known."""
    progress = with_start(memory.progress, case.started_at)
    return memory if progress is memory.progress else replace(memory, progress=progress)


def _save_folder(mark: ProgressMark) -> str | None:
    """The folder that a line about a save names."""
    if not isinstance(mark, CheckpointSeen) or mark.event not in _SAVES or mark.path is None:
        return None
    return mark.path if len(mark.path) <= _PATH_AT_MOST else None


def _latest(memory: Memory, seen: Mapping[str, datetime]) -> datetime:
    return max([memory.watermark, *seen.values()])
