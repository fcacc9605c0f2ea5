"""Requests of people, carried out: claimed, noted, sent once, read back, told.

The ledger has a line before the command goes out and one when it is settled what came of it. What it has as begun when
a controller starts is settled by looking at the cluster: the command is never sent a second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from relance.controlling.freshness import LATE_TRIES
from relance.controlling.leases import HeldLease
from relance.controlling.leaves import Standing
from relance.controlling.ledger import LedgerUnusableError
from relance.controlling.paces import COMMAND_LIMIT_S, READ_AGE_S
from relance.controlling.request_commands import effect_of
from relance.controlling.senders import GRACE_S, Tools, call
from relance.domain.advice import ActionEnd, Command
from relance.domain.ledgers import Outcome
from relance.domain.request_checks import Found, is_done, remark, why_not
from relance.domain.requests import (
    Request,
    RequestBegan,
    RequestClaim,
    RequestKind,
    RequestOrder,
    RequestReport,
    RequestReported,
    RequestSettled,
)
from relance.ports.backends import Backend, BackendRefusedError, BackendUnavailableError
from relance.ports.schedulers import JobGoneError, SchedulerRefusedError, SchedulerSilentError

_log = structlog.get_logger("relance.controlling")
_AT_ONCE = 4
_AGAIN_S = 10.0
_SLOW_S = 1.0
"""Between two reads when the first took too long: each burdens a scheduler that is busy."""
_SHOWS_WITHIN_S = 15.0
_POLL_S = 0.3
_LOST_AFTER = timedelta(seconds=60)
"""So long after it was begun nobody is at it any more, whoever began it: a command takes 10 s, a look as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettings:
    """Whose controller this is: its cluster, its name in leases, and what the site lets people ask for."""

    cluster: str
    holder: str
    allowed: frozenset[RequestKind] = frozenset()


