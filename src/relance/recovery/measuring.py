"""What was seen of an attempt, in one small value: what its end is measured by. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from relance.domain import events as e
from relance.domain.faults import Scope
from relance.domain.findings import Coverage, Sight
from relance.domain.keys import AttemptKey
from relance.domain.progress import Progress
from relance.domain.records import JobRecord
from relance.recovery.sites import ClusterRules

_REST = "…"
"""Under this name a source counts the files that it does not list."""
_WORST_FIRST = (Sight.REFUSED, Sight.MISSING, Sight.LAGGING, Sight.UNKNOWN)


def measured_at_end(record: JobRecord, measure: e.AttemptMeasured) -> tuple[e.AttemptMeasured, ...]:
    """The event to store of an attempt that was read to its end: once, and only of one that is known to have ended."""
    known = record.attempt(measure.attempt)
    if known is None or known.outcome is None or known.measure is not None:
        return ()
    return (measure,)


def measure_of(
    attempt: AttemptKey,
    kernel_logs: frozenset[str],
    coverage: tuple[Coverage, ...],
    progress: Progress | None,
    now: datetime,
) -> e.AttemptMeasured:
    """What was seen of an attempt so far. `kernel_logs` are the paths of its nodes' kernel logs that are files."""
    kernel = [entry for entry in coverage if entry.scope is Scope.KERNEL]
    output = [entry for entry in coverage if entry.scope is Scope.APPLICATION]
    rest = [entry for entry in output if entry.source == _REST] if len(kernel) < len(kernel_logs) else []
    return e.AttemptMeasured(
        attempt=attempt,
        log=Sight.SEEN if any(entry.sight is Sight.SEEN for entry in output) else _worst(output),
        kernel=_worst([*kernel, *rest]),
        at=now,
        steps_seen=progress.steps_seen if progress else 0,
        last_step=progress.step if progress else None,
        last_step_at=progress.step_at if progress else None,
        unread_bytes=sum(entry.lost_bytes for entry in output),
    )


def kernel_logs_of(record: JobRecord, attempt: AttemptKey, rules: ClusterRules) -> frozenset[str]:
    """The paths of the kernel logs of an attempt's nodes; empty where the site names none."""
    known = record.attempt(attempt)
    nodes = known.nodes if known is not None else ()
    return frozenset(path for _, path in rules.kernel_logs_of(nodes))


def _worst(entries: Iterable[Coverage]) -> Sight:
    """The worst that is said of any; unknown where nothing is said."""
    sights = {entry.sight for entry in entries}
    return next((sight for sight in _WORST_FIRST if sight in sights), Sight.SEEN if sights else Sight.UNKNOWN)
