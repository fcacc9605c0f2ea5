"""A real Slurm cluster of this machine alone: started on loopback in a folder of its own, and removed without a trace.

    cluster = start_cluster(ClusterPlan(node_count=2))
    try:
        job = cluster.submit("owner1", script)
        cluster.wait_for_state(job, "COMPLETED")
    finally:
        cluster.stop()

Standard library only; needs root, and the Debian packages named in `relance.simulation.private_slurm.programs`.
"""

from __future__ import annotations

from relance.simulation.private_slurm.clusters import RunningCluster, start_cluster
from relance.simulation.private_slurm.failures import DaemonFailedError, PrivateSlurmError
from relance.simulation.private_slurm.plans import ClusterPlan, PartitionPlan

__all__ = [
    "ClusterPlan",
    "DaemonFailedError",
    "PartitionPlan",
    "PrivateSlurmError",
    "RunningCluster",
    "start_cluster",
]