class RequestRuns:
    """Carries out what people ask for."""

    def __init__(
        self, *, backend: Backend, tools: Tools, settings: RequestSettings, standing: Callable[[], Standing]
    ) -> None:
        """Take the parts; `standing` is how the controller stands at the moment of asking."""
        self._backend = backend
        self._tools = tools
        self._settings = settings
        self._standing = standing
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._untold: dict[str, RequestReport] = {}
        self._again_s: dict[str, float] = {}
        """Until when one that could not begin is left alone, by id."""

    def resume_open(self, least_s: float = 0.0) -> None:
        """Settle by looking, in `least_s` at the soonest, what the ledger has as begun and that nobody is at.

        What is settled is told.
        """
        for key, progress in self._tools.ledger.state.requests.items():
            if key in self._tasks or key in self._untold:
                continue
            settled = progress.settled
            if settled is not None:
                self._tell(progress.began.request, settled.end, settled.reason)
                continue
            since = self._tools.clock.now() - progress.began.at
            left_s = min(COMMAND_LIMIT_S, max(0.0, COMMAND_LIMIT_S - since.total_seconds()))
            self._start(key, self._look_back(progress.began.request, max(least_s, left_s)))

    async def obey(self, order: RequestOrder, lease: HeldLease) -> str:
        """Carry a request out where it may be; gives what an operator should know, empty when there is nothing."""
        request = order.request
        key, now_s = request.id, self._tools.clock.monotonic()
        if key in self._tasks or key in self._untold or key in self._tools.ledger.state.requests:
            return ""
        if order.started_at is not None:
            if self._tools.clock.now() - order.started_at >= _LOST_AFTER:
                self._start(key, self._look_back(request, 0.0))
            return ""
        if order.why_not or self._against(request) or now_s < self._again_s.get(key, 0.0):
            return ""
        if request.kind not in (*self._settings.allowed, RequestKind.ARM_JOBS):
            what = f"{request.verb.value} {request.subject}"
            return f"{what}: the controller's own settings have actions.{request.kind.value} off"
        try:
            return await self._begin(request, lease)
        except (BackendUnavailableError, BackendRefusedError) as error:
            return f"the server did not answer about {request.verb.value} {request.subject}: {error}"

    async def flush(self) -> str:
        """Tell the server what came of requests; gives why it stopped, empty when all is told."""
        refused = ""
        for key, report in list(self._untold.items()):
            try:
                await self._backend.record_request(report)
            except BackendUnavailableError as error:
                return str(error) or "the server is away"
            except BackendRefusedError as error:
                refused = f"the server refuses what came of {report.request.subject}: {error}"
            self._untold.pop(key, None)
            if key in self._tools.ledger.state.requests:
                self._tools.ledger.keep(RequestReported(request_id=key, at=self._tools.clock.now()))
        return refused

    async def drain(self) -> None:
        """End: what is under way is left to the ledger, and settled by looking at the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _against(self, request: Request) -> str:
        """Why nothing is begun by this controller now; empty when it may be."""
        standing = self._standing()
        if standing.stop:
            return standing.stop
        if standing.lease_left_s < COMMAND_LIMIT_S:
            return "the lease is about to end"
        if any(record.began.advice.attempt.job == request.job for record in self._tools.ledger.state.open_actions):
            return "an action of ours on this job is under way"
        return "enough requests are under way" if len(self._tasks) >= _AT_ONCE else ""

    async def _begin(self, request: Request, lease: HeldLease) -> str:
        try:
            found = await self._read(request)
            effect = effect_of(request, found, self._tools.scheduler)
        except SchedulerSilentError as error:
            self._later(request)
            return f"{request.subject} cannot be read: {error}"
        except (JobGoneError, SchedulerRefusedError) as error:
            self._tell(request, ActionEnd.ABANDONED, str(error))
            return ""
        against = why_not(request, found)
        if against:
            self._tell(request, ActionEnd.ABANDONED, against)
            return ""
        claim = RequestClaim(
            request=request, holder=self._settings.holder, lease_epoch=lease.lease.epoch, effect=effect
        )
        reply = await self._backend.claim_request(claim)
        if not reply.granted:
            _log.info("a request is not begun", request=request.id, reason=reply.reason)
            self._later(request)
            return ""
        self._start(request.id, self._carry_out(RequestBegan(request=request, effect=effect, at=self._now())))
        return ""

    async def _carry_out(self, began: RequestBegan) -> None:
        """It is claimed: note it in the ledger, see that all is as it was, send the command, and read back."""
        request = began.request
        try:
            self._tools.ledger.append(began)
        except LedgerUnusableError as error:
            self._tell(request, ActionEnd.ABANDONED, f"not sent: the ledger cannot be written: {error}")
            return
        against = await self._why_not_sent(request)
        if against:
            self._settle(request, ActionEnd.ABANDONED, against)
            return
        (command,) = began.effect.commands
        await self._send(request, command)

    async def _why_not_sent(self, request: Request) -> str:
        """Read once more, and say why the command does not follow now; empty when it does, at once."""
        for _ in range(LATE_TRIES):
            read_s = self._tools.clock.monotonic()
            try:
                against = why_not(request, await self._read(request))
            except (JobGoneError, SchedulerRefusedError, SchedulerSilentError) as error:
                return f"not sent: {error}"
            standing = self._standing()
            if against or standing.stop:
                return f"not sent: {against or standing.stop}"
            if standing.lease_left_s < COMMAND_LIMIT_S:
                return "not sent: the lease is about to end"
            if self._tools.clock.monotonic() - read_s < READ_AGE_S:
                return ""
            await self._tools.clock.sleep(_SLOW_S)
        return "not sent: what is read takes too long to go by; see why the scheduler is slow"

    async def _send(self, request: Request, command: Command) -> None:
        outcome, text, _ = await call(self._tools.scheduler, command)
        if outcome is Outcome.REFUSED:
            self._settle(request, ActionEnd.FAILED, text)
            return
        said = text if outcome is Outcome.SILENT else ""
        shows, seen = await self._comes_to_show(request)
        if shows:
            found = f"found done, though no answer came ({said})" if said else ""
            self._settle(request, ActionEnd.SUCCEEDED, "; ".join(text for text in (seen, found) if text))
        elif seen:
            self._settle(request, ActionEnd.UNKNOWN, seen)
        else:
            why = f"no answer ({said})" if said else "accepted"
            self._settle(request, ActionEnd.FAILED, f"{why}, and nothing of it shows after {_SHOWS_WITHIN_S:.0f} s")

    async def _look_back(self, request: Request, wait_s: float) -> None:
        """Settle by looking: whoever began it has ended, and its command may be under way for `wait_s` yet."""
        await self._tools.clock.sleep(wait_s)
        shows, seen = await self._comes_to_show(request)
        if shows:
            told = "its controller ended before it could tell; it shows as done"
            self._settle(request, ActionEnd.SUCCEEDED, f"{told}; {seen}" if seen else told)
        elif seen:
            self._settle(request, ActionEnd.UNKNOWN, f"its controller ended before it could tell: {seen}")
        else:
            why = "its controller ended before it could tell, and nothing of it shows: ask again if it is still wanted"
            self._settle(request, ActionEnd.ABANDONED, why)

    async def _comes_to_show(self, request: Request) -> tuple[bool, str]:
        """Whether it shows, within a while; and what is to be told of that, or why it cannot be told."""
        until_s = self._tools.clock.monotonic() + _SHOWS_WITHIN_S
        while True:
            problem = ""
            try:
                found = await self._read(request)
                if is_done(request, found):
                    return True, remark(request, found)
            except (JobGoneError, SchedulerRefusedError, SchedulerSilentError) as error:
                problem = str(error) or "no answer"
            if self._tools.clock.monotonic() >= until_s:
                return False, problem
            await self._tools.clock.sleep(_POLL_S)

    async def _read(self, request: Request) -> Found:
        """Its subject, fresh. Raises JobGoneError, SchedulerRefusedError, SchedulerSilentError."""
        cluster, now = self._settings.cluster, self._now()
        try:
            async with asyncio.timeout(COMMAND_LIMIT_S + GRACE_S):
                if request.job is None:
                    return Found(cluster=cluster, at=now, node=await self._tools.scheduler.read_node(request.node))
                return Found(cluster=cluster, at=now, job=await self._tools.scheduler.read(request.job.raw_id))
        except TimeoutError as error:
            raise SchedulerSilentError("no answer in time") from error

    def _settle(self, request: Request, end: ActionEnd, reason: str) -> None:
        if request.id in self._tools.ledger.state.requests:
            settled = RequestSettled(request_id=request.id, end=end, reason=reason, at=self._now())
            self._tools.ledger.keep(settled)
        self._tell(request, end, reason)

    def _tell(self, request: Request, end: ActionEnd, reason: str) -> None:
        self._untold[request.id] = RequestReport(request=request, end=end, reason=reason, at=self._now())
        self._tools.told()

    def _later(self, request: Request) -> None:
        if len(self._again_s) >= 10_000:  # noqa: PLR2004 - a convenience, forgotten rather than grown without bound
            self._again_s.clear()
        self._again_s[request.id] = self._tools.clock.monotonic() + _AGAIN_S

    def _now(self) -> datetime:
        return self._tools.clock.now()

    def _start(self, key: str, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._done(key, done))

    def _done(self, key: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(key, None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("carrying out a request broke off", request=key, error=repr(task.exception()))
            self.resume_open(_AGAIN_S)
