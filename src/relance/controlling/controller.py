"""The controller: reports its cluster, prepares and claims advice, and carries it out. The only part that acts.

Three loops side by side: looks at the cluster, orders from the server, and steps to be reported. Each has a method that
does it once, by which it is tested. Whatever is away, what has begun is finished: transactions need the scheduler only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

import structlog

from relance.controlling.actions import Actions
from relance.controlling.beginnings import Beginnings
from relance.controlling.deeds import Deeds
from relance.controlling.evidence_runs import EvidenceRuns, RunSettings
from relance.controlling.leases import HeldLease, renewed
from relance.controlling.leaves import Standing, leave_to_send, why_nothing_is_begun
from relance.controlling.ledger import Ledger, LedgerUnusableError
from relance.controlling.moves import Leave, Transaction
from relance.controlling.paces import COMMAND_LIMIT_S, ControllerSettings
from relance.controlling.reporting import Reporter
from relance.controlling.request_runs import RequestRuns, RequestSettings
from relance.controlling.resumptions import Setting
from relance.controlling.senders import Tools
from relance.controlling.sights import Sight
from relance.controlling.taking_back import TakingBack
from relance.controlling.watch_marks import ReadMark, mark_in
from relance.domain.faults import Remedy
from relance.domain.ledgers import Decided, LetGo, Taken
from relance.domain.views import ClusterReport, Impairment
from relance.domain.watchdogs import why_not_watching
from relance.ports.backends import Backend, BackendRefusedError, BackendUnavailableError, Order, Orders
from relance.ports.clocks import Clock
from relance.ports.schedulers import Scheduler, SchedulerSilentError, SchedulerUnreachedError

_log = structlog.get_logger("relance.controlling")
_DRAIN_S = 5.0
"""How long transactions may go on when the controller is told to end; the rest is taken up at the next start."""
_AWAY_S = 1.0
"""Between two tries to reach a server that is away."""


class Controller:
    """One cluster's controller. Build it, then `run` it; or call `start` once and the ticks by hand."""

    def __init__(
        self,
        *,
        backend: Backend,
        scheduler: Scheduler,
        ledger: Ledger,
        clock: Clock,
        settings: ControllerSettings,
        mark: ReadMark | None = None,
    ) -> None:
        """Take the parts. `mark` reads the watchdog's mark; None: the one beside the ledger."""
        self.alarms: dict[str, str] = {}
        """What is wrong now, by subject; goes into every report."""
        self._backend = backend
        self._scheduler = scheduler
        self._ledger = ledger
        self._limits = settings.limits
        self._clock = clock
        self._holder = settings.holder
        self._pace = settings.pace
        self._plan = settings.evidence
        self._allowed = settings.requests
        self._sight = Sight(scheduler, clock, settings.holder)
        self._reporter = Reporter(backend, ledger, clock)
        self._deeds = Deeds(backend, ledger.folder, clock)
        self._mark = mark or mark_in(ledger.folder)
        self._lease: HeldLease | None = None
        self._orders: Orders | None = None
        self._look_again = asyncio.Event()
        self._one_look = asyncio.Lock()
        self._told = asyncio.Event()
        self._actions: Actions | None = None
        self._beginnings: Beginnings | None = None
        self._evidence: EvidenceRuns | None = None
        self._taking_back: TakingBack | None = None
        self._requests: RequestRuns | None = None

    async def run(self) -> None:
        """Work until cancelled; then give what is under way a moment, and leave the rest to the next start."""
        self.start()
        try:
            async with asyncio.TaskGroup() as group:
                for loop in (self._looking(), self._ordering(), self._suspecting(), self._reporting()):
                    group.create_task(loop)
        finally:
            await self.stop()

    def start(self) -> None:
        """Take up what the ledger has open. Needs a running event loop."""
        setting = Setting(cluster=self._scheduler.cluster, limits=self._limits, pace=self._pace)
        tools = Tools(
            scheduler=self._scheduler,
            ledger=self._ledger,
            clock=self._clock,
            surroundings=self,
            told=self._told.set,
        )
        # A look at the end of an action shows at once what came of it, and not when the next one is due.
        self._actions = Actions(setting=setting, tools=tools, holder=self._holder, ended=self._look_again.set)
        self._beginnings = Beginnings(
            backend=self._backend,
            actions=self._actions,
            sight=self._sight,
            tools=tools,
            holder=self._holder,
            refresh=self.look_and_report,
        )
        self._evidence = EvidenceRuns(
            backend=self._backend,
            sight=self._sight,
            tools=tools,
            settings=RunSettings(cluster=setting.cluster, holder=self._holder, plan=self._plan),
            refresh=self.look_and_report,
        )
        self._requests = RequestRuns(
            backend=self._backend,
            tools=tools,
            settings=RequestSettings(cluster=setting.cluster, holder=self._holder, allowed=self._allowed),
            standing=self.standing,
        )
        self._taking_back = TakingBack(
            sight=self._sight, tools=tools, cluster=setting.cluster, is_busy=self._actions.is_busy
        )
        self._actions.resume_open()
        self._evidence.resume_open()
        self._requests.resume_open()

    async def stop(self) -> None:
        """End: transactions get a moment to reach their end, and are then left to the ledger."""
        if self._actions is not None:
            await self._actions.drain(_DRAIN_S)
        if self._evidence is not None:
            await self._evidence.drain()
        if self._requests is not None:
            await self._requests.drain()

    async def tick(self) -> None:
        """One look, one round of orders, one round of reports; what was begun goes on by itself."""
        await self.look_and_report()
        await self.obey_orders()
        await self.report_steps()

    async def look_and_report(self) -> None:
        """Look at the whole cluster and report it."""
        async with self._one_look:
            await self._look_and_report()

    async def _look_and_report(self) -> None:
        self._ledger.beat()
        try:
            problems = (*self.alarms.values(), *self._ledger.problems)
            report = await self._sight.look(problems, why_nothing_is_begun(self.standing()))
        except SchedulerSilentError as error:
            self._alarm("scheduler", f"the scheduler does not answer: {error}")
            if isinstance(error, SchedulerUnreachedError):
                await self._report_what_is_missing(error)
            return
        except Exception as error:  # noqa: BLE001 -- an answer that nobody thought of is one that cannot be read
            _log.exception("look")
            self._alarm("scheduler", f"the scheduler's answer cannot be read: {type(error).__name__}")
            return
        self._alarm("scheduler", "")
        try:
            # Read after the look, so that whatever the look shows of the watchdog's doing is told before it.
            self._alarm("watchdog", await self._deeds.flush())
            await self._backend.report(report)
        except (BackendUnavailableError, BackendRefusedError) as error:
            self._alarm("report", f"the server did not take the report: {error}")
        else:
            self._alarm("report", "")

    async def _report_what_is_missing(self, error: SchedulerUnreachedError) -> None:
        """Have the server know why nothing new is seen; what was seen last is as old as it is."""
        missing = Impairment(name=error.way, reason=str(error))
        report = self._sight.again(missing, self.alarms.values())
        if report is not None:
            with contextlib.suppress(BackendUnavailableError, BackendRefusedError):
                await self._backend.report(report)

    async def obey_orders(self) -> None:
        """Renew the lease, note what is taken, and prepare, claim and begin what the orders allow."""
        self._ledger.beat()
        asked_s = self._clock.monotonic()
        try:
            orders = await self._backend.orders(self._scheduler.cluster, self._holder)
        except (BackendUnavailableError, BackendRefusedError) as error:
            self._alarm("orders", f"no orders from the server, so nothing new begins: {error}")
            return
        self._alarm("orders", "")
        self._lease = renewed(self._lease, orders.lease, asked_s)
        self._orders = orders
        self._note_taken(orders)
        self._check_lease(orders)
        if self._actions is None or self._beginnings is None:
            return
        self._actions.resume_open()
        if not orders.lease.granted:
            return
        problems = []
        for order in orders.orders:
            self._note_decided(order)
            problems.append(await self._obey(self._beginnings, order, self._lease))
        self._alarm("begin", "; ".join(problem for problem in problems if problem))
        await self._carry_out_requests(orders, self._lease)
        if self._taking_back is not None:
            self._alarm("exclusions", await self._taking_back.obey(orders, self.standing()))
        await self._collect_evidence(orders, self._lease)

    async def _carry_out_requests(self, orders: Orders, lease: HeldLease) -> None:
        """Begin what people asked for; trouble with one of them stops nothing else."""
        if self._requests is None:
            return
        problems = []
        for order in orders.requests:
            try:
                problems.append(await self._requests.obey(order, lease))
            except Exception as error:  # noqa: BLE001 -- whatever it is, the others are still to be served
                _log.exception("request", request=order.request.id)
                problems.append(f"{order.request.subject}: an error of ours: {type(error).__name__}")
        self._alarm("requests", "; ".join(dict.fromkeys(problem for problem in problems if problem)))

    async def _collect_evidence(self, orders: Orders, lease: HeldLease) -> None:
        """Show and begin what may be collected of suspected hangs; trouble with it stops nothing else."""
        if self._evidence is None:
            return
        problems = []
        for order in orders.evidence:
            try:
                problems.append(await self._evidence.obey(order, self.standing(), lease))
            except Exception as error:  # noqa: BLE001 -- whatever it is, the other jobs are still to be served
                _log.exception("evidence", job=order.raw_id)
                problems.append(f"evidence of job {order.raw_id}: an error of ours: {type(error).__name__}")
        self._alarm("evidence", "; ".join(dict.fromkeys(problem for problem in problems if problem)))

    async def _obey(self, beginnings: Beginnings, order: Order, lease: HeldLease) -> str:
        """Begin an order as far as may be; one that goes wrong in a way nobody thought of does not stop the others."""
        try:
            return await beginnings.obey(order, self.standing(), lease)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the other jobs are still to be served
            _log.exception("order", job=order.raw_id, advice=order.advice.id)
            return f"job {order.raw_id}: an error of ours: {type(error).__name__}: nothing was begun"

    async def report_steps(self) -> None:
        """Hand the server every step that it does not have."""
        problems = [await self._reporter.flush()]
        if self._evidence is not None:
            problems.append(await self._evidence.flush())
        if self._requests is not None:
            problems.append(await self._requests.flush())
        self._alarm("steps", "; ".join(problem for problem in problems if problem))

    async def look(self) -> ClusterReport:
        """A whole look for a transaction; jobs keep the dependency they showed. Raises SchedulerSilentError."""
        return await self._sight.look_for_copies()

    def leave(self, transaction: Transaction) -> tuple[Leave, str]:
        """Whether the first command of an action may be sent now."""
        leave, reason = leave_to_send(transaction, self.standing(), self._orders)
        waits = self._deeds.in_the_way(transaction.began.advice.attempt) if leave is Leave.GRANTED else ""
        return (Leave.WAIT, waits) if waits else (leave, reason)

    def unwatched(self, partition: str) -> str:
        """Why no watchdog would free a job of this partition that we hold; empty when one would."""
        return why_not_watching(self._mark(), self._scheduler.cluster, partition, self._clock.now())

    def acting(self) -> Collection[str]:
        """Keys of the attempts whose jobs are at `act`, as the newest orders say."""
        return self._orders.acting if self._orders is not None else ()

    def note_window(self, window_s: float) -> None:
        """A requeued job showed that it starts by itself after so long: sooner than the settings say, that counts."""
        self._sight.note_window(window_s)

    def standing(self) -> Standing:
        """How this controller stands now."""
        return Standing(
            at=self._clock.now(),
            lease_left_s=self._lease.left_s(self._clock.monotonic()) if self._lease is not None else 0.0,
            stop=self._ledger.why_nothing_begins(),
            unreported=len(self._ledger.state.unreported),
            most_unreported=self._pace.unreported,
            running=self._actions.running if self._actions is not None else 0,
            most_running=self._pace.transactions,
        )

    def _note_taken(self, orders: Orders) -> None:
        """Keep in the ledger which attempts are ours to save: what the watchdog may save after us."""
        stop = self._ledger.why_nothing_begins()
        acting = frozenset(orders.acting) if orders.lease.granted and not stop else frozenset()
        taken = frozenset(self._ledger.state.taken)
        now = self._clock.now()
        fresh, gone = tuple(sorted(acting - taken)), tuple(sorted(taken - acting))
        reason = stop or (
            "over, or not at act any more" if orders.lease.granted else "another controller has the lease"
        )
        with contextlib.suppress(LedgerUnusableError):  # it raises its own alarm, and nothing begins meanwhile
            if fresh:
                self._ledger.append(Taken(attempts=fresh, at=now))
            if gone:
                self._ledger.append(LetGo(attempts=gone, reason=reason, at=now))

    def _note_decided(self, order: Order) -> None:
        advice, attempt = order.advice, str(order.advice.attempt)
        is_decided = advice.action in (Remedy.STOP, Remedy.NONE) and not advice.hold
        if is_decided and attempt not in self._ledger.state.decided:
            reason = f"{advice.action.value}: {'; '.join(advice.reasons)}"
            with contextlib.suppress(LedgerUnusableError):
                self._ledger.append(Decided(attempt=attempt, reason=reason, at=self._clock.now()))

    def _check_lease(self, orders: Orders) -> None:
        short = orders.lease.granted and orders.lease.duration_s < COMMAND_LIMIT_S
        text = f"the lease of {orders.lease.duration_s:.0f} s is shorter than a command may take: nothing can begin"
        self._alarm("lease", text if short else "")

    async def _looking(self) -> None:
        while True:
            begun_s = self._clock.monotonic()
            self._look_again.clear()
            await self.look_and_report()
            await self._clock.sleep(self._pace.look_at_least_s)
            left_s = self._pace.look_s - (self._clock.monotonic() - begun_s)
            await self._woken(max(0.0, left_s))

    async def _woken(self, timeout_s: float) -> None:
        """Return when the scheduler shows a change, or a single read did, or after the time."""
        waits = [
            asyncio.ensure_future(self._scheduler.changed(timeout_s)),
            asyncio.ensure_future(self._look_again.wait()),
        ]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in done:
                wait.result()
        except SchedulerSilentError:
            await self._clock.sleep(min(timeout_s, _AWAY_S))
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _ordering(self) -> None:
        while True:
            await self.obey_orders()
            if "orders" in self.alarms or self._orders is None:
                await self._clock.sleep(_AWAY_S)
                continue
            await self._clock.sleep(self._pace.poll_s)
            try:
                await self._backend.wait(self._orders.position, self._pace.orders_s)
            except (BackendUnavailableError, BackendRefusedError):
                await self._clock.sleep(_AWAY_S)

    async def _suspecting(self) -> None:
        while True:
            await self._clock.sleep(self._pace.suspicion_s)
            if await self._sight.suspicious_change(self._orders.orders if self._orders is not None else ()):
                self._look_again.set()

    async def _reporting(self) -> None:
        while True:
            self._told.clear()
            await self.report_steps()
            if "steps" in self.alarms:
                await self._clock.sleep(_AWAY_S)
            else:
                await self._told.wait()

    def _alarm(self, subject: str, text: str) -> None:
        """Raise or clear an alarm; each change is logged once."""
        if self.alarms.get(subject, "") == text:
            return
        if text:
            self.alarms[subject] = text
            _log.warning("alarm", subject=subject, text=text)
        else:
            del self.alarms[subject]
            _log.info("alarm cleared", subject=subject)
