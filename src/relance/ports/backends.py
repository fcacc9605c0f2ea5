"""The one seam between agents (watcher, controller) and server. It exists in process and over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from relance.domain.advice import Advice, Claim, ClaimReply, Exclusion, Lease, StepRecord
from relance.domain.collecting import EvidenceClaim, EvidenceOrder, EvidenceReport
from relance.domain.deeds import WatchdogDeed
from relance.domain.incidents import Action
from relance.domain.keys import AttemptKey
from relance.domain.observations import SightReport, WatcherBatch
from relance.domain.requests import RequestClaim, RequestOrder, RequestReport
from relance.domain.stages import EffectiveStage
from relance.domain.views import Assignment, ClusterReport


class BackendUnavailableError(Exception):
    """The server or its database is away: nothing new begins; what has begun is finished without it."""


class BackendRefusedError(Exception):
    """The server understood and refuses: bad input, no rights. Says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An advice for the controller, with everything that bears on carrying it out.

    `stage` is the effective stage of the job. `approved` is True when a person approved this generation and the effect
    with digest `approved_digest`. `prepared` is True when the preparation for this stage is already recorded. `action`
    is set when a controller has begun: it is to be finished or settled, never begun again.
    """

    advice: Advice
    raw_id: str
    partition: str
    stage: EffectiveStage
    approved: bool = False
    approved_digest: str = ""
    prepared: bool = False
    action: Action | None = None
    our_exclusions: tuple[str, ...] = ()
    """Nodes that an earlier advice of ours put on this job and that are still in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the server has for one cluster's controller. `position` is the history's head when it was made."""

    lease: Lease
    orders: tuple[Order, ...]
    position: int
    acting: tuple[str, ...] = ()
    """Keys of attempts whose job is effectively at `act`: what the controller's ledger notes as taken."""
    evidence: tuple[EvidenceOrder, ...] = ()
    """Suspected hangs of which evidence may be collected."""
    requests: tuple[RequestOrder, ...] = ()
    """What people asked to be done to jobs and nodes, oldest first."""
    kept_out: tuple[Exclusion, ...] | None = None
    """The exclusions for single jobs that are in force; None: the server does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignments:
    """The attempts that a cluster's watcher should follow. `position` is the history's head when it was made."""

    assignments: tuple[Assignment, ...]
    position: int
    as_of: datetime


class Backend(Protocol):
    """What agents may ask of the server. Every call may raise BackendUnavailableError or BackendRefusedError."""

    async def assignments(self, cluster: str) -> Assignments:
        """The attempts to follow."""
        ...

    async def checkpoint(self, attempt: AttemptKey) -> str | None:
        """The watcher's last checkpoint of an attempt, to go on from."""
        ...

    async def submit(self, batch: WatcherBatch) -> None:
        """Hand over findings, progress, coverage and checkpoint of one attempt; idempotent."""
        ...

    async def see(self, report: SightReport) -> None:
        """Say how a watcher's sources stand; a lost one caps the stage while it lasts."""
        ...

    async def report(self, report: ClusterReport) -> None:
        """Hand over a whole look at a cluster; an older one than the last of its session is ignored."""
        ...

    async def orders(self, cluster: str, holder: str) -> Orders:
        """Take or renew the lease and get the advice in force."""
        ...

    async def claim(self, claim: Claim) -> ClaimReply:
        """Begin to carry out an advice: generation, expiry, gates, approval, permit and lease are checked at once."""
        ...

    async def record(self, step: StepRecord) -> None:
        """Report a step of a preparation or transaction; idempotent."""
        ...

    async def claim_evidence(self, claim: EvidenceClaim) -> ClaimReply:
        """Begin to collect evidence: stage, lease, permit, and that no step has come since are checked at once."""
        ...

    async def record_evidence(self, report: EvidenceReport) -> None:
        """Report what would be run for evidence, or what came of it; idempotent."""
        ...

    async def record_deed(self, deed: WatchdogDeed) -> None:
        """Report what the watchdog did or would have done, in each state of it; idempotent."""
        ...

    async def claim_request(self, claim: RequestClaim) -> ClaimReply:
        """Begin to carry out what a person asked for: stage, settings, rights and lease are checked at once."""
        ...

    async def record_request(self, report: RequestReport) -> None:
        """Report what came of what a person asked for; idempotent."""
        ...

    async def wait(self, after: int, timeout_s: float) -> int:
        """Return the history's head as soon as it is beyond `after`, or after the time-out."""
        ...
