"""A cluster of 64 nodes: a job of half of them loses a GPU, and runs on without that node.

On one machine 64 slurmd start in some eight seconds, take 450 MiB and next to no time of the processor; the 32 ranks
share two cores, which is why this belongs to the soak.
"""

from __future__ import annotations

import pytest

from bench.bars.slurm_shims import RUNNING_WITHIN_S
from bench.rigs import NO_STORM
from bench.sites import until
from bench.slurm_sites import FAST_POLLS, SlurmSetup, slurm_site
from bench.stories import story_gaps
from relance.domain.events import IncidentEnd
from relance.simulation.private_slurm import ClusterPlan
from relance.testing.clusters import Training
from tests.components.slurm import PREFIX, require_slurm

NODES, OF_JOB = 64, 32


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_job_of_half_the_cluster_runs_on_without_the_node_that_failed() -> None:
    require_slurm()
    setup = SlurmSetup(
        scheduler=FAST_POLLS, site={"limits": {"settle_s": 1, "grace_after_boot_s": 0, "storms": NO_STORM}}
    )
    with slurm_site(ClusterPlan(node_count=NODES, prefix=PREFIX), setup) as site:
        job = site.trainings.submit(
            Training(name="wide", nodes=OF_JOB, ranks_per_node=1, steps=2000, step_s=0.5, checkpoint_every=5)
        )
        site.wait_for_step(job, 12, 180.0)
        before = set(site.trainings.job(job)["node_list"])
        broken = sorted(before)[OF_JOB // 2]
        site.trainings.break_node(broken)
        until(
            lambda: site.trainings.job(job)["restart_count"] == 1 and site.state(job) == "RUNNING",
            RUNNING_WITHIN_S,
            "the second attempt",
        )
        site.wait_for_end_of_incident(job, RUNNING_WITHIN_S)

        row = site.trainings.job(job)
        assert len(before) == len(row["node_list"]) == OF_JOB
        assert row["exclude"] == [broken]
        assert broken not in row["node_list"]
        (item,) = site.incidents(job)
        assert item.end is IncidentEnd.RECOVERED, item.end_reason
        assert item.excluded == (broken,)
        assert story_gaps(site, item) == []
        assert len(site.trainings.attempts(job)) == 2
