"""Logs that are finished: what they show, read in one go and without a server. The caller opens the files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from relance.domain.blocks import OVERLAP_BYTES, is_cut, overlap_of, ready_bytes
from relance.domain.faults import Scope
from relance.domain.findings import Coverage, Finding, Sight
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.limits import HangLimits
from relance.domain.observations import LogBlock
from relance.domain.progress import Progress, StepSeen
from relance.domain.verdicts import CaseFile
from relance.domain.views import Assignment
from relance.ports.sources import Reading
from relance.progress import ProgressReader, ReaderState
from relance.rules import Pack, Scanner
from relance.watching.pipelines import Memory, Pipeline, new_memory, signs_of

_LOOK_BYTES = 4 * 1024 * 1024
"""So much of a log is looked at to see whether it reports steps."""
_SCOPES = (
    (
        re.compile(r"^(?:dmesg|kern|kernel|console|journal|messages|syslog)(?:[-_.](?P<node>.+))?$"),
        Scope.KERNEL,
    ),
    (re.compile(r"^(?:slurmd|slurmstepd)(?:[-_.](?P<node>.+))?$"), Scope.SCHEDULER),
    (re.compile(r"^(?:slurmctld|controller)$"), Scope.SCHEDULER),
    (re.compile(r"^(?:fabricmanager|nvidia-fabricmanager)(?:[-_.](?P<node>.+))?$"), Scope.DEVICE),
)
_RANKS = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_RANK = re.compile(r"(?:rank|worker)[-_.]?(\d{1,6})(?!\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedLog:
    """One log. `chunks` gives its bytes from the beginning, in pieces of any size, each time it is called."""

    name: str
    chunks: Callable[[], Iterable[bytes]]
    scope: Scope = Scope.APPLICATION
    node: str | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is known of the attempt beside its logs."""

    nodes: tuple[str, ...] = ()
    rank_to_node: Mapping[int, str] = field(default_factory=dict)
    progress_pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What finished logs show."""

    findings: tuple[Finding, ...]
    progress: Progress
    coverage: tuple[Coverage, ...]


def named(name: str, chunks: Callable[[], Iterable[bytes]]) -> FinishedLog:
    """A log with what its file's name tells: `dmesg-<node>.log` is that node's kernel log, `rank-3.log` a rank's."""
    base = name.rpartition("/")[2]
    for pattern, scope in _SCOPES:
        found = pattern.match(base.removesuffix(".log"))
        if found:
            return FinishedLog(name=name, chunks=chunks, scope=scope, node=found.groupdict().get("node"))
    rank = _RANK.search(base)
    return FinishedLog(name=name, chunks=chunks, rank=int(rank[1]) if rank else None)


def read_finished(logs: Sequence[FinishedLog], context: Context, pack: Pack, now: datetime) -> Finished:
    """Read all logs of one attempt that is over, and give what the detectors find in them.

    Logs that report steps come first and kernel logs last: a line of one log is not taken for outlived because another
    log, read later, has steps. `now` stands for the time of reading where lines bear none.
    """
    case = Assignment(
        attempt=AttemptKey(job=JobKey(cluster="logs", raw_id="0", submitted_at=now), restart_count=0),
        owner_uid=0,
        nodes=context.nodes,
        log_paths=(),
        progress_pattern=context.progress_pattern,
        ended_at=now,
        keep_tail=True,
    )
    pipeline = Pipeline(Scanner(pack), signs_of(pack), HangLimits(), case)
    reader = pipeline.reader
    memory: Memory = new_memory(now)
    findings: list[Finding] = []
    for log in sorted(logs, key=lambda log: _order(log, reader, now)):
        for block in blocks_of(log, now):
            reading = Reading(blocks=(block,), positions={}, coverage=())
            outcome = pipeline.take(memory, [(log.name, reading)], {}, case)
            memory = outcome.memory
            findings += outcome.findings
    outcome = pipeline.take(memory, (), {"end": now}, case)
    coverage = [Coverage(source=log.name, sight=Sight.SEEN, up_to=now) for log in logs]
    if pipeline.problem:
        coverage.append(Coverage(source="progress pattern", sight=Sight.REFUSED, note=pipeline.problem))
    return Finished(findings=(*findings, *outcome.findings), progress=outcome.progress, coverage=tuple(coverage))


def case_of(finished: Finished, context: Context, now: datetime) -> CaseFile:
    """The case that attribution is asked about."""
    attempt = AttemptKey(job=JobKey(cluster="logs", raw_id="0", submitted_at=now), restart_count=0)
    return CaseFile(
        incident_id="diagnosis",
        attempt=attempt,
        as_of=now,
        nodes=context.nodes,
        rank_to_node=context.rank_to_node,
        findings=finished.findings,
        coverage=finished.coverage,
        progress=finished.progress,
    )


class ContextError(ValueError):
    """A context cannot be used. Says what is wrong."""


def context_of(data: Mapping[str, object]) -> Context:
    """The context that a `context.yaml` gives: `nodes`, and `rank_to_node` as entries of `ranks` and `node`.

    Entries whose ranks are no numbers, such as those of several runs, place nothing. Raises ContextError.
    """
    nodes, entries = data.get("nodes", []), data.get("rank_to_node", [])
    if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
        message = "nodes: a list of names is wanted"
        raise ContextError(message)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        message = "rank_to_node: a list is wanted, each entry with ranks, such as 0-7, and node"
        raise ContextError(message)
    places: dict[int, str] = {}
    for entry in entries:
        ranks = _RANKS.fullmatch(str(entry.get("ranks")))
        if ranks is not None:
            numbers = range(int(ranks[1]), int(ranks[2] or ranks[1]) + 1)
            places |= {rank: str(entry.get("node")) for rank in numbers}
    return Context(nodes=tuple(nodes), rank_to_node=places)


def blocks_of(log: FinishedLog, read_at: datetime) -> Iterator[LogBlock]:
    """The blocks of a log: whole lines, longer ones in overlapping pieces."""
    rest, before = b"", b""
    offset, line = 0, 1
    for chunk, last in _with_last(log.chunks()):
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


def _order(log: FinishedLog, reader: ProgressReader, now: datetime) -> tuple[int, str]:
    if log.scope is not Scope.APPLICATION:
        return (3 if log.scope is Scope.KERNEL else 2), log.name
    return (0 if _reports_steps(log, reader, now) else 1), log.name


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


def _with_last(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each chunk, and whether it is the last."""
    held: bytes | None = None
    for chunk in chunks:
        if held is not None:
            yield held, False
        held = chunk
    if held is not None:
        yield held, True
