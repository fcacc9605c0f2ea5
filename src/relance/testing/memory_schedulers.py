"""`SimulatedScheduler`: the port to a cluster in memory, with faults on demand. It runs the contract suite."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from relance.domain.advice import Command
from relance.domain.collecting import Collected
from relance.domain.nodes import NodeChange, NodeSight, is_ours
from relance.domain.views import ClusterReport, JobView
from relance.ports.clocks import Clock
from relance.ports.schedulers import JobGoneError, SchedulerRefusedError, SchedulerSilentError
from relance.testing.memory_cares import MemoryCare
from relance.testing.memory_clusters import MemoryCluster, RefusedError, UnknownJobError

PROGRAM = "simulated"
_CHANGED_S = 0.1


class FaultKind(Enum):
    """What befalls a command."""

    HANG = "hang"
    """It is never done, and never answered."""
    LATE = "late"
    """It is done `after_s` later; the answer does not come."""
    LOST_ANSWER = "lost_answer"
    """It is done; the answer does not come."""
    FALSE_REFUSAL = "false_refusal"
    """It is done, and called refused."""
    REFUSAL = "refusal"
    """It is refused, and not done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of one command."""

    kind: FaultKind
    after_s: float = 0.0
    text: str = "Requested operation is presently disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A command that reached the scheduler, and how old the newest read of its job was, in seconds."""

    at: datetime
    argv: tuple[str, ...]
    read_age_s: float


@dataclass(slots=True, kw_only=True)
class Faults:
    """What goes wrong; a test changes it as it likes."""

    commands: dict[int, Fault] = field(default_factory=dict)
    """By the number of the command, from 1."""
    is_silent: bool = False
    """Nothing is answered."""
    is_partial: bool = False
    """Looks do not show all jobs, and say so."""
    is_deaf: bool = False
    """A change wakes nobody."""


