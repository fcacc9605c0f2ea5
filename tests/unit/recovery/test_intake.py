"""Intake: what looks and findings become."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relance.domain import events as e
from relance.domain.advice import ActionKind, Effect
from relance.domain.findings import Certainty, FindingKind
from relance.domain.incidents import Action
from relance.domain.records import JobRecord, NodeRecord
from relance.domain.stages import Stage
from relance.domain.views import Hold, JobState, NodeState, NodeView, PastAttempt
from relance.recovery.intake import finding_events, job_events, node_events
from tests.unit.recovery.situations import (
    AGAIN,
    AT,
    FAILED,
    FIRST,
    JOB,
    REQUEUED,
    RUNNING,
    SECOND,
    at,
    crash,
    folded,
    seen,
    with_incident,
)


def _names(events: tuple[e.JobEvent, ...]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_a_new_running_job_is_seen_and_its_attempt_started() -> None:
    record = seen(RUNNING)
    assert record.name == "train"
    assert record.attempts[0].nodes == ("n1", "n2")


def test_the_same_look_again_adds_nothing() -> None:
    assert job_events(seen(RUNNING), RUNNING, (), None, at(2)) == ()
    assert job_events(seen(RUNNING, FAILED), FAILED, (), None, at(101)) == ()


def test_a_failed_attempt_is_a_finding_and_opens_an_incident() -> None:
    events = job_events(seen(RUNNING), FAILED, (), None, at(100))
    assert _names(events) == ["AttemptEnded", "FindingReported", "IncidentOpened"]


@pytest.mark.parametrize(
    "state", [JobState.COMPLETED, JobState.CANCELLED, JobState.TIMEOUT, JobState.PREEMPTED, JobState.DEADLINE]
)
def test_an_end_that_somebody_wanted_opens_nothing(state: JobState) -> None:
    events = job_events(seen(RUNNING), replace(FAILED, state=state), (), None, at(100))
    assert "IncidentOpened" not in _names(events)
    assert "AttemptEnded" in _names(events)


def test_a_cancel_a_hold_and_a_time_limit_are_recorded_as_outside_changes_once() -> None:
    cancelled = replace(FAILED, state=JobState.CANCELLED, cancelled_by=0)
    record = seen(RUNNING, cancelled)
    assert record.outside == ("cancel: attempt 0",)
    assert job_events(record, cancelled, (), None, at(120)) == ()
    assert seen(RUNNING, replace(RUNNING, hold=Hold.USER)).outside == ("hold: attempt 0 by user",)
    assert seen(RUNNING, replace(FAILED, state=JobState.TIMEOUT)).outside == ("timeout: attempt 0",)


def test_a_requeue_that_is_not_ours_is_an_outside_change_and_ends_the_attempt_before() -> None:
    record = seen(RUNNING, REQUEUED)
    assert record.outside == ("requeue: restart count is 1",)
    assert record.attempts[0].outcome is JobState.REQUEUED


def test_a_second_restart_that_nobody_explains_puts_the_job_at_observe() -> None:
    third = replace(AGAIN, restart_count=2, submitted_at=at(201), started_at=at(205))
    record = seen(RUNNING, REQUEUED, AGAIN)
    assert record.switch is None
    record = seen(RUNNING, REQUEUED, AGAIN, third)
    assert record.switch is Stage.OBSERVE
    assert job_events(record, third, (), None, at(206)) == ()


def test_the_scheduler_s_own_requeue_after_a_lost_node_is_nobody_s_engine() -> None:
    lost = replace(FAILED, state=JobState.NODE_FAIL)
    record = seen(RUNNING, lost, AGAIN, replace(lost, restart_count=1, ended_at=at(190)))
    third = replace(AGAIN, restart_count=2, submitted_at=at(201), started_at=at(205))
    record = folded(job_events(record, third, (), None, at(206)), record)
    assert record.switch is None
    assert record.outside == (
        "requeue: by the scheduler: restart count is 1",
        "requeue: by the scheduler: restart count is 2",
    )


def test_attempts_missed_while_nobody_looked_are_filled_in_from_accounting() -> None:
    row = PastAttempt(
        raw_id="17", first_submitted_at=RUNNING.first_submitted_at, restart_count=1, state=JobState.NODE_FAIL,
        nodes=("n3",), started_at=at(50), ended_at=at(60),
    )  # fmt: skip
    third = replace(RUNNING, restart_count=2, submitted_at=at(61), started_at=at(62))
    record = seen(RUNNING)
    record = folded(job_events(record, third, (row,), None, at(70)), record)
    assert [(item.attempt.restart_count, item.outcome) for item in record.attempts] == [
        (0, JobState.REQUEUED),
        (1, JobState.NODE_FAIL),
        (2, None),
    ]


def test_the_same_finding_twice_is_stored_once() -> None:
    record = with_incident(seen(RUNNING))
    assert finding_events(record, (crash(),), at(92)) == ()


def test_two_findings_in_one_batch_open_one_incident() -> None:
    events = finding_events(seen(RUNNING), (crash(number=1), crash(number=2)), at(91))
    assert _names(events) == ["FindingReported", "IncidentOpened", "FindingReported", "FindingAttached"]


def test_a_node_s_health_alone_opens_nothing_but_joins_what_is_open() -> None:
    sign = replace(crash(number=9), kind=FindingKind.NODE_HEALTH, certainty=Certainty.SUSPECTED)
    assert _names(finding_events(seen(RUNNING), (sign,), at(91))) == ["FindingReported"]
    assert _names(finding_events(with_incident(seen(RUNNING)), (sign,), at(91))) == [
        "FindingReported",
        "FindingAttached",
    ]


def test_the_next_attempt_s_own_finding_ends_the_older_incident_as_relapsed() -> None:
    record = with_incident(seen(RUNNING, FAILED))
    record = folded(job_events(record, AGAIN, (), None, at(106)), record)
    record = folded(finding_events(record, (crash(SECOND),), at(110)), record)
    assert [item.end for item in record.incidents] == [e.IncidentEnd.RELAPSED, None]
    assert record.incidents[0].end_reason == "attempt 2 has an incident of its own"
    assert record.open_incident is not None
    assert record.open_incident.attempt == SECOND


def test_a_late_finding_on_an_attempt_that_was_replaced_opens_nothing() -> None:
    record = seen(RUNNING, REQUEUED, AGAIN)
    assert _names(finding_events(record, (crash(FIRST),), at(120))) == ["FindingReported"]


def test_an_attempt_that_was_dealt_with_is_not_opened_again() -> None:
    record = seen(RUNNING, FAILED)
    incident = record.incidents[0]
    closed = e.IncidentClosed(incident_id=incident.id, end=e.IncidentEnd.STOPPED, reason="no use", at=at(110))
    record = folded([closed], record)
    assert _names(finding_events(record, (crash(FIRST),), at(120))) == ["FindingReported"]


def test_nodes_that_only_come_and_go_with_work_are_no_events() -> None:
    record = NodeRecord(cluster="alpha", node="n1")
    idle = NodeView(name="n1", state=NodeState.IDLE)
    assert node_events("alpha", record, idle, at(1)) == ()
    assert node_events("alpha", record, replace(idle, state=NodeState.ALLOCATED), at(1)) == ()
    (event,) = node_events("alpha", record, replace(idle, state=NodeState.DOWN, reason="Not responding"), at(1))
    assert isinstance(event, e.NodeChanged)
    assert event.reason == "Not responding"


def row(state: JobState, **fields: Any) -> PastAttempt:  # noqa: ANN401 - fields of a row
    """What accounting tells of the first attempt."""
    first = PastAttempt(
        raw_id="17", first_submitted_at=AT, restart_count=0, state=state, nodes=("n1", "n2"), started_at=at(1),
        ended_at=at(100),
    )  # fmt: skip
    return replace(first, **fields)


def test_a_failure_that_was_requeued_before_anybody_looked_is_a_finding_all_the_same() -> None:
    events = job_events(seen(RUNNING), REQUEUED, (row(JobState.NODE_FAIL),), None, at(101))
    names = [type(event).__name__ for event in events]
    assert names == ["AttemptEnded", "OutsideChangeSeen", "FindingReported", "IncidentOpened"]
    assert [event.who for event in events if isinstance(event, e.OutsideChangeSeen)] == ["scheduler"]


def test_an_old_failure_of_a_job_that_is_seen_for_the_first_time_opens_nothing() -> None:
    events = job_events(JobRecord(job=JOB), AGAIN, (row(JobState.NODE_FAIL),), None, at(110))
    assert not any(isinstance(event, e.IncidentOpened) for event in events)


def test_what_accounting_tells_late_of_an_attempt_that_only_showed_as_requeued_is_taken() -> None:
    record = folded(job_events(seen(RUNNING), REQUEUED, (), None, at(101)), seen(RUNNING))
    assert record.attempts[0].outcome is JobState.REQUEUED
    late = job_events(record, REQUEUED, (row(JobState.PREEMPTED),), None, at(110))
    assert folded(late, record).attempts[0].outcome is JobState.PREEMPTED
    assert job_events(folded(late, record), REQUEUED, (row(JobState.PREEMPTED),), None, at(111)) == ()
    assert job_events(record, REQUEUED, (row(JobState.REQUEUED),), None, at(110)) == ()


def test_requeues_after_lost_nodes_between_looks_are_no_other_engine() -> None:
    record = seen(RUNNING)
    record = folded(job_events(record, AGAIN, (row(JobState.NODE_FAIL),), None, at(106)), record)
    third = replace(AGAIN, restart_count=2, submitted_at=at(201), started_at=at(205))
    rows = (row(JobState.NODE_FAIL), row(JobState.NODE_FAIL, restart_count=1))
    events = job_events(record, third, rows, None, at(206))
    assert not any(isinstance(event, e.JobSwitched) for event in events)


def test_a_requeue_that_accounting_explains_late_is_no_sign_of_another_engine() -> None:
    record = seen(RUNNING)
    record = folded(job_events(record, AGAIN, (), None, at(106)), record)
    record = folded(job_events(record, AGAIN, (row(JobState.NODE_FAIL),), None, at(110)), record)
    third = replace(AGAIN, restart_count=2, submitted_at=at(201), started_at=at(205))
    events = job_events(record, third, (row(JobState.NODE_FAIL),), None, at(206))
    assert not any(isinstance(event, e.JobSwitched) for event in events)
    fourth = replace(third, restart_count=3, submitted_at=at(301), started_at=at(305))
    events = job_events(folded(events, record), fourth, (row(JobState.NODE_FAIL),), None, at(306))
    assert any(isinstance(event, e.JobSwitched) for event in events), "two that nothing explains"


def test_a_hold_and_its_release_are_recorded_once_each() -> None:
    held = replace(REQUEUED, hold=Hold.USER)
    record = seen(RUNNING, held, held, REQUEUED, REQUEUED)
    assert [text.split(":")[0] for text in record.outside] == ["requeue", "hold", "release"]


@pytest.mark.parametrize(("end", "told"), [(None, []), ("ActionUnknown", []), ("ActionAbandoned", ["hold"])])
def test_a_hold_while_a_restart_of_ours_is_under_way_is_nobody_elses(end: str | None, told: list[str]) -> None:
    record = seen(RUNNING, FAILED)
    action = Action(
        id="act-1", advice_id="adv-1", generation=1, kind=ActionKind.RESTART,
        effect=Effect(summary="", commands=(), digest=""), holder="controller-1", stage="act", started_at=at(101),
        end=end,
    )  # fmt: skip
    record = replace(record, incidents=tuple(replace(item, action=action) for item in record.incidents))
    events = job_events(record, replace(REQUEUED, hold=Hold.USER), (), None, at(102))
    changes = [event.change for event in events if isinstance(event, e.OutsideChangeSeen)]
    assert [change for change in changes if change == "hold"] == told
