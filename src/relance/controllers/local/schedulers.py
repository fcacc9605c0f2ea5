"""`LocalScheduler`: the port to the simulated scheduler, through its socket and nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from relance.controllers.local import rows
from relance.controllers.local.connections import Connection
from relance.controllers.site_commands import collect
from relance.domain.advice import Command
from relance.domain.collecting import Collected
from relance.domain.limits import Limits
from relance.domain.nodes import NodeChange, NodeSight
from relance.domain.views import ClusterReport, JobState, JobView, NodeState
from relance.ports.clocks import Clock
from relance.ports.schedulers import SchedulerRefusedError, SchedulerSilentError
from relance.slurm.running import Commands

PROGRAM = "relance-local"
"""First word of every command: what would be typed, if the socket had a command line."""
SOCKET_NAME = "scheduler.sock"
_ANSWER_S = 5.0
_LONGEST_WAIT_S = 300.0
_AWAY_S = 1.0
"""How long a wait for changes lasts at least when the scheduler cannot be reached."""
_SHIPPED = Limits()
_NO_ACCOUNTING: tuple[Mapping[str, Any], ...] = ()


class LocalScheduler:
    """Implements `relance.ports.schedulers.Scheduler`."""

    def __init__(
        self,
        *,
        cluster: str,
        state_dir: Path,
        clock: Clock,
        limits: Limits = _SHIPPED,
        comment_forms: tuple[str, ...] = (),
    ) -> None:
        """Take the name under which this cluster is known to us and the folder in which the scheduler's socket lies.

        `limits` are the site's: a job's own wishes are clipped by them. `comment_forms` are those of other engines that
        are taken for wishes.
        """
        self._limits = limits
        self._forms = comment_forms
        self._cluster = cluster
        self._path = state_dir / SOCKET_NAME
        self._clock = clock
        self._requests = Connection(self._path)
        self._changes = Connection(self._path)
        self._change = 0
        self._accounting: dict[str, tuple[tuple[object, ...], rows.Accounting]] = {}

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self._cluster

    async def look(self) -> ClusterReport:
        # The counter is taken from the first answer: what changes between the answers wakes us again.
        jobs = await self._ask("jobs")
        nodes = await self._ask("nodes")
        info = await self._ask("info")
        found: list[tuple[JobView, rows.Accounting]] = []
        for row in _list(jobs, "jobs"):
            known = await self._accounting_of(row)
            found.append((rows.job_view(row, known, self._limits, self._forms), known))
        listed = {view.raw_id for view, _ in found}
        self._accounting = {raw_id: known for raw_id, known in self._accounting.items() if raw_id in listed}
        self._change = _count(jobs)
        return ClusterReport(
            cluster=self._cluster,
            session="",
            sequence=0,
            as_of=rows.time_of(jobs.get("as_of")),
            facts=rows.facts(_mapping(info, "info"), may_act=self._may_act()),
            jobs=tuple(view for view, _ in found),
            nodes=tuple(rows.node_view(row) for row in _list(nodes, "nodes")),
            past=tuple(attempt for _, known in found for attempt in known.past),
        )

    async def read(self, raw_id: str) -> JobView:
        row = _mapping(await self._ask("job", job_id=_number(raw_id)), "job")
        return rows.job_view(row, await self._accounting_of(row), self._limits, self._forms)

    def requeue(self, job: JobView) -> Command:
        return Command(argv=(PROGRAM, "requeue", job.raw_id))

    def constrain(self, job: JobView, exclude: tuple[str, ...], start_at: datetime | None) -> Command:
        start = start_at.astimezone(UTC).isoformat().replace("+00:00", "Z") if start_at is not None else "now"
        return Command(argv=(PROGRAM, "update", job.raw_id, f"exclude={','.join(exclude)}", f"start={start}"))

    def cancel(self, job: JobView) -> Command:
        return Command(argv=(PROGRAM, "cancel", job.raw_id))

    def arm(self, job: JobView, *, allowed: bool) -> Command:
        raise SchedulerRefusedError(f"job {job.raw_id}: every job of the simulated scheduler may be requeued")

    def hold(self, job: JobView) -> Command:
        raise SchedulerRefusedError(f"job {job.raw_id}: the simulated scheduler takes no hold of a waiting job")

    async def read_node(self, name: str) -> NodeSight:
        answer = await self._ask("nodes")
        views = (rows.node_view(row) for row in _list(answer, "nodes"))
        found = next((view for view in views if view.name == name), None)
        if found is None:
            raise SchedulerRefusedError(f"the cluster has no node {name[:80]!r}")
        is_down = found.state is NodeState.DOWN
        return NodeSight(view=found, is_drained=found.state is NodeState.DRAINED, is_down=is_down)

    def change_node(self, change: NodeChange) -> Command:
        raise SchedulerRefusedError(f"node {change.node}: the simulated scheduler keeps no node out")

    def exclude(self, job: JobView, nodes: tuple[str, ...]) -> Command:
        return Command(argv=(PROGRAM, "update", job.raw_id, f"exclude={','.join(nodes)}"))

    def requeue_held(self, job: JobView) -> Command:
        return Command(argv=(PROGRAM, "requeuehold", job.raw_id))

    def release(self, job: JobView) -> Command:
        return Command(argv=(PROGRAM, "release", job.raw_id))

    def rearm(self, job: JobView, dependency: str) -> Command:
        return Command(argv=(PROGRAM, "update", job.raw_id, f"dependency={dependency}"))

    async def send(self, command: Command, time_limit_s: float) -> None:
        op, fields = request_of(command)
        await self._requests.ask(op, time_limit_s, **fields)

    def evidence(self, argv: tuple[str, ...]) -> Command:
        return Command(argv=argv)

    async def collect(self, command: Command, time_limit_s: float, most_bytes: int) -> Collected:
        return await collect(Commands(), command, time_limit_s, most_bytes)

    async def changed(self, timeout_s: float) -> None:
        wait_s = min(timeout_s, _LONGEST_WAIT_S)
        try:
            await self._changes.ask("wait", wait_s + _ANSWER_S, after=self._change, timeout_s=wait_s)
        except (SchedulerSilentError, SchedulerRefusedError):
            await self._clock.sleep(min(timeout_s, _AWAY_S))

    async def close(self) -> None:
        await self._requests.close()
        await self._changes.close()

    async def _ask(self, op: str, **fields: object) -> dict[str, Any]:
        try:
            return await self._requests.ask(op, _ANSWER_S, **fields)
        except SchedulerRefusedError as error:
            # A question that is refused is one that was not answered.
            raise SchedulerSilentError(f"{op}: {error}") from error

    async def _accounting_of(self, row: Mapping[str, Any]) -> rows.Accounting:
        """What accounting has of a job, asked again only when something about its attempt has changed."""
        state, raw_id = row.get("state"), str(row.get("job_id"))
        is_first = row.get("restart_count") == 0
        if is_first and state in (JobState.PENDING.name, JobState.RUNNING.name):
            return rows.accounting_of(row, _NO_ACCOUNTING)
        mark = tuple(row.get(name) for name in ("restart_count", "submit_time", "state", "end_time", "cancelled_by"))
        kept = self._accounting.get(raw_id)
        if kept is not None and kept[0] == mark:
            return kept[1]
        answer = await self._ask("accounting", job_id=row.get("job_id"))
        known = rows.accounting_of(row, _list(answer, "attempts"))
        self._accounting[raw_id] = (mark, known)
        return known

    def _may_act(self) -> bool:
        """Whether the scheduler does what this user asks: its socket is open to its own user alone."""
        try:
            return self._path.stat().st_uid in (os.geteuid(), 0) or os.geteuid() == 0
        except OSError:
            return False


def request_of(command: Command) -> tuple[str, dict[str, object]]:
    """The one request that a command of ours stands for. Raises SchedulerRefusedError for any other."""
    match command.argv:
        case (program, ("requeue" | "requeuehold" | "release" | "cancel") as verb, raw_id) if (
            program == PROGRAM and raw_id.isdecimal()
        ):
            return verb, {"job_id": int(raw_id)}
        case (program, "update", raw_id, dependency) if (
            program == PROGRAM and raw_id.isdecimal() and dependency.startswith("dependency=")
        ):
            return "update", {"job_id": int(raw_id), "dependency": dependency.removeprefix("dependency=")}
        case (program, "update", raw_id, exclude) if (
            program == PROGRAM and raw_id.isdecimal() and exclude.startswith("exclude=")
        ):
            nodes = [name for name in exclude.removeprefix("exclude=").split(",") if name]
            return "update", {"job_id": int(raw_id), "exclude": nodes}
        case (program, "update", raw_id, exclude, start) if (
            program == PROGRAM and raw_id.isdecimal() and exclude.startswith("exclude=") and start.startswith("start=")
        ):
            nodes = [name for name in exclude.removeprefix("exclude=").split(",") if name]
            return "update", {"job_id": int(raw_id), "exclude": nodes, "start_time": start.removeprefix("start=")}
        case _:
            raise SchedulerRefusedError(f"not a command of this scheduler: {' '.join(command.argv)}")


def _number(raw_id: str) -> int:
    if not raw_id.isdecimal():
        raise SchedulerSilentError(f"not a job id of this scheduler: {raw_id!r}")
    return int(raw_id)


def _list(answer: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = answer.get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise SchedulerSilentError(f"the answer has no list {name}")
    return found


def _mapping(answer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = answer.get(name)
    if not isinstance(found, dict):
        raise SchedulerSilentError(f"the answer has no object {name}")
    return found


def _count(answer: Mapping[str, Any]) -> int:
    found = answer.get("change")
    return found if isinstance(found, int) else 0
