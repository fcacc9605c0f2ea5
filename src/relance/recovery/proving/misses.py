"""Figure (c): failures that were missed or found late, and hangs that a person may have ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from relance.domain.incidents import Incident
from relance.domain.records import AttemptRecord, JobRecord
from relance.domain.views import JobState
from relance.recovery.proving.values import MOST_LISTED, MissedFailure, Misses, SilentEnd, subject_of

LATE_AFTER = timedelta(seconds=60)
"""A failure found later than this after its end is late: six looks at the scheduler at the default pace."""
SILENT_FOR = timedelta(minutes=30)
"""A job that made no step for so long before a person or the time limit ended it may have hung (operators.md 3: longer
than any hang's limit but the shortest-lived sign)."""
_BY_HAND = (JobState.CANCELLED, JobState.TIMEOUT, JobState.DEADLINE)

Run = tuple[JobRecord, AttemptRecord]


def misses(runs: Iterable[Run], since: datetime) -> Misses:
    """What went by us among the attempts that ended since then.

    A failure is an attempt that the scheduler calls FAILED, NODE_FAIL, OUT_OF_MEMORY or BOOT_FAIL, that nobody
    cancelled and that was not preempted. It is missed if it has no incident, late if its first one was opened more than
    60 s after its end. An attempt that was cancelled, or ran into its limit, 30 min or more after its last step, and of
    which no incident was opened, is a silent end: possibly a hang that we did not see.
    """
    failures: list[tuple[JobRecord, AttemptRecord, float | None]] = []
    silent: list[SilentEnd] = []
    not_known = 0
    for record, attempt in runs:
        if attempt.outcome is None or attempt.ended_at is None or attempt.ended_at < since:
            continue
        first = _first_incident(record, attempt)
        if _is_failure(record, attempt):
            found_after_s = None if first is None else (first.opened_at - attempt.ended_at).total_seconds()
            failures.append((record, attempt, found_after_s))
        elif attempt.outcome in _BY_HAND and attempt.started_at is not None and first is None:
            if attempt.measure is None or attempt.measure.last_step_at is None:
                not_known += 1
            elif attempt.ended_at - attempt.measure.last_step_at >= SILENT_FOR:
                silent.append(_silent_end(record, attempt, attempt.ended_at, attempt.measure.last_step_at))
    late = [each for each in failures if each[2] is not None and each[2] > LATE_AFTER.total_seconds()]
    missed = [each for each in failures if each[2] is None]
    listed = [_missed(record, attempt, after_s) for record, attempt, after_s in (*missed, *late)]
    listed.sort(key=lambda item: item.ended_at, reverse=True)
    silent.sort(key=lambda item: item.silent_s, reverse=True)
    return Misses(
        failures=len(failures),
        missed=len(missed),
        late=len(late),
        silent_ends=len(silent),
        silence_not_known=not_known,
        listed_failures=tuple(listed[:MOST_LISTED]),
        listed_ends=tuple(silent[:MOST_LISTED]),
    )


def _first_incident(record: JobRecord, attempt: AttemptRecord) -> Incident | None:
    of_it = (item for item in record.incidents if item.attempt == attempt.attempt)
    return min(of_it, key=lambda item: item.opened_at, default=None)


def _is_failure(record: JobRecord, attempt: AttemptRecord) -> bool:
    if attempt.outcome is None or not attempt.outcome.is_failure or attempt.cancelled_by is not None:
        return False
    return f"preempt: attempt {attempt.attempt.restart_count}" not in record.outside


def _missed(record: JobRecord, attempt: AttemptRecord, found_after_s: float | None) -> MissedFailure:
    assert attempt.outcome is not None  # noqa: S101 - asked before
    assert attempt.ended_at is not None  # noqa: S101 - asked before
    return MissedFailure(
        subject=subject_of(record, attempt.attempt),
        outcome=attempt.outcome,
        ended_at=attempt.ended_at,
        found_after_s=found_after_s,
    )


def _silent_end(record: JobRecord, attempt: AttemptRecord, ended_at: datetime, step_at: datetime) -> SilentEnd:
    assert attempt.outcome is not None  # noqa: S101 - asked before
    return SilentEnd(
        subject=subject_of(record, attempt.attempt),
        outcome=attempt.outcome,
        ended_at=ended_at,
        last_step_at=step_at,
        silent_s=(ended_at - step_at).total_seconds(),
    )
