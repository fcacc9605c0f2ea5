from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relance.domain.advice import Answer
from relance.domain.fits import Grounds, Room, room
from relance.domain.views import JobState, JobView, NodeState, NodeView, Window

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
JOB = JobView(
    raw_id="17",
    first_submitted_at=T0,
    submitted_at=T0,
    restart_count=0,
    name="llama",
    user="ada",
    owner_uid=1001,
    partition="train",
    state=JobState.FAILED,
    node_count=3,
    time_limit_s=86400.0,
)
NODES = tuple(
    NodeView(name=f"n{number}", state=NodeState.IDLE, partitions=("train",), devices=("gpu:h100",))
    for number in range(1, 5)
)
MINE = Window(name="mine", starts_at=T0 - HOUR, ends_at=T0 + HOUR, nodes=("n1", "n2", "n3"))
AHEAD = Window(
    name="upgrade", starts_at=T0 + 2 * HOUR, ends_at=T0 + 5 * HOUR, nodes=("n2", "n3", "n4"), is_maintenance=True
)


def found(*windows: Window, out: tuple[str, ...] = (), nodes: tuple[NodeView, ...] = NODES, **fields: Any) -> Room:  # noqa: ANN401 - fields of a job
    grounds = Grounds(nodes=nodes, windows=windows, now=T0)
    return room(replace(JOB, **fields), grounds, out, says=out)


def with_one(**changes: Any) -> tuple[NodeView, ...]:  # noqa: ANN401 - fields of a node
    """Three nodes, one of them changed: too few or not."""
    return (*NODES[:2], replace(NODES[2], **changes))


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        pytest.param(Answer.YES, found(), id="plain"),
        pytest.param(Answer.YES, found(out=("n1",)), id="without one"),
        pytest.param(Answer.NO, found(out=("n1", "n2")), id="without two"),
        pytest.param(Answer.NO, found(nodes=with_one(partitions=("cpu",))), id="another partition"),
        pytest.param(Answer.YES, found(nodes=with_one(partitions=("cpu",)), partition="cpu,train"), id="either of two"),
        pytest.param(Answer.NO, found(nodes=with_one(features=("a",)), features=("b",)), id="features"),
        pytest.param(Answer.NO, found(nodes=with_one(devices=("gpu:a100",)), devices=("gpu:h100",)), id="device type"),
        pytest.param(Answer.YES, found(nodes=with_one(devices=("gpu:a100",)), devices=("gpu",)), id="any device"),
        pytest.param(Answer.YES, found(nodes=with_one(devices=()), devices=("gpu",)), id="devices not shown"),
        pytest.param(Answer.NO, found(nodes=with_one(state=NodeState.DRAINED)), id="drained"),
        pytest.param(Answer.NO, found(nodes=with_one(state=NodeState.MAINTENANCE)), id="rebooting"),
        pytest.param(Answer.UNKNOWN, found(nodes=with_one(state=NodeState.UNKNOWN)), id="a state that is not known"),
        pytest.param(Answer.UNKNOWN, found(nodes=()), id="no nodes shown"),
        pytest.param(Answer.NO, found(out=("n1",), required=("n1",)), id="asked for by name"),
        pytest.param(Answer.YES, found(MINE, reservation="mine"), id="in its reservation"),
        pytest.param(Answer.NO, found(MINE, reservation="mine", out=("n1",)), id="a reservation of exactly its size"),
        pytest.param(Answer.UNKNOWN, found(reservation="mine"), id="a reservation that is not shown"),
        pytest.param(
            Answer.NO, found(replace(MINE, ends_at=T0), reservation="mine"), id="a reservation that is over"
        ),
    ],
)  # fmt: skip
def test_room_is_counted_over_everything_that_the_job_asks_for(answer: Answer, got: Room) -> None:
    assert got.answer is answer, got.reason


def test_a_maintenance_ahead_is_named_with_the_time_limit_that_would_fit() -> None:
    got = found(AHEAD)
    assert got.answer is Answer.YES
    assert got.waits == (
        "maintenance upgrade begins at 2026-03-01 14:00 UTC, within the job's time limit: it waits until "
        "2026-03-01 17:00 UTC, or starts with a limit of at most 119 min (`scontrol update JobId=17 TimeLimit=119`)"
    )
    assert found(AHEAD, time_limit_s=None).waits


def test_a_job_that_is_done_before_a_maintenance_or_has_other_nodes_does_not_wait_for_it() -> None:
    assert not found(AHEAD, time_limit_s=7200.0).waits
    assert not found(replace(AHEAD, nodes=("n4",))).waits
    assert not found(replace(AHEAD, nodes=("x1", "x2"))).waits
    assert not found(AHEAD, reservation="upgrade", node_count=3).waits


def test_while_others_have_the_nodes_reserved_the_job_waits_until_that_is_over() -> None:
    theirs = replace(MINE, name="theirs")
    assert "while reservation theirs lasts: the job waits until 2026-03-01 13:00 UTC" in found(theirs).waits
    away = tuple(replace(node, state=NodeState.MAINTENANCE) for node in NODES)
    assert found(replace(theirs, nodes=tuple(node.name for node in NODES)), nodes=away).answer is Answer.YES
