"""Private Slurm clusters for demonstrations, tests and benchmarks: the cluster, and trainings on it."""

from __future__ import annotations

from relance.simulation.private_slurm import (
    ClusterPlan,
    PartitionPlan,
    PrivateSlurmError,
    RunningCluster,
    start_cluster,
)
from relance.testing.slurm_trainings import SlurmTrainings

__all__ = ["ClusterPlan", "PartitionPlan", "PrivateSlurmError", "RunningCluster", "SlurmTrainings", "start_cluster"]
