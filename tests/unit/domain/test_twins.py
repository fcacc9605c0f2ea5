from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from relance.domain.twins import twins, with_former_dependencies
from relance.domain.views import JobState, JobView

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
BEGAN = T0 + timedelta(minutes=10)

FAILED = JobView(
    raw_id="17",
    first_submitted_at=T0,
    submitted_at=T0,
    restart_count=0,
    name="llama",
    user="ada",
    owner_uid=1001,
    partition="train",
    state=JobState.FAILED,
    started_at=BEGAN,
    work_dir="/home/ada/llama",
    script_id="s1",
)
COPY = replace(
    FAILED,
    raw_id="18",
    first_submitted_at=BEGAN + timedelta(hours=1),
    submitted_at=BEGAN + timedelta(hours=1),
    state=JobState.PENDING,
    started_at=None,
)


def reasons(*others: JobView, job: JobView = FAILED) -> list[str]:
    return [twin.reason for twin in twins(job, (job, *others), job.started_at)]


def test_a_copy_submitted_since_the_attempt_began_is_a_twin() -> None:
    assert reasons(COPY) == ["job 18 (pending) of ada has the same name and script and was submitted since"]


def test_another_script_in_the_same_work_directory_is_a_twin_too() -> None:
    assert reasons(replace(COPY, script_id="s2")) == [
        "job 18 (pending) of ada has the same name and work directory and was submitted since"
    ]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(COPY, user="bob"), id="another user"),
        pytest.param(replace(COPY, name="other"), id="another name"),
        pytest.param(replace(COPY, script_id="s2", work_dir="/home/ada/other"), id="another script and directory"),
        pytest.param(replace(COPY, state=JobState.FAILED), id="over"),
        pytest.param(replace(COPY, first_submitted_at=T0), id="submitted before, requeued since"),
        pytest.param(replace(COPY, dependency="afterany:170"), id="another name, waits for job 170"),
    ],
)
def test_it_is_no_twin(other: JobView) -> None:
    blank = replace(other, name="x") if other.dependency else other
    assert reasons(blank) == []


@pytest.mark.parametrize(
    ("other", "since"),
    [
        pytest.param(replace(COPY, script_id="", work_dir=""), BEGAN, id="neither script nor directory known"),
        pytest.param(COPY, None, id="when the attempt began is not known"),
    ],
)
def test_a_namesake_of_which_too_little_is_known_may_be_a_copy(other: JobView, since: datetime | None) -> None:
    (twin,) = twins(FAILED, (other,), since)
    assert not twin.is_certain
    assert "cannot be told" in twin.reason


def test_certain_copies_come_first() -> None:
    found = twins(FAILED, (replace(COPY, raw_id="19", script_id="", work_dir=""), COPY), BEGAN)
    assert [twin.raw_id for twin in found] == ["18", "19"]


def test_an_older_copy_that_started_since_the_end_took_its_place() -> None:
    ended = BEGAN + timedelta(hours=2)
    started = replace(COPY, first_submitted_at=T0, state=JobState.RUNNING, started_at=ended + timedelta(seconds=3))
    assert "started since" in twins(FAILED, (started,), BEGAN, ended)[0].reason
    assert twins(FAILED, (started,), BEGAN) == ()


def test_a_successor_that_waits_can_still_be_kept_off_a_node() -> None:
    waiting = replace(COPY, dependency="singleton")
    found = [(twin.is_successor, twin.waits) for twin in twins(FAILED, (waiting,), BEGAN)]
    assert found == [(True, True)]
    assert not twins(FAILED, (replace(waiting, state=JobState.RUNNING),), BEGAN)[0].waits
    assert not twins(FAILED, (COPY,), BEGAN)[0].is_successor


def test_what_waits_for_a_whole_array_follows_each_of_its_tasks() -> None:
    task = replace(FAILED, raw_id="21", array="17", array_task=4)
    for dependency, follows in (
        ("afterany:17_*", True),
        ("afterany:17_4", True),
        ("afterany:17_5", False),
        ("afterany:17_41", False),
    ):
        other = replace(COPY, name="collect", dependency=dependency)
        assert bool(reasons(other, job=task)) is follows, dependency


def test_a_state_that_cannot_be_read_counts_as_alive() -> None:
    assert len(reasons(replace(COPY, state=JobState.UNKNOWN))) == 1


def test_a_submit_time_in_whole_seconds_is_not_before_the_second_in_which_the_attempt_began() -> None:
    began = replace(FAILED, started_at=BEGAN + timedelta(milliseconds=300))
    assert len(reasons(replace(COPY, first_submitted_at=BEGAN), job=began)) == 1


