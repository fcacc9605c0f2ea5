"""All that lies beside a finished attempt, told apart and read, but for the scanning of its logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from relance.domain.faults import Scope
from relance.domain.findings import Coverage, RuleHit, Sight
from relance.domain.views import JobView, NodeView, PastAttempt
from relance.rules.formats import Pack
from relance.rules.masking import mask
from relance.rules.metrics import evaluate
from relance.traces import RankHost, TraceFile, hits_of, looks_like
from relance.traces import read as read_traces
from relance.watching.evidence import hosts, jobs, kubernetes, prometheus, tables, telemetry, values
from relance.watching.evidence.contexts import Context
from relance.watching.evidence.kinds import HEAD_BYTES, FileKind, Look, look
from relance.watching.evidence.logs import FinishedLog, no_trouble
from relance.watching.evidence.naming import known_node, stem_of, unpacked
from relance.watching.evidence.samples import MOST_SAMPLES, Samples

MOST_TRACE_BYTES = 128 * 1024 * 1024
"""All traces together: they are read whole."""
_MOST_EVENT_BYTES = 32 * 1024 * 1024
_MANY_HOSTS_BYTES = 1024 * 1024
_MOST_TELLING_NODES = 256
"""Kubelets of one document that are told apart; each is a pass over the length of the document."""
_NO_NODES = frozenset({"all", "combined", "excerpt", "extract", "full", "head", "merged", "part", "snippet", "tail"})
"""What stands where a file's name has that of a node, and is none."""
_LOGS = (".log", ".out", ".err")
_LEFT_OUT = {
    FileKind.SETTINGS: "settings: not read",
    FileKind.BINARY: "no text: not read",
    FileKind.ARCHIVE: "an archive: not read; unpack it into a folder, and name that",
}
_ADDRESS = re.compile(rb"^\s*((?:\d{1,3}\.){3}\d{1,3}|i-[0-9a-f]{4,17})\s+([A-Za-z][\w.-]*)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFile:
    """A file as it lies there. `chunks` gives its bytes, unpacked, from the beginning, each time it is called.

    `trouble` says, after they were read, what was wrong with the packing, if anything was.
    """

    name: str
    chunks: Callable[[], Iterable[bytes]]
    trouble: Callable[[], str] = no_trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """What reading needs from others: what takes a scheduler's short list of nodes apart, and the rules in force."""

    expand: jobs.Expand
    pack: Pack


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEvidence:
    """Everything that lies beside a finished attempt.

    `context` is the one given, with the nodes that the scheduler's answer shows where it had none. `signs` are hits of
    rules over samples and traces. `rank_hosts` says where ranks run, as traces name the host. `pods` says where
    Kubernetes placed pods, `addresses` which node an address is, where a list says so. `coverage` has a line for every
    file of evidence that is not among the logs, `left_out` one for every file that is none.
    """

    logs: tuple[FinishedLog, ...] = ()
    context: Context = field(default_factory=Context)
    signs: tuple[RuleHit, ...] = ()
    rank_hosts: tuple[RankHost, ...] = ()
    job: JobView | None = None
    past: tuple[PastAttempt, ...] = ()
    node_views: tuple[NodeView, ...] = ()
    pods: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    coverage: tuple[Coverage, ...] = ()
    left_out: tuple[Coverage, ...] = ()
    samples: int = 0
    """How many samples of metrics were read that any rule asks about."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that anything could be concluded from."""
        return not (self.logs or self.signs or self.samples or self.job or self.node_views)


def gather(files: Sequence[EvidenceFile], context: Context, readers: Readers, now: datetime) -> CaseEvidence:
    """Tell the files of a finished attempt apart and read them, whatever their order.

    A file that cannot be read or is of no use is a line of the coverage, never an error.
    """
    gathering = _Gathering(context, readers, now)
    for file in sorted(files, key=lambda each: each.name):
        try:
            gathering.take(file)
        except OSError as error:
            gathering.read(file.name, error.strerror or str(error), Sight.REFUSED)
        except values.DocumentError as error:
            gathering.read(file.name, str(error), Sight.REFUSED)
    return gathering.evidence()


class _Gathering:
    """The evidence in the making."""

    def __init__(self, context: Context, readers: Readers, now: datetime) -> None:
        self._context = context
        self._readers = readers
        self._now = now
        self._nodes = context.nodes
        self._logs: list[tuple[FinishedLog, int | None]] = []
        self._jobs: list[jobs.SeenJob] = []
        self._views: dict[str, NodeView] = {}
        self._pods: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._traces: list[TraceFile] = []
        self._trace_bytes = 0
        self._coverage: list[Coverage] = []
        self._left_out: list[Coverage] = []
        self._samples = Samples(frozenset(name for rule in readers.pack.metrics for name in rule.names))

    def read(self, name: str, why: str, sight: Sight = Sight.SEEN) -> None:
        """Say of a file of evidence that is no log what it was, or why it could not be read."""
        up_to = self._now if sight is Sight.SEEN else None
        self._coverage.append(Coverage(source=name, sight=sight, up_to=up_to, note=why))

    def _leave_out(self, name: str, why: str) -> None:
        self._left_out.append(Coverage(source=name, sight=Sight.REFUSED, note=why))

    def take(self, file: EvidenceFile) -> None:
        """Tell what a file is, and read it if it is no log."""
        head, is_whole = _head(file, HEAD_BYTES)
        told = look(file.name, head, self._nodes, whole=is_whole)
        if head and looks_like(file.name, head) is not None:
            self._take_trace(file, told)
            return
        readers: dict[FileKind, Callable[[EvidenceFile, Look], None]] = {
            FileKind.LOG: self._take_log,
            FileKind.JSON: self._take_json if not _is_output(file.name) else self._take_json_or_log,
            FileKind.YAML: self._take_yaml,
            FileKind.JOBS: self._take_jobs,
            FileKind.NODES: self._take_nodes,
            FileKind.PROMETHEUS: self._take_prometheus,
            FileKind.TABLE: self._take_table,
        }
        if told.kind in readers:
            readers[told.kind](file, told)
        elif told.kind is FileKind.EMPTY and _is_output(file.name):
            self._take_log(file, told)
        else:
            self._leave_out(file.name, _LEFT_OUT.get(told.kind, "empty"))

    def evidence(self) -> CaseEvidence:
        """What was gathered."""
        job = jobs.chosen(self._jobs, self._context)
        context = self._context
        if not context.nodes and job is not None and job.nodes:
            context = replace(context, nodes=job.nodes)
            self._nodes = context.nodes
        series = self._samples.series()
        report = read_traces(self._traces)
        for each in report.unreadable:
            self.read(each.file, each.why, Sight.REFUSED)
        if self._samples.full:
            self.read("metrics", f"more than {MOST_SAMPLES} samples: the rest was left out", Sight.LAGGING)
        if not context.rank_to_node:
            context = replace(context, rank_to_node=self._places(report.rank_hosts))
        return CaseEvidence(
            logs=tuple(self._with_place(log, worker) for log, worker in self._logs),
            context=context,
            signs=(
                *evaluate(self._readers.pack.metrics, series, self._now),
                *hits_of(report.signs, self._readers.pack.derived, self._now, mask=mask),
            ),
            rank_hosts=report.rank_hosts,
            samples=self._samples.count,
            job=jobs.view_of(job, self._now) if job is not None else None,
            past=jobs.past_of(self._jobs, job, self._now),
            node_views=tuple(self._views[name] for name in sorted(self._views)),
            pods=self._pods,
            addresses=self._addresses,
            coverage=tuple(self._coverage),
            left_out=tuple(self._left_out),
        )

    def _places(self, ranks: Iterable[RankHost]) -> Mapping[int, str]:
        """The nodes of ranks, where traces tell the host and it is one of the attempt's."""
        found = {each.rank: self._addresses.get(each.host) or known_node(each.host, self._nodes) for each in ranks}
        return {rank: node for rank, node in found.items() if node is not None}

    def _take_log(self, file: EvidenceFile, told: Look) -> None:
        log = FinishedLog(
            name=file.name,
            chunks=file.chunks,
            trouble=file.trouble,
            scope=told.scope,
            node=told.node,
            rank=told.rank,
        )
        if told.scope is Scope.KERNEL:
            self._logs += [(part, None) for part in self._parts(log)]
            return
        if told.scope is Scope.SCHEDULER:
            self._pods |= kubernetes.pods_in(_bounded(file.chunks(), _MOST_EVENT_BYTES))
        if told.scope is Scope.NOTES:
            self._take_notes(file)
        self._logs.append((log, told.worker))

    def _parts(self, log: FinishedLog) -> Iterator[FinishedLog]:
        """A host's log, taken apart where several hosts or daemons wrote it."""
        head = b"".join(_bounded(log.chunks(), _MANY_HOSTS_BYTES))
        found = hosts.hosts_of(head)
        named = log.node if log.node is None or log.node.lower() not in _NO_NODES else None
        strange = named is not None and bool(self._nodes) and known_node(named, self._nodes) is None
        if len(found) > 1 and (named is None or strange):
            ours = {host: node for host in found if (node := known_node(host, self._nodes)) is not None}
            names = ours if self._nodes else {host: host for host, _ in found.most_common(hosts.MOST_HOSTS)}
            others = len(found) - len(names)
            if others:
                self.read(log.name, f"lines of {others} other hosts were left out")
            for host in sorted(names):
                yield from _by_scope(log, host, names[host], head)
            return
        node = named
        if found and (node is None or (self._nodes and node not in self._nodes)):
            node = hosts.host_in(head, self._nodes) or node
        yield from _by_scope(log, None, node, head)

    def _take_notes(self, file: EvidenceFile) -> None:
        said = b"".join(_bounded(file.chunks(), _MANY_HOSTS_BYTES))
        for address, name in _ADDRESS.findall(said):
            node = name.decode("latin-1")
            self._addresses[address.decode()] = known_node(node, self._nodes) or node
        self._see(tables.nodes_in_notes(said.decode("utf-8", "replace")))

    def _take_json_or_log(self, file: EvidenceFile, told: Look) -> None:
        """A log may begin with a very long line, or hold one line, that looks like a document."""
        left_out = len(self._left_out)
        try:
            self._take_json(file, told)
        except values.DocumentError:
            self._take_log(file, replace(told, scope=Scope.APPLICATION))
        if len(self._left_out) > left_out:
            self._left_out.pop()
            self._take_log(file, replace(told, scope=Scope.APPLICATION))

    def _take_json(self, file: EvidenceFile, told: Look) -> None:
        data = values.whole(file.chunks)
        document = values.parsed(data)
        found = jobs.jobs_of(document, self._readers.expand)
        if found:
            self._jobs += found
            self.read(file.name, f"{len(found)} jobs of the scheduler")
            return
        views = tables.nodes_of_document(document, self._readers.expand)
        if views:
            self._see(views)
            self.read(file.name, f"{len(views)} nodes of the scheduler")
            return
        told_by = kubernetes.told_by_json(data, document)
        if told_by is not None:
            self._take_told(file.name, told_by, data.count(b"\n") + 1)
            return
        if prometheus.read_answer(file.name, document, self._samples, self._nodes, told.node):
            self.read(file.name, "samples")
            return
        self._leave_out(file.name, "JSON that nothing is known of: not read")

    def _take_yaml(self, file: EvidenceFile, _told: Look) -> None:
        data = values.whole(file.chunks, kubernetes.MOST_YAML_BYTES)
        self._take_told(file.name, kubernetes.told_by_yaml(data), data.count(b"\n") + 1)

    def _take_told(self, name: str, told: kubernetes.Told, length: int) -> None:
        """Read what Kubernetes tells as logs, one for each node that tells it; lines stand at their places."""
        self._pods |= told.pods or {}
        by_node: dict[str | None, list[kubernetes.EventLine]] = {}
        for line in told.lines:
            node = known_node(line.node, self._nodes) or line.node if line.node else None
            node = node if node in by_node or len(by_node) < _MOST_TELLING_NODES else None
            by_node.setdefault(node, []).append(line)
        for node in sorted(by_node, key=lambda each: each or ""):
            chunks = partial(_rendered, by_node[node], length)
            self._logs.append((FinishedLog(name=name, chunks=chunks, scope=Scope.SCHEDULER, node=node), None))
        self.read(name, f"{len(told.lines)} events and states of Kubernetes")

    def _take_jobs(self, file: EvidenceFile, _told: Look) -> None:
        self._jobs += tables.jobs_in(values.whole(file.chunks).decode("utf-8", "replace"), self._readers.expand)
        self._logs.append((FinishedLog(name=file.name, chunks=file.chunks, scope=Scope.NOTES), None))

    def _take_nodes(self, file: EvidenceFile, told: Look) -> None:
        self._see(tables.nodes_in(values.whole(file.chunks).decode("utf-8", "replace"), self._readers.expand))
        self._logs.append((FinishedLog(name=file.name, chunks=file.chunks, scope=Scope.NOTES, node=told.node), None))

    def _take_prometheus(self, file: EvidenceFile, told: Look) -> None:
        bad = prometheus.read_text(file.name, file.chunks(), self._samples, self._nodes, told.node)
        self.read(file.name, "samples" + (f"; {bad} lines are none" if bad else ""))

    def _take_table(self, file: EvidenceFile, told: Look) -> None:
        head, _ = _head(file, HEAD_BYTES)
        lines = (line for line in head.decode("utf-8", "replace").splitlines() if line.strip())
        first = next((line for line in lines if not line.startswith("#")), "")
        heading = telemetry.heading_of(first)
        if heading is None or not heading.has_samples:
            # A table of events, such as those of a fabric's controller: lines like others.
            scope = told.scope if told.scope is not Scope.APPLICATION else Scope.NOTES
            self._logs.append((FinishedLog(name=file.name, chunks=file.chunks, scope=scope, node=told.node), None))
            return
        notes = telemetry.read_table(file.name, file.chunks(), self._samples, self._nodes, told.node)
        self.read(file.name, "samples")
        if notes:
            self._logs.append((FinishedLog(name=file.name, chunks=_given(notes), scope=Scope.NOTES), None))

    def _take_trace(self, file: EvidenceFile, told: Look) -> None:
        data = values.whole(file.chunks, MOST_TRACE_BYTES - self._trace_bytes)
        self._trace_bytes += len(data)
        self._traces.append(TraceFile(name=file.name, data=data, rank=told.rank, node=told.node))
        self.read(file.name, "trace of collectives or stacks")

    def _see(self, views: Iterable[NodeView]) -> None:
        for view in views:
            name = known_node(view.name, self._nodes) or view.name
            held = self._views.get(name)
            if held is None or (view.reason and not held.reason):
                self._views[name] = replace(view, name=name)

    def _with_place(self, log: FinishedLog, worker: int | None) -> FinishedLog:
        """A log with the node on which Kubernetes placed its pod, and with its rank where a worker is one rank."""
        stem = stem_of(log.name.rpartition("/")[2])
        pods = [stem] if stem in self._pods else [pod for pod in self._pods if pod.endswith(f"-{stem}")]
        node = self._pods[pods[0]] if len(pods) == 1 and log.scope is Scope.APPLICATION else None
        ranks = self._context.rank_to_node
        alone = not ranks or len(set(ranks.values())) == len(ranks)
        rank = worker if log.rank is None and worker is not None and alone else log.rank
        return replace(log, rank=rank, node=log.node or node)


def _by_scope(log: FinishedLog, host: str | None, node: str | None, head: bytes) -> Iterator[FinishedLog]:
    """The parts of a host's log by the kind of program that wrote them."""
    others = hosts.scopes_of(head)
    if not others and host is None:
        yield replace(log, node=node)
        return
    for scope in (Scope.KERNEL, *sorted(others, key=lambda each: each.value)):
        only = scope if others else None
        yield replace(log, node=node, scope=scope, chunks=hosts.part(log.chunks, host=host, scope=only))


def _is_output(name: str) -> bool:
    """Whether a file is called as logs are."""
    return unpacked(name.lower()).endswith(_LOGS)


def _rendered(lines: Sequence[kubernetes.EventLine], length: int) -> Iterator[bytes]:
    """Lines of text at their places; several of one place follow each other, within the length of the file.

    Made anew each time: kept for every node, the blank lines of a long document would be most of the memory.
    """
    text: list[str] = []
    for line in sorted(lines, key=lambda each: each.line):
        text += [""] * (min(line.line, length) - 1 - len(text))
        text.append(line.text)
    yield ("\n".join(text) + "\n").encode()


def _given(data: bytes) -> Callable[[], Iterable[bytes]]:
    return lambda: [data]


def _head(file: EvidenceFile, most: int) -> tuple[bytes, bool]:
    """The beginning of a file, and whether that is all of it."""
    parts: list[bytes] = []
    size = 0
    for chunk in file.chunks():
        parts.append(chunk)
        size += len(chunk)
        if size > most:
            break
    data = b"".join(parts)
    return data[:most], len(data) <= most


def _bounded(chunks: Iterable[bytes], most: int) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        yield chunk[: most - size]
        size += len(chunk)
        if size >= most:
            return
