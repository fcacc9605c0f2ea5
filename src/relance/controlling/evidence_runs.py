"""Collecting evidence: shown always, run once for a silence where site and server let it, told whatever comes of it.

The ledger has a line before the command runs and one after it. What the ledger has as begun when a controller starts
was cut off by its death: that is told, and it is never run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

import structlog

from relance.controlling.evidence_commands import (
    CannotCollectError,
    EvidencePlan,
    ends_s,
    evidence_effect,
    why_not_now,
)
from relance.controlling.leases import HeldLease
from relance.controlling.leaves import Standing
from relance.controlling.ledger import LedgerUnusableError
from relance.controlling.paces import COMMAND_LIMIT_S, READ_AGE_S
from relance.controlling.senders import Tools
from relance.controlling.sights import Sight
from relance.domain.advice import Effect
from relance.domain.collecting import (
    LIMIT_S,
    OUTPUT_BYTES,
    Collected,
    CollectionBegan,
    CollectionEnded,
    CollectionReported,
    EvidenceClaim,
    EvidenceOrder,
    EvidenceReport,
)
from relance.ports.backends import Backend, BackendRefusedError, BackendUnavailableError
from relance.ports.schedulers import JobGoneError, SchedulerSilentError
from relance.rules.masking import mask, mask_bytes

_log = structlog.get_logger("relance.controlling")
_T = TypeVar("_T")
_AT_ONCE = 4
_REFUSED_FOR_S = 10.0
_VIEW_AGE_S = 4.0
"""Before a claim the cluster is looked at anew when the last look is older: the server refuses stale views."""
_LOST_AFTER = timedelta(seconds=LIMIT_S + 40.0)
"""So long after its start nobody runs it any more, whoever began it: a controller that lives tells within seconds."""
_INLINE_BYTES = 65536
"""Longer outputs are masked in a thread, so that they hold nothing else up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Whose controller this is: its cluster, its name in leases, the site's command."""

    cluster: str
    holder: str
    plan: EvidencePlan


