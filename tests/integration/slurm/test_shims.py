"""A command fails on a real Slurm, or takes Relance with it: some cases of `python -m bench slurm_shims`.

That Relance is killed during its requeue or before its update, and started again, is acceptance test 7.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from bench.bars.slurm_shims import Case, Findings, run
from bench.shims import Fault, Kind
from bench.slurm_lanes import Lane
from relance.simulation.private_slurm import RunningCluster
from tests.integration.slurm.lanes import leased_lane


@pytest.fixture(scope="module")
def lane(slurm_cluster: RunningCluster) -> Iterator[Lane]:
    """Relance at act, as the operator, on nodes that are these tests' alone."""
    with leased_lane(slurm_cluster) as made:
        yield made


def comes_out(lane: Lane, operation: str, kind: Kind, *, again: bool = True) -> list[str]:
    """What is wrong after a restart in which this happens at the first such call; the call has to come."""
    found, acting = Findings(), threading.Semaphore(1)
    case = Case(transaction="restart", fault=Fault(operation=operation, number=1, kind=kind), again=again)
    with acting:
        wrong = run(lane, case, found, acting)
    assert found.missed == 0, f"there was no call {case.fault.name}"
    return wrong


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_killed_before_its_requeue_it_leaves_the_job_as_slurm_had_it(lane: Lane) -> None:
    assert comes_out(lane, "requeue", Kind.KILL_BEFORE, again=False) == []


@pytest.mark.timeout(180)
def test_an_update_that_says_it_failed_though_it_was_done_is_read_back(lane: Lane) -> None:
    assert comes_out(lane, "update", Kind.FAIL_AFTER) == []


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("operation", ["requeue", "update"])
def test_killed_for_good_after_its_requeue_slurm_starts_the_job_by_itself(lane: Lane, operation: str) -> None:
    kind = Kind.KILL_AFTER if operation == "requeue" else Kind.KILL_BEFORE
    assert comes_out(lane, operation, kind, again=False) == []
