"""The port to a scheduler: look, read one job, prepare a command, send that command and nothing else."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from relance.domain.advice import Command
from relance.domain.collecting import Collected
from relance.domain.nodes import NodeChange, NodeSight
from relance.domain.views import ClusterReport, JobView


class SchedulerError(Exception):
    """The scheduler did not do what was asked."""


class SchedulerRefusedError(SchedulerError):
    """It understood and refused; nothing was changed. The text is the scheduler's own."""


class SchedulerSilentError(SchedulerError):
    """No answer, or one that cannot be read: whether anything was changed is not known."""


class SchedulerUnreachedError(SchedulerSilentError):
    """What is between us and the scheduler is missing; `way` names it: `connection`, `token`."""

    def __init__(self, text: str, *, way: str) -> None:
        super().__init__(text)
        self.way = way


class JobGoneError(SchedulerError):
    """The scheduler answered, and does not know this job (any more)."""


class Scheduler(Protocol):
    """One cluster's scheduler (design 5: the controller port)."""

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        ...

    async def look(self) -> ClusterReport:
        """One whole look: all jobs and nodes served. Raises SchedulerSilentError."""
        ...

    async def read(self, raw_id: str) -> JobView:
        """One job, fresh. Raises JobGoneError, SchedulerSilentError."""
        ...

    def requeue(self, job: JobView) -> Command:
        """The command that puts a job back in the queue."""
        ...

    def constrain(self, job: JobView, exclude: tuple[str, ...], start_at: datetime | None) -> Command:
        """The one command that sets a pending job's exclusions and start time (None: now).

        `exclude` is the whole list: the user's own nodes are part of it.
        """
        ...

    def cancel(self, job: JobView) -> Command:
        """The command that ends a job for good."""
        ...

    def arm(self, job: JobView, *, allowed: bool) -> Command:
        """The command that lets a running job be requeued, or not any more.

        Raises SchedulerRefusedError where there is none.
        """
        ...

    def hold(self, job: JobView) -> Command:
        """The command that keeps a waiting job from starting. Raises SchedulerRefusedError where there is none."""
        ...

    async def read_node(self, name: str) -> NodeSight:
        """One node, fresh, with its reservations. Raises SchedulerRefusedError for a name that no node has.

        Raises SchedulerSilentError too.
        """
        ...

    def change_node(self, change: NodeChange) -> Command:
        """The command that changes a node. Raises SchedulerRefusedError where there is none."""
        ...

    def exclude(self, job: JobView, nodes: tuple[str, ...]) -> Command:
        """The command that sets a pending job's exclusions, the user's own among them, and nothing else."""
        ...

    def requeue_held(self, job: JobView) -> Command:
        """The command that puts a job back in the queue so that it does not start before it is released."""
        ...

    def release(self, job: JobView) -> Command:
        """The command that ends a hold of a pending job."""
        ...

    def rearm(self, job: JobView, dependency: str) -> Command:
        """The command that lets a pending job wait anew for what its whole `dependency` says, in JobView's words.

        Raises SchedulerRefusedError: it cannot be put so.
        """
        ...

    async def send(self, command: Command, time_limit_s: float) -> None:
        """Send a command. Raises SchedulerRefusedError, SchedulerSilentError, JobGoneError."""
        ...

    def evidence(self, argv: tuple[str, ...]) -> Command:
        """A site's command for evidence as it is run on this cluster, its step in the job marked as ours."""
        ...

    async def collect(self, command: Command, time_limit_s: float, most_bytes: int) -> Collected:
        """Run a site's command for evidence on this host, to its end or its limit.

        Its whole process group is killed at the limit, when an output grows beyond `most_bytes`, and when this call is
        cancelled. Raises nothing for what the command does.
        """
        ...

    async def changed(self, timeout_s: float) -> None:
        """Return when something may have changed, or after the time-out."""
        ...

    async def close(self) -> None:
        """Give back what is held; may be called twice."""
        ...
