"""The scheduler's memory: jobs, nodes and accounting, with a counter of changes, kept in one file."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from relance.simulation.commands import Refused
from relance.simulation.records import Attempt, Job, JobState, Node, Settings, Step, from_json, to_json

_FILE = "scheduler.json"
_UNSAVED_CHANGES = 1000
"""More than a daemon can have told of before it died without having saved them: the counter never goes back."""
UNKNOWN_JOB = "Invalid job id specified"
PURGED_JOB = "Job is no longer known"
UNKNOWN_NODE = "Invalid node name specified"


class Tables:
    """What the scheduler knows, and when it last changed.

    Args:
        state_dir: Where `scheduler.json` lies.
        settings: How the cluster is made.
        now: Gives the time, in seconds since the epoch.

    Raises:
        ValueError: The file that an earlier daemon left cannot be understood.
    """

    def __init__(self, state_dir: Path, settings: Settings, now: Callable[[], float]) -> None:
        self.settings = settings
        self.jobs: dict[int, Job] = {}
        self.nodes: dict[str, Node] = {}
        self.change = 0
        self.next_job_id = settings.first_job_id
        self._attempts: dict[tuple[int, int], Attempt] = {}
        self._path = state_dir / _FILE
        self._saved = -1
        self._changed = asyncio.Event()
        if self._path.exists():
            self._load()
        self._add_nodes(now())

    @property
    def default_partition(self) -> str:
        """The partition of a job that names none."""
        return next(iter(self.settings.partitions), "train")

    @property
    def partitions(self) -> list[str]:
        """All names of partitions."""
        return list(self.settings.partitions) or [self.default_partition]

    def job(self, job_id: int) -> Job:
        """The job with this id.

        Raises:
            Refused: It was purged, or there never was one.
        """
        if job_id in self.jobs:
            return self.jobs[job_id]
        purged = any(known == job_id for known, _ in self._attempts)
        raise Refused(PURGED_JOB if purged else UNKNOWN_JOB)

    def node(self, name: str) -> Node:
        """The node with this name.

        Raises:
            Refused: There is none.
        """
        if name not in self.nodes:
            raise Refused(UNKNOWN_NODE)
        return self.nodes[name]

    def put(self, job: Job, steps: tuple[Step, ...] | None = None) -> None:
        """Keep the job as it is now, and its attempt's row in accounting with it."""
        self.keep_attempt(job, str(job.state), steps)
        if self.jobs.get(job.job_id) != job:
            self.jobs[job.job_id] = job
            self._touch()

    def keep_attempt(self, job: Job, state: str, steps: tuple[Step, ...] | None = None) -> None:
        """Keep the row of the job's current attempt in accounting, with that state."""
        key = (job.job_id, job.restart_count)
        before = self._attempts.get(key)
        cancelled = state == JobState.CANCELLED and job.cancelled_by is not None
        row = Attempt(
            job_id=job.job_id,
            restart_count=job.restart_count,
            name=job.spec.name,
            user=job.spec.user,
            uid=job.spec.uid,
            partition=job.spec.partition,
            state=f"{state} by {job.cancelled_by}" if cancelled else state,
            reason=job.reason,
            exit_code=job.exit_code,
            derived_exit_code=job.derived_exit_code,
            submit_time=job.submit_time,
            eligible_time=job.eligible_time,
            start_time=None if state == JobState.PENDING else job.start_time,
            end_time=job.end_time,
            nodes=job.node_list,
            node_count=job.spec.node_count,
            comment=job.comment,
            steps=steps if steps is not None else before.steps if before is not None else (),
        )
        if row != before:
            self._attempts[key] = row
            self._touch()
        while len(self._attempts) > self.settings.accounting_rows:
            del self._attempts[next(iter(self._attempts))]

    def put_node(self, node: Node) -> None:
        """Keep the node as it is now."""
        if self.nodes.get(node.name) != node:
            self.nodes[node.name] = node
            self._touch()

    def forget_finished(self, now: float) -> None:
        """Purge the jobs that ended longer ago than MinJobAge; accounting keeps them."""
        limit = now - self.settings.min_job_age_s
        for job in list(self.jobs.values()):
            if job.state.is_over and job.end_time is not None and job.end_time < limit:
                del self.jobs[job.job_id]
                self._touch()

    def attempts(self, job_id: int | None = None) -> list[Attempt]:
        """Accounting, oldest first, of one job or of all."""
        return [row for row in self._attempts.values() if job_id is None or row.job_id == job_id]

    def outcomes(self) -> dict[int, str]:
        """How each job's last attempt ended or stands, by job id."""
        return {row.job_id: row.state for row in self._attempts.values()}

    def new_job_id(self) -> int:
        """The next raw id."""
        self.next_job_id += 1
        return self.next_job_id - 1

    async def changed_after(self, counter: int, timeout_s: float) -> None:
        """Return when the counter of changes is above `counter`, or the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.change <= counter:
                    await self._changed.wait()
        except TimeoutError:
            return

    def save(self) -> None:
        """Write the file, if anything has changed since it was written."""
        if self._saved == self.change:
            return
        data = {
            "change": self.change,
            "next_job_id": self.next_job_id,
            "jobs": [to_json(job) for job in self.jobs.values()],
            "nodes": [to_json(node) for node in self.nodes.values()],
            "attempts": [to_json(row) for row in self._attempts.values()],
        }
        new = self._path.with_suffix(".json.new")
        new.write_text(json.dumps(data), encoding="utf-8")
        os.replace(new, self._path)  # noqa: PTH105 -- atomic by name, whatever was there before
        self._saved = self.change

    def _load(self) -> None:
        data: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
        self.change = data["change"] + _UNSAVED_CHANGES
        self.next_job_id = data["next_job_id"]
        self.jobs = {job.job_id: job for job in (from_json(Job, each) for each in data["jobs"])}
        self.nodes = {node.name: node for node in (from_json(Node, each) for each in data["nodes"])}
        rows = (from_json(Attempt, each) for each in data["attempts"])
        self._attempts = {(row.job_id, row.restart_count): row for row in rows}

    def _add_nodes(self, now: float) -> None:
        names = [f"node{number:03d}" for number in range(1, self.settings.nodes + 1)]
        for name in names:
            partitions = tuple(each for each, members in self.settings.partitions.items() if name in members)
            node = self.nodes.get(name, Node(name=name, partitions=(), boot_time=now))
            chosen = partitions if self.settings.partitions else (self.default_partition,)
            self.put_node(replace(node, partitions=chosen, features=tuple(self.settings.features.get(name, ()))))
        self.nodes = {name: self.nodes[name] for name in names}

    def _touch(self) -> None:
        self.change += 1
        self._changed.set()
        self._changed = asyncio.Event()
