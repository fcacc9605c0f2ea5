"""A cluster and Relance on it, as real processes in a temporary folder, to measure on."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.sites import Site, TooLateError, until
from relance.domain.stages import EndRunning, Stage
from relance.testing.clusters import SimulatedCluster
from relance.testing.roles import RelanceProcesses

__all__ = ["NO_STORM", "Rig", "Setup", "TooLateError", "folder", "injected_at", "rig", "until", "wish"]

CLUSTER = "bench"
PARTITION = "train"
NO_STORM: Mapping[str, object] = {"bucket_burst": 1000, "owners": 1000, "workflows": 1000}
"""Where one job after another is broken on purpose: that is a storm by the shipped limits, and restarts are metered."""


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


class Rig(Site):
    """A simulated cluster, and Relance on it."""

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
        settings = {"clusters": [site], "server": {"port": 0}}
        super().__init__(CLUSTER, self.cluster, RelanceProcesses(folder / "relance", settings, apart=setup.apart))

    def start(self) -> None:
        """Start everything, and set the stage once the controller has reported."""
        self.cluster.start()
        self.start_relance(self.setup.stage, self.setup.end_running)

    def stop(self) -> None:
        """End everything."""
        self.stop_relance()
        self.cluster.stop()


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


def wish(**keys: object) -> str:
    """A job's comment with settings for Relance."""
    return json.dumps({"relance": keys})


def injected_at(answer: Mapping[str, Any]) -> datetime:
    """When the scheduler injected a fault."""
    return datetime.fromtimestamp(float(answer["at"]), UTC)
