"""What a file is, by its content and its name: content wins where it is sure."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from enum import Enum

from relance.domain.faults import Scope
from relance.watching.evidence.naming import read_name, unpacked

HEAD_BYTES = 64 * 1024
"""So much of a file is looked at to tell what it is."""
_LINES = 200
_MOST = 0.8
_MANY = 0.5
_BINARY = 0.3
_STRANGE = 0.1
_MAGIC = (
    b"\x7fELF", b"PK\x03\x04", b"\x89PNG", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"BZh9",
    b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"%PDF-", b"\x93NUMPY", b"\x89HDF",
)  # fmt: skip
_ZIP = b"PK\x03\x04"
_TAR = b"ustar"
_TAR_AT = 257
_CONTROLS = bytes(each for each in range(32) if each not in b"\t\n\r\x1b\x08\x0c") + b"\x7f"
_NOTES = (".txt", ".md")
_TEXT_NAMES = (".log", ".out", ".err", ".txt")
_MAY_BE_JSON = re.compile(r"\s*[\[{]")
_KUBERNETES_YAML = re.compile(r"^apiVersion:\s*\S", re.MULTILINE)
_KUBERNETES_KIND = re.compile(r"^kind:\s*\w", re.MULTILINE)

_KERNEL = re.compile(
    r"""^(?:<\d{1,3}>)?(?:
        \[\s*\d{1,9}\.\d{6}\]
      | \[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\ [A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d:\d\d\ \d{4}\]
      | (?:[A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d:\d\d(?:\.\d{1,9})?
          | \d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?
        )\ [\w.-]+\ (?:kernel|[\w@./()-]+(?:\[\d+\])?):\ ?
      | --\ (?:Boot|Journal|Logs|Reboot|No\ entries)
    )""",
    re.VERBOSE,
)
_DAEMON = re.compile(r"^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{3,6})?\]? ")
_DAEMON_WORDS = re.compile(
    r"\b(?:slurm\w*|sched(?:/\w+)?:|JobId=|_job_complete|job_complete|launch task|sched_|backfill|Munge|auth/munge"
    r"|node_did_resp|requeue_job|cleanup_completing|_slurm_rpc\w*|Nodes? \S+ (?:not responding|now responding))"
)
_FABRIC = re.compile(r"^\[[A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d\] \[\w+\] \[tid ")
_EVENT_HEAD = re.compile(r"^(?:NAMESPACE\s+)?LAST SEEN\s+.*\bREASON\b.*\bOBJECT\b")
_EVENT = re.compile(r"\b(?:Normal|Warning)\s+[A-Z-]\w*\s+(?:\d+m?\s+)?[a-z]+(?:\.[a-z.]+)?/[\w.-]+")
_KUBELET = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6}\s+\d+ [\w-]+\.go:\d+\]")
_DESCRIBED = re.compile(r"^(?:Name|Namespace|Node|Priority|Labels|Annotations|Status|Containers|Conditions|Events):")
_POD_TABLE = re.compile(r"^(?:NAMESPACE\s+)?NAME\s+(?:READY\s+)?STATUS\s+\S+")
_SAMPLE = re.compile(r"^[a-zA-Z_:]\w*(?::\w+)*(\{[^\n]*\})?\s+[-+]?(?:\d[\d.eE+-]*|NaN|Inf)(?:\s+-?\d+)?\s*$")
_SAMPLE_ABOUT = re.compile(r"^# (?:HELP|TYPE|UNIT) [a-zA-Z_:]")
_JOB_TABLE = re.compile(
    r"^\s*(?:JobID(?:Raw)?[\s|].*\bState\b|JOBID\s.*\b(?:ST|STATE)\b)|^JobId=\d+ |^\s*JobId=\d+\s+JobName=",
    re.MULTILINE,
)
_NODE_TABLE = re.compile(
    r"^(?:PARTITION\s+AVAIL\b.*\bNODELIST\b|.*\bNODELIST\b.*\bSTATE\b|.*\bSTATE\b.*\bNODELIST\b"
    r"|(?:HOSTNAMES|NODE)\s.*\bSTATE\b|REASON\s+USER\s+TIMESTAMP\s+NODELIST|NodeName=\S+)",
    re.MULTILINE,
)
_OUTPUT_OF_COMMAND = re.compile(
    r"^(?:Filesystem\s+(?:\S*[Ss]ize|1K-blocks|Type)|\|? ?NVIDIA-SMI |\+-{20,}|CA '\w+'|hca_id:"
    r"|\s+total\s+used\s+free\b"
    r"|State\s+Recv-Q|Netid\s+State|Successfully ran diagnostic|GPU \d+: |\s*total kbytes|Infiniband device '|"
    r"#\s*Port counters|\S+: flags=\d+<|top - \d\d:\d\d)",
    re.MULTILINE,
)
_PROMPT = re.compile(r"^(?:[\w.@:~/-]{1,60} ?)?[$#] [a-z./]", re.MULTILINE)
_AUDIT = re.compile(r"^(?:node=\S+ )?type=[A-Z_]+ msg=audit\(")
_API_AUDIT = re.compile(r"\bverb=\w+\b.*\bresource=|\buser=\S+ verb=")
_AS_A_JOB_WRITES = re.compile(
    r"Traceback \(most recent call last\)|^\[?rank ?\d|^srun: |\bNCCL (?:INFO|WARN)\b|\bsteps?[ :=/]+\d"
    r"|\biter(?:ation)?[ :=]+\d"
    r"|\bepoch[ :=]+\d|\bloss[ :=]+\d|torch\.distributed|\btorchrun\b",
    re.MULTILINE | re.IGNORECASE,
)
_TIME_COLUMNS = frozenset({"ts", "time", "timestamp", "date", "datetime", "_time", "@timestamp", "utc", "time_utc"})


class FileKind(Enum):
    """How a file is to be read."""

    LOG = "log"
    """Lines of text, scanned by the rules of its scope."""
    JSON = "json"
    """One document; what it is shows when it has been read."""
    YAML = "yaml"
    """Objects of Kubernetes."""
    JOBS = "jobs"
    """A scheduler's text about jobs; scanned as notes, too."""
    NODES = "nodes"
    """A scheduler's text about nodes; scanned as notes, too."""
    PROMETHEUS = "prometheus"
    """Samples in Prometheus' text format."""
    TABLE = "table"
    """Samples in rows with a time."""
    SETTINGS = "settings"
    """Says what the attempt was, not what became of it: not read."""
    BINARY = "binary"
    """No text."""
    ARCHIVE = "archive"
    """Files in one, which are not unpacked."""
    EMPTY = "empty"
    """Nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a file is. `scope`, `node` and `rank` are of a log; None: not known."""

    kind: FileKind
    scope: Scope = Scope.APPLICATION
    node: str | None = None
    rank: int | None = None
    worker: int | None = None
    is_output: bool = False


def look(name: str, head: bytes, nodes: tuple[str, ...] = (), *, whole: bool = True) -> Look:
    """What a file is, by its name and its beginning; `whole` says that the beginning is all of it."""
    base = unpacked(name.rpartition("/")[2].lower())
    named = read_name(name, nodes)
    found = Look(
        kind=FileKind.LOG, node=named.node, rank=named.rank, worker=named.worker, is_output=named.is_output
    )  # fmt: skip

    def as_kind(kind: FileKind, scope: Scope = Scope.APPLICATION) -> Look:
        return Look(kind=kind, scope=scope, node=found.node, rank=found.rank, worker=found.worker)

    if not head.strip(b"\0 \t\r\n"):
        return as_kind(FileKind.EMPTY)
    if (base.endswith(".zip") and head.startswith(_ZIP)) or head[_TAR_AT:].startswith(_TAR):
        return as_kind(FileKind.ARCHIVE)
    if is_binary(base, head):
        return as_kind(FileKind.BINARY)
    text = head.decode("utf-8", "replace")
    lines = _full_lines(text, whole=whole)
    document = _document(base, text, lines)
    if document is not None and not (named.is_output and document in (FileKind.JOBS, FileKind.NODES)):
        of_lines = named.scope or Scope.NOTES
        return as_kind(document, of_lines if document in (FileKind.NODES, FileKind.TABLE) else Scope.SCHEDULER)
    if base.endswith((".yaml", ".yml", ".toml", ".ini", ".cfg", ".py", ".sh", ".sbatch", ".slurm")):
        return as_kind(FileKind.SETTINGS)
    return Look(
        kind=FileKind.LOG,
        scope=_scope(base, text, lines, named.scope, is_output=named.is_output),
        node=named.node,
        rank=named.rank,
        worker=named.worker,
        is_output=named.is_output,
    )


def is_binary(base: str, head: bytes) -> bool:
    """Whether a beginning is no text. A log keeps being one with some NUL bytes: a power loss leaves blocks of them."""
    if head.startswith(_MAGIC):
        return True
    strange = len(head) - len(head.translate(None, _CONTROLS))
    limit = 0.95 if base.endswith(_TEXT_NAMES) else _BINARY if b"\0" in head else _STRANGE
    return strange > limit * len(head)


def _document(base: str, text: str, lines: list[str]) -> FileKind | None:
    """What a file is if it is more than lines of text."""
    if _MAY_BE_JSON.match(text) and (_is_json(lines) or (base.endswith(".json") and text.lstrip()[:1] in "[{")):
        return FileKind.JSON
    if _KUBERNETES_YAML.search(text) and _KUBERNETES_KIND.search(text):
        return FileKind.YAML
    told = [line for line in lines if line.strip() and not line.startswith("#")]
    samples = [found for line in told if (found := _SAMPLE.match(line))]
    sure = base.endswith((".prom", ".metrics")) or any(_SAMPLE_ABOUT.match(line) for line in lines)
    # A line such as `step 1` looks like a sample, too.
    if told and len(samples) >= _MANY * len(told) and (sure or all(found[1] for found in samples)):
        return FileKind.PROMETHEUS
    if told and columns_of(told[0]) is not None:
        return FileKind.TABLE
    first = "\n".join(told[:3])
    if _JOB_TABLE.search(first):
        return FileKind.JOBS
    return FileKind.NODES if _NODE_TABLE.search(first) else None


def columns_of(header: str) -> tuple[str, tuple[str, ...]] | None:
    """The separator and the columns of a table of samples; None: it is none. One of its columns is a time."""
    if len(header) > 4096 or header.lstrip().startswith(("{", "[")):  # noqa: PLR2004 - no table has so long a head
        return None
    for separator in (",", "\t", ";", "|"):
        if separator in header:
            try:
                columns = tuple(each.strip() for each in next(csv.reader([header], delimiter=separator)))
            except (csv.Error, StopIteration):
                return None
            plain = {each.lower() for each in columns}
            named = all(each == "" or re.match(r"[A-Za-z@_]", each) for each in columns)
            return (separator, columns) if named and plain & _TIME_COLUMNS else None
    return None


def is_time_column(column: str) -> bool:
    """Whether a column of a table is its time."""
    return column.strip().lower() in _TIME_COLUMNS


def _is_json(lines: list[str]) -> bool:
    """Whether text that begins like JSON is one document, not a log whose lines are JSON or begin with a bracket."""
    told = [line for line in lines[:3] if line.strip()]
    if not told:
        return False
    first = told[0].strip()
    if first in ("{", "[", "[{"):
        return True
    if first.startswith("{") and not first.startswith('{"') and not first.startswith("{ "):
        return False
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return (len(told) == 1 and first.startswith(('{"', '[{"', '{ "'))) or bool(
            re.match(r'[\[{]\s*"[\w]+"\s*:', first)
        )
    return len(told) == 1 and isinstance(value, dict | list)


def _scope(base: str, text: str, lines: list[str], named: Scope | None, *, is_output: bool) -> Scope:
    if base.endswith(_NOTES) and any(_PROMPT.match(line) for line in lines[:3]):
        return Scope.NOTES
    if named is not None and named is not Scope.METRICS:
        return named
    if is_output:
        return Scope.APPLICATION
    told = [line for line in lines if line.strip()]
    sure = _scope_of_lines(told, text)
    if sure is not None:
        return sure
    if _OUTPUT_OF_COMMAND.search(text):
        return Scope.NOTES
    notes = named is Scope.METRICS or base.endswith((*_NOTES, ".csv", ".tsv"))
    return Scope.NOTES if notes and not _AS_A_JOB_WRITES.search(text) else Scope.APPLICATION


def _scope_of_lines(told: list[str], text: str) -> Scope | None:
    """What the form of nearly all lines says surely, or None."""

    def most(pattern: re.Pattern[str]) -> bool:
        return sum(pattern.match(line) is not None for line in told) >= _MOST * len(told)

    if most(_FABRIC):
        return Scope.DEVICE
    if (most(_DAEMON) and _DAEMON_WORDS.search(text)) or _is_of_kubernetes(told):
        return Scope.SCHEDULER
    if most(_AUDIT) or (most(_KERNEL) and not _AS_A_JOB_WRITES.search(text)):
        return Scope.KERNEL
    return None


def _is_of_kubernetes(told: list[str]) -> bool:
    if any(_EVENT_HEAD.match(line) or _POD_TABLE.match(line) for line in told[:3]):
        return True
    events = sum(any(each.search(line) for each in (_EVENT, _KUBELET, _API_AUDIT)) for line in told)
    described = {line.partition(":")[0] for line in told if _DESCRIBED.match(line)}
    return events >= _MANY * len(told) or len(described) >= 4  # noqa: PLR2004 - no log has so many of them


def _full_lines(text: str, *, whole: bool) -> list[str]:
    """The first lines, without the last one where it may be cut."""
    lines = text.splitlines()[: _LINES + 1]
    return lines[:_LINES] if whole or len(lines) > _LINES or len(lines) == 1 else lines[:-1]
