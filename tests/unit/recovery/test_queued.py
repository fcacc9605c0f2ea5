from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain.views import Hold, JobView
from relance.recovery.queued import held_by_scheduler, queued
from tests.unit.recovery.situations import REQUEUED, at

NOW = at(200)


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (replace(REQUEUED, reason="QOSMaxJobsPerUserLimit"), "waits for a limit of its QOS (QOSMaxJobsPerUserLimit)"),
        (replace(REQUEUED, reason="AssocGrpGRES"), "waits for a limit of its account (AssocGrpGRES)"),
        (replace(REQUEUED, reason="Licenses"), "waits for a licence that is not free (Licenses)"),
        (
            replace(REQUEUED, reason="BeginTime", eligible_at=at(300)),
            "waits for its start time (BeginTime), 11:05:00 UTC",
        ),
        (
            replace(REQUEUED, reason="Resources", expected_at=at(600)),
            "waits for nodes that are busy (Resources); the scheduler plans to start it at 11:10:00 UTC",
        ),
        (replace(REQUEUED, reason="Priority", expected_at=at(100)), "waits for jobs that come before it (Priority)"),
        (replace(REQUEUED, reason="SomethingNew"), "waits in the queue (SomethingNew)"),
        (replace(REQUEUED, reason=""), "waits in the queue (no reason given)"),
    ],
)
def test_waiting_is_said_in_plain_words_with_the_schedulers_own(view: JobView, words: str) -> None:
    assert queued(view, NOW) == words


def test_a_plan_that_changes_makes_no_other_view() -> None:
    assert replace(REQUEUED, expected_at=at(600)) == REQUEUED


def test_what_can_be_done_about_a_job_that_the_scheduler_gave_up_starting_is_said() -> None:
    job = replace(REQUEUED, hold=Hold.SCHEDULER, reason="launch_failed_requeued_held", expected_at=at(600))
    assert queued(job, NOW).startswith("waits for somebody to release it: the scheduler could not start it")
    assert "plans to start" not in queued(job, NOW), "Slurm shows a start time all the same, and never starts it"
    for words in (f"`scontrol release {job.raw_id}`", f"`scancel {job.raw_id}`", "nothing by us"):
        assert words in held_by_scheduler(job)
    assert held_by_scheduler(replace(job, hold=Hold.USER)) == ""
