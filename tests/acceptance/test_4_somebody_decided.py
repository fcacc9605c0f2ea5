"""Acceptance test 4: somebody decided, and it stays decided.

The fixture shows each way in which a run is stopped, on one cluster at once. Shortened: the settle time (6 s), the
grace of a preemption (5 s), the intervals at which the queue is read; a time limit is let pass by moving it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from bench.bars.slurm_people import PEOPLE, run
from bench.rigs import NO_STORM
from bench.slurm_lanes import lane
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite
from relance.domain.stages import EndRunning
from relance.simulation.private_slurm import ClusterPlan, PartitionPlan, RunningCluster
from relance.testing.clusters import Training
from tests.acceptance.stands import LIMIT_S, decides_nothing, relance_on, told, until
from tests.components.slurm import LeasedNodes

LIMITS = {"settle_s": 6, "grace_after_boot_s": 0, "storms": NO_STORM}
PLAN: Final = ClusterPlan(
    node_count=6,
    cpus_per_node=8,
    partitions=(
        PartitionPlan(name="usual", nodes=("gpu001", "gpu002", "gpu003", "gpu004"), options="Default=YES"),
        PartitionPlan(name="low", nodes=("gpu005", "gpu006"), options="PriorityTier=1 PreemptMode=REQUEUE GraceTime=5"),
        PartitionPlan(
            name="high", nodes=("gpu005", "gpu006"), options="PriorityTier=10 PreemptMode=OFF OverSubscribe=EXCLUSIVE"
        ),
    ),
)
_DEADLINE_S: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A way to stop a run: what is done to the job, the states it may be left in, and the words that name it."""

    name: str
    done: Callable[[SlurmSite, int], None]
    left_as: frozenset[str]
    words: tuple[str, ...]
    partition: str = "usual"
    options: tuple[str, ...] = ()
    runs: bool = True


def _cancelled(site: SlurmSite, job: int) -> None:
    site.cluster.must(site.owner, ["scancel", str(job)])


def _cancelled_by_root(site: SlurmSite, job: int) -> None:
    site.cluster.must("root", ["scancel", str(job)])


def _step_cancelled(site: SlurmSite, job: int) -> None:
    site.cluster.must(site.owner, ["scancel", f"{job}.0"])


def _told_to_end(site: SlurmSite, job: int) -> None:
    site.cluster.must(site.owner, ["scancel", "--signal=TERM", str(job)])


def _preempted(site: SlurmSite, job: int) -> None:
    site.cluster.submit(
        site.cluster.plan.owners[1], "#!/bin/sh\nsleep 600\n",
        options=["--partition=high", "--nodes=2", "--job-name=urgent"],
    )  # fmt: skip


def _out_of_time(site: SlurmSite, job: int) -> None:
    site.cluster.must("root", ["scontrol", "update", f"JobId={job}", "EndTime=now+1"])


def _held_after_a_requeue(site: SlurmSite, job: int) -> None:
    site.trainings.kill_rank(job, 1)
    site.cluster.wait_for_state(job, "FAILED", time_limit_s=LIMIT_S)
    site.cluster.must(site.owner, ["scontrol", "requeue", str(job)])
    site.cluster.wait_for_state(job, "PENDING", time_limit_s=LIMIT_S)
    site.cluster.must(site.owner, ["scontrol", "hold", str(job)])


def _nothing(site: SlurmSite, job: int) -> None:
    """It is left to its deadline."""


CASES: Final = (
    Case(name="owner", done=_cancelled, left_as=frozenset({"CANCELLED"}), words=("cancel",)),
    Case(name="root", done=_cancelled_by_root, left_as=frozenset({"CANCELLED"}), words=("cancel",)),
    Case(name="step", done=_step_cancelled, left_as=frozenset({"FAILED", "CANCELLED"}), words=("cancel", "step")),
    Case(name="term", done=_told_to_end, left_as=frozenset({"FAILED"}), words=("term",)),
    Case(
        name="preempted", done=_preempted, left_as=frozenset({"FAILED", "PREEMPTED", "PENDING"}), words=("preempt",),
        partition="low",
    ),
    Case(name="limit", done=_out_of_time, left_as=frozenset({"TIMEOUT"}), words=("time limit",)),
    Case(
        name="deadline", done=_nothing, left_as=frozenset({"DEADLINE", "TIMEOUT"}), words=("deadline",),
        options=("--time=0:05", f"--deadline=now+{_DEADLINE_S}seconds"), runs=False,
    ),
    Case(name="held", done=_held_after_a_requeue, left_as=frozenset({"PENDING"}), words=("held",)),
)  # fmt: skip


@pytest.mark.timeout(600)
def test_what_somebody_decided_is_named_and_never_undone(
    private_slurm: Callable[[ClusterPlan], RunningCluster],
) -> None:
    """Acceptance test 4: cancels, a cancelled step, TERM, preemption, time limit, deadline, a hold."""
    cluster = private_slurm(PLAN)
    setup = SlurmSetup(scheduler=FAST_POLLS, site={"limits": LIMITS}, end_running=frozenset(EndRunning))
    with relance_on(cluster, setup) as site:
        jobs = {
            case: site.trainings.submit(
                Training(
                    name=case.name, nodes=2, ranks_per_node=1, steps=4000, step_s=0.5, partition=case.partition,
                    submit_options=case.options,
                )
            )
            for case in CASES
        }  # fmt: skip
        for case, job in jobs.items():
            if case.runs:
                site.wait_for_step(job, 2, LIMIT_S)
        for case, job in jobs.items():
            case.done(site, job)
        for case, job in jobs.items():
            cluster.wait_for_state(job, case.left_as, time_limit_s=LIMIT_S)
        wrong: list[str] = []
        for case, job in jobs.items():
            wrong += _unnamed(site, case, job)
        for case, job in jobs.items():
            wrong += decides_nothing(site, job)
            state, restarts = site.state(job), int(cluster.job_fields(job)["Restarts"])
            if state not in case.left_as or restarts > (case.name in ("held", "preempted")):
                wrong.append(f"{case.name}: it is {state}, restart count {restarts}")
        blamed = [row.node for row in site.client.nodes(site.name) if row.suspicions or row.exclusions]
        assert (wrong, blamed) == ([], [])


def _unnamed(site: SlurmSite, case: Case, job: int) -> list[str]:
    """What `relance why` says when it does not name what happened."""
    try:
        until(lambda: all(word in told(site, job).lower() for word in case.words), 60.0, case.name)
    except Exception:  # noqa: BLE001 -- the sentence below says what it was
        return [f"{case.name}: not named:\n{told(site, job) if site.story(job) else 'not known'}"]
    return []


@pytest.mark.timeout(600)
def test_a_cancel_between_our_requeue_and_our_update_stands(lease_nodes: Callable[[int], LeasedNodes]) -> None:
    """Acceptance test 4: a shim lets our requeue wait for its answer until the owner has cancelled."""
    nodes = lease_nodes(3)
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        with lane(nodes.cluster, Path(name) / nodes.partition, nodes.partition) as made:
            person = next(each for each in PEOPLE if each.name == "cancels between requeue and update")
            assert run(made, person) == ("", "")
