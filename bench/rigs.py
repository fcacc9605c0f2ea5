"""A cluster and Relance on it, as real processes in a temporary folder, to measure on."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from relance.client.exchanges import ServerRefusedError
from relance.client.people import ApiClient
from relance.domain.stages import EndRunning, Stage
from relance.recovery.rows import IncidentItem
from relance.recovery.stories import JobStory
from relance.testing.clusters import SimulatedCluster
from relance.testing.roles import RelanceProcesses

CLUSTER = "bench"
PARTITION = "train"
LOOK_EVERY_S = 0.1
NO_STORM: Mapping[str, object] = {"bucket_burst": 1000, "owners": 1000, "workflows": 1000}
"""Where one job after another is broken on purpose: that is a storm by the shipped limits, and restarts are metered."""
_REPORT_LIMIT_S = 30.0

T = TypeVar("T")


class TooLateError(Exception):
    """Something did not happen in its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a rig is made. What is not named has its default."""

    cluster: Mapping[str, object] = field(default_factory=dict)
    """Of the simulated scheduler."""
    site: Mapping[str, object] = field(default_factory=dict)
    """Of the cluster in Relance's settings: limits and so on."""
    stage: Stage = Stage.ACT
    end_running: frozenset[EndRunning] = frozenset()
    apart: bool = False
    socket_dir: Path | None = None
    """Where the controller finds the scheduler's socket, if not at the scheduler itself."""


class Rig:
    """A cluster, and Relance on it."""

    def __init__(self, folder: Path, setup: Setup) -> None:
        self.folder = folder
        self.setup = setup
        self.cluster = SimulatedCluster(folder / "cluster", {"cluster": CLUSTER, **setup.cluster})
        site: dict[str, object] = {
            "name": CLUSTER,
            "scheduler": {"kind": "local", "state_dir": str(setup.socket_dir or folder / "cluster")},
            "kernel_log": self.cluster.kernel_log,
            "log_roots": [str(folder)],
            "opt_in": "all",
            **setup.site,
        }
        self.relance = RelanceProcesses(
            folder / "relance", {"clusters": [site], "server": {"port": 0}}, apart=setup.apart
        )
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

    def start(self) -> None:
        """Start everything, and set the stage once the controller has reported."""
        self.cluster.start()
        self.relance.start()
        until(self.has_report, _REPORT_LIMIT_S, "the controller's first report")
        self.client.set_stage(self.setup.stage, CLUSTER, None, self.setup.end_running)

    def stop(self) -> None:
        """End everything."""
        self.reconnect()
        self.relance.stop()
        self.cluster.stop()

    def has_report(self) -> bool:
        """Whether the controller has reported."""
        return any(row.report_as_of is not None for row in self.client.stages(CLUSTER))

    def story(self, job_id: int) -> JobStory | None:
        """What the server knows of a job; None when it does not know it yet."""
        try:
            return self.client.job_story(str(job_id))
        except ServerRefusedError as error:
            if error.status == 404:
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
        return str(self.cluster.job(job_id)["state"])

    def wait_for_step(self, job_id: int, step: int, timeout_s: float = 60.0) -> None:
        """Wait until the server has seen this step. Raises TooLateError."""
        until(lambda: self.step(job_id) >= step, timeout_s, f"step {step} of job {job_id}")

    def wait_for_end(self, job_id: int, timeout_s: float) -> None:
        """Wait until the job is over and no incident of it is open. Raises TooLateError."""

        def is_over() -> bool:
            story = self.story(job_id)
            if self.state(job_id) in ("PENDING", "RUNNING", "COMPLETING") or story is None or not story.attempts:
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


@contextlib.contextmanager
def rig(setup: Setup) -> Iterator[Rig]:
    """A rig that is gone afterwards, with all its processes and files."""
    with folder() as place:
        made = Rig(place, setup)
        try:
            made.start()
            yield made
        finally:
            made.stop()


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    place = Path(tempfile.mkdtemp(prefix="relance-bench-")).resolve()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def until(ask: Callable[[], T], timeout_s: float, what: str) -> T:
    """Ask until the answer is true, and give it. Raises TooLateError."""
    end = time.monotonic() + timeout_s
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > end:
            raise TooLateError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(LOOK_EVERY_S)


def wish(**keys: object) -> str:
    """A job's comment with settings for Relance."""
    return json.dumps({"relance": keys})


def injected_at(answer: Mapping[str, Any]) -> datetime:
    """When the scheduler injected a fault."""
    return datetime.fromtimestamp(float(answer["at"]), UTC)
