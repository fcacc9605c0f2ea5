"""The words of a transaction: what it sees, what it asks for next, and where it stands. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from relance.controlling.paces import Pace
from relance.domain.advice import ActionEnd
from relance.domain.ledgers import Began, Excluded, Expected, Outcome, Parked, Verb
from relance.domain.limits import Limits
from relance.domain.views import ClusterReport, JobView


class Leave(Enum):
    """Whether the first command of an action may be sent now."""

    GRANTED = "granted"
    """The lease outlasts the command, the advice is good, nobody has thrown the switch."""
    WAIT = "wait"
    """Not now; it may be granted later."""
    NEVER = "never"
    """Not any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The time on both clocks, and whether a first command may be sent now."""

    at: datetime
    monotonic_s: float
    leave: Leave
    leave_reason: str = ""
    unwatched: str = ""
    """Why no watchdog would free a job that we hold; empty when one would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A whole look at the cluster."""

    report: ClusterReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """A whole look that was not answered, or not wholly."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Saw:
    """A fresh read of the job; `took_s` from its begin to its answer."""

    job: JobView
    took_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The scheduler answered and does not know the job."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A read was not answered, or not so that it can be understood."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What became of the command that was asked for."""

    outcome: Outcome
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """The command was not sent: the read that allowed it had become too old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rearmed:
    """What came of a job that waits for this one; empty `text`: nothing had to be done."""

    raw_id: str
    text: str = ""


Seen = Looked | Blind | Saw | Missing | Unreadable | Answered | Late | Rearmed


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Look at the whole cluster, after a pause."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Read the job, after a pause."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send a command about the job that was just read. `restart_count` is what it shows when that is done."""

    verb: Verb
    restart_count: int
    exclude: tuple[str, ...] = ()
    start_at: datetime | None = None
    ours: tuple[str, ...] = ()
    """Those of `exclude` that the user did not name."""
    is_overdue: bool = False
    """By whatever read there is: a scheduler that answers too slowly for a fresh one must not keep a hold of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rearm:
    """Read a job that waits for this one, and let it wait anew if it was told that it does so in vain."""

    raw_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The action is over."""

    end: ActionEnd
    reason: str


Step = Look | Read | Send | Rearm | End


class Phase(Enum):
    """Where a transaction stands."""

    CHECK = "check"
    """Nothing of it is done: look for copies, read, compare with the state table."""
    SETTLE = "settle"
    """A requeue was sent and its result is not known."""
    QUEUE = "queue"
    """The requeue is done: wait for PENDING."""
    WRITE = "write"
    """PENDING: rest a second, look for copies again, send the one update."""
    WATCH = "watch"
    """Written, or started without it: wait until it has run for two seconds."""
    CANCEL = "cancel"
    """A cancellation was sent: wait until the job is gone."""
    FREE = "free"
    """The action is about to end: whatever hold of ours is left is ended first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A step that is told though it is no command."""

    step: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """An action as far as it has come. Marks ending in `_s` are on the monotonic clock of this process.

    `base_count` is the restart count of the attempt that is replaced, `target_count` the one that the scheduler shows
    afterwards; both go up by one when a launch is repeated.
    """

    began: Began
    cluster: str
    expected: Expected
    base_count: int
    target_count: int
    limits: Limits = field(default_factory=Limits)
    pace: Pace = field(default_factory=Pace)
    phase: Phase = Phase.CHECK
    is_resumed: bool = False
    """Taken up again after a crash, or from another controller."""
    job: JobView | None = None
    read_took_s: float = 0.0
    """How long the newest read of the job took."""
    slow_reads: int = 0
    """How many reads in a row took too long for a command to follow."""
    late_sends: int = 0
    """How often, since the last command, the read was too old when one was about to be sent."""
    is_left: bool = False
    """No update is tried any more: the scheduler starts the job as it is."""
    report: ClusterReport | None = None
    looked_at_s: float | None = None
    parked: Parked | None = None
    sent: Send | None = None
    """The command whose answer is awaited."""
    requeued_by_us: bool = False
    requeues: int = 0
    """How often the requeue to `target_count` was sent."""
    holds: bool = False
    """Our requeue to `target_count` holds the job, and no release of it is known: a hold that shows is ours."""
    releases: int = 0
    cancels: int = 0
    refused: str = ""
    writes: int = 0
    wrote: Send | None = None
    """The newest update that was sent."""
    without_ours: bool = False
    """Our exclusions were refused, or taken back: from now on only the job's own list is written."""
    repeats: int = 0
    is_read_back: bool = False
    looked_since_update: bool = False
    """Copies were looked for after the newest update, or could not be."""
    ends_park: bool = False
    """Until our update the job waited because we had parked it: it is ours to cancel."""
    added: tuple[str, ...] = ()
    """The nodes that we added to the job's list."""
    written: Mapping[str, tuple[Excluded, ...]] = field(default_factory=dict)
    """The newest lists of excluded nodes that the ledger had at the beginning, by job."""
    rearmed: tuple[str, ...] = ()
    """The jobs waiting for this one that were seen to."""
    leave_end: End | None = None
    """How the action ends once the cancellation is through."""
    free_end: End | None = None
    """How it ends once no hold of ours is left."""
    free_since_s: float | None = None
    silent_since_s: float | None = None
    blind_since_s: float | None = None
    settle_since_s: float | None = None
    queue_since_s: float | None = None
    pending_since_s: float | None = None
    written_at_s: float | None = None
    running_since_s: float | None = None
    cancel_since_s: float | None = None

    @property
    def has_sent(self) -> bool:
        """Whether a command of this action was sent that may have changed something."""
        return self.requeued_by_us or self.requeues > 0 or self.writes > 0 or self.phase is not Phase.CHECK

    @property
    def parks(self) -> bool:
        """Whether the job is given a start time ahead."""
        return self.began.advice.park


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The transaction after what it saw, what it asks for next, and what is to be told."""

    transaction: Transaction
    step: Step
    notes: tuple[Note, ...] = ()


def abandon(reason: str) -> End:
    """The end of an action that the world has overtaken."""
    return End(end=ActionEnd.ABANDONED, reason=reason)


def elapsed_s(mark_s: float | None, now: Moment) -> float:
    """Seconds since a mark on the monotonic clock; 0 when it is not set."""
    return now.monotonic_s - mark_s if mark_s is not None else 0.0
