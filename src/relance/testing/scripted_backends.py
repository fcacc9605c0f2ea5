"""A server that says what a test tells it to: for tests of the agents, not of the server."""

from __future__ import annotations

from dataclasses import replace

from relance.domain.advice import ActionEnd, Claim, ClaimReply, Exclusion, Lease, StepRecord
from relance.domain.collecting import EvidenceClaim, EvidenceOrder, EvidenceReport
from relance.domain.deeds import WatchdogDeed
from relance.domain.events import ACTION_ENDS
from relance.domain.incidents import Action
from relance.domain.keys import AttemptKey, stable_id
from relance.domain.ledgers import Verb
from relance.domain.observations import SightReport, WatcherBatch
from relance.domain.requests import RequestClaim, RequestOrder, RequestReport
from relance.domain.views import ClusterReport
from relance.ports.backends import Assignments, BackendUnavailableError, Order, Orders
from relance.ports.clocks import Clock

_WAIT_S = 0.1


class ScriptedBackend:
    """The controller's half of `relance.ports.backends.Backend`, in memory.

    A claim is granted for an order that is in force and has no action, once for each attempt.
    """

    def __init__(self, clock: Clock) -> None:
        """Begin with no orders, and a lease for everybody who asks alone."""
        self.is_away = False
        self.lease_s = 20.0
        self.holder: str | None = None
        """Who holds the lease; None: the first who asks."""
        self.epoch = 1
        self.refuses: str = ""
        """Why claims are refused; empty: they are granted."""
        self.again_in_s: float | None = None
        """After how long a refused claim is worth asking again."""
        self.kept_out: tuple[Exclusion, ...] | None = None
        self.acting: tuple[str, ...] = ()
        self.claims: list[Claim] = []
        self.steps: dict[str, StepRecord] = {}
        self.reports: list[ClusterReport] = []
        self.sights: list[SightReport] = []
        self.evidence: dict[str, EvidenceOrder] = {}
        """The orders for evidence, by key."""
        self.evidence_claims: list[EvidenceClaim] = []
        self.evidence_reports: list[EvidenceReport] = []
        self.deeds: list[WatchdogDeed] = []
        self.requests: dict[str, RequestOrder] = {}
        """What people asked for, by id."""
        self.request_claims: list[RequestClaim] = []
        self.request_reports: list[RequestReport] = []
        self._clock = clock
        self._orders: dict[str, Order] = {}
        self._position = 0

    def give(self, *orders: Order) -> None:
        """These orders are in force from now on, each in place of an earlier one of its advice's attempt."""
        for order in orders:
            self._orders[str(order.advice.attempt)] = order
        self._position += 1

    def take_back(self, attempt: AttemptKey) -> None:
        """There is no order for this attempt any more."""
        self._orders.pop(str(attempt), None)
        self._position += 1

    def action(self, attempt: AttemptKey) -> Action | None:
        """The action that was begun on this attempt."""
        order = self._orders.get(str(attempt))
        return order.action if order is not None else None

    def story(self, *, prepared: bool = False) -> list[str]:
        """The names of all steps that were recorded, in the order in which they happened."""
        kept = [step for step in self.steps.values() if prepared or step.action_id is not None]
        return [step.step for step in sorted(kept, key=lambda step: step.at)]

    def ends(self) -> list[tuple[ActionEnd, str]]:
        """Every end of an action that was recorded, with its reason."""
        return [(step.end, step.detail) for step in self.steps.values() if step.end is not None]

    # -- the port

    async def assignments(self, cluster: str) -> Assignments:
        self._there()
        return Assignments(assignments=(), position=self._position, as_of=self._clock.now())

    async def checkpoint(self, attempt: AttemptKey) -> str | None:
        self._there()
        return None

    async def submit(self, batch: WatcherBatch) -> None:
        self._there()

    async def see(self, report: SightReport) -> None:
        self._there()
        self.sights.append(report)

    async def report(self, report: ClusterReport) -> None:
        self._there()
        self.reports.append(report)

    async def orders(self, cluster: str, holder: str) -> Orders:
        self._there()
        self.holder = self.holder or holder
        lease = Lease(
            cluster=cluster,
            holder=self.holder,
            epoch=self.epoch,
            duration_s=self.lease_s,
            granted=self.holder == holder,
        )
        orders = tuple(order for order in self._orders.values() if _is_in_force(order))
        evidence = tuple(self.evidence.values())
        return Orders(
            lease=lease,
            orders=orders,
            position=self._position,
            acting=self.acting,
            evidence=evidence,
            requests=tuple(self.requests.values()),
            kept_out=self.kept_out,
        )

    async def claim(self, claim: Claim) -> ClaimReply:
        self._there()
        self.claims.append(claim)
        key = str(claim.attempt)
        order = self._orders.get(key)
        if self.refuses or order is None or order.advice.generation != claim.generation or order.action is not None:
            reason = self.refuses or "no such advice in force"
            return ClaimReply(granted=False, reason=reason, again_in_s=self.again_in_s)
        action = Action(
            id=stable_id("act", claim.advice_id, claim.generation),
            advice_id=claim.advice_id,
            generation=claim.generation,
            kind=claim.kind,
            effect=claim.effect,
            holder=claim.holder,
            stage=order.stage.stage.value,
            started_at=self._clock.now(),
        )
        self._orders[key] = replace(order, action=action)
        self._position += 1
        return ClaimReply(granted=True, action_id=action.id)

    async def record(self, step: StepRecord) -> None:
        self._there()
        if step.id in self.steps:
            return
        self.steps[step.id] = step
        key = str(step.attempt)
        order = self._orders.get(key)
        if order is not None and order.action is not None and order.action.id == step.action_id:
            self._orders[key] = replace(order, action=_with_step(order.action, step))
        self._position += 1

    async def claim_evidence(self, claim: EvidenceClaim) -> ClaimReply:
        self._there()
        self.evidence_claims.append(claim)
        order = self.evidence.get(claim.key)
        if self.refuses or order is None or order.started_at is not None:
            return ClaimReply(granted=False, reason=self.refuses or "no such silence", again_in_s=self.again_in_s)
        self.evidence[claim.key] = replace(order, started_at=self._clock.now(), started_by=claim.holder)
        self._position += 1
        return ClaimReply(granted=True, action_id=claim.key)

    async def record_evidence(self, report: EvidenceReport) -> None:
        self._there()
        self.evidence_reports.append(report)
        if report.collected is not None:
            self.evidence.pop(report.key, None)
        self._position += 1

    async def record_deed(self, deed: WatchdogDeed) -> None:
        self._there()
        self.deeds.append(deed)
        self._position += 1

    async def claim_request(self, claim: RequestClaim) -> ClaimReply:
        self._there()
        self.request_claims.append(claim)
        order = self.requests.get(claim.request.id)
        if self.refuses or order is None or order.started_at is not None:
            return ClaimReply(granted=False, reason=self.refuses or "no such request")
        self.requests[claim.request.id] = replace(order, started_at=self._clock.now(), started_by=claim.holder)
        self._position += 1
        return ClaimReply(granted=True, action_id=claim.request.id)

    async def record_request(self, report: RequestReport) -> None:
        self._there()
        self.request_reports.append(report)
        self.requests.pop(report.request.id, None)
        self._position += 1

    async def wait(self, after: int, timeout_s: float) -> int:
        until_s = self._clock.monotonic() + timeout_s
        self._there()
        while self._position <= after and self._clock.monotonic() < until_s:
            await self._clock.sleep(_WAIT_S)
            self._there()
        return self._position

    def _there(self) -> None:
        if self.is_away:
            raise BackendUnavailableError("the server is away")


def _with_step(action: Action, step: StepRecord) -> Action:
    requeued = action.requeued or step.step in (Verb.REQUEUE.value, Verb.REQUEUE_HELD.value)
    held = step.step == Verb.REQUEUE_HELD.value or (action.held and step.step != Verb.RELEASE.value)
    stepped = replace(action, steps=(*action.steps, step.id), requeued=requeued, held=held)
    return stepped if step.end is None else replace(stepped, end=ACTION_ENDS[step.end].__name__, reason=step.detail)


def _is_in_force(order: Order) -> bool:
    return order.action is None or order.action.end in (None, "ActionUnknown")
