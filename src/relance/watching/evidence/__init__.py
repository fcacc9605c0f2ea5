"""What lies beside a finished attempt: files told apart by content and name, and read. Others open the files."""

from __future__ import annotations

from relance.watching.evidence.contexts import Context, ContextError, context_of
from relance.watching.evidence.gathering import CaseEvidence, EvidenceFile, Readers, gather
from relance.watching.evidence.logs import FinishedLog, named

__all__ = [
    "CaseEvidence",
    "Context",
    "ContextError",
    "EvidenceFile",
    "FinishedLog",
    "Readers",
    "context_of",
    "gather",
    "named",
]
