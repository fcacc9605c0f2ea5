"""A lane for the tests: Relance on leased nodes of the shared cluster, with shims before its commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.rigs import folder
from bench.slurm_lanes import NODES, Lane, lane
from relance.simulation.private_slurm import RunningCluster
from tests.components.slurm import leased_nodes


@contextmanager
def leased_lane(cluster: RunningCluster) -> Iterator[Lane]:
    """A lane of three nodes; its folder is one that every user may enter, which pytest's are not."""
    with leased_nodes(cluster, NODES) as nodes, folder() as place:
        place.chmod(0o755)
        with lane(cluster, place / nodes.partition, nodes.partition) as made:
            yield made
