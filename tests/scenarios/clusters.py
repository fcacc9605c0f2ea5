"""A cluster of a few lines for scenarios: jobs that train a step a second, nodes, and a scheduler to look at.

It is the truth that a scenario changes by hand and that the agents of the scenario report.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from relance.domain.progress import Phase, Progress
from relance.domain.views import (
    ClusterReport,
    Hold,
    JobState,
    JobView,
    NodeState,
    NodeView,
    PastAttempt,
    SchedulerFacts,
    Window,
    Wish,
)

NAME = "alpha"
FIRST_STEP_AFTER_S = 3.0
STEP_S = 1.0
SAVED_EVERY = 10
REQUEUE_DELAY_S = 120.0


@dataclass(slots=True, kw_only=True)
class Training:
    """The program of one attempt: it makes a step a second until `frozen_at`, beginning after step `loaded`."""

    loaded: int
    frozen_at: datetime | None = None
    is_cold: bool = False


class FakeCluster:
    """Jobs and nodes as they are, and whole looks at them."""

    def __init__(self, nodes: int = 6) -> None:
        """Begin with idle nodes n1, n2 and so on."""
        self.jobs: dict[str, JobView] = {}
        self.training: dict[tuple[str, int], Training] = {}
        self.nodes = {f"n{i}": NodeView(name=f"n{i}", state=NodeState.IDLE) for i in range(1, nodes + 1)}
        self.past: list[PastAttempt] = []
        """What accounting tells of earlier attempts."""
        self.saved: dict[str, int] = {}
        self.windows: tuple[Window, ...] = ()
        self.loses_checkpoints = False
        """Whether new attempts start from the beginning, whatever was saved."""

    def submit(self, raw_id: str, now: datetime, *, user: str = "ada", name: str = "train", wish: Wish | None = None,
               node_count: int = 4) -> None:  # fmt: skip
        """Put a job into the queue; it starts at the next second."""
        self.jobs[raw_id] = JobView(
            raw_id=raw_id,
            first_submitted_at=now,
            submitted_at=now,
            restart_count=0,
            name=name,
            user=user,
            owner_uid=1000,
            partition="gpu",
            state=JobState.PENDING,
            node_count=node_count,
            ranks_per_node=2,
            eligible_at=now,
            requeue_allowed=True,
            time_limit_s=86400.0,
            work_dir=f"/home/{user}/{name}",
            script_id=f"{user}-{name}",
            wish=wish or Wish(),
            steps=(),
        )

    def tick(self, now: datetime) -> None:
        """Let the scheduler start what can start, and the programs save what they have reached."""
        for raw_id, job in self.jobs.items():
            progress = self.progress(raw_id, now)
            if progress is not None and progress.checkpoint_durable is not None:
                self.saved[raw_id] = max(self.saved.get(raw_id, 0), progress.checkpoint_durable)
            may_start = job.state is JobState.PENDING and job.hold is Hold.NONE and not self._waits(job)
            if may_start and job.eligible_at is not None and job.eligible_at <= now:
                self._start(job, now)

    def change(self, raw_id: str, **changes: object) -> None:
        """Change what the scheduler shows of a job."""
        self.jobs[raw_id] = replace(self.jobs[raw_id], **changes)  # type: ignore[arg-type]

    def end(self, raw_id: str, state: JobState, now: datetime, **changes: object) -> None:
        """End the attempt that runs, or the job that waits."""
        training = self.training.get((raw_id, self.jobs[raw_id].restart_count))
        if training is not None and training.frozen_at is None:
            training.frozen_at = now
        self._free(self.jobs[raw_id].nodes)
        self.change(raw_id, state=state, ended_at=now, **changes)

    def requeue(self, raw_id: str, now: datetime, eligible_at: datetime | None = None) -> None:
        """Put a job back into the queue, whoever asked for it."""
        job = self.jobs[raw_id]
        training = self.training.get((raw_id, job.restart_count))
        if training is not None and training.frozen_at is None:
            training.frozen_at = now
        self._free(job.nodes)
        self.past += [
            PastAttempt(
                raw_id=raw_id,
                first_submitted_at=job.first_submitted_at,
                restart_count=job.restart_count,
                state=job.state if job.state.is_over else JobState.REQUEUED,
                nodes=job.nodes,
                started_at=job.started_at,
                ended_at=job.ended_at or now,
                exit_code=job.exit_code,
                exit_signal=job.exit_signal,
            )
        ]
        self.change(
            raw_id,
            state=JobState.PENDING,
            restart_count=job.restart_count + 1,
            submitted_at=now,
            eligible_at=eligible_at or now + timedelta(seconds=REQUEUE_DELAY_S),
            reason="BeginTime",
            started_at=None,
            ended_at=None,
            exit_code=None,
            exit_signal=None,
            nodes=(),
        )

    def freeze(self, raw_id: str, now: datetime) -> None:
        """Let the running program hang."""
        self.training[raw_id, self.jobs[raw_id].restart_count].frozen_at = now

    def progress(self, raw_id: str, now: datetime, restart_count: int | None = None) -> Progress | None:
        """What the logs of an attempt (None: the current one) say by now; None before it has begun."""
        job = self.jobs.get(raw_id)
        count = restart_count if job is None or restart_count is not None else job.restart_count
        training = self.training.get((raw_id, count or 0))
        if training is None or job is None or job.started_at is None:
            return None
        at = min(now, training.frozen_at or now)
        steps = int(((at - job.started_at).total_seconds() - FIRST_STEP_AFTER_S) / STEP_S) + 1
        if steps < 1:
            return Progress(as_of=now, phase=Phase.STARTING, started_cold=training.is_cold)
        first, last = training.loaded + 1, training.loaded + steps
        saved = last - last % SAVED_EVERY
        began = job.started_at + timedelta(seconds=FIRST_STEP_AFTER_S)
        return Progress(
            as_of=now,
            phase=Phase.TRAINING,
            first_step=first,
            first_step_at=began,
            step=last,
            step_at=began + timedelta(seconds=STEP_S * (steps - 1)),
            highest_step=last,
            steps_seen=steps,
            median_step_s=STEP_S,
            checkpoint_begun=saved or None,
            checkpoint_durable=saved if saved > training.loaded else None,
            loaded_step=training.loaded or None,
            started_cold=training.is_cold,
        )

    def look(self, now: datetime, session: str, sequence: int) -> ClusterReport:
        """A whole look."""
        return ClusterReport(
            cluster=NAME,
            session=session,
            sequence=sequence,
            as_of=now,
            facts=SchedulerFacts(release="simulated", min_job_age_s=300.0, may_act=True),
            jobs=tuple(self.jobs.values()),
            nodes=tuple(self.nodes.values()),
            past=tuple(self.past),
            windows=self.windows,
        )

    def _waits(self, job: JobView) -> bool:
        """Whether a chain's earlier job is not over; once it is, the scheduler shows no dependency any more."""
        if job.dependency != "singleton":
            return False
        before = [item for item in self.jobs.values() if item.name == job.name and item.raw_id < job.raw_id]
        if all(item.state.is_over for item in before):
            self.change(job.raw_id, dependency="")
            return False
        return True

    def _start(self, job: JobView, now: datetime) -> None:
        idle = [node.name for node in self.nodes.values() if node.state is NodeState.IDLE]
        chosen = tuple(name for name in idle if name not in job.excluded)[: job.node_count]
        if len(chosen) < job.node_count:
            return
        for name in chosen:
            self.nodes[name] = replace(self.nodes[name], state=NodeState.ALLOCATED)
        loaded = 0 if self.loses_checkpoints else self.saved.get(job.raw_id, 0)
        self.training[job.raw_id, job.restart_count] = Training(loaded=loaded, is_cold=loaded == 0)
        self.change(job.raw_id, state=JobState.RUNNING, started_at=now, nodes=chosen, reason="")

    def _free(self, names: Iterable[str]) -> None:
        for name in names:
            if self.nodes[name].state is NodeState.ALLOCATED:
                self.nodes[name] = replace(self.nodes[name], state=NodeState.IDLE)
