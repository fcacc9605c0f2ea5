from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relance.detectors import nodes, resumes
from relance.domain.faults import FaultDomain, RestartHint, Role, SuspectKind
from relance.domain.findings import Certainty, FindingKind, RuleHit, Sign
from relance.domain.observations import Observation
from relance.domain.progress import CheckpointEvent, CheckpointSeen, StepSeen
from tests.unit.detectors.timelines import START, Timeline, at, hit


def _resume() -> Timeline:
    made = Timeline(
        step=lambda state, seen, _, watched, progress: resumes.step(state, seen, watched, progress),
        state=resumes.ResumeState(),
    )
    made.watched = replace(made.watched, durable_before=410)
    return made


@pytest.mark.parametrize("first", [410, 411, 420])
def test_a_first_step_at_or_after_the_durable_checkpoint_is_a_resume(first: int) -> None:
    timeline = _resume()

    timeline.see(StepSeen(at=START, step=first))
    timeline.see(StepSeen(at=START, step=1))

    assert timeline.findings == []


def test_a_first_step_below_the_durable_checkpoint_is_told_once_with_both_steps() -> None:
    timeline = _resume()
    timeline.steps(1, 5, 0.0)

    ((_, found),) = timeline.findings

    assert (found.kind, found.certainty) == (FindingKind.DID_NOT_RESUME, Certainty.CONFIRMED)
    assert "step 1" in found.summary
    assert "410" in found.summary


def test_a_cold_start_is_told_before_its_first_step() -> None:
    timeline = _resume()
    seen: list[Observation] = [
        CheckpointSeen(at=at(1), event=CheckpointEvent.COLD),
        StepSeen(at=at(9), step=1),
        CheckpointSeen(at=at(10), event=CheckpointEvent.COLD),
    ]
    found: list[Any] = [each for observation in seen for each in timeline.see(observation)]

    assert [each.symptom_at for each in found] == [at(1)]


@pytest.mark.parametrize(
    ("seconds", "tells"), [(-2.0, False), (-64.0, False), (-1700.0, False), (-0.5, True), (3.0, True), (-3600.0, True)]
)
def test_lines_that_the_attempt_before_wrote_say_nothing_of_this_one(seconds: float, *, tells: bool) -> None:
    """What seems an hour old is of this attempt, and its time that of another zone."""
    timeline = _resume()
    timeline.watched = replace(timeline.watched, started_at=at(0))

    timeline.see(StepSeen(at=at(seconds), step=405))
    assert bool(timeline.findings) is tells
    timeline.see(StepSeen(at=at(seconds), step=409))
    timeline.see(StepSeen(at=at(20), step=411))
    timeline.see(StepSeen(at=at(21), step=1))
    assert bool(timeline.findings) is tells


def test_without_a_durable_checkpoint_every_start_is_right() -> None:
    timeline = _resume()
    timeline.watched = replace(timeline.watched, durable_before=None)

    timeline.see(CheckpointSeen(at=at(1), event=CheckpointEvent.COLD))
    timeline.steps(1, 3, 0.0)

    assert timeline.findings == []


def _nodes() -> Timeline:
    return Timeline(
        step=lambda state, seen, _, watched, progress: nodes.step(state, seen, watched, progress),
        state=nodes.NodeState(),
    )


def test_a_hardware_sign_while_training_goes_on_is_told_once_and_only_as_suspected() -> None:
    timeline = _nodes()
    timeline.steps(1, 5, 0.0)
    timeline.see(hit(3.0, "xid-79", node="n1"))
    assert timeline.findings == []
    timeline.steps(6, 10, 3.5)
    timeline.see(hit(6.0, "xid-79", node="n1"))
    timeline.steps(11, 20, 6.5)

    ((_, found),) = timeline.findings

    assert (found.kind, found.certainty, found.signs) == (
        FindingKind.NODE_HEALTH,
        Certainty.SUSPECTED,
        frozenset({Sign.KERNEL}),
    )


def test_a_sign_on_a_node_of_another_job_or_one_that_only_follows_others_is_none() -> None:
    timeline = _nodes()
    timeline.see(hit(1.0, "xid-79", node="n9"))
    timeline.see(hit(1.0, "xid-45", node="n1", role=Role.TEARDOWN))
    timeline.see(hit(1.0, "traceback", node="n1"))
    timeline.steps(1, 10, 2.0)

    assert timeline.findings == []


