"""Verdicts: attribution's answer, and the case file it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from relance.domain.faults import FaultDomain, Remedy
from relance.domain.findings import Coverage, Finding, RuleHit
from relance.domain.keys import AttemptKey
from relance.domain.progress import Course, Progress
from relance.domain.stages import EndRunning
from relance.domain.views import JobView, NodeView


class Strength(Enum):
    """How strongly evidence points at a node."""

    HARD = "hard"
    """Enough alone to exclude the node."""
    WEAK = "weak"
    """Excluded at the second time within 7 days (operators.md 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A node that may be to blame, with the sentence that says why."""

    node: str
    strength: Strength
    reason: str
    device: str | None = None
    serial: str | None = None
    """The device's unique or serial number, where its node's log tells it: an address may get another device."""
    before: tuple[datetime, ...] = ()
    """When this node was suspected otherwise: earlier, by other incidents, or by an outside provider that was asked
    about this one. Weak evidence counts at its second time.
    """
    isolated: bool = False
    """It showed a sign of failing while the job went on, which has nothing to do with what ended it: it is left out of
    the next attempt, and not blamed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerUp:
    """The next best explanation."""

    domain: FaultDomain
    cause: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What an outside provider answered about an incident: evidence beside the verdict, never instead of it.

    Domain UNKNOWN, remedy None and confidence None: it did not say. `suspects` are names of nodes. `effect` says what
    it changed of the verdict; empty where it changed nothing.
    """

    provider: str
    at: datetime
    domain: FaultDomain = FaultDomain.UNKNOWN
    cause: str = ""
    remedy: Remedy | None = None
    suspects: tuple[str, ...] = ()
    confidence: float | None = None
    text: str = ""
    late: bool = False
    """It came after the time in which it could have counted: kept, and not weighed."""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a confidence rests on: its level, and how many of `of` answers of this level were right on known cases."""

    level: str
    right: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What happened, where, whose fault it is, and what would help.

    `cause` is a symptom name of the rule pack. `confidence` is between 0 and 1. `fingerprint` is the same for the same
    fault (symptom, normalised text, top own-code frame; signatures.md 20.8). `gaps` says what was not seen.
    """

    domain: FaultDomain
    cause: str
    summary: str
    remedy: Remedy
    remedy_reason: str
    confidence: float
    fingerprint: str
    suspects: tuple[Suspect, ...] = ()
    evidence: tuple[RuleHit, ...] = ()
    runner_up: RunnerUp | None = None
    basis: Basis | None = None
    """What the confidence rests on; None in verdicts of older releases."""
    gaps: tuple[str, ...] = ()
    not_counted: tuple[str, ...] = ()
    """What nodes show that is no evidence against them, because our own act or somebody's plan explains it."""
    proven_death: bool = False
    restart_limit_without_progress: int | None = None
    """How many restarts this remedy allows without progress; None: the site's limit (design 7: once, unknown)."""
    confirmable: bool = False
    """A stop that rests on one fault of the program after it had made steps: one try may confirm it before it is acted
    on, because a false stop costs without limit (design 8)."""
    proof: EndRunning | None = None
    """What would justify ending the attempt if it still runs (design 8); whether the site consents is a gate."""
    proof_at: datetime | None = None
    """When that proof was seen."""
    last_root_at: datetime | None = None
    """When the newest first line of a rank or node that can name a cause was read: the settle time counts from it."""
    in_job_restart_at: datetime | None = None
    """When a restarter inside the job (such as NVRx) was last seen at work, after the fault."""
    opinions: tuple[Opinion, ...] = ()
    """What outside providers said, the newest of each."""

    @property
    def to_leave_out(self) -> tuple[Suspect, ...]:
        """The suspects that the next attempt should run without."""
        return self.suspects if self.remedy is Remedy.RESTART_EXCLUDING else ()

    @property
    def to_watch(self) -> tuple[Suspect, ...]:
        """The suspects with too little against them to be left out."""
        return () if self.remedy is Remedy.RESTART_EXCLUDING else self.suspects


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierAttempt:
    """What an earlier attempt of the same job came to."""

    attempt: AttemptKey
    nodes: tuple[str, ...]
    ended_at: datetime | None
    cause: str | None = None
    fingerprint: str | None = None
    suspects: tuple[Suspect, ...] = ()
    made_progress: bool | None = None
    """A new durable checkpoint and enough steps; None: not known, which is not "no"."""
    restarted_by_us: bool = False
    """Whether we started the job again after this attempt: that restart counts against the budgets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSign:
    """An open or recent disturbance of another job."""

    incident_id: str
    owner: str
    workflow: str
    domain: FaultDomain
    cause: str
    at: datetime
    nodes: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    file_systems: tuple[str, ...] = ()
    """Of its evidence, its folder and its logs; those that the evidence names are the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Who was heard in the logs of an attempt: ranks and hosts that wrote lines, and when each was last heard.

    `last_at` and `node_last_at` hold times that the lines themselves bear, `last_at` those of ranks that have a log of
    their own: in a common one it is chance who writes last. Who wrote without times is only in the sets.
    """

    ranks: frozenset[int] = frozenset()
    nodes: frozenset[str] = frozenset()
    last_at: Mapping[int, datetime] = field(default_factory=dict)
    node_last_at: Mapping[str, datetime] = field(default_factory=dict)
    first_at: datetime | None = None
    """When the job's output began, by its own times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """Everything attribution may know of one incident; a value."""

    incident_id: str
    attempt: AttemptKey
    as_of: datetime
    nodes: tuple[str, ...]
    rank_to_node: Mapping[int, str] = field(default_factory=dict)
    job: JobView | None = None
    findings: tuple[Finding, ...] = ()
    node_views: tuple[NodeView, ...] = ()
    earlier: tuple[EarlierAttempt, ...] = ()
    node_history: tuple[tuple[str, Suspect, datetime], ...] = ()
    """Earlier suspicions of these nodes, from other incidents: node, suspicion, when."""
    fleet: tuple[FleetSign, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    progress: Progress | None = None
    signs: tuple[RuleHit, ...] = ()
    """Hits that no detector reports: of collective traces, metrics, and notes beside the logs."""
    presence: Presence | None = None
    expected: Mapping[str, str] = field(default_factory=dict)
    """Nodes of which what they show is no evidence, each with the sentence that says why."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """The node that an address is, where a list of hosts says so."""
    course: Course = field(default_factory=Course)
