from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain.records import JobRecord
from relance.domain.views import JobState, JobView
from relance.recovery.assigning import assignment
from relance.recovery.sites import ClusterRules
from tests.unit.recovery.situations import JOB, RUNNING


@pytest.mark.parametrize(
    ("view", "is_paused"),
    [
        (RUNNING, False),
        (replace(RUNNING, state=JobState.SUSPENDED), True),
        (replace(RUNNING, somebody_at_work="step 1 of ada is gdb"), True),
    ],
    ids=["it runs", "suspended", "somebody is at work"],
)
def test_no_progress_is_expected_of_a_job_that_people_have_stopped(view: JobView, is_paused: bool) -> None:
    record = JobRecord(job=JOB)
    assert assignment(record, view, ClusterRules(cluster=JOB.cluster), {}).is_paused is is_paused


@pytest.mark.parametrize("state", JobState)
def test_the_end_of_a_failed_attempts_logs_is_kept_before_anything_is_known_of_why(state: JobState) -> None:
    view = replace(RUNNING, state=state)
    kept = assignment(JobRecord(job=JOB), view, ClusterRules(cluster=JOB.cluster), {}).keep_tail
    assert kept is state.is_failure
