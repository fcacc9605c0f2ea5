"""A cluster in memory with Slurm's behaviour as observed (slurm.md, operators.md 1), on a clock that the test owns.

Nothing happens by itself: each look, read or command first brings the cluster up to the clock's time. The hands of
people and of fate are methods; the controller's way in is `relance.testing.memory_schedulers`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from relance.domain.limits import Limits
from relance.domain.views import (
    Hold,
    JobState,
    JobView,
    NodeState,
    NodeView,
    PastAttempt,
    SchedulerFacts,
    StepView,
)
from relance.domain.wishes import parse_wish
from relance.ports.clocks import Clock
from relance.testing.memory_jobs import Done, MemoryJob, RefusedError, Timings, UnknownJobError, with_dependency

__all__ = ["Done", "MemoryCluster", "RefusedError", "Timings", "UnknownJobError"]


class MemoryCluster:
    """Jobs and nodes in memory."""

    def __init__(self, clock: Clock, *, nodes: int = 6, name: str = "memory", timings: Timings | None = None) -> None:
        """Make an idle cluster."""
        self.name = name
        self.timings = timings or Timings()
        self._clock = clock
        self._nodes = dict.fromkeys((f"node{number:03d}" for number in range(1, nodes + 1)), NodeState.IDLE)
        self.done: list[Done] = []
        """Every command that took effect, oldest first."""
        self._jobs: dict[str, MemoryJob] = {}
        self._late: list[tuple[datetime, tuple[str, ...]]] = []
        self._next_id = 1

    # -- people and fate

    def submit(self, name: str = "llama", *, nodes: int = 2, comment: str = "", **fields: object) -> str:
        """Submit a job; `fields` are those of `JobView`. Gives its raw id."""
        now = self._settle()
        raw_id = str(self._next_id)
        self._next_id += 1
        view = JobView(
            raw_id=raw_id,
            first_submitted_at=now,
            submitted_at=now,
            restart_count=0,
            name=name,
            user="ada",
            owner_uid=1001,
            partition="train",
            state=JobState.PENDING,
            reason="None",
            node_count=nodes,
            eligible_at=now,
            requeue_allowed=True,
            work_dir=f"/home/ada/{name}",
            script_id=f"script of {name}",
            log_paths=(f"/home/ada/{name}/slurm-{raw_id}.out",),
            wish=parse_wish(comment, Limits()),
            steps=(),
        )
        view = replace(view, **fields)  # type: ignore[arg-type]
        self._jobs[raw_id] = MemoryJob(view=view, begin_at=now, touched_at=now, comment=comment)
        return raw_id

    def end(self, raw_id: str, state: JobState, *, exit_code: int = 1, cancelled_step_by: int | None = None) -> None:
        """The running attempt ends in this state, at once."""
        job, now = self._job(raw_id), self._clock.now()
        steps = (StepView(name="0", state=state, exit_code=exit_code, cancelled_by=cancelled_step_by),)
        self._change(job, state=state, reason="", ended_at=now, exit_code=exit_code, steps=steps)
        if state is JobState.NODE_FAIL and job.view.requeue_allowed:
            self._make_pending(job, now)

    def cancel_by(self, raw_id: str, uid: int) -> None:
        """A person cancels the job."""
        self._cancel(self._job(raw_id), uid)

    def hold(self, raw_id: str, by: Hold = Hold.USER) -> None:
        """A person holds the pending job."""
        job = self._job(raw_id)
        self._change(job, hold=by, reason="JobHeldUser" if by is Hold.USER else "JobHeldAdmin")

    def ask_for_time(self, raw_id: str, at: datetime) -> None:
        """A person gives the pending job a start time."""
        job = self._job(raw_id)
        job.begin_at = at
        self._change(job, eligible_at=at, reason="BeginTime")

    def suspend(self, raw_id: str) -> None:
        """A person suspends the running job."""
        self._change(self._job(raw_id), state=JobState.SUSPENDED)

    def preempt(self, raw_id: str) -> None:
        """The scheduler preempts the running job and requeues it: only accounting tells (operators.md V5)."""
        job, now = self._job(raw_id), self._clock.now()
        self._change(job, state=JobState.PREEMPTED, ended_at=now)
        self._make_pending(job, now)

    def set_node(self, name: str, state: NodeState) -> None:
        """A node changes its state; what runs there is left alone."""
        self._settle()
        self._nodes[name] = state

    def purge(self, raw_id: str) -> None:
        """The scheduler forgets the job."""
        del self._jobs[raw_id]

    def change(self, raw_id: str, **fields: object) -> None:
        """Anything else about the job becomes so."""
        self._change(self._job(raw_id), **fields)

    # -- what is to be seen

    def facts(self) -> SchedulerFacts:
        """What the scheduler says of itself."""
        return SchedulerFacts(
            release="memory 1",
            min_job_age_s=self.timings.min_job_age_s,
            requeue_delay_s=self.timings.requeue_delay_s,
            may_act=True,
        )

    def jobs(self) -> tuple[JobView, ...]:
        """All jobs as they are now."""
        self._settle()
        return tuple(job.view for job in self._jobs.values())

    def job(self, raw_id: str) -> JobView:
        """One job as it is now. Raises UnknownJobError."""
        return self._job(raw_id).view

    def nodes(self) -> tuple[NodeView, ...]:
        """All nodes as they are now."""
        self._settle()
        busy = self._busy()
        return tuple(
            NodeView(
                name=name,
                state=NodeState.ALLOCATED if state is NodeState.IDLE and name in busy else state,
                partitions=("train",),
            )
            for name, state in self._nodes.items()
        )

    def past(self) -> tuple[PastAttempt, ...]:
        """Ended attempts of the jobs that are known."""
        self._settle()
        return tuple(item for job in self._jobs.values() for item in job.past)

    def starts(self, raw_id: str) -> tuple[tuple[datetime, tuple[str, ...], int], ...]:
        """Every start of the job so far: when, where, restart count."""
        return tuple(self._job(raw_id).starts)

    # -- commands

    def do(self, argv: tuple[str, ...]) -> None:
        """Carry out a command. Raises RefusedError, UnknownJobError."""
        verb, raw_id, *options = argv[1:]
        job = self._job(raw_id)
        before = job.view
        self._do(verb, job, options)
        self.done.append(Done(at=self._clock.now(), argv=argv, before=before, others=self.jobs()))

    def _do(self, verb: str, job: MemoryJob, options: list[str]) -> None:
        match verb:
            case "requeue":
                self._requeue(job)
            case "requeuehold":
                self._requeue(job, hold=True)
            case "release":
                self._release(job)
            case "rearm":
                self._rearm(job, options[0].partition("=")[2])
            case "arm":
                self._arm(job, allowed=options == ["requeue=1"])
            case "update":
                self._update(job, dict(option.split("=", 1) for option in options))
            case "cancel":
                self._cancel(job, 999)
            case "release":
                self._change(job, hold=Hold.NONE, reason="None")
            case _:
                raise RefusedError(f"invalid keyword: {verb}")

    def do_later(self, argv: tuple[str, ...], at: datetime) -> None:
        """A command that is under way and arrives then, whatever becomes of its sender."""
        self._late.append((at, argv))

    def _arm(self, job: MemoryJob, *, allowed: bool) -> None:
        if job.view.state.is_over:
            raise RefusedError("Job has already finished")
        self._change(job, requeue_allowed=allowed)

    def _release(self, job: MemoryJob) -> None:
        if job.view.state is not JobState.PENDING:
            raise RefusedError("Job is no longer pending execution")
        self._change(job, hold=Hold.NONE, reason="None")

    def _rearm(self, job: MemoryJob, dependency: str) -> None:
        if job.view.state is not JobState.PENDING:
            raise RefusedError("Job is no longer pending execution")
        self._change(job, dependency=dependency, reason="Dependency")

    def _requeue(self, job: MemoryJob, *, hold: bool = False) -> None:
        now = self._clock.now()
        view = job.view
        if not view.requeue_allowed:
            raise RefusedError("Requested operation is presently disabled")
        if view.state is JobState.PENDING or job.after is JobState.PENDING:
            raise RefusedError("Job is pending execution")
        if view.state.is_over:
            # A cancelled or completed job too: the scheduler does not ask why it ended.
            self._make_pending(job, now, hold=hold)
            return
        job.comes_back_held = hold
        self._complete(job, JobState.PENDING)

    def _update(self, job: MemoryJob, options: dict[str, str]) -> None:
        now = self._clock.now()
        if job.view.state.is_over:
            raise RefusedError("Job has already finished")
        if job.view.state is not JobState.PENDING and job.after is not JobState.PENDING:
            raise RefusedError("Job is no longer pending execution")
        nodes = tuple(name for name in options["exclude"].split(",") if name)
        if any(name not in self._nodes for name in nodes):
            raise RefusedError("Invalid node name specified")
        if "start" not in options:
            self._change(job, excluded=nodes)
            return
        begin = now if options["start"] == "now" else datetime.fromisoformat(options["start"])
        fresh = job.pending_since is not None and now - job.pending_since < timedelta(seconds=self.timings.race_s)
        job.is_doomed = fresh and begin <= now
        job.begin_at = begin
        self._change(job, excluded=nodes, eligible_at=begin)

    def _cancel(self, job: MemoryJob, uid: int) -> None:
        if job.view.state.is_over:
            raise RefusedError("Job/step already completing or completed")
        if job.view.state is JobState.PENDING:
            ended = {"state": JobState.CANCELLED, "ended_at": self._clock.now(), "reason": "None", "hold": Hold.NONE}
            self._change(job, cancelled_by=uid, **ended)
            return
        self._change(job, cancelled_by=uid)
        self._complete(job, JobState.CANCELLED)

    # -- the passing of time

    def _job(self, raw_id: str) -> MemoryJob:
        self._settle()
        if raw_id not in self._jobs:
            raise UnknownJobError("Invalid job id specified")
        return self._jobs[raw_id]

    def _settle(self) -> datetime:
        """Bring everything up to the clock's time."""
        now = self._clock.now()
        for at, argv in [item for item in self._late if item[0] <= now]:
            self._late.remove((at, argv))
            try:
                self.do(argv)
            except (RefusedError, UnknownJobError):
                continue
        for job in list(self._jobs.values()):
            self._settle_job(job, now)
        states = {raw_id: job.view.state for raw_id, job in self._jobs.items()}
        for job in self._queue():
            job.view = with_dependency(job.view, states)
            self._start_if_it_fits(job, now)
        age = timedelta(seconds=self.timings.min_job_age_s)
        for raw_id, job in list(self._jobs.items()):
            ended_at = job.view.ended_at
            if job.view.state.is_over and ended_at is not None and ended_at + age < now:
                del self._jobs[raw_id]
        return now

    def _settle_job(self, job: MemoryJob, now: datetime) -> None:
        if job.completing_until is not None and job.completing_until <= now and job.after is not None:
            at, after = job.completing_until, job.after
            job.completing_until = job.after = None
            if after is JobState.PENDING:
                self._make_pending(job, at, hold=job.comes_back_held)
            else:
                self._change(job, state=after, ended_at=at)
        started = job.view.started_at
        if job.is_doomed and job.view.state is JobState.RUNNING and started is not None:
            died = started + timedelta(seconds=self.timings.launch_failure_s)
            if died <= now:
                job.is_doomed = False
                self._change(job, state=JobState.FAILED, reason="JobLaunchFailure", ended_at=died, steps=())

    def _queue(self) -> Iterable[MemoryJob]:
        waiting = [job for job in self._jobs.values() if job.view.state is JobState.PENDING]
        return sorted(waiting, key=lambda job: (job.view.submitted_at, int(job.view.raw_id)))

    def _start_if_it_fits(self, job: MemoryJob, now: datetime) -> None:
        view = job.view
        at = max(job.begin_at, job.touched_at) + timedelta(seconds=self.timings.pass_s)
        if view.hold is not Hold.NONE or view.dependency:
            return
        if at > now:
            if job.begin_at > now and view.reason != "BeginTime":
                job.view = replace(view, reason="BeginTime")
            return
        up = [name for name, state in self._nodes.items() if state.takes_work and name not in view.excluded]
        if len(up) < view.node_count:
            job.view = replace(view, reason="BadConstraints")
            return
        free = [name for name in up if name not in self._busy()]
        if len(free) < view.node_count:
            job.view = replace(view, reason="Resources")
            return
        # A job that had to wait for nodes starts when somebody looks; one that did not, when it could.
        started = now if view.reason in ("Resources", "BadConstraints") else at
        nodes = tuple(free[: view.node_count])
        job.starts.append((started, nodes, view.restart_count))
        job.pending_since = None
        self._change(job, state=JobState.RUNNING, reason="None", nodes=nodes, started_at=started)
        self._settle_job(job, now)

    def _busy(self) -> set[str]:
        living = (JobState.RUNNING, JobState.COMPLETING, JobState.SUSPENDED)
        return {name for job in self._jobs.values() if job.view.state in living for name in job.view.nodes}

    def _complete(self, job: MemoryJob, after: JobState) -> None:
        job.after = after
        job.completing_until = self._clock.now() + timedelta(seconds=self.timings.completing_s)
        self._change(job, state=JobState.COMPLETING)

    def _make_pending(self, job: MemoryJob, at: datetime, *, hold: bool = False) -> None:
        """The old attempt is gone and a new one waits: whatever start time was asked for before is overwritten."""
        view = job.view
        job.past.append(
            PastAttempt(
                raw_id=view.raw_id,
                first_submitted_at=view.first_submitted_at,
                restart_count=view.restart_count,
                state=view.state if view.state.is_over else JobState.REQUEUED,
                nodes=view.nodes,
                started_at=view.started_at,
                ended_at=view.ended_at or at,
                exit_code=view.exit_code,
                cancelled_by=view.cancelled_by,
            )
        )
        job.begin_at = at + timedelta(seconds=self.timings.requeue_delay_s)
        job.pending_since = at
        job.is_doomed = False
        self._change(
            job,
            state=JobState.PENDING,
            reason="JobHeldUser" if hold or view.held_next else "BeginTime",
            restart_count=view.restart_count + 1,
            submitted_at=at,
            eligible_at=job.begin_at,
            nodes=(),
            started_at=None,
            ended_at=None,
            exit_code=None,
            cancelled_by=None,
            hold=Hold.USER if hold or view.held_next else Hold.NONE,
            held_next=False,
            steps=(),
        )
        job.touched_at = at

    def _change(self, job: MemoryJob, **fields: object) -> None:
        job.view = replace(job.view, **fields)  # type: ignore[arg-type]
        job.touched_at = self._clock.now()
