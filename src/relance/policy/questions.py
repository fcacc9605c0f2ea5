"""What policy is asked: an incident and its verdict, with everything that may change the answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from relance.domain.fleet import FleetView
from relance.domain.incidents import Incident
from relance.domain.limits import Limits
from relance.domain.progress import Progress
from relance.domain.records import JobRecord
from relance.domain.verdicts import EarlierAttempt, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One attempt to decide on; a value, so that the same question has the same answer.

    `earlier` are the job's earlier attempts, oldest first. `progress` is the newest of this attempt, None when nothing
    was read. `generation` is the number that the advice will have. `read_to` is up to when the attempt's logs are known
    to be read to their end; None when nobody follows them.
    """

    incident: Incident
    record: JobRecord
    verdict: Verdict
    progress: Progress | None
    fleet: FleetView
    limits: Limits
    earlier: tuple[EarlierAttempt, ...]
    now: datetime
    generation: int
    read_to: datetime | None = None
