"""Processes that can be killed between any two steps: what they do after their death has no effect on the world.

A server is a loop and a backend over the history that all share; a controller is the real one with a ledger on disk.
Each reaches the world through something that can die, lose an answer, or kill the process in the middle of a call.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any, TypeVar, cast

from relance.controlling.controller import Controller
from relance.controlling.ledger import Ledger, LedgerUnusableError
from relance.controlling.paces import ControllerSettings, Pace
from relance.domain.advice import Claim, ClaimReply, Command, StepRecord
from relance.domain.collecting import EvidenceClaim, EvidenceReport
from relance.domain.deeds import WatchdogDeed
from relance.domain.keys import AttemptKey
from relance.domain.ledgers import Entry
from relance.domain.observations import SightReport, WatcherBatch
from relance.domain.requests import RequestClaim, RequestReport
from relance.domain.streams import Recorded
from relance.domain.views import ClusterReport, JobView
from relance.ports.backends import Assignments, Backend, BackendUnavailableError, Orders
from relance.ports.clocks import Clock
from relance.ports.histories import ConflictError, History, StorageUnusableError
from relance.recovery.backends import LocalBackend
from relance.recovery.live import Live
from relance.recovery.loop import Loop
from relance.recovery.sites import Site
from relance.testing.memory_clusters import MemoryCluster
from relance.testing.memory_histories import MemoryHistory
from relance.testing.memory_schedulers import SimulatedScheduler

T = TypeVar("T")
OWNER = contextvars.ContextVar("OWNER", default="")
"""Whose task this is: tasks that a task begins are the same process's."""


Message = WatcherBatch | ClusterReport | Claim | StepRecord
"""What agents send, apart from questions."""


class DiedError(Exception):
    """The process was killed in the middle of this call."""


class Trouble(Enum):
    """What befalls a call to the history."""

    CONFLICT = "conflict"
    """Somebody else was first."""
    AWAY = "away"
    """It is not carried out, and the history says that it cannot be used."""
    LOST_ANSWER = "lost_answer"
    """It is carried out, and the answer is lost."""
    DEATH_BEFORE = "death_before"
    """The server is killed before it is carried out."""
    DEATH_AFTER = "death_after"
    """The server is killed after it was carried out."""


class TroubledHistory:
    """One server's way to the history that all share; calls give way to others, and some go wrong."""

    def __init__(self, shared: MemoryHistory, random: Random) -> None:
        """Lead to the shared history."""
        self._shared = shared
        self._random = random
        self.coming: list[tuple[int, Trouble]] = []
        """After how many more appends something goes wrong, and what."""

    def subscribe(self, listener: Callable[[tuple[Recorded, ...]], None]) -> None:
        """Hear what is appended, as the port says."""
        self._shared.subscribe(listener)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Every other call of the port."""
        call = getattr(self._shared, name)

        async def troubled(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the port's call takes and gives
            if self._random.random() < 0.3:
                await asyncio.sleep(0)
            trouble = self._next() if name == "append" else None
            if trouble in (Trouble.CONFLICT, Trouble.AWAY, Trouble.DEATH_BEFORE):
                raise _ERRORS[trouble]
            given = await call(*args, **kwargs)
            if trouble in (Trouble.LOST_ANSWER, Trouble.DEATH_AFTER):
                raise _ERRORS[trouble]
            return given

        return troubled

    def _next(self) -> Trouble | None:
        if not self.coming:
            return None
        left, trouble = self.coming[0]
        if left > 0:
            self.coming[0] = (left - 1, trouble)
            return None
        self.coming.pop(0)
        return trouble


_ERRORS = {
    Trouble.CONFLICT: ConflictError("somebody else was first"),
    Trouble.AWAY: StorageUnusableError("the database is away"),
    Trouble.LOST_ANSWER: StorageUnusableError("the connection was lost"),
    Trouble.DEATH_BEFORE: DiedError(),
    Trouble.DEATH_AFTER: DiedError(),
}


class ServerProcess:
    """A server: its memory is gone when it is killed."""

    def __init__(self, shared: MemoryHistory, site: Site, clock: Clock, random: Random) -> None:
        """Start with an empty memory."""
        self.is_dead = False
        self.troubles = TroubledHistory(shared, random)
        history = cast("History", self.troubles)
        live = Live()
        self.loop = Loop(history, live, site, clock)
        self.backend = LocalBackend(history, live, self.loop, site, clock)
        self._begun = False

    async def tick(self) -> int:
        """Let the loop work once; it dies of what kills it."""
        try:
            if not self._begun:
                await self.loop.begin()
                self._begun = True
            return await self.loop.tick()
        except StorageUnusableError:
            return 0
        except DiedError:
            self.is_dead = True
            return 0


class Wire:
    """An agent's way to whichever server it is connected to; implements the port `Backend`."""

    def __init__(
        self, choose: Callable[[], ServerProcess | None], overhear: Callable[[Message], None] = lambda _message: None
    ) -> None:
        """`choose` gives the server, None when nobody answers; `overhear` is told of each message."""
        self._choose = choose
        self._overhear = overhear
        self.is_cut = False
        self.lost_answers = 0
        """So many calls are carried out, and their answers lost."""
        self.lost_calls = 0
        """So many calls do not arrive; whoever overheard one may deliver it later."""

    async def _ask(self, call: Callable[[Backend], Coroutine[Any, Any, T]]) -> T:
        if self.is_cut:
            await asyncio.Event().wait()
        server = self._choose()
        if server is None or server.is_dead:
            raise BackendUnavailableError("no server answers")
        if self.lost_calls > 0:
            self.lost_calls -= 1
            raise BackendUnavailableError("the call was lost")
        try:
            given = await call(server.backend)
        except DiedError as error:
            server.is_dead = True
            raise BackendUnavailableError("the server died") from error
        if self.lost_answers > 0:
            self.lost_answers -= 1
            raise BackendUnavailableError("the answer was lost")
        return given

    async def assignments(self, cluster: str) -> Assignments:
        return await self._ask(lambda backend: backend.assignments(cluster))

    async def checkpoint(self, attempt: AttemptKey) -> str | None:
        return await self._ask(lambda backend: backend.checkpoint(attempt))

    async def submit(self, batch: WatcherBatch) -> None:
        self._overhear(batch)
        await self._ask(lambda backend: backend.submit(batch))

    async def report(self, report: ClusterReport) -> None:
        self._overhear(report)
        await self._ask(lambda backend: backend.report(report))

    async def orders(self, cluster: str, holder: str) -> Orders:
        return await self._ask(lambda backend: backend.orders(cluster, holder))

    async def claim(self, claim: Claim) -> ClaimReply:
        self._overhear(claim)
        return await self._ask(lambda backend: backend.claim(claim))

    async def record(self, step: StepRecord) -> None:
        self._overhear(step)
        await self._ask(lambda backend: backend.record(step))

    async def see(self, report: SightReport) -> None:
        await self._ask(lambda backend: backend.see(report))

    async def claim_evidence(self, claim: EvidenceClaim) -> ClaimReply:
        return await self._ask(lambda backend: backend.claim_evidence(claim))

    async def record_evidence(self, report: EvidenceReport) -> None:
        await self._ask(lambda backend: backend.record_evidence(report))

    async def claim_request(self, claim: RequestClaim) -> ClaimReply:
        return await self._ask(lambda backend: backend.claim_request(claim))

    async def record_request(self, report: RequestReport) -> None:
        await self._ask(lambda backend: backend.record_request(report))

    async def record_deed(self, deed: WatchdogDeed) -> None:
        await self._ask(lambda backend: backend.record_deed(deed))

    async def wait(self, after: int, timeout_s: float) -> int:
        return await self._ask(lambda backend: backend.wait(after, timeout_s))

    async def deliver(self, message: Message) -> None:
        """A message of somebody's comes late, or again; who sent it does not hear of it."""
        match message:
            case WatcherBatch():
                await self._ask(lambda backend: backend.submit(message))
            case ClusterReport():
                await self._ask(lambda backend: backend.report(message))
            case Claim():
                await self._ask(lambda backend: backend.claim(message))
            case StepRecord():
                await self._ask(lambda backend: backend.record(message))


