"""What people did after an attempt: a requeue of the same job, or a copy that they submitted. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain.incidents import Incident
from relance.domain.keys import AttemptKey
from relance.domain.records import AttemptRecord, JobRecord

COPY_WITHIN = timedelta(days=7)
"""A copy that is submitted later is other work."""
COPY_BEFORE_END = timedelta(seconds=60)
"""A batch script that catches TERM submits its copy just before its own end."""
_SCHEDULER = "scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An incident with the job and the attempt that it is about."""

    record: JobRecord
    incident: Incident
    attempt: AttemptRecord

    @property
    def ended_at(self) -> datetime | None:
        """When the attempt ended; None: it has not, or nobody knows."""
        return self.attempt.ended_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Hand:
    """A restart by a person: when, how, and the attempt that came of it (None: it has not begun)."""

    at: datetime
    how: str
    attempt: AttemptRecord | None


def cases_of(records: Iterable[JobRecord]) -> Iterator[Case]:
    """Every incident with its attempt; an attempt of which nothing else is known has an empty record."""
    for record in records:
        for incident in record.incidents:
            attempt = record.attempt(incident.attempt) or AttemptRecord(attempt=incident.attempt)
            yield Case(record=record, incident=incident, attempt=attempt)


def hands_of(cases: Iterable[Case], records: Iterable[JobRecord]) -> dict[str, Hand]:
    """The restart by hand of each incident, by its id; incidents without one are left out.

    A requeue is the first that somebody other than the scheduler, or we, made after the attempt began. A copy is a job
    of the same user with the same name and the same script or work directory (where these are not known: the same
    number of nodes), submitted from a minute before the attempt's end up to 7 days after it. It stands for one incident
    only: the earliest ended. Of several incidents of one attempt the newest has the restart.
    """
    found: dict[str, Hand] = {}
    copies = _copies_by_owner(records)
    taken: set[str] = set()
    waiting: list[tuple[datetime, Case]] = []
    for case in {case.attempt.attempt: case for case in cases}.values():
        hand = _requeue(case)
        if hand is not None:
            found[case.incident.id] = hand
        elif case.ended_at is not None and not _goes_on(case):
            waiting.append((case.ended_at, case))
    for ended_at, case in sorted(waiting, key=lambda pair: pair[0]):
        copy = _copy(case, ended_at, copies.get((case.record.user, case.record.name), ()), taken)
        if copy is not None:
            taken.add(str(copy.job))
            first = copy.attempts[0] if copy.attempts else None
            found[case.incident.id] = Hand(
                at=copy.job.submitted_at, how=f"resubmitted as {copy.job.raw_id}", attempt=first
            )
    return found


def requeued_by_scheduler(case: Case) -> bool:
    """Whether the scheduler itself put the job back after this attempt: nobody's decision."""
    first = _first_requeue(case)
    return first is not None and first[1] == _SCHEDULER


def _first_requeue(case: Case) -> tuple[datetime, str | None] | None:
    began = case.attempt.started_at or case.incident.opened_at
    return next((pair for pair in case.record.requeues if pair[0] > began), None)


def _requeue(case: Case) -> Hand | None:
    first = _first_requeue(case)
    if first is None or first[1] == _SCHEDULER:
        return None
    following = _next_attempt(case)
    if following is not None and following.by_us:
        return None
    return Hand(at=first[0], how="requeued", attempt=following)


def _next_attempt(case: Case) -> AttemptRecord | None:
    key = case.attempt.attempt
    return case.record.attempt(AttemptKey(job=key.job, restart_count=key.restart_count + 1))


def _goes_on(case: Case) -> bool:
    """Whether the job itself had a later attempt: then another job is not its copy."""
    return any(item.attempt.restart_count > case.attempt.attempt.restart_count for item in case.record.attempts)


def _copies_by_owner(records: Iterable[JobRecord]) -> dict[tuple[str, str], list[JobRecord]]:
    found: dict[tuple[str, str], list[JobRecord]] = {}
    for record in records:
        found.setdefault((record.user, record.name), []).append(record)
    for group in found.values():
        group.sort(key=_submitted_at)
    return found


def _copy(case: Case, ended_at: datetime, others: Sequence[JobRecord], taken: set[str]) -> JobRecord | None:
    earliest = (ended_at - COPY_BEFORE_END).replace(microsecond=0)
    for other in others[bisect_left(others, earliest, key=_submitted_at) :]:
        if other.job.submitted_at > ended_at + COPY_WITHIN:
            return None
        if str(other.job) not in taken and _is_copy(case.record, other):
            return other
    return None


def _submitted_at(record: JobRecord) -> datetime:
    return record.job.submitted_at


def _is_copy(record: JobRecord, other: JobRecord) -> bool:
    if other.job == record.job or other.job.cluster != record.job.cluster:
        return False
    if record.array is not None and other.array == record.array:
        return False
    pairs = [(record.script_id, other.script_id), (record.work_dir, other.work_dir)]
    known = [(mine, its) for mine, its in pairs if mine and its]
    if known:
        return any(mine == its for mine, its in known)
    return record.node_count == other.node_count