def _metric(seconds: float, rule: str, node: str = "n1", **fields: Any) -> RuleHit:  # noqa: ANN401 - fields of a hit
    told = {"domain": FaultDomain.HARDWARE, "role": Role.CONTEXT, "suspect": SuspectKind.SELF, **fields}
    return hit(seconds, f"metric-{rule}", node=node, file=f"prometheus/{rule}/{node}", **told)


@pytest.mark.parametrize(
    ("fields", "isolating", "is_isolated"),
    [
        ({}, frozenset(), False),
        ({}, frozenset({"metric-remap"}), True),
        ({"restart": RestartHint.EXCLUDE}, frozenset(), False),
        ({"restart": RestartHint.EXCLUDE, "role": Role.MAYBE}, frozenset(), True),
        ({"restart": RestartHint.EXCLUDE, "role": Role.ROOT}, frozenset(), True),
        ({"domain": FaultDomain.SYSTEM}, frozenset(), False),
    ],
)
def test_a_metric_of_a_node_is_told_and_whether_it_is_left_out_later(
    fields: dict[str, Any], isolating: frozenset[str], is_isolated: bool
) -> None:
    timeline = _nodes()
    timeline.watched = replace(timeline.watched, isolating=isolating)
    timeline.steps(1, 5, 0.0)
    timeline.see(_metric(3.0, "remap", **fields))
    timeline.steps(6, 20, 3.5)

    ((_, found),) = timeline.findings

    assert (found.kind, found.isolate) == (FindingKind.NODE_HEALTH, ("n1",) if is_isolated else ())
    assert ("left out of the next attempt" in found.summary) == is_isolated


@pytest.mark.parametrize(
    "fields",
    [
        {"role": Role.DIAGNOSTIC},
        {"role": Role.CASCADE},
        {"suspect": SuspectKind.NONE},
        {"domain": FaultDomain.APPLICATION},
        {"domain": FaultDomain.UNKNOWN},
    ],
)
def test_what_is_usual_or_of_the_job_is_no_sign_of_a_node(fields: dict[str, Any]) -> None:
    timeline = _nodes()
    timeline.see(_metric(3.0, "power", **fields))
    timeline.steps(6, 20, 3.5)

    assert timeline.findings == []


def test_telemetry_that_ended_is_told_of_its_node() -> None:
    timeline = _nodes()
    timeline.see(_metric(3.0, "gone", domain=FaultDomain.UNKNOWN))
    timeline.steps(6, 20, 3.5)

    assert [(found.symptom, found.signs) for _, found in timeline.findings] == [
        ("metric_gone", frozenset({Sign.NODE_SILENT}))
    ]


def test_a_symptom_of_all_nodes_is_told_of_a_few() -> None:
    timeline = _nodes()
    timeline.watched = replace(timeline.watched, nodes=tuple(f"n{number}" for number in range(100)))
    for number in range(100):
        timeline.see(_metric(3.0, "skew", node=f"n{number}"))
        timeline.steps(2 * number, 2 * number + 1, 3.5 + number)
    timeline.see(_metric(3.0, "remap", node="n7"))
    timeline.steps(500, 510, 500.0)

    assert [found.hits[0].node for _, found in timeline.findings] == ["n0", "n1", "n2", "n3", "n7"]


@pytest.mark.parametrize(("showing", "isolated"), [(1, 1), (4, 4), (25, 4), (26, 0), (100, 0)])
def test_a_state_of_many_nodes_is_how_a_site_is_made_and_leaves_none_out(showing: int, isolated: int) -> None:
    timeline = _nodes()
    nodes = tuple(f"n{number}" for number in range(100))
    timeline.watched = replace(timeline.watched, nodes=nodes, isolating=frozenset({"metric-pcie"}))
    timeline.steps(1, 5, 0.0)
    for node in nodes[:showing]:
        timeline.see(_metric(3.0, "pcie", node=node))
    timeline.steps(6, 20, 3.5)

    assert sum(len(found.isolate) for _, found in timeline.findings) == isolated


def test_no_more_is_told_than_anybody_reads() -> None:
    timeline = _nodes()
    for number in range(50):
        timeline.see(_metric(3.0, f"kind{number}"))
        timeline.steps(3 * number, 3 * number + 2, 3.5 + number)

    assert len(timeline.findings) == 16