class EvidenceRuns:
    """Shows, claims and runs the site's command for evidence."""

    def __init__(
        self,
        *,
        backend: Backend,
        sight: Sight,
        tools: Tools,
        settings: RunSettings,
        refresh: Callable[[], Awaitable[None]],
    ) -> None:
        """Take the parts; `refresh` looks at the cluster and reports it."""
        self._backend = backend
        self._sight = sight
        self._tools = tools
        self._settings = settings
        self._refresh = refresh
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._untold: dict[str, EvidenceReport] = {}
        self._shown: dict[str, str] = {}
        self._again_s: dict[str, float] = {}
        """Until when a refused claim is not made again, by key."""

    def resume_open(self) -> None:
        """Tell of everything that the ledger has as begun and that nobody carries out: it was cut off."""
        for key, record in self._tools.ledger.state.collections.items():
            if key in self._tasks or key in self._untold:
                continue
            ran = "its outputs were lost" if record.ended is not None else "nobody knows what came of it"
            reason = f"the controller ended before it could tell: {ran}; it is not run again"
            self._tell(record.began, Collected(exit_code=None, gave_up=reason))

    async def obey(self, order: EvidenceOrder, standing: Standing, lease: HeldLease) -> str:
        """Show the command, and run it where it may be; gives what stands in the way, empty when nothing does."""
        if not self._settings.plan.command or order.key in self._tasks or order.key in self._untold:
            return ""
        if order.started_at is not None:
            self._settle(order)
            return ""
        job = self._sight.job(order.raw_id)
        if job is None or self._sight.report is None:
            return ""
        known_nodes = {node.name for node in self._sight.report.nodes}
        try:
            effect = evidence_effect(self._settings.plan, job, known_nodes, self._tools.scheduler)
            await self._show(order, effect)
            if not self._settings.plan.collect or order.why_not or self._against(standing):
                return ""
            await self._begin(order, effect, lease)
        except CannotCollectError as error:
            return f"no evidence can be collected: {error}"
        except (BackendUnavailableError, BackendRefusedError) as error:
            return f"the server did not answer about evidence of job {order.raw_id}: {error}"
        return ""

    async def flush(self) -> str:
        """Tell the server what came of commands; gives why it stopped, empty when all is told."""
        refused = ""
        for key, report in list(self._untold.items()):
            try:
                await self._backend.record_evidence(report)
            except BackendUnavailableError as error:
                return str(error) or "the server is away"
            except BackendRefusedError as error:
                refused = f"the server refuses what was collected of job {report.attempt.job.raw_id}: {error}"
            self._untold.pop(key, None)
            self._tools.ledger.keep(CollectionReported(key=key, at=self._tools.clock.now()))
        return refused

    async def drain(self) -> None:
        """End: commands that run are killed with their tasks; the ledger tells the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _against(self, standing: Standing) -> str:
        """Why nothing is begun by this controller now; empty when it may be."""
        if standing.stop:
            return standing.stop
        if len(self._tasks) + len(self._untold) >= _AT_ONCE:
            return "enough commands are under way"
        # The unique claim fences it, so the lease need not outlast the whole of a command that ends nothing.
        return "" if standing.lease_left_s >= COMMAND_LIMIT_S else "the lease is about to end"

    def _settle(self, order: EvidenceOrder) -> None:
        """Tell of what was begun and never told of, once nobody can be at it any more."""
        if order.started_at is None or order.key in self._tools.ledger.state.collections:
            return
        if self._tools.clock.now() - order.started_at >= _LOST_AFTER:
            who = order.started_by or "another controller"
            lost = Collected(exit_code=None, gave_up=f"{who} began it and never told what came of it")
            self._tell(order, lost)

    async def _show(self, order: EvidenceOrder, effect: Effect) -> None:
        plan = self._settings.plan
        state = f"{order.stage.stage.value}/{'on' if plan.collect else 'off'}/{effect.digest}"
        if state in order.prepared or self._shown.get(order.key) == state:
            return
        await self._backend.record_evidence(
            EvidenceReport(
                key=order.key,
                incident_id=order.incident_id,
                finding_id=order.finding_id,
                attempt=order.attempt,
                at=self._tools.clock.now(),
                shown=_masked(effect),
                switched_on=plan.collect,
            )
        )
        _remember(self._shown, order.key, state)

    async def _begin(self, order: EvidenceOrder, effect: Effect, lease: HeldLease) -> None:
        if self._tools.clock.monotonic() < self._again_s.get(order.key, 0.0):
            return
        against, wait_s = await self._read(order), _REFUSED_FOR_S
        if not against:
            if self._sight.age_s() > _VIEW_AGE_S:
                await self._refresh()
            reply = await self._backend.claim_evidence(self._claim(order, effect, lease))
            if reply.granted:
                await self._start(order, effect)
                return
            against = reply.reason or "the server refused"
            wait_s = min(_REFUSED_FOR_S, reply.again_in_s or _REFUSED_FOR_S)
        _log.info("no evidence is collected", job=order.raw_id, reason=against)
        _remember(self._again_s, order.key, self._tools.clock.monotonic() + wait_s)

    def _claim(self, order: EvidenceOrder, effect: Effect, lease: HeldLease) -> EvidenceClaim:
        return EvidenceClaim(
            key=order.key,
            incident_id=order.incident_id,
            attempt=order.attempt,
            cluster=self._settings.cluster,
            holder=self._settings.holder,
            lease_epoch=lease.lease.epoch,
            effect=_masked(effect),
        )

    async def _start(self, order: EvidenceOrder, effect: Effect) -> None:
        """It is claimed: note it in the ledger, see that the job is as it was, and run the command."""
        began = CollectionBegan(
            key=order.key,
            incident_id=order.incident_id,
            finding_id=order.finding_id,
            attempt=order.attempt,
            effect=_masked(effect),
            at=self._tools.clock.now(),
        )
        try:
            self._tools.ledger.append(began)
        except LedgerUnusableError as error:
            self._tell(began, Collected(exit_code=None, gave_up=f"not run: the ledger cannot be written: {error}"))
            return
        read_s = self._tools.clock.monotonic()
        against = await self._read(order)
        if not against and self._tools.clock.monotonic() - read_s >= READ_AGE_S:
            against = "the read of the job took too long to go by"
        if against:
            self._tell(began, Collected(exit_code=None, gave_up=f"not run: {against}"))
            return
        task = asyncio.get_running_loop().create_task(self._run(began, effect))
        self._tasks[order.key] = task
        task.add_done_callback(lambda done: self._done(order.key, done))

    async def _run(self, began: CollectionBegan, effect: Effect) -> None:
        limit_s = min(self._settings.plan.limit_s, LIMIT_S)
        (command,) = effect.commands
        found = await self._tools.scheduler.collect(command, limit_s, OUTPUT_BYTES)
        is_long = len(found.stdout) + len(found.stderr) > _INLINE_BYTES
        collected = await asyncio.to_thread(_without_secrets, found) if is_long else _without_secrets(found)
        if collected.exit_code != 0 and collected.took_s >= ends_s(self._settings.plan):
            collected = replace(collected, gave_up=f"it was ended at its limit of {limit_s:.0f} s")
        self._tools.ledger.keep(
            CollectionEnded(
                key=began.key,
                exit_code=collected.exit_code,
                size_bytes=len(collected.stdout) + len(collected.stderr),
                took_s=collected.took_s,
                reason=collected.gave_up,
                at=self._tools.clock.now(),
            )
        )
        self._tell(began, collected)

    async def _read(self, order: EvidenceOrder) -> str:
        """Why the job, read now, is to be left alone; empty when it is as it was."""
        try:
            job = await self._tools.scheduler.read(order.raw_id)
        except (JobGoneError, SchedulerSilentError) as error:
            return f"job {order.raw_id} cannot be read: {error}"
        if job.job_key(self._settings.cluster) != order.attempt.job:
            return f"the id {order.raw_id} belongs to another job now"
        return why_not_now(job, order.attempt.restart_count)

    def _tell(self, of: CollectionBegan | EvidenceOrder, collected: Collected) -> None:
        self._untold[of.key] = EvidenceReport(
            key=of.key,
            incident_id=of.incident_id,
            finding_id=of.finding_id,
            attempt=of.attempt,
            at=self._tools.clock.now(),
            collected=collected,
        )
        self._tools.told()

    def _done(self, key: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(key, None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("collecting evidence broke off", key=key, error=repr(task.exception()))
            self.resume_open()


def _without_secrets(found: Collected) -> Collected:
    return replace(found, stdout=mask_bytes(found.stdout), stderr=mask_bytes(found.stderr))


def _masked(effect: Effect) -> Effect:
    """The effect as it is told to others: a site's command should hold no secret, and none is told if it does."""
    commands = tuple(replace(item, argv=tuple(mask(word) for word in item.argv)) for item in effect.commands)
    return replace(effect, commands=commands)


def _remember(memory: dict[str, _T], key: str, value: _T) -> None:
    if len(memory) >= 10_000:  # noqa: PLR2004 - a convenience, forgotten rather than grown without bound
        memory.clear()
    memory[key] = value
