"""Advice: the durable decision on one attempt, and what it takes to carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from relance.domain.faults import Remedy
from relance.domain.keys import AttemptKey
from relance.domain.stages import EndRunning

NEEDS_A_PERSON = "a person has to choose"
"""Words in a guard's answer, or in the end of an action, where hard evidence leaves the choice to people."""


class Answer(Enum):
    """The answer to a guard or gate. Unknown is never taken for yes."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A question whose yes means go on, its answer, and the sentence that explains it.

    `ask_again_at` is when a no or unknown may change by itself; None when an event must change it.
    """

    name: str
    answer: Answer
    reason: str
    ask_again_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to do about one attempt.

    A newer generation of the same attempt voids the older. `hold` means that the action is right but may not begin
    yet: `decide_again_at` or `decide_again_on` says when it is decided anew. `expected_restart_count` is what the
    scheduler shows once the restart has begun: the key under which it is begun at most once.
    """

    id: str
    incident_id: str
    attempt: AttemptKey
    generation: int
    action: Remedy
    reasons: tuple[str, ...]
    guards: tuple[Guard, ...]
    issued_at: datetime
    expires_at: datetime
    exclude: tuple[str, ...] = ()
    exclude_until: datetime | None = None
    exclusion_is_hard: bool = False
    """The evidence against the excluded nodes is hard: if the job cannot start without them a person has to choose.
    Exclusions on weak evidence are then taken back (design 10)."""
    hold: bool = False
    park: bool = False
    """Requeue with a start time ahead, so that the job outlives MinJobAge without a hold (design 8)."""
    park_until: datetime | None = None
    storm: str = ""
    """The id of the storm that holds or parks it: the incident that it shares with other jobs. Empty: none."""
    successor: str = ""
    """Raw id of a job that goes on in its place, by its dependency: the exclusions are put on that one while it waits,
    and this attempt is left as it is. Empty: none."""
    ends_running: EndRunning | None = None
    """Set when carrying it out ends a RUNNING attempt: the consent it needs."""
    cancels_running: bool = False
    """A stop that also cancels: only where the site set `stop_cancels_running`."""
    decide_again_at: datetime | None = None
    decide_again_on: str = ""
    settle_until: datetime | None = None

    @property
    def expected_restart_count(self) -> int:
        """The restart count that the scheduler shows once a restart of this attempt has begun."""
        return self.attempt.restart_count + 1

    @property
    def may_begin(self) -> bool:
        """Whether this advice asks for an action on the cluster that may begin now, gates permitting."""
        return not self.hold and (self.action.restarts or self.park or self.cancels_running)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command as it would be sent: an argument list, never a shell line."""

    argv: tuple[str, ...]
    changes: bool = True
    """False for a read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What an advice would do: shown to people, recorded in observe; an approval is bound to its digest."""

    summary: str
    commands: tuple[Command, ...]
    digest: str


class ActionKind(Enum):
    """What a transaction does."""

    RESTART = "restart"
    """Requeue, exclude, start now."""
    PARK = "park"
    """Requeue with a start time ahead."""
    CONSTRAIN = "constrain"
    """Add exclusions to a job that somebody else already requeued."""
    CANCEL = "cancel"
    """End the job for good."""


class ActionEnd(Enum):
    """How a transaction ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It cannot be told whether the scheduler did it; settled by looking, never by doing it again."""
    ABANDONED = "abandoned"
    """Nothing was done, or what was begun was brought to its safe end, because the world had changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitWish:
    """A limit over many jobs that an action must fit under.

    A token bucket: at most `burst` at once, refilled by one per `refill_s`. `scope` names what is counted together,
    such as `cluster/alpha` or `array/alpha/17`.
    """

    scope: str
    burst: int
    refill_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A controller's wish to carry out an advice: which, by whom, under which lease."""

    advice_id: str
    attempt: AttemptKey
    generation: int
    cluster: str
    holder: str
    lease_epoch: int
    kind: ActionKind
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimReply:
    """Whether the claim was granted; if not, the sentence that says why."""

    granted: bool
    action_id: str | None = None
    reason: str = ""
    again_in_s: float | None = None
    """After how long it is worth asking again, where that is known: a permit becomes free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right of one controller to begin actions on a cluster.

    Counted by the holder on its own monotonic clock from before the request was sent (design 10); `duration_s` is its
    length, `epoch` grows with each change of holder.
    """

    cluster: str
    holder: str
    epoch: int
    duration_s: float
    granted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step of a transaction or of its preparation, sent to the server; idempotent by `id`."""

    id: str
    attempt: AttemptKey
    advice_id: str
    at: datetime
    step: str
    detail: str = ""
    action_id: str | None = None
    effect: Effect | None = None
    """Set for the preparation."""
    end: ActionEnd | None = None
    """Set for the last step."""
    accepted_at: datetime | None = None
    """When the scheduler accepted the restart (t_act)."""
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """A node kept out, for one job (`job` set) or for all, with reason, evidence, owner, since, until."""

    cluster: str
    node: str
    reason: str
    owner: str
    since: datetime
    until: datetime | None = None
    job: str | None = None
    incident_id: str | None = None
