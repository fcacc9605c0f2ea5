"""What collective tracing leaves (flight recorder, NCCL RAS, stacks, error files), and which ranks it calls odd."""

from __future__ import annotations

from relance.traces.hits import hits_of
from relance.traces.reading import HEAD_BYTES, looks_like, parse, read
from relance.traces.signs import (
    RankHost,
    SignKind,
    TraceFile,
    TraceKind,
    TraceReport,
    TraceSign,
    Unreadable,
    UnreadableTraceError,
    WorkerError,
)

__all__ = [
    "HEAD_BYTES",
    "RankHost",
    "SignKind",
    "TraceFile",
    "TraceKind",
    "TraceReport",
    "TraceSign",
    "Unreadable",
    "UnreadableTraceError",
    "WorkerError",
    "hits_of",
    "looks_like",
    "parse",
    "read",
]