def test_tasks_of_one_array_are_no_twins_of_each_other() -> None:
    assert reasons(replace(COPY, array="17"), job=replace(FAILED, array="17")) == []


@pytest.mark.parametrize("dependency", ["afterany:17", "afterany:17(unfulfilled)", "afterok:3,afterany:16:17"])
def test_a_job_that_waits_for_any_end_of_this_one_is_its_successor(dependency: str) -> None:
    follower = replace(COPY, name="evaluate", first_submitted_at=T0, dependency=dependency)
    assert reasons(follower) == ["job 18 (pending) of ada follows this one by afterany"]


def test_a_job_that_waits_for_this_one_to_fail_is_its_successor() -> None:
    follower = replace(COPY, name="rescue", first_submitted_at=T0, dependency="afternotok:17(unfulfilled)")
    assert reasons(follower) == ["job 18 (pending) of ada follows this one by afternotok"]


def test_the_next_of_a_singleton_chain_is_the_successor_although_it_was_submitted_before() -> None:
    chained = replace(COPY, first_submitted_at=T0, dependency="singleton", script_id="", work_dir="")
    assert reasons(chained) == ["job 18 (pending) of ada has the same name and is the next of a singleton chain"]


def test_a_successor_that_started_is_known_by_the_dependency_it_showed_before() -> None:
    started = replace(COPY, first_submitted_at=T0, state=JobState.RUNNING)
    assert reasons(started) == []
    assert len(reasons(*with_former_dependencies([started], {"18": "singleton"}))) == 1


ENDED = BEGAN + timedelta(hours=2)
OVER = replace(
    COPY,
    state=JobState.COMPLETED,
    first_submitted_at=ENDED + timedelta(minutes=1),
    submitted_at=ENDED + timedelta(minutes=1),
    started_at=ENDED + timedelta(minutes=2),
    ended_at=ENDED + timedelta(minutes=4),
)


@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.TIMEOUT])
def test_work_that_somebody_had_done_again_is_not_done_a_third_time(state: JobState) -> None:
    (twin,) = twins(FAILED, (replace(OVER, state=state),), BEGAN, ENDED)
    assert twin.is_certain
    assert not twin.waits


def test_of_copies_that_fail_at_once_the_newest_goes_on() -> None:
    beside = replace(
        OVER, state=JobState.FAILED, first_submitted_at=BEGAN + timedelta(minutes=1),
        started_at=BEGAN + timedelta(minutes=2), ended_at=ENDED,
    )  # fmt: skip
    assert [twin.raw_id for twin in twins(FAILED, (beside,), BEGAN, ENDED)] == ["18"]
    assert beside.started_at is not None
    assert twins(beside, (replace(FAILED, ended_at=ENDED),), beside.started_at, ENDED) == ()


def test_of_copies_submitted_and_started_in_one_second_one_goes_on() -> None:
    first, *others = (
        replace(FAILED, raw_id=raw_id, first_submitted_at=BEGAN, submitted_at=BEGAN, ended_at=ENDED)
        for raw_id in ("9", "10", "11")
    )
    all_of_them = (first, *others)
    going_on = [job.raw_id for job in all_of_them if not twins(job, all_of_them, BEGAN, ENDED)]
    assert going_on == ["11"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(
            replace(OVER, first_submitted_at=BEGAN + timedelta(minutes=1), started_at=BEGAN + timedelta(minutes=2)),
            id="beside it, and completed",
        ),
        pytest.param(
            replace(
                OVER, state=JobState.FAILED, first_submitted_at=BEGAN + timedelta(minutes=1),
                started_at=BEGAN + timedelta(minutes=2), ended_at=ENDED - timedelta(minutes=1),
            ),
            id="a failure of before",
        ),
        pytest.param(replace(OVER, script_id="", work_dir=""), id="neither script nor directory known"),
    ],
)  # fmt: skip
def test_what_is_over_and_stood_in_for_nothing_is_no_twin(other: JobView) -> None:
    assert twins(FAILED, (other,), BEGAN, ENDED) == ()


def test_a_job_of_a_singleton_chain_is_not_restarted_beside_an_older_one_that_lives() -> None:
    older = replace(
        COPY, raw_id="16", first_submitted_at=T0 - timedelta(days=1), state=JobState.RUNNING, script_id="s2"
    )
    chained = replace(FAILED, dependency="singleton")
    assert reasons(older) == []
    assert reasons(older, job=chained) == [
        "job 16 (running) of ada has the same name, and this one was to run alone (singleton)"
    ]
    assert reasons(replace(older, state=JobState.COMPLETED), job=chained) == []
