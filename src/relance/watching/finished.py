"""Logs that are finished: what they show, read in one go and without a server. The caller opens the files."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter

from relance.domain.blocks import OVERLAP_BYTES, is_cut, overlap_of, ready_bytes
from relance.domain.faults import Role, Scope
from relance.domain.findings import Coverage, Finding, RuleHit, Sight
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.limits import HangLimits
from relance.domain.observations import LogBlock
from relance.domain.progress import Course, Progress, StepSeen
from relance.domain.verdicts import CaseFile, Presence
from relance.domain.views import Assignment
from relance.ports.sources import Reading
from relance.progress import ProgressReader, ReaderState
from relance.rules import Engine, Pack, Scanner, ScanState
from relance.watching.courses import course_of
from relance.watching.evidence.contexts import Context, ContextError, context_of
from relance.watching.evidence.gathering import CaseEvidence
from relance.watching.evidence.logs import FinishedLog, named
from relance.watching.evidence.naming import read_name
from relance.watching.hearing import Ears
from relance.watching.pipelines import Memory, Pipeline, meanings_of, new_memory
from relance.watching.runs import PATTERNS, Start, starts_of
from relance.watching.standstills import standstill_of

__all__ = [
    "Context",
    "ContextError",
    "Finished",
    "FinishedLog",
    "Shown",
    "blocks_of",
    "cases_of",
    "context_of",
    "named",
    "read_finished",
]

_JOB = JobKey(cluster="logs", raw_id="0", submitted_at=datetime(1970, 1, 1, tzinfo=UTC))
"""The job whose logs are read, whichever it is: the time of reading must not be in any id."""
_LOOK_BYTES = 4 * 1024 * 1024
"""So much of a log is looked at to see whether it reports steps."""
_FAULTS = (Role.ROOT, Role.MAYBE, Role.CASCADE)
_WITH_STEPS = 0
_MOST_NOTED = 400
_PIECE_BYTES = 1 << 20
_POD = re.compile(r"\b[Pp]od[ /](?:[\w-]+/)?([\w.-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What one run shows. `learned` says how its steps are known, where their format is not."""

    findings: tuple[Finding, ...]
    progress: Progress
    learned: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What finished logs show: of each run of the program, in order, at least of one; and who was heard.

    `spoke_at` is the latest time that the program's own output bears, `told_at` that of agents beside it. `signs`
    are hits in notes: they are evidence, and open nothing by themselves.
    """

    runs: tuple[Shown, ...]
    coverage: tuple[Coverage, ...]
    signs: tuple[RuleHit, ...] = ()
    presence: Presence = field(default_factory=Presence)
    spoke_at: datetime | None = None
    told_at: datetime | None = None
    by_hand: bool = False
    course: Course = field(default_factory=Course)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the detectors find in the last run."""
        return self.runs[-1].findings

    @property
    def progress(self) -> Progress:
        """How far the last run came."""
        return self.runs[-1].progress


def read_finished(
    logs: Sequence[FinishedLog], context: Context, pack: Pack, now: datetime, scanner: Scanner | None = None
) -> Finished:
    """Read all logs of one attempt that is over, and give what the detectors find in them.

    Logs that report steps come first and kernel logs last: a line of one log is not taken for outlived because another
    log, read later, has steps. `now` stands for the time of reading where lines bear none. `scanner` is one for these
    rules, made once for many attempts; None: one is made.
    """
    case = Assignment(
        attempt=AttemptKey(job=_JOB, restart_count=0),
        owner_uid=0,
        nodes=context.nodes,
        log_paths=(),
        progress_pattern=context.progress_pattern,
        ended_at=now,
        keep_tail=True,
    )
    scanner = scanner or Scanner(pack)
    pipeline = Pipeline(scanner, meanings_of(pack), HangLimits(), case)
    ears = Ears(now)
    reading = _Reading(pipeline, case, ears, now)
    lines = [log for log in logs if log.scope is not Scope.NOTES]
    order = {log: _order(log, pipeline.reader, now) for log in lines}
    ordered = sorted(lines, key=order.__getitem__)
    repeated, starts = _repeated(ordered, scanner.finder_of(PATTERNS), now)
    common = reading.shown([block for log in ordered if log is not repeated for block in (blocks_of(log, now),)])
    runs = [common]
    if repeated is not None:
        runs = [
            replace(run, findings=(*run.findings, *common.findings))
            for run in (reading.shown([blocks]) for blocks in _parts(repeated, starts, now))
        ] or [common]
    latest, own = ears.latest(), {log.name for log in lines if order[log][0] == _WITH_STEPS or _is_output(log)}
    beside = {log.name for log in lines if log.scope is Scope.APPLICATION} - own
    signs = _noted([log for log in logs if log.scope is Scope.NOTES], scanner, now)
    coverage = [_sight(log, now) for log in logs]
    if pipeline.problem:
        coverage.append(Coverage(source="progress pattern", sight=Sight.REFUSED, note=pipeline.problem, scope=None))
    if note := runs[-1].learned:
        coverage.append(Coverage(source="progress", sight=Sight.SEEN, note=note, scope=None))
    return Finished(
        runs=tuple(runs),
        coverage=tuple(coverage),
        signs=signs,
        presence=ears.presence(),
        spoke_at=max((at for name, at in latest.items() if name in own), default=None),
        told_at=max((at for name, at in ears.told().items() if name in beside), default=None),
        by_hand=any(start.by_hand for start in starts),
        course=course_of(blocks_of(ordered[0], now), pipeline.reader) if ordered and not starts else Course(),
    )


