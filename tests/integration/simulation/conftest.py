"""Clusters that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.simulation.clusters import RunningCluster

ClusterMaker = Callable[..., RunningCluster]


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[ClusterMaker]:
    """Starts a cluster with the settings given."""
    made: list[RunningCluster] = []

    def make(**settings: object) -> RunningCluster:
        made.append(RunningCluster(tmp_path, **settings))
        return made[-1]

    yield make
    for cluster in made:
        if cluster.process.poll() is None:
            cluster.stop()


@pytest.fixture
def cluster(make_cluster: ClusterMaker) -> RunningCluster:
    """A cluster of six nodes with small delays."""
    return make_cluster()
