"""A cluster and Relance on it, asked by the means that everybody has: the scheduler, and the API with a token."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from relance.client.errors import ServerRefusedError
from relance.client.people import ApiClient
from relance.domain.stages import EndRunning, Stage
from relance.recovery.rows import IncidentItem
from relance.recovery.stories import JobStory
from relance.testing.roles import RelanceProcesses

LOOK_EVERY_S = 0.1
_REPORT_LIMIT_S = 90.0
_NOT_FOUND = 404
_LIVING = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED")

T = TypeVar("T")


class TooLateError(Exception):
    """Something did not happen in its time."""


class Trainings(Protocol):
    """Where trainings run."""

    def job(self, job_id: int) -> dict[str, Any]:
        """The job as the scheduler shows it now."""
        ...


class Site:
    """Relance on a cluster.

    Args:
        name: The cluster's name in Relance's settings.
        cluster: Where the trainings run.
        relance: Relance's processes.
    """

    def __init__(self, name: str, cluster: Trainings, relance: RelanceProcesses) -> None:
        self.name = name
        self.relance = relance
        self._trainings = cluster
        self._client: ApiClient | None = None

    @property
    def client(self) -> ApiClient:
        """A client with the admin's token; made anew after `reconnect`."""
        if self._client is None:
            server = self.relance.server
            self._client = ApiClient(server.url, server.token)
        return self._client

    def reconnect(self) -> None:
        """Forget the connection, because the server was started again."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def start_relance(self, stage: Stage, end_running: frozenset[EndRunning] = frozenset()) -> None:
        """Start Relance, and set the stage once the controller has reported."""
        self.relance.start()
        until(self.has_report, _REPORT_LIMIT_S, "the controller's first report")
        self.client.set_stage(stage, self.name, None, end_running)

    def stop_relance(self) -> None:
        """End Relance."""
        self.reconnect()
        self.relance.stop()

    def has_report(self) -> bool:
        """Whether the controller has reported."""
        return any(row.report_as_of is not None for row in self.client.stages(self.name))

    def story(self, job_id: int) -> JobStory | None:
        """What the server knows of a job; None when it does not know it yet."""
        try:
            return self.client.job_story(str(job_id))
        except ServerRefusedError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def incidents(self, job_id: int) -> tuple[IncidentItem, ...]:
        """The incidents of a job, oldest first."""
        story = self.story(job_id)
        return tuple(reversed(story.incidents)) if story is not None else ()

    def step(self, job_id: int) -> int:
        """The newest step that the server knows of the current attempt; 0 when it knows none."""
        story = self.story(job_id)
        progress = story.job.progress if story is not None else None
        return (progress.step or 0) if progress is not None else 0

    def state(self, job_id: int) -> str:
        """The state that the scheduler shows."""
        return str(self._trainings.job(job_id)["state"])

    def wait_for_step(self, job_id: int, step: int, timeout_s: float = 60.0) -> None:
        """Wait until the server has seen this step. Raises TooLateError."""
        until(lambda: self.step(job_id) >= step, timeout_s, f"step {step} of job {job_id}")

    def wait_for_end(self, job_id: int, timeout_s: float) -> None:
        """Wait until the job is over and no incident of it is open. Raises TooLateError."""

        def is_over() -> bool:
            story = self.story(job_id)
            if self.state(job_id) in _LIVING or story is None or not story.attempts:
                return False
            # The history has the end of an attempt together with the incident that it opens.
            return story.attempts[-1].outcome is not None and not story.job.incident_id

        until(is_over, timeout_s, f"the end of job {job_id} and of its incidents")

    def wait_for_end_of_incident(self, job_id: int, timeout_s: float) -> None:
        """Wait until the job has had an incident and none is open. Raises TooLateError."""

        def is_over() -> bool:
            incidents = self.incidents(job_id)
            return bool(incidents) and all(item.end is not None for item in incidents)

        until(is_over, timeout_s, f"the end of the incidents of job {job_id}")


def free_port() -> int:
    """A port of loopback that nobody uses, below those that the kernel gives out: it stays free while we are away."""
    for port in random.SystemRandom().sample(range(20000, 32000), 200):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    message = "no free port on this machine"
    raise OSError(message)


def until(ask: Callable[[], T | None], timeout_s: float, what: str) -> T:
    """Ask until the answer is true, and give it. Raises TooLateError."""
    end = time.monotonic() + timeout_s
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > end:
            raise TooLateError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(LOOK_EVERY_S)