def _sight(log: FinishedLog, now: datetime) -> Coverage:
    """What was seen of a log that has been read."""
    trouble = log.trouble()
    sight = Sight.LAGGING if trouble else Sight.SEEN
    return Coverage(source=log.name, sight=sight, up_to=now, note=trouble, scope=log.scope)


def _noted(notes: Iterable[FinishedLog], scanner: Scanner, now: datetime) -> tuple[RuleHit, ...]:
    """What rules find in notes."""
    found: list[RuleHit] = []
    for log in sorted(notes, key=lambda each: (each.name, each.node or "")):
        state = ScanState()
        for block in blocks_of(log, now):
            state, result = scanner.scan(block, state)
            found += result.hits[: _MOST_NOTED - len(found)]
    return tuple(found)


class _Reading:
    """Reads blocks of logs for one run after another."""

    def __init__(self, pipeline: Pipeline, case: Assignment, ears: Ears, now: datetime) -> None:
        self._pipeline, self._case, self._ears, self._now = pipeline, case, ears, now

    def shown(self, logs: Iterable[Iterable[LogBlock]]) -> Shown:
        """What the blocks of these logs show of one run."""
        memory: Memory = new_memory(self._now)
        findings: list[Finding] = []
        for blocks in logs:
            for block in blocks:
                self._ears.take(block)
                reading = Reading(blocks=(block,), positions={}, coverage=())
                outcome = self._pipeline.take(memory, [(block.file, reading)], {}, self._case)
                memory = outcome.memory
                findings += outcome.findings
        outcome = self._pipeline.take(memory, (), {"end": self._now}, self._case)
        learned = outcome.memory.reader.learned_note
        return Shown(findings=(*findings, *outcome.findings), progress=outcome.progress, learned=learned)


def _repeated(
    logs: Iterable[FinishedLog], engine: Engine, now: datetime
) -> tuple[FinishedLog | None, tuple[Start, ...]]:
    """The output that holds most runs, if any holds several, and where these begin."""
    outputs = [log for log in logs if log.scope is Scope.APPLICATION]
    found = [(log, starts_of(blocks_of(log, now), engine)) for log in outputs]
    log, starts = max(found, key=lambda pair: len(pair[1]), default=(None, ()))
    return (log, starts) if starts else (None, ())


def _parts(log: FinishedLog, starts: Sequence[Start], now: datetime) -> Iterator[Iterator[LogBlock]]:
    """The blocks of each run of an output, which are to be taken before the next run: none is kept."""
    for _, pieces in groupby(_pieces(log, starts, now), key=itemgetter(0)):
        yield (block for _, block in pieces)


def _pieces(log: FinishedLog, starts: Sequence[Start], now: datetime) -> Iterator[tuple[int, LogBlock]]:
    """The blocks of an output, cut where a run begins, each with the number of its run from 0."""
    ahead, run, node = deque(starts), 0, log.node
    for whole in blocks_of(log, now):
        block = whole
        while ahead and ahead[0].offset < block.offset + len(block.data):
            before, block = _cut(block, max(ahead[0].offset - block.offset, 0))
            if before.data:
                yield run, replace(before, node=node)
            run, node = run + 1, ahead.popleft().node or log.node
        yield run, replace(block, node=node)


def _cut(block: LogBlock, size: int) -> tuple[LogBlock, LogBlock]:
    """A block in two, the first of so many bytes."""
    first, rest = block.data[:size], block.data[size:]
    line = None if block.line is None else block.line + first.count(b"\n")
    after = replace(block, data=rest, offset=block.offset + size, line=line, overlap=0)
    return replace(block, data=first), after


