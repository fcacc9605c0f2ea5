"""Slurm's records as views: the same scenario as four releases showed it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from relance.controllers.slurm.attempts import match
from relance.controllers.slurm.rows import (
    Told,
    devices_of,
    features_of,
    job_view,
    node_view,
    past_attempt,
    ranks_per_node,
    time_of,
    window_of,
)  # fmt: skip
from relance.controllers.slurm.states import hold_of, job_state, node_state
from relance.domain.views import Hold, JobState, JobView, NodeState, Wish
from relance.slurm.parsing.jobs import parse_jobs
from relance.slurm.parsing.sites import parse_nodes
from relance.slurm.records import AccountedJob, AccountedStep, ExitCode, HeldBy
from relance.slurm.site_records import Reservation, SlurmNode
from tests.unit.slurm.recorded import RELEASES, job_with, recorded

FIRST = datetime(2026, 11, 29, 15, 0, tzinfo=UTC)


def views(release: str, scene: str) -> dict[str, JobView]:
    jobs = parse_jobs(recorded(release, scene, "squeue.json"))
    return {str(job.job_id): job_view(job, Told(first_submitted_at=FIRST, wish=Wish())) for job in jobs}


@pytest.mark.parametrize("release", RELEASES)
def test_four_releases_tell_the_same_of_a_mixed_queue(release: str) -> None:
    seen = views(release, "1-mixed")
    assert {raw_id: view.state for raw_id, view in seen.items()} == {
        "1": JobState.PENDING, "2": JobState.FAILED, "3": JobState.FAILED, "4": JobState.RUNNING,
        "5": JobState.COMPLETED, "6": JobState.FAILED, "7": JobState.FAILED, "8": JobState.PENDING,
        "9": JobState.FAILED, "10": JobState.RUNNING, "11": JobState.RUNNING, "12": JobState.CANCELLED,
        "13": JobState.RUNNING,
    }  # fmt: skip
    requeued = seen["1"]
    assert (requeued.restart_count, requeued.excluded, requeued.nodes) == (1, ("gpu001",), ())
    assert requeued.hold is not Hold.NONE
    assert requeued.started_at is None
    assert (seen["2"].nodes, seen["2"].exit_signal) == (("gpu001", "gpu002"), 9)
    assert seen["2"].ended_at is not None
    assert seen["9"].requeue_allowed is False
    assert (seen["3"].array, seen["3"].array_task, seen["5"].array, seen["5"].array_task) == ("3", 3, "3", 0)
    assert seen["8"].dependency.startswith("afterok:2")
    assert seen["8"].hold is Hold.NONE


@pytest.mark.parametrize("release", RELEASES)
def test_four_releases_tell_the_same_of_a_job_that_lost_its_node(release: str) -> None:
    seen = views(release, "2-node-lost-and-time-limit")
    assert (seen["13"].state, seen["13"].restart_count, seen["13"].reason) == (JobState.PENDING, 1, "BeginTime")
    assert seen["4"].state is JobState.TIMEOUT
    nodes = parse_nodes(recorded(release, "2-node-lost-and-time-limit", "scontrol-show-node.txt"))
    assert {view.name: view.state for view in map(node_view, nodes)}["gpu006"] is NodeState.DOWN


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("RUNNING", "COMPLETING"), JobState.COMPLETING),
        (("COMPLETING",), JobState.COMPLETING),
        (("FAILED", "COMPLETING"), JobState.COMPLETING),
        (("RUNNING", "CONFIGURING"), JobState.CONFIGURING),
        (("RUNNING", "SIGNALING"), JobState.RUNNING),
        (("RESIZING",), JobState.RUNNING),
        (("RUNNING", "STOPPED"), JobState.SUSPENDED),
        (("SUSPENDED",), JobState.SUSPENDED),
        (("COMPLETED", "STAGE_OUT"), JobState.COMPLETING),
        (("PENDING", "SPECIAL_EXIT"), JobState.PENDING),
        (("REQUEUE_HOLD",), JobState.PENDING),
        (("PENDING", "REVOKED"), JobState.UNKNOWN),
        (("OUT_OF_MEMORY",), JobState.OUT_OF_MEMORY),
        (("BOOT_FAIL",), JobState.BOOT_FAIL),
        (("DEADLINE",), JobState.DEADLINE),
        (("RUNNING", "LEVITATING"), JobState.UNKNOWN),
        (("LEVITATING",), JobState.UNKNOWN),
        ((), JobState.UNKNOWN),
        (("UPDATE_DB",), JobState.UNKNOWN),
    ],
)
def test_a_flag_changes_the_state_and_a_word_that_nobody_knows_makes_it_unknown(
    words: tuple[str, ...], state: JobState
) -> None:
    assert job_state(words) is state


@pytest.mark.parametrize(
    ("held_by", "hold"),
    [
        (HeldBy.NOBODY, Hold.NONE),
        (HeldBy.USER, Hold.USER),
        (HeldBy.ADMIN, Hold.ADMIN),
        (HeldBy.SLURM, Hold.SCHEDULER),
        (HeldBy.UNKNOWN, Hold.UNKNOWN),
    ],
)
def test_only_a_pending_job_is_held(held_by: HeldBy, hold: Hold) -> None:
    assert hold_of(job_with(states=("PENDING",), held_by=held_by)) is hold
    assert hold_of(job_with(states=("RUNNING",), held_by=held_by)) is Hold.NONE


def test_a_job_that_cannot_be_placed_is_not_held_and_one_of_priority_zero_may_be() -> None:
    bad = job_with(states=("PENDING",), held_by=HeldBy.NOBODY, reason="BadConstraints", priority=0)
    assert hold_of(bad) is Hold.NONE
    assert hold_of(job_with(states=("PENDING",), held_by=None, priority=0)) is Hold.UNKNOWN


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("IDLE",), NodeState.IDLE),
        (("MIXED",), NodeState.ALLOCATED),
        (("IDLE", "PLANNED"), NodeState.IDLE),
        (("IDLE", "RESERVED"), NodeState.IDLE),
        (("IDLE", "DRAIN"), NodeState.DRAINED),
        (("ALLOCATED", "DRAIN"), NodeState.DRAINED),
        (("DOWN", "DRAIN", "REBOOT_ISSUED"), NodeState.MAINTENANCE),
        (("IDLE", "MAINTENANCE"), NodeState.MAINTENANCE),
        (("DOWN", "NOT_RESPONDING"), NodeState.DOWN),
        (("ALLOCATED", "NOT_RESPONDING"), NodeState.UNKNOWN),
        (("IDLE", "POWERED_DOWN"), NodeState.MAINTENANCE),
        (("IDLE", "LEVITATING"), NodeState.UNKNOWN),
        ((), NodeState.UNKNOWN),
    ],
)
def test_a_plan_explains_a_node_before_its_silence_does(words: tuple[str, ...], state: NodeState) -> None:
    assert node_state(SlurmNode(name="n1", states=words)) is state


def test_a_job_that_does_not_say_when_it_was_submitted_is_no_view() -> None:
    with pytest.raises(ValueError, match="submitted"):
        job_view(job_with(submitted_at=None), Told(first_submitted_at=FIRST, wish=Wish()))


@pytest.mark.parametrize(
    ("fields", "ranks"),
    [
        ({"node_count": 2, "tasks_per_node": 8}, 8),
        ({"node_count": 2, "task_count": 16}, 8),
        ({"node_count": 2, "task_count": 2}, 1),
        ({"node_count": 2, "task_count": 2, "tres_allocated": "cpu=8,node=2,gres/gpu=16"}, 8),
        ({"node_count": 2, "task_count": 2, "tres_allocated": "cpu=8,node=2,gres/gpu=15"}, None),
        ({"node_count": 2, "task_count": 3}, None),
        ({}, None),
    ],
)
def test_ranks_are_told_by_tasks_and_of_a_launcher_by_gpus(fields: dict[str, object], ranks: int | None) -> None:
    assert ranks_per_node(job_with(**fields)) == ranks


def test_devices_and_features_are_what_all_nodes_must_have() -> None:
    assert devices_of("gres/gpu:h100:8", "cpu=4,gres/gpu=16,gres/gpu:h100=16") == ("gpu:h100",)
    assert devices_of("gpu:a100:4(S:0-1)") == ("gpu:a100",)
    assert devices_of("cpu=4", None) == ()
    assert features_of("nvlink&ib") == ("nvlink", "ib")
    assert features_of("[rack1|rack2]") == ()
    assert features_of(None) == ()


def test_a_reservation_without_its_times_is_no_window() -> None:
    found = Reservation(name="w", starts_at=100, ends_at=200, nodes=("n1",), flags=("MAINT", "SPEC_NODES"))
    window = window_of(found)
    assert window is not None
    assert window.is_maintenance
    assert window_of(replace(found, ends_at=None)) is None


def row(**fields: object) -> AccountedJob:
    plain: dict[str, object] = {
        "job_id": 12, "shown_id": "12", "name": "llm", "user": "ada", "uid": 1001, "state": "FAILED",
        "submitted_at": 100, "started_at": 110, "ended_at": 120, "exit": ExitCode(code=1, signal=0),
    }  # fmt: skip
    return AccountedJob(**(plain | fields))  # type: ignore[arg-type]


def test_a_failure_that_its_requeue_wrote_over_is_told_by_the_batch_step() -> None:
    batch = AccountedStep(job_id=12, step_id="batch", name="batch", state="FAILED", ended_at=115)
    past = past_attempt(row(state="REQUEUED", steps=(batch,)), 0, FIRST)
    assert past.state is JobState.FAILED
    assert past.ended_at == datetime.fromtimestamp(115, UTC)
    ended = AccountedStep(job_id=12, step_id="batch", name="batch", state="CANCELLED", ended_at=115)
    assert past_attempt(row(state="REQUEUED", steps=(ended,)), 0, FIRST).state is JobState.REQUEUED


@pytest.mark.parametrize(
    ("restart_count", "state", "code", "signal"),
    [(0, "FAILED", 1, 15), (1, "FAILED", 1, None), (1, "FAILED", 143, 15), (1, "COMPLETED", 0, None)],
)
def test_the_exit_of_steps_of_an_earlier_attempt_is_no_attempt_s_own(
    restart_count: int, state: str, code: int, signal: int | None
) -> None:
    own, derived = ExitCode(code=code, signal=0), ExitCode(code=0, signal=15)
    past = past_attempt(row(state=state, exit=own, derived_exit=derived), restart_count, FIRST)
    assert (past.exit_code, past.exit_signal) == (code, signal)
    job = job_with(states=(state,), exit=own, derived_exit=derived, restart_count=restart_count, submitted_at=100)
    view = job_view(job, Told(first_submitted_at=FIRST, wish=Wish()))
    assert (view.exit_code, view.exit_signal) == (code, signal)


def test_rows_are_counted_back_from_the_current_attempt_and_an_older_job_of_the_same_id_is_left_out() -> None:
    job = job_with(restart_count=2, submitted_at=300)
    rows = [row(submitted_at=5, uid=7), row(submitted_at=10), row(submitted_at=100), row(submitted_at=200)]
    matched = match(job, [*rows, row(submitted_at=300, state="RUNNING", ended_at=None)])
    assert {count: found.submitted_at for count, found in matched.earlier.items()} == {0: 100, 1: 200}
    assert matched.current is not None
    assert matched.current.submitted_at == 300


def test_numbered_rows_are_believed_and_end_where_the_numbers_rise_again() -> None:
    job = job_with(restart_count=3, submitted_at=400)
    rows = [
        row(submitted_at=10, restart_count=5),
        row(submitted_at=100, restart_count=0),
        row(submitted_at=300, restart_count=2),
    ]
    matched = match(job, rows)
    assert {count: found.submitted_at for count, found in matched.earlier.items()} == {0: 100, 2: 300}


def test_rows_of_two_attempts_with_one_number_are_counted_instead() -> None:
    job = job_with(restart_count=2, submitted_at=300)
    rows = [row(submitted_at=100, restart_count=0), row(submitted_at=200, restart_count=0)]
    assert {count: each.submitted_at for count, each in match(job, rows).earlier.items()} == {0: 100, 1: 200}


def test_a_numbered_attempt_that_was_resized_is_one() -> None:
    job = job_with(restart_count=1, submitted_at=300)
    rows = [row(submitted_at=100, restart_count=0, ended_at=110), row(submitted_at=100, restart_count=0, ended_at=120)]
    assert match(job, rows).earlier == {0: rows[1]}


def test_a_first_attempt_has_none_before_it_whatever_had_its_id() -> None:
    matched = match(job_with(restart_count=0, submitted_at=300), [row(submitted_at=100), row(submitted_at=300)])
    assert matched.earlier == {}


@pytest.mark.parametrize("seconds", [64_060_588_800, 253_402_300_799])
def test_a_time_that_is_centuries_ahead_stays_ahead(seconds: int) -> None:
    found = time_of(seconds)
    assert found is not None
    assert found.year > 2200
