"""A stand on which a backend is tested: the backend, the server's clock, and a cluster that is told what happens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from relance.domain.advice import ActionKind, Claim, Command, Effect, StepRecord
from relance.domain.findings import Coverage, Sight
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import WatcherBatch
from relance.domain.progress import Phase, Progress
from relance.domain.requests import Request
from relance.domain.stages import Stage
from relance.domain.views import ClusterReport, JobState, JobView, NodeState, NodeView, SchedulerFacts
from relance.ports.backends import Backend, Order, Orders
from relance.testing.manual_clocks import ManualClock

CLUSTER = "alpha"
HOLDER = "controller-1"
EFFECT = Effect(
    summary="requeue job 17 → nothing else",
    commands=(Command(argv=("scontrol", "requeue", "17")), Command(argv=("squeue", "-j", "17"), changes=False)),
    digest="d" * 64,
)


@dataclass(kw_only=True)
class BackendStand:
    """What the contract's tests are given.

    `settle` lets the server do everything that it has to do now; `set_stage` sets the cluster's stage; by `quarantine`
    a person asks for that node to be kept out for a day.
    """

    backend: Backend
    clock: ManualClock
    settle: Callable[[], Awaitable[object]]
    set_stage: Callable[[Stage], Awaitable[object]]
    quarantine: Callable[[str], Awaitable[Request]]
    sequence: int = 0
    jobs: dict[str, JobView] = field(default_factory=dict)

    def job(self, raw_id: str = "17") -> JobView:
        """A job of four nodes, running since a while."""
        began = self.clock.now() - timedelta(hours=1)
        return self.jobs.setdefault(raw_id, _job(raw_id, began))

    def attempt(self, raw_id: str = "17") -> AttemptKey:
        """The key of a job's current attempt."""
        return self.job(raw_id).attempt_key(CLUSTER)

    def show(self, raw_id: str = "17", **changes: object) -> None:
        """Change what the scheduler shows of a job."""
        self.jobs[raw_id] = replace(self.job(raw_id), **changes)  # type: ignore[arg-type] # a view's own fields

    def look(self, sequence: int | None = None, session: str = "session-1") -> ClusterReport:
        """A whole look at the cluster, newer than the last one unless a number is given."""
        self.sequence = self.sequence + 1 if sequence is None else self.sequence
        return ClusterReport(
            cluster=CLUSTER,
            session=session,
            sequence=self.sequence if sequence is None else sequence,
            as_of=self.clock.now(),
            facts=SchedulerFacts(release="25.11.7", may_act=True),
            jobs=tuple(self.jobs.values()),
            nodes=tuple(NodeView(name=f"n{i}", state=NodeState.ALLOCATED, partitions=("gpu",)) for i in range(8)),
        )

    async def head(self) -> int:
        """The newest position of the history."""
        return await self.backend.wait(0, 0)

    async def begin(self, stage: Stage = Stage.ACT) -> None:
        """Report a job that trains, with progress and a checkpoint."""
        self.job()
        await self.backend.report(self.look())
        await self.set_stage(stage)
        await self.backend.submit(self.batch())
        await self.settle()

    async def fail(self, stage: Stage = Stage.ACT) -> Order:
        """Report a job that trained and failed, and give the order that the server has for it."""
        await self.begin(stage)
        self.clock.advance(5)
        self.show(state=JobState.FAILED, ended_at=self.clock.now(), exit_code=1, exit_signal=0)
        await self.backend.report(self.look())
        await self.backend.submit(replace(self.batch(), progress=None, read_to_end=True))
        await self.settle()
        (order,) = (await self.orders()).orders
        return order

    async def orders(self, holder: str = HOLDER) -> Orders:
        """The orders for a holder."""
        return await self.backend.orders(CLUSTER, holder)

    def batch(self, raw_id: str = "17") -> WatcherBatch:
        """What a watcher hands over about a job that trains, its logs read to their end."""
        now = self.clock.now()
        return WatcherBatch(
            attempt=self.attempt(raw_id),
            holder="watcher-1",
            as_of=now,
            progress=_progress(now),
            checkpoint="{}",
            coverage=(Coverage(source="files", sight=Sight.SEEN, up_to=now),),
        )


def claim_of(order: Order, orders: Orders, holder: str = HOLDER) -> Claim:
    """A claim of an order."""
    return Claim(
        advice_id=order.advice.id,
        attempt=order.advice.attempt,
        generation=order.advice.generation,
        cluster=CLUSTER,
        holder=holder,
        lease_epoch=orders.lease.epoch,
        kind=ActionKind.RESTART,
        effect=EFFECT,
    )


def step_of(order: Order, now: datetime, name: str, action_id: str | None = None) -> StepRecord:
    """A step of an order's transaction, or of its preparation when no action is named."""
    return StepRecord(
        id=f"step-{name}",
        attempt=order.advice.attempt,
        advice_id=order.advice.id,
        at=now,
        step=name,
        detail=f"{name}: done in 0.2 s → ok",
        action_id=action_id,
        effect=EFFECT if action_id is None else None,
    )


def unknown_attempt(now: datetime) -> AttemptKey:
    """An attempt of a job that nobody reported."""
    return AttemptKey(job=JobKey(cluster=CLUSTER, raw_id="404", submitted_at=now), restart_count=0)


def _job(raw_id: str, began: datetime) -> JobView:
    return JobView(
        raw_id=raw_id,
        first_submitted_at=began,
        submitted_at=began,
        restart_count=0,
        name=f"train-{raw_id}",
        user="ada",
        owner_uid=1000,
        partition="gpu",
        state=JobState.RUNNING,
        nodes=("n0", "n1", "n2", "n3"),
        node_count=4,
        ranks_per_node=2,
        started_at=began,
        requeue_allowed=True,
        time_limit_s=86400.0,
        work_dir="/home/ada",
        script_id=f"script-{raw_id}",
        log_paths=(f"/logs/{raw_id}.out",),
        steps=(),
    )


def _progress(now: datetime) -> Progress:
    return Progress(
        as_of=now,
        phase=Phase.TRAINING,
        first_step=1,
        first_step_at=now - timedelta(seconds=3500),
        step=3500,
        step_at=now,
        highest_step=3500,
        steps_seen=3500,
        median_step_s=1.0,
        checkpoint_begun=3400,
        checkpoint_durable=3400,
        checkpoint_durable_at=now - timedelta(seconds=100),
    )
