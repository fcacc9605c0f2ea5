from __future__ import annotations

from dataclasses import replace

import pytest

from relance.simulation import commands
from relance.simulation.commands import Refused
from relance.simulation.records import Job, JobState, from_json, to_json
from tests.unit.simulation.jobs import AROUND, FAILED, JOB, NOW, PENDING_AGAIN, RUNNING


def test_a_requeued_job_has_a_new_submit_time_and_may_not_start_for_two_minutes() -> None:
    job, must_end = commands.requeue(FAILED, hold=False, around=AROUND)
    assert not must_end
    assert (job.submit_time, job.eligible_time, job.restart_count) == (NOW, NOW + 120.0, 1)
    assert (job.state, job.reason, job.exit_code) == (JobState.PENDING, "BeginTime", "0:0")


def test_a_running_job_is_ended_first() -> None:
    job, must_end = commands.requeue(RUNNING, hold=True, around=AROUND)
    assert (must_end, job.after_completing) == (True, "requeuehold")


def test_a_pending_job_is_not_requeued() -> None:
    with pytest.raises(Refused, match="Job is pending execution"):
        commands.requeue(PENDING_AGAIN, hold=False, around=AROUND)


@pytest.mark.parametrize(("priority", "hold", "after"), [(77777, False, 77777), (77777, True, 0)])
def test_a_priority_survives_a_plain_requeue_and_not_a_held_one(priority: int, hold: bool, after: int) -> None:
    job = commands.made_pending(replace(FAILED, priority=priority), hold=hold, around=AROUND)
    assert job.priority == after


def test_released_after_a_held_requeue_the_job_has_the_default_priority() -> None:
    held = commands.made_pending(replace(FAILED, priority=77777), hold=True, around=AROUND)
    assert commands.release(held).priority == 1000


def test_root_holds_as_an_administrator() -> None:
    assert commands.hold(JOB, uid=0).reason == "JobHeldAdmin"
    assert commands.hold(JOB, uid=1001).reason == "JobHeldUser"


@pytest.mark.parametrize("job", [FAILED, replace(FAILED, state=JobState.CANCELLED)], ids=["failed", "cancelled"])
def test_a_finished_job_takes_no_update_hold_or_release(job: Job) -> None:
    with pytest.raises(Refused, match="Job has already finished"):
        commands.update(job, {"comment": "x"}, around=AROUND)
    with pytest.raises(Refused, match="Job has already finished"):
        commands.hold(job, uid=1001)
    with pytest.raises(Refused, match="Job has already finished"):
        commands.release(job)


def test_a_running_job_takes_comment_time_limit_and_requeue_only() -> None:
    job = commands.update(RUNNING, {"comment": "x", "time_limit_s": 60, "requeue": False}, around=AROUND)
    assert (job.comment, job.time_limit_s, job.requeue) == ("x", 60.0, False)
    refused: list[dict[str, object]] = [{"exclude": []}, {"start_time": "now"}, {"dependency": ""}, {"std_out": "a"}]
    for changes in refused:
        with pytest.raises(Refused, match="Job is no longer pending execution"):
            commands.update(RUNNING, changes, around=AROUND)


def test_an_update_is_taken_whole_or_not_at_all() -> None:
    with pytest.raises(Refused, match="Invalid node name specified"):
        commands.update(PENDING_AGAIN, {"comment": "x", "exclude": ["node001", "nosuch"]}, around=AROUND)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("now", NOW),
        ("now+30minutes", NOW + 1800),
        ("now+90", NOW + 90),
        ("now+1hour", NOW + 3600),
        ("now+2days", NOW + 172_800),
        ("2027-01-15T08:00:00", NOW),
        ("2027-01-15T09:00:00+01:00", NOW),
        (NOW + 5, NOW + 5),
    ],
)
def test_start_times_are_read_as_scontrol_reads_them(text: str | float, at: float) -> None:
    assert commands.point_in_time(text, NOW) == at


@pytest.mark.parametrize("text", ["soon", "now-5", "now+3weeks", None, True])
def test_other_start_times_are_refused(text: object) -> None:
    with pytest.raises(Refused, match="Invalid time specified"):
        commands.point_in_time(text, NOW)


@pytest.mark.parametrize(
    ("after_s", "start_time", "dies"),
    [(0.2, "now", True), (1.1, "now", False), (0.2, "now+30minutes", False)],
    ids=["at once", "after a second", "parked"],
)
def test_a_start_asked_for_too_early_kills_the_attempt(after_s: float, start_time: str, dies: bool) -> None:
    later = replace(AROUND, now=NOW + after_s)
    assert commands.update(PENDING_AGAIN, {"start_time": start_time}, around=later).revoked is dies


def test_a_cancel_between_requeue_and_start_wins() -> None:
    job, _ = commands.requeue(RUNNING, hold=False, around=AROUND)
    completing = replace(job, state=JobState.COMPLETING)
    cancelled, must_end = commands.cancel(completing, uid=1001, now=NOW)
    assert (cancelled.after_completing, cancelled.cancelled_by, must_end) == ("cancel", 1001, False)
    with pytest.raises(Refused, match="already completing or completed"):
        commands.cancel(FAILED, uid=1001, now=NOW)


def test_a_job_comes_back_from_json_as_it_was() -> None:
    assert from_json(Job, to_json(PENDING_AGAIN)) == PENDING_AGAIN
