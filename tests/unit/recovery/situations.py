"""Builders for the recovery tests: a job, its looks and its findings, in few words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from relance.domain import events as e
from relance.domain import records
from relance.domain.findings import Certainty, Finding, FindingKind, Sign
from relance.domain.keys import AttemptKey, JobKey, stable_id
from relance.domain.limits import Limits
from relance.domain.progress import Progress
from relance.domain.records import JobRecord
from relance.domain.views import JobState, JobView
from relance.recovery.intake import finding_events, job_events
from relance.recovery.verify import Evidence

AT = datetime(2026, 5, 2, 11, 0, tzinfo=UTC)
JOB = JobKey(cluster="alpha", raw_id="17", submitted_at=AT)
FIRST = AttemptKey(job=JOB, restart_count=0)
SECOND = AttemptKey(job=JOB, restart_count=1)


def at(seconds: float) -> datetime:
    """A time that many seconds after the tests' beginning."""
    return AT + timedelta(seconds=seconds)


RUNNING = JobView(
    raw_id="17",
    first_submitted_at=AT,
    submitted_at=AT,
    restart_count=0,
    name="train",
    user="ada",
    owner_uid=1000,
    partition="gpu",
    state=JobState.RUNNING,
    nodes=("n1", "n2"),
    node_count=2,
    ranks_per_node=2,
    started_at=at(1),
    steps=(),
)
FAILED = replace(RUNNING, state=JobState.FAILED, ended_at=at(100), exit_code=1, exit_signal=0)
REQUEUED = replace(RUNNING, state=JobState.PENDING, restart_count=1, submitted_at=at(101), started_at=None, nodes=())
AGAIN = replace(RUNNING, restart_count=1, submitted_at=at(101), started_at=at(105))


def folded(events: Iterable[e.JobEvent], record: JobRecord | None = None) -> JobRecord:
    """A job's record after these events."""
    result: records.Record = record or JobRecord(job=JOB)
    for event in events:
        result = records.apply(result, event)
    assert isinstance(result, JobRecord)
    return result


def seen(*views: JobView) -> JobRecord:
    """A job's record after these looks, one after another."""
    record = JobRecord(job=JOB)
    for view in views:
        record = folded(job_events(record, view, (), None, view.ended_at or at(1)), record)
    return record


def crash(attempt: AttemptKey = FIRST, number: int = 1, certainty: Certainty = Certainty.CONFIRMED) -> Finding:
    """A crash finding."""
    return Finding(
        id=stable_id("fnd", attempt, "crash", number),
        attempt=attempt,
        detector="crash",
        kind=FindingKind.CRASH,
        certainty=certainty,
        symptom="process_killed",
        summary="a rank was killed",
        first_evidence_at=at(90),
        symptom_at=at(89),
        signs=frozenset({Sign.PROCESS_DEATH}),
    )


def with_incident(record: JobRecord, finding: Finding | None = None) -> JobRecord:
    """The record with an incident opened by a finding."""
    return folded(finding_events(record, (finding or crash(),), at(91)), record)


def evidence(record: JobRecord, view: JobView | None, now: datetime, **progress: Progress) -> Evidence:
    """What verification looks at; `first` and `second` give the progress of those attempts."""
    incident = record.incidents[-1]
    keys = {"first": FIRST, "second": SECOND}
    return Evidence(
        record=record,
        incident=incident,
        view=view,
        looked=True,
        as_of=now,
        progress={keys[name]: item for name, item in progress.items()},
        kinds=frozenset(),
        limits=Limits(),
        now=now,
    )
