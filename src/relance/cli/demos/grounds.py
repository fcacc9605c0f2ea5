"""The ground that a play stands on: a cluster for trainings, and Relance beside it. Simulated, or a private Slurm."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from relance.cli.demos import settings
from relance.testing.clusters import SimulatedCluster, Training
from relance.testing.other_users import NoPythonError, can_read, open_python, user_of
from relance.testing.roles import RelanceProcesses, account_of
from relance.testing.slurm_clusters import PrivateSlurmError, SlurmTrainings, start_cluster

OWNER = "owner1"
"""Of the trainings on Slurm."""


class GroundFailedError(Exception):
    """The ground could not be laid; the text has the remedy."""


class Trainings(Protocol):
    """What is played with: the trainings of a cluster, and the means to break them."""

    def submit(self, training: Training) -> int:
        """Submit a training; gives the job's id. Raises ClusterRefusedError."""
        ...

    def job(self, job_id: int) -> dict[str, Any]:
        """The job as the scheduler shows it now. Raises ClusterRefusedError."""
        ...

    def attempts(self, job_id: int) -> list[dict[str, Any]]:
        """The job's attempts in accounting, oldest first."""
        ...

    def output(self, job_id: int) -> str:
        """What the job has written, over all its attempts."""
        ...

    def befall(self, name: str, scenario: str, **keys: object) -> None:
        """Have a scenario happen to the training of this name."""
        ...

    def kill_rank(self, job_id: int, rank: int) -> datetime:
        """Kill a rank; gives when. Raises ClusterRefusedError."""
        ...

    def stop_rank(self, job_id: int, rank: int) -> datetime:
        """Stop a rank; gives when. Raises ClusterRefusedError."""
        ...

    def break_node(self, node: str, *, after_steps: int = 1, kernel_delay_s: float = 0.0) -> datetime:
        """Break a node's GPU; gives when. Raises ClusterRefusedError."""
        ...

    def slow_node(self, node: str, *, factor: float) -> datetime:
        """Make a node slow; gives when. Raises ClusterRefusedError."""
        ...


class Ground(Protocol):
    """A cluster and Relance, as real processes."""

    @property
    def trainings(self) -> Trainings:
        """The trainings, once it is started."""
        ...

    @property
    def relance(self) -> RelanceProcesses:
        """Relance's processes, once it is started."""
        ...

    def start(self) -> None:
        """Start everything. Raises GroundFailedError, and ProcessFailedError."""
        ...

    def stop(self) -> None:
        """End everything that was started; may be called twice."""
        ...


class SimulatedGround:
    """Simulated nodes; everything is a process of who plays."""

    def __init__(self, folder: Path, racks: Sequence[str], *, apart: bool, at_once: bool) -> None:
        self._cluster = SimulatedCluster(folder / "cluster", settings.cluster_settings(racks))
        scheduler = {"kind": "local", "state_dir": str(folder / "cluster")}
        wanted = settings.relance_settings(scheduler, folder / "cluster", self._cluster.kernel_log, at_once=at_once)
        self.relance = RelanceProcesses(folder, wanted, apart=apart)

    @property
    def trainings(self) -> Trainings:
        return self._cluster

    def start(self) -> None:
        self._cluster.start()
        self.relance.start()

    def stop(self) -> None:
        self.relance.stop()
        self._cluster.stop()


class SlurmGround:
    """A private Slurm cluster with users of its own: Relance is one, the trainings are another's."""

    def __init__(self, folder: Path, racks: Sequence[str], *, apart: bool, at_once: bool) -> None:
        self._folder = folder
        self._racks = racks
        self._apart = apart
        self._at_once = at_once
        self._stops: list[Callable[[], None]] = []
        self._trainings: Trainings | None = None
        self._relance: RelanceProcesses | None = None

    @property
    def trainings(self) -> Trainings:
        if self._trainings is None:
            raise GroundFailedError("the cluster was not started")
        return self._trainings

    @property
    def relance(self) -> RelanceProcesses:
        if self._relance is None:
            raise GroundFailedError("Relance was not started")
        return self._relance

    def start(self) -> None:
        if os.geteuid() != 0:
            raise GroundFailedError(
                "a private Slurm cluster needs root, because it runs jobs as users of their own: run it in a "
                "container, or with sudo; `relance demo` alone needs neither"
            )
        try:
            cluster = start_cluster(settings.slurm_plan(self._racks))
            self._stops.append(cluster.stop)
            os.chmod(self._folder, 0o755)  # noqa: S103, PTH101 -- Relance's user has its folder below it
            operator = user_of(cluster.plan.operator)
            if not can_read(self._folder, operator):
                raise GroundFailedError(
                    f"{self._folder} is closed to other users, and Relance runs as the user {operator.name} here: "
                    "choose another --folder"
                )
            python = open_python(self._folder, operator)
            trainings = SlurmTrainings(cluster, cluster.work_dir(OWNER) / "demo", OWNER, python)
            trainings.start()
            self._stops.append(trainings.stop)
        except (PrivateSlurmError, NoPythonError) as error:
            raise GroundFailedError(str(error)) from error
        wanted = settings.relance_settings(
            settings.SLURM_SCHEDULER, Path(cluster.folder), trainings.kernel_log, at_once=self._at_once
        )
        account = account_of(operator, python, cluster.env)
        self._relance = RelanceProcesses(self._folder / "relance", wanted, apart=self._apart, account=account)
        self._stops.append(self._relance.stop)
        self._relance.start()
        self._trainings = trainings

    def stop(self) -> None:
        while self._stops:
            self._stops.pop()()