class MortalLedger(Ledger):
    """A ledger that a dead process no longer writes."""

    is_dead = False

    def append(self, *entries: Entry, durable: bool = True) -> None:
        if self.is_dead:
            raise LedgerUnusableError("dead")
        super().append(*entries, durable=durable)

    def keep(self, *entries: Entry, durable: bool = True) -> None:
        if not self.is_dead:
            super().keep(*entries, durable=durable)


class MortalScheduler(SimulatedScheduler):
    """One controller's way to the scheduler; the controller may be killed at any call, before it or after it."""

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        self.death: tuple[int, bool] | None = None
        """After how many more calls the controller dies, and whether that call is carried out first."""
        self.has_died = asyncio.Event()
        self.on_death: Callable[[], None] = lambda: None

    async def look(self) -> ClusterReport:
        return await self._mortal(super().look())

    async def read(self, raw_id: str) -> JobView:
        return await self._mortal(super().read(raw_id))

    async def send(self, command: Command, time_limit_s: float) -> None:
        await self._mortal(super().send(command, time_limit_s))

    async def _mortal(self, call: Coroutine[Any, Any, T]) -> T:
        dies, is_done_first = False, True
        if self.death is not None:
            left, is_done_first = self.death
            dies = left <= 0
            self.death = (left - 1, is_done_first)
        if self.has_died.is_set() or (dies and not is_done_first):
            call.close()
            await self._die()
        given = await call
        if dies:
            await self._die()
        return given

    async def _die(self) -> None:
        self.has_died.set()
        self.on_death()
        await asyncio.Event().wait()


class ControllerProcess:
    """A controller: killed, it leaves its ledger and whatever the scheduler has done."""

    def __init__(self, name: str, folder: Path, cluster: MemoryCluster, clock: Clock, wire: Wire) -> None:
        """Start on the ledger in a folder."""
        self.name = name
        self.wire = wire
        self.scheduler = MortalScheduler(cluster, clock)
        self.ledger = MortalLedger(folder, cluster.name, clock)
        self._controller = Controller(
            backend=wire,
            scheduler=self.scheduler,
            ledger=self.ledger,
            clock=clock,
            settings=ControllerSettings(holder=name, pace=Pace(poll_s=0.5, slow_poll_s=2.0)),
        )
        self.scheduler.on_death = self._end_effects
        self._controller.start()

    @property
    def has_died(self) -> bool:
        """Whether something killed it."""
        return self.scheduler.has_died.is_set()

    async def tick(self) -> None:
        """One round of everything it does, unless it dies of it; transactions go on beside."""
        round_ = asyncio.ensure_future(self._controller.tick())
        death = asyncio.ensure_future(self.scheduler.has_died.wait())
        await asyncio.wait({round_, death}, return_when=asyncio.FIRST_COMPLETED, timeout=30.0)
        death.cancel()
        if round_.done():
            round_.result()

    async def bury(self, tasks: set[asyncio.Task[Any]]) -> None:
        """Take its effects from it and end its tasks."""
        self.scheduler.has_died.set()
        self._end_effects()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.ledger.close()

    def _end_effects(self) -> None:
        self.ledger.is_dead = True
        self.wire.is_cut = True
