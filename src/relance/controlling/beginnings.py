"""From an order to a begun action: prepare, record the preparation, claim, write the ledger, start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from relance.controlling.actions import Actions
from relance.controlling.leases import HeldLease
from relance.controlling.leaves import OPEN_ENDS, Standing, why_not_claimed
from relance.controlling.ledger import LedgerUnusableError
from relance.controlling.paces import COMMAND_LIMIT_S
from relance.controlling.preparations import NothingToDo, Preparation, Scene, expected_of, prepare
from relance.controlling.senders import Tools
from relance.controlling.sights import Sight
from relance.domain.advice import Claim, Effect, StepRecord
from relance.domain.incidents import Action
from relance.domain.keys import stable_id
from relance.domain.ledgers import Began, Expected
from relance.domain.stages import Stage
from relance.domain.views import JobState, JobView
from relance.ports.backends import Backend, BackendRefusedError, BackendUnavailableError, Order
from relance.ports.schedulers import JobGoneError, SchedulerSilentError

_REFUSED_FOR_S = 10.0
"""A refused claim is tried again when the order changes, or after this long: a permit may have become free."""
VIEW_AGE_S = 4.0
"""Before a claim the cluster is looked at anew when the last look is older: the server refuses stale views (10 s)."""


_READ_AGAIN_S = 1.0
_REMEMBERED = 10_000
_T = TypeVar("_T")
Refresh = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """What a refused claim was made of: while it is the same, it is not made again."""

    order: Order
    digest: str
    epoch: int


class Beginnings:
    """Begins what the orders allow."""

    def __init__(
        self, *, backend: Backend, actions: Actions, sight: Sight, tools: Tools, holder: str, refresh: Refresh
    ) -> None:
        """Take the parts; `refresh` looks at the cluster and reports it."""
        self._backend = backend
        self._actions = actions
        self._sight = sight
        self._tools = tools
        self._holder = holder
        self._refresh = refresh
        self._recorded: dict[str, str] = {}
        """Digest of the newest preparation that the server has from us, by advice and stage."""
        self._refusals: dict[str, tuple[_Refusal, float, str]] = {}
        """What was refused, until when it is not asked again, and the sentence about it; by attempt."""
        self._read_again_s: dict[str, float] = {}
        self._begun_s = tools.clock.monotonic()

    async def obey(self, order: Order, standing: Standing, lease: HeldLease) -> str:
        """Prepare and begin an order as far as may be now; gives a problem that people should know of, or nothing."""
        if self._actions.is_busy(str(order.advice.attempt.job)):
            return ""
        if order.action is not None:
            return await self._adopt(order, order.action, lease)
        if order.stage.stage is Stage.OFF or not order.advice.may_begin:
            return ""
        if order.stage.stage.rank >= Stage.APPROVE.rank and self._sight.age_s() > VIEW_AGE_S:
            await self._refresh()
        preparation = await self._prepare(order)
        if isinstance(preparation, NothingToDo) and preparation.is_problem:
            return f"job {order.raw_id} is not restarted: {preparation.reason}"
        if not isinstance(preparation, Preparation):
            return ""
        try:
            await self._record(order, preparation.effect)
            if why_not_claimed(order, preparation.effect, standing):
                return ""
            return await self._claim(order, preparation, lease)
        except (BackendUnavailableError, BackendRefusedError) as error:
            return f"the server did not answer about job {order.raw_id}: {error}"

    async def _prepare(self, order: Order) -> Preparation | NothingToDo | None:
        """What would be done to the job as it was seen last; read anew, once a second, where that comes to nothing."""
        seen, raw_id = self._sight.job(order.raw_id), order.raw_id
        preparation = self._preparation(order, seen) if seen is not None else None
        now_s = self._tools.clock.monotonic()
        if isinstance(preparation, Preparation) or now_s < self._read_again_s.get(raw_id, now_s):
            return preparation
        _remember(self._read_again_s, raw_id, now_s + _READ_AGAIN_S)
        try:
            return self._preparation(order, await self._tools.scheduler.read(raw_id))
        except (JobGoneError, SchedulerSilentError):
            return None

    def _preparation(self, order: Order, job: JobView) -> Preparation | NothingToDo:
        setting, ledger = self._actions.setting, self._tools.ledger.state
        scene = Scene(
            cluster=setting.cluster,
            order=order,
            job=job,
            report=self._sight.report,
            parked=ledger.parked.get(str(order.advice.attempt.job)),
            limits=setting.limits,
            unwatched=self._tools.surroundings.unwatched(job.partition),
            window_s=self._sight.window_s,
            written=ledger.exclusions.get(str(job.job_key(setting.cluster)), ()),
            acting=self._tools.surroundings.acting(),
        )
        return prepare(scene, self._tools.scheduler)

    async def _record(self, order: Order, effect: Effect) -> None:
        """Tell the server what would be done: once for each advice, stage and effect."""
        key = f"{order.advice.id}/{order.stage.stage.value}"
        if self._recorded.get(key) == effect.digest:
            return
        step = StepRecord(
            id=stable_id("prep", key, effect.digest),
            attempt=order.advice.attempt,
            advice_id=order.advice.id,
            at=self._tools.clock.now(),
            step="prepared",
            detail=effect.summary,
            effect=effect,
        )
        await self._backend.record(step)
        _remember(self._recorded, key, effect.digest)

    async def _claim(self, order: Order, preparation: Preparation, lease: HeldLease) -> str:
        effect = preparation.effect
        attempt = str(order.advice.attempt)
        refusal = _Refusal(order=order, digest=effect.digest, epoch=lease.lease.epoch)
        now_s = self._tools.clock.monotonic()
        before = self._refusals.get(attempt)
        if before is not None and before[0] == refusal and now_s < before[1]:
            return before[2]
        claim = Claim(
            advice_id=order.advice.id,
            attempt=order.advice.attempt,
            generation=order.advice.generation,
            cluster=self._actions.setting.cluster,
            holder=self._holder,
            lease_epoch=lease.lease.epoch,
            kind=preparation.kind,
            effect=effect,
        )
        reply = await self._backend.claim(claim)
        if not reply.granted or reply.action_id is None:
            problem = f"the server refused the claim of job {order.raw_id}: {reply.reason or 'it does not say why'}"
            wait_s = _REFUSED_FOR_S if reply.again_in_s is None else min(reply.again_in_s, _REFUSED_FOR_S)
            _remember(self._refusals, attempt, (refusal, now_s + wait_s, problem))
            return problem
        began = self._began(order, reply.action_id, preparation)
        try:
            self._tools.ledger.append(began)
        except LedgerUnusableError as error:
            # A claim without a ledger is not carried out.
            self._actions.give_up(began, f"nothing was sent: {error}")
            return f"job {order.raw_id} was claimed and not begun: {error}"
        self._actions.begin(began)
        return ""

    def _began(self, order: Order, action_id: str, preparation: Preparation) -> Began:
        return Began(
            action_id=action_id,
            advice=order.advice,
            kind=preparation.kind,
            effect=preparation.effect,
            expected=preparation.expected,
            holder=self._holder,
            at=self._tools.clock.now(),
            consent=order.stage.end_running,
            our_exclusions=order.our_exclusions,
            holds=preparation.holds,
        )

    async def _adopt(self, order: Order, action: Action, lease: HeldLease) -> str:
        """Finish or settle an action that the server shows as begun and our ledger does not know.

        Another controller's commands, or those of a dead process of ours, may be under way for a command's time limit
        after its lease ended, or it: until then nothing is looked at. An action whose job is gone is over.
        """
        if action.end not in OPEN_ENDS or self._actions.knows(action.id):
            return ""
        quiet_since_s = self._begun_s if action.holder == self._holder else max(self._begun_s, lease.held_since_s)
        if self._tools.clock.monotonic() - quiet_since_s < COMMAND_LIMIT_S:
            return ""
        try:
            job = await self._tools.scheduler.read(order.raw_id)
        except JobGoneError as error:
            began = self._taken_over(order, action, _expected_of_gone(order))
            self._actions.give_up(began, f"the scheduler does not know the job any more: {error}")
            return ""
        except SchedulerSilentError as error:
            return f"action {action.id} of {action.holder} cannot be settled: job {order.raw_id}: {error}"
        shows_requeue = job.restart_count == order.advice.attempt.restart_count + 1
        requeued = action.requeued and shows_requeue
        began = replace(
            self._taken_over(order, action, expected_of(job), requeued=requeued),
            holds=self._shows_hold(action, job),
            held=action.held and shows_requeue,
        )
        try:
            self._tools.ledger.append(began)
        except LedgerUnusableError as error:
            return f"action {action.id} of {action.holder} cannot be taken up: {error}"
        self._actions.adopt(began, job)
        return ""

    def _shows_hold(self, action: Action, job: JobView) -> bool:
        """Whether the effect that was shown holds the job; the command may depend on whether it runs."""
        states = (JobState.RUNNING, JobState.FAILED)
        holding = [self._tools.scheduler.requeue_held(replace(job, state=state)) for state in states]
        return any(command in action.effect.commands for command in holding)

    def _taken_over(self, order: Order, action: Action, expected: Expected, *, requeued: bool = False) -> Began:
        as_it_is = Preparation(kind=action.kind, effect=action.effect, expected=expected)
        return replace(self._began(order, action.id, as_it_is), taken_over=True, requeued=requeued)


def _expected_of_gone(order: Order) -> Expected:
    """What is known of a job that the scheduler does not show any more."""
    attempt = order.advice.attempt
    return Expected(
        raw_id=order.raw_id,
        restart_count=attempt.restart_count,
        submitted_at=attempt.job.submitted_at,
        state=JobState.UNKNOWN,
    )


def _remember(memory: dict[str, _T], key: str, value: _T) -> None:
    """Keep something that is only a convenience, and forget it all rather than grow without bound."""
    if len(memory) >= _REMEMBERED:
        memory.clear()
    memory[key] = value
