"""What a service is sent: the window as far as it is known, and never more than fits."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from relance.domain.views import JobState, JobView
from relance.providers.windows import request_of
from relance.testing.provider_contract import QUESTION

AT = QUESTION.case.attempt.job.submitted_at
JOB = JobView(
    raw_id="17", first_submitted_at=AT, submitted_at=AT, restart_count=1, name="train", user="ada", owner_uid=1000,
    partition="gpu", state=JobState.FAILED, nodes=("n1", "n2"), node_count=2,
    started_at=AT + timedelta(minutes=5), ended_at=AT + timedelta(minutes=40), steps=(),
)  # fmt: skip


def test_the_window_is_the_attempt_where_its_times_are_known() -> None:
    request = request_of(replace(QUESTION, case=replace(QUESTION.case, job=JOB)))
    assert request["window"] == {"start": "2026-03-01T12:05:00.000000Z", "end": "2026-03-01T12:40:00.000000Z"}


def test_the_window_of_an_attempt_that_runs_ends_now() -> None:
    running = replace(JOB, state=JobState.RUNNING, ended_at=None)
    request = request_of(replace(QUESTION, case=replace(QUESTION.case, job=running)))
    assert request["window"] == {"start": "2026-03-01T12:05:00.000000Z", "end": "2026-03-01T12:41:00.000000Z"}


def test_of_a_job_without_signs_the_window_is_the_minutes_before_now() -> None:
    request = request_of(replace(QUESTION, case=replace(QUESTION.case, findings=())))
    assert request["window"] == {"start": "2026-03-01T12:31:00.000000Z", "end": "2026-03-01T12:41:00.000000Z"}
    assert request["detection_signal"] == ""


def test_however_much_evidence_there_is_the_request_stays_small() -> None:
    (line,) = QUESTION.verdict.evidence
    verdict = replace(QUESTION.verdict, evidence=(line,) * 500)
    request = request_of(replace(QUESTION, verdict=verdict))
    assert len(json.dumps(request)) < 200_000
    assert len(request["excerpts"]) == 40  # type: ignore[arg-type]  # a list


def test_neither_the_owner_nor_the_place_of_the_logs_is_told_beyond_the_excerpts() -> None:
    request = request_of(replace(QUESTION, case=replace(QUESTION.case, job=JOB), user="ada"))
    assert "ada" not in json.dumps(request)
