"""A whole small world in one process: a history, a server over it, two agents, a cluster, people, and a clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from relance.domain.findings import Finding
from relance.domain.incidents import Incident
from relance.domain.keys import AttemptKey
from relance.domain.limits import Limits
from relance.domain.quiet_hours import QuietWeek
from relance.domain.records import ClusterRecord, JobRecord
from relance.domain.stages import EndRunning, Stage
from relance.domain.streams import Recorded, Stream
from relance.ports.histories import Append
from relance.ports.notifiers import Notice
from relance.recovery.backends import LocalBackend
from relance.recovery.commands import Commands
from relance.recovery.live import Live
from relance.recovery.loop import Loop
from relance.recovery.notices import notices_for
from relance.recovery.sites import ClusterRules, Site
from relance.testing.manual_clocks import ManualClock
from relance.testing.memory_histories import MemoryHistory
from tests.scenarios.clusters import NAME, FakeCluster
from tests.scenarios.hands import ControllerHand, WatcherHand

BEGIN = datetime(2026, 5, 2, 11, 0, tzinfo=UTC)
JOB = "17"
_MOST_ROUNDS = 20

Limiting = Callable[[Limits], Limits]


class ShakyHistory(MemoryHistory):
    """A history in which something may come in between, or go wrong, just before an append."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[Append], Awaitable[None]] | None = None
        """Called before each append, but for those that it makes itself."""

    async def append(self, batch: Append, now: datetime) -> tuple[Recorded, ...]:
        before, self.before = self.before, None
        try:
            if before is not None:
                await before(batch)
        finally:
            self.before = before
        return await super().append(batch, now)


class World:
    """Everything that a scenario needs; time goes on by `tick` alone."""

    def __init__(self, limits: Limits | None = None, nodes: int = 6, quiet: QuietWeek | None = None) -> None:
        """Build the world with a server that has seen nothing."""
        rules = ClusterRules(cluster=NAME, opted_in=None, limits=limits or Limits(), quiet=quiet or QuietWeek())
        self.site = Site(clusters=(rules,))
        self.clock = ManualClock(BEGIN)
        self.history = ShakyHistory()
        self.cluster = FakeCluster(nodes)
        self.watcher = WatcherHand(self.cluster)
        self.controller = ControllerHand(self.cluster)
        self.restarts = 0
        self._build()

    @property
    def now(self) -> datetime:
        """The time."""
        return self.clock.now()

    def second(self, at: datetime) -> float:
        """A time in seconds since the beginning."""
        return (at - BEGIN).total_seconds()

    def at(self, second: float) -> datetime:
        """The time so many seconds after the beginning."""
        return BEGIN + timedelta(seconds=second)

    def _build(self) -> None:
        self.live = Live()
        self.loop = Loop(self.history, self.live, self.site, self.clock)
        self.backend = LocalBackend(self.history, self.live, self.loop, self.site, self.clock)
        self.commands = Commands(self.history, self.site, self.clock)

    async def restart_server(self) -> None:
        """Lose everything that the server held in memory and begin anew over the same history."""
        self.restarts += 1
        self._build()
        await self.loop.begin()

    async def tick(self) -> None:
        """One second's work of everybody, then the loop until nothing more follows."""
        self.cluster.tick(self.now)
        await self.controller.turn(self.backend, self.now)
        await self.watcher.turn(self.backend, self.now)
        await self.settle()

    async def settle(self) -> None:
        """Let the loop work until nothing more follows. Fails when that does not end."""
        for _ in range(_MOST_ROUNDS):
            if await self.loop.tick() == 0:
                return
        message = "the loop appends without end"
        raise AssertionError(message)

    async def set_stage(self, stage: Stage, end_running: frozenset[EndRunning] = frozenset()) -> None:
        """Set the cluster's stage."""
        await self.commands.set_stage(NAME, None, stage, end_running, "operator")

    def attempt(self, raw_id: str = JOB, restart_count: int | None = None) -> AttemptKey:
        """The key of an attempt; the current one when no count is given."""
        key = self.cluster.jobs[raw_id].attempt_key(NAME)
        return key if restart_count is None else replace(key, restart_count=restart_count)

    def find(self, finding: Finding) -> None:
        """Let the watcher have a finding."""
        self.watcher.find(finding)

    async def job(self, raw_id: str = JOB) -> JobRecord:
        """The job's record."""
        found = await self.history.find_jobs(raw_id)
        return found[0]

    async def incident(self, raw_id: str = JOB) -> Incident:
        """The job's newest incident."""
        return (await self.job(raw_id)).incidents[-1]

    async def cluster_record(self) -> ClusterRecord:
        """The cluster's record."""
        record = (await self.history.load(Stream.of_cluster(NAME))).record
        assert isinstance(record, ClusterRecord)
        return record

    async def told(self) -> tuple[Recorded, ...]:
        """The whole history."""
        return await self.history.follow(0, limit=1_000_000)

    async def notices(self) -> list[Notice]:
        """What operators are told, each notice once, as the announcer tells it."""
        told: dict[str, Notice] = {}
        for item in await self.told():
            record = (await self.history.load(item.stream)).record
            for notice in notices_for(item, record):
                told.setdefault(notice.id, notice)
        return list(told.values())
