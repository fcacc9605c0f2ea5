from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from relance.simulation.placements import Placement, placements
from relance.simulation.records import Job, JobState, Node
from tests.unit.simulation.jobs import JOB, NOW, SPEC

NODES = [Node(name=f"node00{number}", partitions=("train",), boot_time=0.0) for number in range(1, 5)]


def job(job_id: int, *, node_count: int = 2, name: str = "llm", **changes: Any) -> Job:  # noqa: ANN401
    spec = replace(SPEC, node_count=node_count, name=name)
    return replace(JOB, job_id=job_id, spec=spec, submit_time=float(job_id), **changes)


def placed(jobs: Sequence[Job], nodes: Sequence[Node] = NODES) -> dict[int, Placement]:
    return {each.job.job_id: each for each in placements(jobs, nodes, {}, NOW)}


def node(number: int, **changes: Any) -> Node:  # noqa: ANN401
    return replace(NODES[number - 1], **changes)


def test_the_first_free_nodes_are_taken_and_excluded_ones_left_out() -> None:
    found = placed([job(1, exclude=("node002",))], [node(1), node(2), node(3), node(4)])
    assert found[1].nodes == ("node001", "node003")


def test_a_smaller_job_takes_what_a_bigger_one_cannot_use() -> None:
    found = placed([job(1, node_count=4), job(2, node_count=2), job(3, node_count=3)], [node(1, job_id=9), *NODES[1:]])
    assert (found[1].nodes, found[1].job.reason) == ((), "Resources")
    assert found[2].nodes == ("node002", "node003")
    assert found[3].job.reason == "Priority"


def test_the_higher_priority_goes_first() -> None:
    found = placed([job(1, node_count=3), job(2, node_count=3, priority=5000)])
    assert (found[1].nodes, found[2].nodes) == ((), ("node001", "node002", "node003"))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hold": "user"}, "JobHeldUser"),
        ({"hold": "admin", "begin_time": NOW + 5}, "JobHeldAdmin"),
        ({"begin_time": NOW + 5}, "BeginTime"),
        ({"exclude": ("node001", "node002", "node003")}, "BadConstraints"),
        ({"nodelist": ("node001",), "exclude": ("node001",)}, "BadConstraints"),
        ({"dependency": "afterany:2"}, "Dependency"),
        ({"dependency": "afterok:9"}, "DependencyNeverSatisfied"),
    ],
)
def test_who_waits_is_told_why(changes: dict[str, Any], reason: str) -> None:
    others = [job(2, name="other", state=JobState.RUNNING)]
    assert placed([job(1, **changes), *others])[1].job.reason == reason


def test_nodes_that_are_away_are_named() -> None:
    down = placed([job(1, node_count=4)], [node(1, down=True), *NODES[1:]])
    assert down[1].job.reason == "ReqNodeNotAvail, UnavailableNodes:node001"
    maint = placed([job(1, node_count=4)], [node(1, reserved="maint"), *NODES[1:]])
    assert maint[1].job.reason == "ReqNodeNotAvail, Reserved for maintenance"


def test_bad_constraints_cost_the_priority_until_they_are_mended() -> None:
    stuck = placed([job(1, exclude=("node001", "node002", "node003"))])[1].job
    assert stuck.priority == 0
    assert placed([replace(stuck, exclude=())])[1].nodes == ("node001", "node002")


def test_a_singleton_waits_for_an_older_one_of_the_same_name_and_user() -> None:
    chain = [job(1, state=JobState.RUNNING), job(2, dependency="singleton"), job(3, dependency="singleton")]
    assert [placed(chain)[number].job.reason for number in (2, 3)] == ["Dependency", "Dependency"]
    ended = [replace(chain[0], state=JobState.FAILED), *chain[1:]]
    found = placed(ended)
    assert (found[2].nodes, found[3].job.reason) == (("node001", "node002"), "Dependency")
    assert found[2].job.dependency == ""
