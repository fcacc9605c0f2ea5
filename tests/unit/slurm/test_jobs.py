from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.slurm.errors import RefusedError, UnknownJobError, UnreadableError
from relance.slurm.parsing.jobs import _OPTIONAL, _STRICT, parse_jobs, parse_some_jobs, pick_job
from relance.slurm.records import ExitCode, HeldBy, SlurmJob
from tests.unit.slurm.recorded import RELEASES, SCENES, recorded

DIFFER_BY_DESIGN = {
    "batch_host", "submitted_at", "eligible_at", "started_at", "ends_at", "nodes", "priority", "stdout",
    "stderr", "has_expanded_paths", "time_limit_s",
}  # fmt: skip
"""Times and nodes of the run itself; what 22.05 does not show; what one release shows as patterns."""


def jobs_of(release: str, scene: str = SCENES[0]) -> dict[int, SlurmJob]:
    return {job.job_id: job for job in parse_jobs(recorded(release, scene, "squeue.json"))}


def document(release: str = "25.11") -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(recorded(release, SCENES[0], "squeue.json"))
    return whole


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("release", RELEASES[1:])
def test_the_same_scene_is_the_same_on_each_release(release: str, scene: str) -> None:
    first, other = jobs_of("22.05", scene), jobs_of(release, scene)
    names = {field.name for field in fields(SlurmJob)} - DIFFER_BY_DESIGN
    assert {
        (job_id, name): (getattr(job, name), getattr(other[job_id], name))
        for job_id, job in first.items()
        for name in names
        if getattr(job, name) != getattr(other[job_id], name)
    } == {}
    assert first.keys() == other.keys()


@pytest.mark.parametrize("release", RELEASES)
def test_a_requeued_and_held_job_with_an_exclusion(release: str) -> None:
    job = jobs_of(release)[1]
    assert (job.states, job.restart_count, job.held_by) == (("PENDING",), 1, HeldBy.USER)
    assert job.excluded_nodes == ("gpu001",)
    assert job.comment == '{"relance":{"mode":"act","max_restarts":3}}'
    assert job.eligible_at is not None
    assert job.submitted_at is not None
    assert 118 <= job.eligible_at - job.submitted_at <= 122
    assert job.time_limit_s == 1800
    assert job.exit == ExitCode(code=0, signal=0)
    assert job.derived_exit == ExitCode(code=0, signal=15)


@pytest.mark.parametrize("release", RELEASES)
def test_the_other_kinds_of_jobs(release: str) -> None:
    jobs = jobs_of(release)
    assert (jobs[2].states, jobs[2].exit, jobs[2].derived_exit) == (
        ("FAILED",), ExitCode(code=137, signal=0), ExitCode(code=0, signal=9),
    )  # fmt: skip
    assert [jobs[number].shown_id for number in (5, 6, 7, 3, 10, 11, 12)] == [
        "3_0", "3_1", "3_2", "3_3", "10+0", "10+1", "12",
    ]  # fmt: skip
    assert jobs[8].reason == "DependencyNeverSatisfied"
    assert jobs[9].requeue is False
    assert jobs[12].exit == ExitCode(code=0, signal=15)
    assert jobs[13].required_nodes == ("gpu006",)
    assert (jobs[4].held_by, jobs[4].reason) == (None, None)


@pytest.mark.parametrize("release", RELEASES)
def test_a_job_that_lost_its_node_waits_for_its_time(release: str) -> None:
    job = jobs_of(release, SCENES[1])[13]
    assert (job.states, job.reason, job.held_by) == (("PENDING",), "BeginTime", HeldBy.NOBODY)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("count", "offset", "is_batch"), [(0, None, False), (1, None, True), (7, None, True), (1, 0, True), (1, 1, False)]
)
def test_a_job_that_was_requeued_has_a_script_whatever_its_flag_says(
    release: str, count: int, offset: int | None, is_batch: bool
) -> None:
    # Once the host of its script was lost BatchFlag is 2, which the JSON of 22.05 shows as false.
    document = json.loads(recorded(release, SCENES[1], "squeue.json"))
    record = next(each for each in document["jobs"] if each["job_id"] == 13)
    het = {} if offset is None else {"het_job_id": 12, "het_job_offset": offset}
    record |= {"batch_flag": False, "restart_cnt": count, **het}
    (job,) = parse_jobs(json.dumps({**document, "jobs": [record]}).encode())
    assert job.is_batch is is_batch


