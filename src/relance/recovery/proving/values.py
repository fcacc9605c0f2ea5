"""What the report holds: the values of what observing proved. How each comes about is said where it is computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from relance.domain.faults import Remedy
from relance.domain.keys import AttemptKey
from relance.domain.records import JobRecord
from relance.domain.stages import EndRunning
from relance.domain.views import JobState
from relance.recovery.figures import Count, Spread

MOST_LISTED = 50
"""No list of the report is longer; the numbers beside it count all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The attempt that a line of the report is about."""

    attempt: AttemptKey
    name: str
    user: str
    partition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseEnd:
    """An advice to end a RUNNING attempt that later made a step: carried out, it would have killed a healthy job."""

    subject: Subject
    incident_id: str
    advice_id: str
    kind: EndRunning
    advised_at: datetime
    step: int | None
    step_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Figure (a): advice to end running attempts, one per incident however often it was renewed. The target is 0."""

    advised: int
    kinds: tuple[Count, ...]
    false: int
    not_known: int
    """Those of whose attempt no time of a step is known: nothing is proved either way."""
    listed: tuple[FalseEnd, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """One incident in which we only advised and a person restarted the work."""

    subject: Subject
    incident_id: str
    advised_at: datetime
    hand_at: datetime
    how: str
    """`requeued`, or `resubmitted as` and the id of the copy."""
    saved_s: float
    """0 where the person was first."""
    node_count: int
    gpu_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """Figure (b): time saved against later restarts by hand, and the delays behind it."""

    restarts_by_hand: int
    person_first: int
    """Of these, how often the person was there before our advice."""
    saved: Spread
    hours: float
    node_hours: float
    gpu_hours: float
    gpus_not_known: int
    """How many of them the GPU-hours leave out, because their number of GPUs is not known."""
    hands: Spread
    """From an attempt's end to the restart by hand."""
    ours: Spread
    """From an attempt's end to the scheduler's acceptance of our restart."""
    estimate_hours: float | None
    """For restarts of our own, by the median hand; None below 5 hands or without a restart of ours."""
    listed: tuple[Saving, ...]
    """The largest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedFailure:
    """A failure without an incident, or with one that came late."""

    subject: Subject
    outcome: JobState
    ended_at: datetime
    found_after_s: float | None
    """None: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentEnd:
    """An attempt that was cancelled or timed out after a long time without a step, of which we said nothing."""

    subject: Subject
    outcome: JobState
    ended_at: datetime
    last_step_at: datetime
    silent_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Misses:
    """Figure (c): failures that were missed or found late, and hangs that a person may have ended."""

    failures: int
    missed: int
    late: int
    silent_ends: int
    silence_not_known: int
    """Cancelled or timed out without an incident, and without a known time of a step."""
    listed_failures: tuple[MissedFailure, ...]
    listed_ends: tuple[SilentEnd, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageRow:
    """Figure (d): of the hours that attempts ran in the window, how many we saw, in `unit` (`GPU` or `node`) hours."""

    partition: str
    attempts: int
    unit: str
    hours: float
    known: float
    """Hours of attempts of which it is known what was seen; the shares are of these."""
    read: float
    """With at least one file of its own output read."""
    progress: float
    """With steps that were recognised."""
    kernel: float
    """With the kernel logs of all its nodes read."""

    @property
    def read_share(self) -> float | None:
        """Share of the known hours with a readable log; None where nothing is known."""
        return self.read / self.known if self.known else None

    @property
    def progress_share(self) -> float | None:
        """Share of the known hours with recognised progress."""
        return self.progress / self.known if self.known else None

    @property
    def kernel_share(self) -> float | None:
        """Share of the known hours with kernel logs."""
        return self.kernel / self.known if self.known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementRow:
    """What people did where this was our last word."""

    advised: Remedy
    restarted: int
    """A person restarted the work: by requeue, or by a copy."""
    left: int
    """Nobody had restarted it a day after its end."""
    went_on: int
    """Of the restarted: made a step beyond the highest before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Figure (e): how often advice and what people did were the same."""

    rows: tuple[AgreementRow, ...]
    compared: int
    agreed: int
    not_yet: int
    """Ended less than a day ago, and nobody has restarted it so far."""
    nodes_kept_out: int
    """Restarted by hand on none of the nodes that we would have kept out."""
    nodes_used_again: int
    nodes_failed_again: int
    """Of these, how often that attempt failed too."""
    disproved_stops: tuple[Subject, ...]
    """We would have stopped; a person's restart made new steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """Whether a partition may go from observe to act, by figures (operators.md 4, promotion)."""

    partition: str
    days: float
    incidents: int
    false_ends: int
    not_known_ends: int
    ready: bool
    missing: tuple[str, ...]
    """In words, what is missing of the figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proofs:
    """The report: what the history proves about a span of time."""

    cluster: str | None
    partition: str | None
    since: datetime
    as_of: datetime
    jobs: int
    attempts: int
    incidents: int
    ends: Ends
    savings: Savings
    misses: Misses
    coverage: tuple[CoverageRow, ...]
    """By partition; the last row is all of them."""
    agreement: Agreement
    remedies: tuple[Count, ...]
    domains: tuple[Count, ...]
    promotions: tuple[Promotion, ...]
    for_a_person: tuple[str, ...] = field(
        default=(
            "acceptance tests 1, 3, 4, 6, 7 and 8 were passed on this cluster",
            "`relance check cluster --for act` finds nothing that refuses it",
        )
    )
    """What promotion also asks and no history can say."""


def subject_of(record: JobRecord, attempt: AttemptKey) -> Subject:
    """The attempt as a line of the report names it."""
    return Subject(attempt=attempt, name=record.name, user=record.user, partition=record.partition)
