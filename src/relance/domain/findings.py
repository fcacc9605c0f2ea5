"""Findings: what a detector concludes, with its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.keys import AttemptKey
from relance.domain.progress import Progress

MAX_HITS = 200
"""A finding carries at most this many hits (design 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What a hit becomes beside hits of certain rules on the same node (signatures.md 20.11).

    `rules` are ids, with `*` for any text in them.
    """

    rules: tuple[str, ...]
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleHit:
    """One line that a rule matched, with all that attribution needs, so that an old history stays readable.

    `at` is the time written in the line, None when it has none; `seen_at` is when the bytes were read. `offset` is the
    byte position of the line in `file`, `line` its number from 1 where known. `node` comes from path, label or
    scheduler, never from the text alone; a node that the text names is in `captures` ("node", "peer").
    """

    rule: str
    symptom: str
    domain: FaultDomain
    role: Role
    suspect: SuspectKind
    restart: RestartHint
    weight: float
    scope: Scope
    seen_at: datetime
    at: datetime | None = None
    rank: int | None = None
    node: str | None = None
    device: str | None = None
    file: str = ""
    offset: int = 0
    line: int | None = None
    excerpt: str = ""
    captures: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[Beside, ...] = ()

    @property
    def when(self) -> datetime:
        """The line's own time, or when it was read."""
        return self.at or self.seen_at


class Sight(Enum):
    """What is known about a source. Unknown is a value: no data is never "healthy"."""

    SEEN = "seen"
    """Read to its end up to `up_to`."""
    LAGGING = "lagging"
    """Read, but behind."""
    MISSING = "missing"
    """Expected and not there."""
    REFUSED = "refused"
    """There, and not ours to read: owner, link, not a plain file."""
    UNKNOWN = "unknown"
    """Nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What was seen of one source, and up to when."""

    source: str
    sight: Sight
    up_to: datetime | None = None
    note: str = ""
    lost_bytes: int = 0
    scope: Scope | None = Scope.APPLICATION
    """What comes by the source; None: nothing does, the watcher says something of itself."""


class FindingKind(Enum):
    """What kind of disturbance a detector saw."""

    CRASH = "crash"
    """Lines that show a failure."""
    EXIT = "exit"
    """The scheduler says that the attempt ended badly."""
    HANG = "hang"
    """No progress although the attempt runs."""
    SLOWDOWN = "slowdown"
    """Steps take longer, lastingly."""
    DIVERGENCE = "divergence"
    """Loss or gradients ran away."""
    NODE_HEALTH = "node_health"
    """A node shows a sign of failing."""
    DID_NOT_RESUME = "did_not_resume"
    """A new attempt began below the last durable checkpoint."""


class Certainty(Enum):
    """Two levels of a finding (design 8, hang)."""

    SUSPECTED = "suspected"
    """Shown, evidence collected; never an action."""
    CONFIRMED = "confirmed"
    """May lead to an action."""


class Sign(Enum):
    """Independent signs that an attempt is dead or stuck, beside its silence."""

    PROCESS_DEATH = "process_death"
    """A process death proven by the launcher or scheduler."""
    NODE_DOWN = "node_down"
    """The scheduler lost a node of the attempt."""
    KERNEL = "kernel"
    """A hardware row in a node's kernel log."""
    OWNER_LIMIT = "owner_limit"
    """The owner or site set `hang_after_s`."""
    NODE_SILENT = "node_silent"
    """The telemetry of a node of the attempt stopped while that of others went on."""
    DEVICE = "device"
    """A device of a node reported a fault by its metrics, such as an Xid."""
    COLLECTIVE = "collective"
    """The state of collectives (flight recorder, NCCL RAS) shows who waits for whom."""
    STACKS = "stacks"
    """The stacks of the ranks show that they stand still, and where."""
    GPU_SIGNATURE = "gpu_signature"
    """All GPUs spin in a collective without working, or all idle: the same picture as a save by one rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OddNode:
    """A node of the attempt that does something else than the others, and the signs by which that shows."""

    node: str
    by: frozenset[Sign]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a detector concludes about one attempt.

    `id` is a hash of attempt, detector and evidence position: sent twice, stored once. `first_evidence_at` is the time
    of the first evidence (t_fault unless a fault was injected at a known time); `symptom_at` is when progress stopped,
    or when it began to be slow or to diverge.
    `counts` holds the number of hits per rule, also of those left out of `hits`; `ranks` which ranks they are of.
    `odd` are the nodes that stand out in a hang, the most telling first. `isolate` are nodes that are to be left out
    once the attempt has ended, though nothing that runs is to be ended for it. `over` says that what was told before is
    over: such a finding opens nothing. `durable_before` is the step of the last durable checkpoint before the symptom.
    """

    id: str
    attempt: AttemptKey
    detector: str
    kind: FindingKind
    certainty: Certainty
    symptom: str
    summary: str
    first_evidence_at: datetime
    symptom_at: datetime
    hits: tuple[RuleHit, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    ranks: Mapping[str, frozenset[int]] = field(default_factory=dict)
    signs: frozenset[Sign] = frozenset()
    coverage: tuple[Coverage, ...] = ()
    progress: Progress | None = None
    odd: tuple[OddNode, ...] = ()
    is_passing: bool = False
    """Whether it is of a silence that may yet pass by itself: it is shown, and opens no incident."""
    isolate: tuple[str, ...] = ()
    over: bool = False
    durable_before: int | None = None