@pytest.mark.parametrize("release", RELEASES[1:])
def test_scontrol_shows_the_same_as_squeue(release: str) -> None:
    shown = parse_jobs(recorded(release, SCENES[0], "scontrol-show-job.json"))
    assert {job.job_id: job.states for job in shown} == {number: job.states for number, job in jobs_of(release).items()}


@pytest.mark.parametrize("release", RELEASES)
def test_only_the_jobs_that_were_asked_for_are_read(release: str) -> None:
    output = recorded(release, SCENES[0], "squeue.json")
    assert parse_some_jobs(output, ("2", "9")) == (jobs_of(release)[2], jobs_of(release)[9])
    assert [job.shown_id for job in parse_some_jobs(output, ("3",))] == ["3_0", "3_1", "3_2", "3_3"]
    assert parse_some_jobs(output, ("99",)) == ()


def test_text_of_a_user_stays_text() -> None:
    whole = document()
    name = 'a JobState=FAILED ExitCode=1:0\n"},{"job_id":99\x00\ud800'
    whole["jobs"][0]["name"] = name
    jobs = parse_jobs(json.dumps(whole).encode())
    assert len(jobs) == 13
    assert (jobs[0].name, jobs[0].states) == (name, ("PENDING",))


def test_bytes_that_are_no_utf8_hide_no_job() -> None:
    assert len(parse_jobs(recorded("22.05", SCENES[0], "squeue.json").replace(b"llm-7b", b"llm\xff7b"))) == 13


@pytest.mark.parametrize("key", ["job_id", "restart_cnt", "excluded_nodes", "submit_time", "preempt_time", "user_id"])
def test_a_field_that_is_missing_is_not_read_as_empty(key: str) -> None:
    whole = document()
    del whole["jobs"][3][key]
    with pytest.raises(UnreadableError, match=key):
        parse_jobs(json.dumps(whole).encode())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("job_id", "1"), ("job_id", None), ("restart_cnt", -1), ("submit_time", {"number": 5}), ("job_state", []),
        ("job_state", "running"), ("nodes", ["gpu001"]), ("nodes", "gpu["), ("exit_code", "0:0"), ("requeue", "yes"),
        ("start_time", 1e300), ("name", 7),
    ],
)  # fmt: skip
def test_a_value_of_another_shape_is_refused(key: str, value: object) -> None:
    whole = document()
    whole["jobs"][3][key] = value
    with pytest.raises(UnreadableError):
        parse_jobs(json.dumps(whole).encode())


@pytest.mark.parametrize(("field", "key"), [(field, key) for field, _, key in _OPTIONAL])
@pytest.mark.parametrize("value", [{"odd": 1}, [1], 1.5, {"set": "yes", "number": "many"}])
def test_an_optional_field_of_another_shape_is_not_known_and_hides_no_job(field: str, key: str, value: object) -> None:
    whole = document()
    whole["jobs"][3][key] = value
    jobs = parse_jobs(json.dumps(whole).encode())
    assert len(jobs) == len(whole["jobs"])
    assert getattr(jobs[3], field) is None


@pytest.mark.parametrize("key", [key for _, _, key in _STRICT])
def test_a_field_that_decisions_rest_on_is_never_guessed(key: str) -> None:
    whole = document()
    whole["jobs"][3][key] = {"odd": 1}
    with pytest.raises(UnreadableError):
        parse_jobs(json.dumps(whole).encode())


@pytest.mark.parametrize("key", ["eligible_time", "deadline", "start_time", "end_time", "preempt_time"])
@pytest.mark.parametrize("seconds", [64_060_588_800, 1_001_796_053_594, (1 << 64) - 2, -1])
def test_a_time_that_a_user_may_have_chosen_hides_no_job(key: str, seconds: int) -> None:
    whole = document()
    whole["jobs"][3][key] = seconds
    read = parse_jobs(json.dumps(whole).encode())
    assert len(read) == len(whole["jobs"])


def test_a_begin_that_is_ages_ahead_is_not_taken_for_one_that_has_come() -> None:
    whole = document()
    whole["jobs"][3]["eligible_time"] = 1_001_796_053_594
    read = parse_jobs(json.dumps(whole).encode())[3]
    assert (read.eligible_at or 0) > 32_503_680_000


@pytest.mark.parametrize("record", [None, 7, "job_state", {}, []])
def test_a_record_that_is_no_job_is_refused_and_not_left_out(record: object) -> None:
    whole = document()
    whole["jobs"][3] = record
    for read in (parse_jobs, lambda output: parse_some_jobs(output, ("1",))):
        with pytest.raises(UnreadableError):
            read(json.dumps(whole).encode())


