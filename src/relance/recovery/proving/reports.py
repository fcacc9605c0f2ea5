"""The report: what observing proved, computed from the history; nobody labels anything (operators.md 3 and 4). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from relance.domain.events import AttemptMeasured
from relance.domain.keys import AttemptKey
from relance.domain.progress import Progress
from relance.domain.records import AttemptRecord, JobRecord
from relance.recovery.figures import NOT_JUDGED, counts
from relance.recovery.proving.agreements import agreement
from relance.recovery.proving.coverages import coverage
from relance.recovery.proving.ends import ends
from relance.recovery.proving.hands import Case, cases_of, hands_of
from relance.recovery.proving.misses import Run, misses
from relance.recovery.proving.promotions import promotions
from relance.recovery.proving.savings import savings
from relance.recovery.proving.values import Proofs


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the report is made from.

    `records` are the jobs that changed in the window, of all partitions: a copy may be in another. `progress` is the
    newest of attempts that were advised to be ended, `seen` what is seen so far of attempts that still run.
    """

    records: tuple[JobRecord, ...]
    since: datetime
    now: datetime
    cluster: str | None = None
    partition: str | None = None
    progress: Mapping[AttemptKey, Progress] = field(default_factory=dict)
    seen: Mapping[AttemptKey, AttemptMeasured] = field(default_factory=dict)


def proofs(evidence: Evidence) -> Proofs:
    """The whole report over the incidents opened, and the attempts that ran, in the window."""
    since, now = evidence.since, evidence.now
    wanted = [record for record in evidence.records if evidence.partition in (None, record.partition)]
    cases = [case for case in cases_of(wanted) if case.incident.opened_at >= since]
    runs = [run for record in wanted for run in _runs(record, since)]
    hands = hands_of(cases, evidence.records)
    return Proofs(
        cluster=evidence.cluster,
        partition=evidence.partition,
        since=since,
        as_of=now,
        jobs=len(wanted),
        attempts=len(runs),
        incidents=len(cases),
        ends=ends(cases, evidence.progress),
        savings=savings(cases, hands),
        misses=misses(runs, since),
        coverage=coverage(runs, evidence.seen, since, now),
        agreement=agreement(cases, hands, now),
        remedies=counts(remedy for case in cases if (remedy := _remedy(case))),
        domains=counts(_domain(case) for case in cases),
        promotions=promotions(runs, cases, evidence.progress, since, now),
    )


def to_ask_for(records: tuple[JobRecord, ...], since: datetime) -> tuple[AttemptKey, ...]:
    """The attempts whose newest progress the report needs beyond the records: advised to be ended, not measured."""
    return tuple(
        case.attempt.attempt
        for case in cases_of(records)
        if case.incident.opened_at >= since and case.incident.advised.end_at is not None and not case.attempt.measure
    )


def _runs(record: JobRecord, since: datetime) -> Iterator[Run]:
    """The attempts that ran in the window, or may have."""
    for attempt in record.attempts:
        if not _ended_before(attempt, since):
            yield record, attempt


def _ended_before(attempt: AttemptRecord, since: datetime) -> bool:
    return attempt.ended_at is not None and attempt.ended_at < since


def _remedy(case: Case) -> str:
    advice = case.incident.advice
    last = case.incident.advised.last or (advice.action if advice else None)
    return last.value if last else ""


def _domain(case: Case) -> str:
    return case.incident.verdict.domain.value if case.incident.verdict else NOT_JUDGED