def cases_of(
    finished: Finished, context: Context, now: datetime, beside: CaseEvidence | None = None
) -> tuple[CaseFile, ...]:
    """The cases that attribution is asked about, one for each run, in order; `beside` is what lay beside the logs."""
    beside = beside or CaseEvidence()
    over = beside.job is not None and beside.job.state.is_over
    attempts = [AttemptKey(job=_JOB, restart_count=count) for count in range(len(finished.runs))]
    last = finished.runs[-1]  # of an earlier one it is known that another began: whoever told of the job told of that
    return tuple(
        CaseFile(
            incident_id="diagnosis",
            attempt=attempts[count],
            as_of=now,
            nodes=_nodes_of(context, count + 1),
            rank_to_node=context.places_of_run.get(count + 1, context.rank_to_node),
            job=beside.job,
            findings=(
                *(_with_pods(finding, beside.pods) for finding in run.findings),
                *(() if over or run is not last else _standstill(run, attempts[count], now, finished)),
            ),
            node_views=beside.node_views,
            coverage=(*finished.coverage, *beside.coverage),
            signs=(*beside.signs, *finished.signs),
            progress=_with_own_times(run.progress, now),
            presence=finished.presence,
            addresses=beside.addresses,
            course=finished.course,
        )
        for count, run in enumerate(finished.runs)
    )


def _nodes_of(context: Context, run: int) -> tuple[str, ...]:
    """The nodes of one run of several, where it is known on which its ranks were."""
    places = context.places_of_run.get(run)
    return tuple(dict.fromkeys(places.values())) if places else context.nodes


def _with_own_times(progress: Progress, now: datetime) -> Progress:
    """Progress without the times of reading: they tell nothing of what came before or after in finished logs."""
    first = None if progress.first_step_at == now else progress.first_step_at
    return replace(progress, first_step_at=first, step_at=None if progress.step_at == now else progress.step_at)


def _standstill(run: Shown, attempt: AttemptKey, now: datetime, heard: Finished) -> tuple[Finding, ...]:
    """The finding of a hang, where no line of the run tells of a fault."""
    if any(hit.role in _FAULTS for finding in run.findings for hit in finding.hits):
        return ()
    found = standstill_of(attempt, _with_own_times(run.progress, now), heard.spoke_at, heard.told_at)
    return () if found is None else (found,)


def _with_pods(finding: Finding, pods: Mapping[str, str]) -> Finding:
    """A finding with the node of each pod that the scheduler's lines name."""
    return replace(finding, hits=tuple(_with_pod(hit, pods) for hit in finding.hits)) if pods else finding


def _with_pod(hit: RuleHit, pods: Mapping[str, str]) -> RuleHit:
    if hit.scope is not Scope.SCHEDULER or hit.node is not None or "node" in hit.captures:
        return hit
    named = _POD.search(hit.excerpt)
    node = pods.get(named[1]) if named else None
    return hit if node is None else replace(hit, node=node)


def blocks_of(log: FinishedLog, read_at: datetime) -> Iterator[LogBlock]:
    """The blocks of a log: whole lines, longer ones in overlapping pieces."""
    rest, before = b"", b""
    offset, line = 0, 1
    for chunk, last in _with_last(_even(log.chunks())):
        rest += chunk
        size = ready_bytes(rest, over=last)
        new, rest = rest[:size], rest[size:]
        if not new:
            continue
        overlap = overlap_of(before) if is_cut(before) else b""
        yield LogBlock(
            file=log.name,
            offset=offset - len(overlap),
            data=overlap + new,
            scope=log.scope,
            read_at=read_at,
            line=line,
            node=log.node,
            rank=log.rank,
            overlap=len(overlap),
        )
        offset += len(new)
        line += new.count(b"\n")
        before = (before + new)[-OVERLAP_BYTES:]


def _is_output(log: FinishedLog) -> bool:
    """Whether a log is called as the output of a program is, as against that of an agent or a monitor beside it."""
    return log.scope is Scope.APPLICATION and (log.rank is not None or read_name(log.name).is_output)


def _order(log: FinishedLog, reader: ProgressReader, now: datetime) -> tuple[int, str]:
    if log.scope is not Scope.APPLICATION:
        return (3 if log.scope is Scope.KERNEL else 2), log.name
    return (_WITH_STEPS if _reports_steps(log, reader, now) else 1), log.name


def _reports_steps(log: FinishedLog, reader: ProgressReader, now: datetime) -> bool:
    """Whether the beginning of a log has steps."""
    state, seen = ReaderState(), 0
    for block in blocks_of(log, now):
        state, marks = reader.read(block, state)
        if any(isinstance(mark, StepSeen) for mark in marks):
            return True
        seen += len(block.data)
        if seen >= _LOOK_BYTES:
            return False
    return False


def _even(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of one size: what is found in a block must not depend on how a file was unpacked."""
    held = b""
    for chunk in chunks:
        if len(chunk) == _PIECE_BYTES and not held:
            yield chunk
            continue
        held += chunk
        while len(held) >= _PIECE_BYTES:
            yield held[:_PIECE_BYTES]
            held = held[_PIECE_BYTES:]
    if held:
        yield held


def _with_last(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each chunk, and whether it is the last."""
    held: bytes | None = None
    for chunk in chunks:
        if held is not None:
            yield held, False
        held = chunk
    if held is not None:
        yield held, True
