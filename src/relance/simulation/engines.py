"""The working part of the scheduler: it starts attempts, follows them, ends them and keeps the books."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from relance.simulation import node_faults
from relance.simulation.attempts import AttemptEnd, AttemptPlan, Ending, LiveAttempt, rank_environment
from relance.simulation.commands import Refused, Surroundings, made_pending
from relance.simulation.placements import placements
from relance.simulation.ranks import Rank, RankPlan
from relance.simulation.reapers import kill_leftovers
from relance.simulation.records import Job, JobState, Settings, Step
from relance.simulation.tables import Tables

_LAUNCH_FAILURE_S = 0.2
_NOT_ENDED = AttemptEnd(exit_code="0:0", derived_exit_code="0:0", ending=None, out_of_memory=False)
_LAUNCH_FAILURE = AttemptEnd(exit_code="1:0", derived_exit_code="0:0", ending=None, out_of_memory=False)
_SHUT_DOWN_KILL_WAIT_S = 1.0
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV")
"""What ranks get of the daemon's own environment."""
_PORTS = range(20_000, 30_000)
"""Below the range from which the kernel gives ports by itself, so that nobody else gets one of these by chance."""


class Engine:
    """The cluster at work.

    Args:
        state_dir: Where state, log and the nodes' folders lie.
        settings: How the cluster is made.
        now: Gives the time, in seconds since the epoch.

    Raises:
        ValueError: The state that an earlier daemon left cannot be understood.
    """

    def __init__(self, state_dir: Path, settings: Settings, now: Callable[[], float]) -> None:
        self.state_dir = state_dir
        self.settings = settings
        self.now = now
        self.boot_time = now()
        self.tables = Tables(state_dir, settings, now)
        self._live: dict[int, LiveAttempt] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._doomed: dict[int, Ending | None] = {}
        """Jobs whose launch will fail, with the command that came meanwhile."""
        self._port = os.getpid()
        for name in self.tables.nodes:
            self.node_dir(name).mkdir(parents=True, exist_ok=True)
            self.kernel_log(name).touch()

    @property
    def around(self) -> Surroundings:
        """What the rules of the commands need to know."""
        return Surroundings(now=self.now(), settings=self.settings, node_names=self.tables.nodes.keys())

    def node_dir(self, name: str) -> Path:
        """The folder of a node."""
        return self.state_dir / "nodes" / name

    def kernel_log(self, name: str) -> Path:
        """The kernel log of a node."""
        return self.node_dir(name) / "kern.log"

    def log(self, text: str) -> None:
        """Write a line to `scheduler.log`."""
        at = datetime.fromtimestamp(self.now(), UTC).isoformat(timespec="milliseconds")
        with (self.state_dir / "scheduler.log").open("a", encoding="utf-8") as file:
            file.write(f"[{at}] {text}\n")

    def recover(self) -> None:
        """Settle what an earlier daemon left: its attempts are gone and count as lost with their nodes."""
        killed = kill_leftovers(self.state_dir)
        if killed:
            self.log(f"killed processes of an earlier scheduler: {killed}")
        for job in list(self.tables.jobs.values()):
            if job.state in (JobState.RUNNING, JobState.COMPLETING):
                kind = "cancel" if job.cancelled_by is not None else "shutdown"
                ending = Ending(kind=kind, uid=job.cancelled_by)
                end = AttemptEnd(exit_code="1:0", derived_exit_code="0:0", ending=ending, out_of_memory=False)
                self._finish(job.job_id, end)

    def pass_over_queue(self) -> None:
        """Purge, enforce time limits, start what can start, and say of the rest why not."""
        now = self.now()
        self.tables.forget_finished(now)
        for job in list(self.tables.jobs.values()):
            overdue = job.time_limit_s is not None and job.start_time is not None
            if job.state is JobState.RUNNING and overdue and now - (job.start_time or now) > (job.time_limit_s or 0):
                self.end(job, Ending(kind="timeout"))
        jobs = list(self.tables.jobs.values())
        outcomes = self.tables.outcomes() if any(job.dependency for job in jobs) else {}
        for each in placements(jobs, list(self.tables.nodes.values()), outcomes, now):
            self.tables.put(each.job)
            if each.nodes:
                self._start(each.job, each.nodes)

    def end(self, job: Job, ending: Ending, *, grace_s: float | None = None) -> None:
        """End the running attempt of a job; `grace_s` gives its ranks TERM and that time first."""
        live = self._live.get(job.job_id)
        if grace_s is None:
            self.tables.put(replace(job, state=JobState.COMPLETING, end_time=self.now()))
        if live is not None:
            live.end(ending, grace_s=grace_s)
        elif job.job_id in self._doomed:
            self._doomed[job.job_id] = ending

    def rank(self, job_id: int, number: int) -> Rank:
        """A rank of a running job.

        Raises:
            Refused: The job does not run or has no such rank.
        """
        self.tables.job(job_id)
        ranks = {rank.plan.rank: rank for rank in self.ranks(job_id)}
        if number not in ranks:
            raise Refused(f"no running rank {number}")
        return ranks[number]

    def ranks(self, job_id: int) -> list[Rank]:
        """All ranks of a running job; none if it does not run."""
        live = self._live.get(job_id)
        return live.ranks if live is not None else []

    async def shut_down(self) -> None:
        """End all attempts and wait until their processes are gone."""
        for job_id, live in self._live.items():
            live.plan = replace(live.plan, kill_wait_s=min(live.plan.kill_wait_s, _SHUT_DOWN_KILL_WAIT_S))
            self.end(self.tables.jobs[job_id], Ending(kind="shutdown"))
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.tables.save()

    def _start(self, job: Job, nodes: tuple[str, ...]) -> None:
        now = self.now()
        revoked = job.revoked
        job = replace(
            job,
            state=JobState.RUNNING,
            reason="None",
            node_list=nodes,
            start_time=now,
            begin_time=None,
            pending_since=None,
            revoked=False,
            derived_exit_code="0:0",
        )
        for name in nodes:
            self.tables.put_node(replace(self.tables.nodes[name], job_id=job.job_id))
        if revoked:
            self.tables.put(job, ())
            self._doomed[job.job_id] = None
            asyncio.get_running_loop().call_later(_LAUNCH_FAILURE_S, self._fail_launch, job.job_id)
            return
        self.tables.put(job, _steps(job, str(JobState.RUNNING), _NOT_ENDED))
        live = LiveAttempt(
            self._plan(job),
            self.now,
            rank_ended=self._on_rank_end,
            leaving=lambda: self._on_leaving(job.job_id),
        )
        self._live[job.job_id] = live
        task = asyncio.get_running_loop().create_task(self._follow(job.job_id, live))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, job_id: int, live: LiveAttempt) -> None:
        try:
            end = await live.run()
        except OSError as error:
            self.log(f"JobId={job_id}: cannot write its output: {error}")
            end = replace(_LAUNCH_FAILURE, ending=live.ending)
        del self._live[job_id]
        self._finish(job_id, end)
        self.tables.save()

    def _fail_launch(self, job_id: int) -> None:
        ending = self._doomed.pop(job_id)
        node = self.tables.jobs[job_id].node_list[0]
        self.log(f"error: {node}: Job credential revoked. Job already killed, do not launch batch job JobId={job_id}")
        self._finish(job_id, replace(_LAUNCH_FAILURE, ending=ending), reason="JobLaunchFailure")

    def _on_rank_end(self, rank: Rank) -> None:
        node = rank.plan.node
        if rank.out_of_memory:
            node_faults.append(self.kernel_log(node), node_faults.out_of_memory_lines(rank.pid or 0), node, self.now())
        if (delay_s := node_faults.taken_raise(self.node_dir(node))) is not None:
            asyncio.get_running_loop().call_later(delay_s, self._write_xid, node)

    def _write_xid(self, node: str) -> None:
        node_faults.append(self.kernel_log(node), node_faults.XID79_LINES, node, self.now())

    def _on_leaving(self, job_id: int) -> None:
        job = self.tables.jobs[job_id]
        if job.state is JobState.RUNNING:
            self.tables.put(replace(job, state=JobState.COMPLETING, end_time=self.now()))

    def _finish(self, job_id: int, end: AttemptEnd, *, reason: str | None = None) -> None:
        """Close the attempt in the books and say what becomes of the job."""
        job = self.tables.jobs[job_id]
        kind = end.ending.kind if end.ending is not None else ""
        state, why = _outcome(end)
        job = replace(
            job,
            state=state if state is not JobState.REQUEUED else JobState.PENDING,
            reason=reason if reason is not None and not kind else why,
            exit_code=end.exit_code,
            derived_exit_code=end.derived_exit_code,
            end_time=job.end_time or self.now(),
        )
        for node in self.tables.nodes.values():
            if node.job_id == job_id:
                self.tables.put_node(replace(node, job_id=None))
        self.tables.keep_attempt(job, str(state), _steps(job, str(state), end))
        after = job.after_completing
        again = kind in ("node_fail", "shutdown", "preempt") and job.requeue
        if after == "cancel":
            job = replace(job, state=JobState.CANCELLED, reason="None", after_completing="")
        elif kind != "cancel" and (after or again):
            job = made_pending(job, hold=after == "requeuehold", around=self.around)
        self.tables.put(job)
        self.pass_over_queue()

    def _plan(self, job: Job) -> AttemptPlan:
        spec = job.spec
        total = spec.node_count * spec.ranks_per_node
        base = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        base |= {
            **spec.env,
            "JOB_ID": str(job.job_id),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self._free_port()),
        }
        if job.restart_count:
            base["RESTART_COUNT"] = str(job.restart_count)
        ranks = []
        for rank in range(total):
            node = job.node_list[rank // spec.ranks_per_node]
            env = rank_environment(base, rank=rank, ranks=total, ranks_per_node=spec.ranks_per_node)
            env |= {"NODE_NAME": node, "NODE_DIR": str(self.node_dir(node))}
            ranks.append(RankPlan(rank=rank, node=node, argv=spec.argv, env=env, work_dir=spec.work_dir))
        return AttemptPlan(
            job_id=job.job_id,
            ranks=tuple(ranks),
            output=output_path(job),
            rank_files=rank_paths(job),
            truncate=spec.open_mode == "truncate",
            tee=spec.ranks_tee,
            kill_on_bad_exit=spec.kill_on_bad_exit,
            bad_exit_delay_s=self.settings.bad_exit_delay_s,
            kill_wait_s=self.settings.kill_wait_s,
        )

    def _free_port(self) -> int:
        while True:
            self._port += 1
            port = _PORTS[self._port % len(_PORTS)]
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            return port


def output_path(job: Job) -> Path:
    """Where the job's output goes."""
    return _resolved(job.output, job)


def rank_paths(job: Job) -> tuple[Path, ...]:
    """The files of the ranks, if the job has any."""
    pattern = job.spec.ranks_files
    if pattern is None:
        return ()
    ranks = range(job.spec.node_count * job.spec.ranks_per_node)
    return tuple(_resolved(pattern.replace("%t", str(rank)), job) for rank in ranks)


def _resolved(pattern: str, job: Job) -> Path:
    values = {"%j": str(job.job_id), "%x": job.spec.name, "%u": job.spec.user}
    if job.node_list:
        values["%N"] = job.node_list[0]
    for mark, value in values.items():
        pattern = pattern.replace(mark, value)
    return Path(job.spec.work_dir, pattern)


def _outcome(end: AttemptEnd) -> tuple[JobState, str]:
    """The state and the reason of an attempt that has ended."""
    if end.ending is not None:
        by_kind = {
            "cancel": (JobState.CANCELLED, "None"),
            "cancel_step": (JobState.FAILED, "NonZeroExitCode"),
            "requeue": (JobState.REQUEUED, "None"),
            "timeout": (JobState.TIMEOUT, "TimeLimit"),
            "node_fail": (JobState.NODE_FAIL, "NodeDown"),
            "shutdown": (JobState.NODE_FAIL, "NodeDown"),
            "preempt": (JobState.PREEMPTED, "None"),
        }
        return by_kind[end.ending.kind]
    if end.out_of_memory:
        return JobState.OUT_OF_MEMORY, "OutOfMemory"
    return (JobState.COMPLETED, "None") if end.is_good else (JobState.FAILED, "NonZeroExitCode")


def _steps(job: Job, state: str, end: AttemptEnd) -> tuple[Step, ...]:
    """The rows of the batch step and of the ranks' step."""
    kind = end.ending.kind if end.ending is not None else ""
    if job.reason == "JobLaunchFailure":
        return ()
    batch = ranks = "CANCELLED" if kind in ("cancel", "requeue", "timeout", "preempt") else state
    if kind == "cancel_step" and end.ending is not None:
        batch, ranks = "FAILED", f"CANCELLED by {end.ending.uid}"
    times = {"start_time": job.start_time, "end_time": job.end_time}
    return (
        Step(step="batch", state=batch, exit_code=end.exit_code, nodes=job.node_list[:1], **times),
        Step(step="0", state=ranks, exit_code=end.derived_exit_code, nodes=job.node_list, **times),
    )