@pytest.mark.parametrize(
    "output", [b"", b"[]", b"{}", b'{"jobs": []}', b'{"jobs": [], "errors": []}', b"null", b"[" * 99_999]
)
def test_what_does_not_prove_to_be_a_list_is_not_an_empty_list(output: bytes) -> None:
    with pytest.raises(UnreadableError):
        parse_jobs(output)


def test_a_whole_list_of_no_jobs_is_empty() -> None:
    assert parse_jobs(json.dumps(document() | {"jobs": []}).encode()) == ()


def test_errors_inside_the_document_are_told_apart() -> None:
    def said(error: str) -> bytes:
        return json.dumps(document() | {"jobs": [], "errors": [{"description": error}]}).encode()

    with pytest.raises(UnknownJobError):
        parse_jobs(said("Invalid job id specified"))
    with pytest.raises(RefusedError):
        parse_jobs(said("Access denied"))


@given(st.sampled_from(RELEASES), st.integers(min_value=1))
def test_an_answer_that_was_cut_off_is_unreadable(release: str, lost: int) -> None:
    whole = recorded(release, SCENES[0], "squeue.json").rstrip()
    with pytest.raises(UnreadableError):
        parse_jobs(whole[: -(lost % len(whole)) or -1])


@given(st.sampled_from(RELEASES), st.integers(min_value=0), st.binary(max_size=8))
def test_an_answer_that_was_mangled_is_read_or_unreadable(release: str, place: int, put: bytes) -> None:
    whole = recorded(release, SCENES[0], "squeue.json")
    at = place % len(whole)
    try:
        jobs = parse_jobs(whole[:at] + put + whole[at + len(put) :])
    except (UnreadableError, RefusedError):
        return
    assert len(jobs) == 13


def test_one_job_is_picked_by_any_of_its_ids() -> None:
    jobs = parse_jobs(recorded("22.05", SCENES[0], "squeue.json"))
    assert [pick_job(jobs, text).job_id for text in ("1", "3_1", "6", "10", "10+1", "3_3")] == [1, 6, 6, 10, 11, 3]


def test_a_task_that_waits_is_found_in_its_arrays_record() -> None:
    whole = document("22.05")
    waiting = whole["jobs"][0] | {"job_id": 40, "array_job_id": 40, "array_task_id": None}
    jobs = parse_jobs(json.dumps(whole | {"jobs": [waiting | {"array_task_string": "0-8:4,11%2"}]}).encode())
    assert [pick_job(jobs, text).job_id for text in ("40_8", "40_11", "40")] == [40, 40, 40]
    with pytest.raises(UnknownJobError):
        pick_job(jobs, "40_7")


def test_a_job_that_is_not_shown_is_unknown() -> None:
    with pytest.raises(UnknownJobError):
        pick_job(parse_jobs(recorded("25.11", SCENES[0], "squeue.json")), "99")


@pytest.mark.parametrize(
    ("reason", "priority", "held_by"),
    [
        ("JobHeldAdmin", 0, HeldBy.ADMIN), ("JobHoldMaxRequeue", 0, HeldBy.SLURM), ("BadConstraints", 0, HeldBy.NOBODY),
        ("Priority", 5, HeldBy.NOBODY), ("Dependency", 0, HeldBy.UNKNOWN),
    ],
)  # fmt: skip
def test_who_holds_a_job_is_read_from_its_reason(reason: str, priority: int, held_by: HeldBy) -> None:
    whole = document("22.05")
    held = whole["jobs"][0] | {"state_reason": reason, "priority": priority}
    assert parse_jobs(json.dumps(whole | {"jobs": [held]}).encode())[0].held_by is held_by


@pytest.mark.parametrize("reason", ["JobHeldUser", "launch_failed_requeued_held", "launch failed requeued held"])
def test_a_job_that_slurm_gave_up_starting_is_held_by_nobody_else(reason: str) -> None:
    whole = document("22.05")
    said = {"state_reason": reason, "state_description": "launch failed requeued held", "priority": 0}
    (job,) = parse_jobs(json.dumps(whole | {"jobs": [whole["jobs"][0] | said]}).encode())
    assert (job.held_by, job.reason) == (HeldBy.SLURM, "launch_failed_requeued_held")


def test_a_job_that_was_requeued_held_keeps_its_holder() -> None:
    whole = document("22.05")
    said = {"state_reason": "JobHeldUser", "state_description": "job requeued in held state", "priority": 0}
    (job,) = parse_jobs(json.dumps(whole | {"jobs": [whole["jobs"][0] | said]}).encode())
    assert job.held_by is HeldBy.USER