class SimulatedScheduler:
    """Implements `relance.ports.schedulers.Scheduler` over a `MemoryCluster`."""

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        """Serve this cluster."""
        self.faults = Faults()
        self.sent: list[Sent] = []
        self.collected: list[Command] = []
        """Every command for evidence that was run."""
        self.collects = Collected(exit_code=0, stdout=b"what it saw\n", took_s=1.0)
        self.collecting_s = 1.0
        self._cluster = cluster
        self._clock = clock
        self._read_s: dict[str, float] = {}
        self.care = MemoryCare(cluster, clock)
        """What keeps jobs off nodes."""
        self._changes: dict[tuple[str, ...], NodeChange] = {}

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self._cluster.name

    async def look(self) -> ClusterReport:
        self._answer_or_not()
        jobs = self._cluster.jobs()
        return ClusterReport(
            cluster=self.cluster,
            session="",
            sequence=0,
            as_of=self._clock.now(),
            facts=self._cluster.facts(),
            jobs=jobs[:-1] if self.faults.is_partial else jobs,
            nodes=self.care.shown(),
            past=self._cluster.past(),
            windows=tuple(self.care.windows.values()),
            complete=not self.faults.is_partial,
        )

    async def read(self, raw_id: str) -> JobView:
        self._answer_or_not()
        self._read_s[raw_id] = self._clock.monotonic()
        try:
            return self._cluster.job(raw_id)
        except UnknownJobError as error:
            raise JobGoneError(str(error)) from error

    def requeue(self, job: JobView) -> Command:
        return Command(argv=(PROGRAM, "requeue", job.raw_id))

    def constrain(self, job: JobView, exclude: tuple[str, ...], start_at: datetime | None) -> Command:
        start = start_at.isoformat() if start_at is not None else "now"
        return Command(argv=(PROGRAM, "update", job.raw_id, f"exclude={','.join(exclude)}", f"start={start}"))

    def cancel(self, job: JobView) -> Command:
        return Command(argv=(PROGRAM, "cancel", job.raw_id))

    def arm(self, job: JobView, *, allowed: bool) -> Command:
        return Command(argv=(PROGRAM, "arm", job.raw_id, f"requeue={int(allowed)}"))

    def hold(self, job: JobView) -> Command:
        return Command(argv=(PROGRAM, "hold", job.raw_id))

    async def read_node(self, name: str) -> NodeSight:
        self._answer_or_not()
        self._read_s[name] = self._clock.monotonic()
        sight = self.care.sight(name)
        if sight is None:
            raise SchedulerRefusedError(f"the cluster has no node {name}")
        return sight

    def change_node(self, change: NodeChange) -> Command:
        if not is_ours(change):
            raise SchedulerRefusedError(f"node {change.node}: neither name nor reason is one of ours")
        argv = (PROGRAM, *self.care.words(change))
        self._changes[argv] = change
        return Command(argv=argv)

    def exclude(self, job: JobView, nodes: tuple[str, ...]) -> Command:
        return Command(argv=(PROGRAM, "update", job.raw_id, f"exclude={','.join(nodes)}"))

    def requeue_held(self, job: JobView) -> Command:
        return Command(argv=(PROGRAM, "requeuehold", job.raw_id))

    def release(self, job: JobView) -> Command:
        return Command(argv=(PROGRAM, "release", job.raw_id))

    def rearm(self, job: JobView, dependency: str) -> Command:
        return Command(argv=(PROGRAM, "rearm", job.raw_id, f"dependency={dependency}"))

    def evidence(self, argv: tuple[str, ...]) -> Command:
        return Command(argv=argv)

    async def collect(self, command: Command, time_limit_s: float, most_bytes: int) -> Collected:
        """What a test says in `collects`, after `collecting_s`; the limit holds here, too."""
        self.collected.append(command)
        await self._clock.sleep(min(self.collecting_s, time_limit_s))
        if self.collecting_s > time_limit_s:
            return Collected(exit_code=None, took_s=time_limit_s, gave_up=f"no answer within {time_limit_s:g} s")
        return self.collects

    async def send(self, command: Command, time_limit_s: float) -> None:
        if len(command.argv) < 3 or command.argv[0] != PROGRAM:
            raise SchedulerRefusedError(f"not a command of ours: {command.argv}")
        raw_id = command.argv[2]
        age_s = self._clock.monotonic() - self._read_s.get(raw_id, float("-inf"))
        self.sent.append(Sent(at=self._clock.now(), argv=command.argv, read_age_s=age_s))
        fault = self.faults.commands.get(len(self.sent))
        if fault is None or fault.kind is FaultKind.LOST_ANSWER or fault.kind is FaultKind.FALSE_REFUSAL:
            self._answer_or_not()
            self._do(command)
        match fault.kind if fault else None:
            case None:
                return
            case FaultKind.REFUSAL | FaultKind.FALSE_REFUSAL:
                raise SchedulerRefusedError(fault.text if fault else "")
            case FaultKind.LATE:
                self._cluster.do_later(
                    command.argv, self._clock.now() + timedelta(seconds=fault.after_s if fault else 0)
                )
            case FaultKind.HANG | FaultKind.LOST_ANSWER:
                pass
        await self._clock.sleep(time_limit_s)
        raise SchedulerSilentError(f"no answer within {time_limit_s:.0f} s")

    async def changed(self, timeout_s: float) -> None:
        """The cluster changes only when it is looked at, so this is a short wait."""
        await self._clock.sleep(timeout_s if self.faults.is_deaf else min(timeout_s, _CHANGED_S))

    async def close(self) -> None:
        """There is nothing to give back."""

    def _do(self, command: Command) -> None:
        try:
            if command.argv in self._changes:
                self.care.do(self._changes[command.argv])
            elif command.argv[1] == "hold":
                self.care.hold(command.argv[2])
            else:
                self._cluster.do(command.argv)
        except RefusedError as error:
            raise SchedulerRefusedError(str(error)) from error
        except UnknownJobError as error:
            raise JobGoneError(str(error)) from error

    def _answer_or_not(self) -> None:
        if self.faults.is_silent:
            raise SchedulerSilentError("no answer")
