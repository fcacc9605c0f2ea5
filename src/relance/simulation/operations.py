"""What each request does: the operations of `relance.simulation.protocols`, one method each."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from relance.simulation import commands, node_faults
from relance.simulation.attempts import Ending
from relance.simulation.commands import Refused
from relance.simulation.engines import Engine, output_path, rank_paths
from relance.simulation.records import RELEASE, Job, JobState, Node
from relance.simulation.requests import Request, submitted

_LONGEST_WAIT_S = 300.0
_DEFAULT_WAIT_S = 30.0
_DEFAULT_AFTER_STEPS = 3
_DEFAULT_FACTOR = 3.0

Answer = dict[str, Any]


class Operations:
    """Answers requests on an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tables = engine.tables

    async def answer(self, fields: Mapping[str, Any], peer_uid: int) -> Answer:
        """The answer to one request, a refusal included."""
        try:
            request = Request(fields, peer_uid)
            given = self._method(request.op)(request)
            body = await given if isinstance(given, Awaitable) else given
        except Refused as refusal:
            job = fields.get("job_id")
            return {"ok": False, "error": f"{refusal} for job {job}" if job is not None else str(refusal)}
        self._tables.save()
        return {"ok": True, "as_of": self._engine.now(), "change": self._tables.change, **body}

    # -- reading

    def op_info(self, _request: Request) -> Answer:
        settings = self._tables.settings
        names = ("min_job_age_s", "requeue_delay_s", "kill_wait_s", "pass_interval_s", "launch_race")
        return {
            "info": {
                "release": RELEASE,
                "cluster": settings.cluster,
                "pid": os.getpid(),
                "boot_time": self._engine.boot_time,
                "state_dir": str(self._engine.state_dir),
                **{name: getattr(settings, name) for name in (*names, "launch_race_window_s")},
                "partitions": self._tables.partitions,
            }
        }

    def op_jobs(self, _request: Request) -> Answer:
        return {"jobs": [_job_row(job) for job in self._tables.jobs.values()]}

    def op_job(self, request: Request) -> Answer:
        return {"job": _job_row(self._job(request))}

    def op_accounting(self, request: Request) -> Answer:
        return {"attempts": [asdict(row) for row in self._tables.attempts(request.get("job_id", int, None))]}

    def op_nodes(self, _request: Request) -> Answer:
        return {"nodes": [self._node_row(node) for node in self._tables.nodes.values()]}

    async def op_wait(self, request: Request) -> Answer:
        timeout_s = min(float(request.get("timeout_s", (int, float), _DEFAULT_WAIT_S)), _LONGEST_WAIT_S)
        await self._tables.changed_after(request.get("after", int), timeout_s)
        return {}

    # -- jobs

    def op_submit(self, request: Request) -> Answer:
        job = submitted(request, self._tables, self._engine.around, home=self._engine.state_dir)
        self._tables.put(job)
        return {"job_id": job.job_id}

    def op_requeue(self, request: Request) -> Answer:
        return self._requeue(request, hold=False)

    def op_requeuehold(self, request: Request) -> Answer:
        return self._requeue(request, hold=True)

    def op_hold(self, request: Request) -> Answer:
        self._tables.put(commands.hold(self._job(request), uid=request.uid))
        return {}

    def op_release(self, request: Request) -> Answer:
        self._tables.put(commands.release(self._job(request)))
        return {}

    def op_cancel(self, request: Request) -> Answer:
        job, running = commands.cancel(self._job(request), uid=request.uid, now=self._engine.now())
        self._tables.put(job)
        if running:
            self._engine.end(job, Ending(kind="cancel", uid=request.uid))
        return {}

    def op_cancel_step(self, request: Request) -> Answer:
        job = self._running(request)
        self._engine.end(job, Ending(kind="cancel_step", uid=request.uid))
        return {}

    def op_signal(self, request: Request) -> Answer:
        number = request.signal("signal")
        for rank in self._engine.ranks(self._running(request).job_id):
            rank.send(number)
        return {"at": self._engine.now()}

    def op_preempt(self, request: Request) -> Answer:
        job = replace(self._running(request), preempt_time=self._engine.now())
        self._tables.put(job)
        grace_s = float(request.get("grace_s", (int, float), 0.0))
        self._engine.end(job, Ending(kind="preempt", uid=request.uid), grace_s=grace_s)
        return {}

    def op_update(self, request: Request) -> Answer:
        changed = commands.update(self._job(request), request.others("job_id"), around=self._engine.around)
        self._tables.put(changed)
        return {}

    # -- nodes

    def op_node_down(self, request: Request) -> Answer:
        reason = request.get("reason", str, "Not responding")
        node = self._put_node(request, down=True, reason=reason, by=request.uid)
        job = self._tables.jobs.get(node.job_id) if node.job_id is not None else None
        if job is not None:
            for rank in self._engine.ranks(job.job_id):
                if rank.plan.node == node.name:
                    rank.send_to_group(signal.SIGKILL)
            if job.state is JobState.RUNNING:
                self._engine.end(job, Ending(kind="node_fail", node=node.name))
        return {"at": self._engine.now()}

    def op_node_up(self, request: Request) -> Answer:
        node = self._put_node(request, down=False, reason="")
        self._tables.put_node(replace(node, boot_time=self._engine.now()))
        return {}

    def op_drain(self, request: Request) -> Answer:
        self._put_node(request, drained=True, reason=request.get("reason", str), by=request.uid)
        return {}

    def op_resume(self, request: Request) -> Answer:
        self._put_node(request, down=False, drained=False, reserved="", reason="")
        return {}

    def op_reserve(self, request: Request) -> Answer:
        kind = request.get("kind", str)
        if kind not in ("reserved", "maint"):
            raise Refused(f"unknown kind of reservation {kind}")
        self._put_node(request, reserved=kind, reason=kind, by=request.uid)
        return {}

    # -- faults

    def op_kill_rank(self, request: Request) -> Answer:
        return self._signalled(request, request.signal("signal", "KILL"))

    def op_stop_rank(self, request: Request) -> Answer:
        return self._signalled(request, signal.SIGSTOP)

    def op_oom_rank(self, request: Request) -> Answer:
        self._engine.rank(request.get("job_id", int), request.get("rank", int)).out_of_memory = True
        return self._signalled(request, signal.SIGKILL)

    def op_rank_pid(self, request: Request) -> Answer:
        rank = self._engine.rank(request.get("job_id", int), request.get("rank", int))
        return {"pid": rank.pid, "node": rank.plan.node, "alive": rank.returncode is None}

    def op_kernel_line(self, request: Request) -> Answer:
        node = self._node(request).name
        at = self._engine.now()
        node_faults.append(self._engine.kernel_log(node), [request.get("text", str)], node, at)
        return {"at": at}

    def op_break_node(self, request: Request) -> Answer:
        kind = request.get("kind", str)
        if kind not in node_faults.KINDS:
            raise Refused(f"unknown kind of fault {kind}")
        node_dir = self._engine.node_dir(self._node(request).name)
        if kind == node_faults.SLOW:
            node_faults.slow_node(node_dir, factor=float(request.get("factor", (int, float), _DEFAULT_FACTOR)))
            return {"at": self._engine.now()}
        node_faults.break_node(
            node_dir,
            after_steps=request.get("after_steps", int, _DEFAULT_AFTER_STEPS),
            kernel_delay_s=float(request.get("kernel_delay_s", (int, float), 0.0)),
        )
        return {"at": self._engine.now()}

    def op_mend_node(self, request: Request) -> Answer:
        node_faults.mend_node(self._engine.node_dir(self._node(request).name))
        return {"at": self._engine.now()}

    # -- what they share

    def _method(self, op: str) -> Callable[[Request], Answer | Awaitable[Answer]]:
        method: Callable[[Request], Answer | Awaitable[Answer]] | None = getattr(self, f"op_{op}", None)
        if method is None:
            raise Refused(f"unknown operation {op!r}")
        return method

    def _job(self, request: Request) -> Job:
        return self._tables.job(request.get("job_id", int))

    def _running(self, request: Request) -> Job:
        job = self._job(request)
        if job.state is not JobState.RUNNING:
            raise Refused("Job is not running" if not job.state.is_over else commands.ENDING)
        return job

    def _node(self, request: Request) -> Node:
        return self._tables.node(request.get("node", str))

    def _put_node(self, request: Request, *, reason: str, by: int | None = None, **changes: Any) -> Node:  # noqa: ANN401
        since = self._engine.now() if reason else None
        node = replace(self._node(request), reason=reason, reason_uid=by, reason_time=since, **changes)
        self._tables.put_node(node)
        return node

    def _requeue(self, request: Request, *, hold: bool) -> Answer:
        job, running = commands.requeue(self._job(request), hold=hold, around=self._engine.around)
        self._tables.put(job)
        if running:
            self._engine.end(job, Ending(kind="requeue", uid=request.uid))
        return {}

    def _signalled(self, request: Request, number: signal.Signals) -> Answer:
        rank = self._engine.rank(request.get("job_id", int), request.get("rank", int))
        if rank.returncode is not None:
            raise Refused("rank has ended")
        rank.send(number)
        return {"at": self._engine.now(), "pid": rank.pid, "node": rank.plan.node}

    def _node_row(self, node: Node) -> Answer:
        return {
            "name": node.name,
            "state": node.shown_state,
            "reason": node.reason,
            "reason_uid": node.reason_uid,
            "reason_time": node.reason_time,
            "partitions": node.partitions,
            "features": node.features,
            "boot_time": node.boot_time,
            "job_id": node.job_id,
            "node_dir": str(self._engine.node_dir(node.name)),
            "kernel_log": str(self._engine.kernel_log(node.name)),
        }


def _job_row(job: Job) -> Answer:
    """The job as the protocol shows it."""
    row = asdict(job)
    spec = row.pop("spec")
    for name in ("output", "begin_time", "pending_since", "revoked", "after_completing", "dependency_failed"):
        del row[name]
    for name in ("name", "user", "uid", "partition", "node_count", "ranks_per_node", "features", "work_dir"):
        row[name] = spec[name]
    return {
        **row,
        "open_mode": spec["open_mode"],
        "script_hash": spec["script_hash"],
        "command": spec["argv"],
        "std_out": str(output_path(job)),
        "ranks_files": [str(path) for path in rank_paths(job)],
    }
