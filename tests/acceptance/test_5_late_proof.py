"""Acceptance test 5: a bad node whose proof comes late, on a full cluster.

The fixture has five nodes in place of eight and no GPU: a rank is killed, and twelve seconds later the driver's lines
about a GPU that fell off the bus stand in that node's kernel log. The settle time is the shipped one (15 s); shortened
are the intervals at which the queue is read, and the pause after the scheduler's start.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

import pytest

from bench.rigs import NO_STORM
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite
from relance.domain.events import IncidentEnd
from relance.ports.clocks import SystemClock
from relance.simulation import node_faults
from relance.simulation.checkpoints import TRACKER
from relance.simulation.private_slurm import ClusterPlan, PartitionPlan, RunningCluster
from relance.testing.clusters import Training
from tests.acceptance.stands import LIMIT_S, command, happened, relance_on, steps_of, told, until

LIMITS = {"grace_after_boot_s": 0, "storms": NO_STORM}
PROOF_AFTER_S: Final = 12.0
CROWD_S: Final = 12
WAITS: Final = re.compile(r"the next attempt waits (for nodes that are busy|for jobs that come before it|in the queue)")
PLAN: Final = ClusterPlan(
    node_count=5, partitions=(PartitionPlan(name="gpu", options="Default=YES OverSubscribe=EXCLUSIVE"),)
)


@pytest.mark.timeout(600)
def test_the_node_whose_proof_comes_late_is_the_only_one_kept_out_and_the_wait_is_told(
    private_slurm: Callable[[ClusterPlan], RunningCluster],
) -> None:
    """Acceptance test 5: nothing before the proof, exactly that node, the wait told, resumed, closed only beyond."""
    cluster = private_slurm(PLAN)
    setup = SlurmSetup(scheduler=FAST_POLLS, site={"limits": LIMITS})
    with relance_on(cluster, setup) as site:
        job = site.trainings.submit(
            Training(
                name="big", nodes=3, ranks_per_node=1, steps=3000, step_s=0.3, checkpoint_every=10,
                submit_options=("--exclude=gpu005",),
            )
        )  # fmt: skip
        site.wait_for_step(job, 12, LIMIT_S)
        others = [_crowd(site, 600) for _ in range(2)]
        small = [_crowd(site, CROWD_S) for _ in range(3)]
        for other in others:
            cluster.wait_for_state(other, "RUNNING", time_limit_s=LIMIT_S)
        assert {site.state(each) for each in small} == {"PENDING"}, "the cluster is not full"

        nodes = site.trainings.job(job)["node_list"]
        bad = nodes[1]
        site.trainings.kill_rank(job, 1)
        proof: dict[str, datetime] = {}
        kernel = threading.Timer(PROOF_AFTER_S, lambda: proof.setdefault("at", _speak(site, bad)))
        kernel.start()
        cluster.wait_for_state(job, "FAILED", time_limit_s=LIMIT_S)
        ended_s = time.monotonic()
        highest = max(step for _, step in steps_of(site.trainings.output(job)))
        durable = int((site.trainings.work_dir / "big" / "checkpoints" / TRACKER).read_text())

        until(lambda: bad in site.trainings.job(job)["exclude"], LIMIT_S, "the exclusion")
        kernel.join()
        begun = next(row.at for row in happened(site, job) if row.event == "ActionStarted")
        assert begun > proof["at"], "acted before the proof was in"
        (item,) = site.incidents(job)
        assert item.excluded == (bad,)
        assert set(site.trainings.job(job)["exclude"]) == {bad, "gpu005"}, "the owner's own exclusion is gone"
        story = command(site, "explain", item.id)
        assert re.search(r"\d idle|queue", story), story
        assert time.monotonic() - ended_s < 60.0, "the wait was told too late"
        until(lambda: WAITS.search(told(site, job)), LIMIT_S, "the wait, told to the owner")

        cluster.must("root", ["scancel", str(others[0] if _node_of(site, others[0]) == "gpu004" else others[1])])
        cluster.wait_for_state(job, "RUNNING", time_limit_s=LIMIT_S)
        row = site.trainings.job(job)
        assert not {bad, "gpu005"} & set(row["node_list"])
        assert row["restart_count"] == 1
        site.wait_for_end_of_incident(job, LIMIT_S)
        (item,) = site.incidents(job)
        assert item.end is IncidentEnd.RECOVERED, item.end_reason
        second = [(at, step) for at, step in steps_of(site.trainings.output(job)) if at > begun]
        assert second[0][1] == durable + 1
        beyond = next(at for at, step in second if step > highest)
        assert item.ended_at is not None
        assert beyond <= item.ended_at, "closed before a step beyond the old one"


def _crowd(site: SlurmSite, duration_s: int) -> int:
    """Another job on one whole node."""
    return site.cluster.submit(
        site.cluster.plan.owners[1], f"#!/bin/sh\nsleep {duration_s}\n", options=["--job-name=small", "--nodes=1"]
    )


def _node_of(site: SlurmSite, job: int) -> str:
    return site.cluster.job_fields(job)["NodeList"]


def _speak(site: SlurmSite, node: str) -> datetime:
    """Let a node's driver say that a GPU fell off the bus; gives when."""
    now = SystemClock().now()
    kernel_log = site.trainings.work_dir / "nodes" / node / "kern.log"
    node_faults.append(kernel_log, node_faults.XID79_LINES, node, now.timestamp())
    return now
