"""Verification: success is a later step, and every incident finds its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain import events as e
from relance.domain.advice import Advice
from relance.domain.clocks import Stamp
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.progress import Progress
from relance.domain.records import JobRecord
from relance.domain.verdicts import Verdict
from relance.domain.views import JobState
from relance.recovery.intake import job_events
from relance.recovery.verify import verification, wake_at
from tests.unit.recovery.situations import AGAIN, FAILED, REQUEUED, RUNNING, at, evidence, folded, seen, with_incident

OLD = Progress(as_of=at(90), first_step=1, step=40, step_at=at(89), highest_step=40, steps_seen=40)


def _new(step: int, first: int = 31) -> Progress:
    return Progress(
        as_of=at(120), first_step=first, first_step_at=at(110), step=step, step_at=at(119), highest_step=step,
        steps_seen=step - first + 1,
    )  # fmt: skip


def _failed() -> JobRecord:
    return with_incident(seen(RUNNING, FAILED))


def _running_again() -> JobRecord:
    record = _failed()
    return folded(verification(evidence(record, AGAIN, at(108))), record)


def test_a_new_attempt_counts_as_restarted_after_two_seconds_and_not_before() -> None:
    record = _failed()
    assert verification(evidence(record, AGAIN, at(106))) == ()
    assert wake_at(evidence(record, AGAIN, at(106))) == at(107)
    (event,) = verification(evidence(record, AGAIN, at(107.5)))
    assert isinstance(event, e.AttemptRestarted)
    assert event.at.at == at(107)


def test_a_requeued_job_that_still_waits_proves_nothing() -> None:
    assert verification(evidence(_failed(), REQUEUED, at(400))) == ()


def test_the_first_step_and_the_step_beyond_the_highest_are_told_apart() -> None:
    record = _running_again()
    (first,) = verification(evidence(record, AGAIN, at(120), first=OLD, second=_new(35)))
    assert isinstance(first, e.ProgressResumed)
    assert (first.step, first.beyond) == (31, False)
    record = folded([first], record)
    (beyond,) = verification(evidence(record, AGAIN, at(130), first=OLD, second=_new(41)))
    assert isinstance(beyond, e.ProgressResumed)
    assert beyond.beyond
    (closed,) = verification(evidence(folded([beyond], record), AGAIN, at(130), first=OLD, second=_new(41)))
    assert isinstance(closed, e.IncidentClosed)
    assert closed.end is e.IncidentEnd.RECOVERED


def test_without_step_lines_the_new_attempt_is_left_as_unproven_after_ten_minutes() -> None:
    record = _running_again()
    assert verification(evidence(record, AGAIN, at(500))) == ()
    (closed,) = verification(evidence(record, AGAIN, at(706)))
    assert isinstance(closed, e.IncidentClosed)
    assert closed.end is e.IncidentEnd.RUNNING_UNPROVEN


def test_a_restart_that_stands_still_below_the_old_step_is_not_called_recovered() -> None:
    record = folded(
        verification(evidence(_running_again(), AGAIN, at(120), first=OLD, second=_new(35))), _running_again()
    )
    assert verification(evidence(record, AGAIN, at(9000), first=OLD, second=_new(40))) == ()


@pytest.mark.parametrize(
    ("state", "end"),
    [
        (JobState.COMPLETED, e.IncidentEnd.JOB_ENDED),
        (JobState.CANCELLED, e.IncidentEnd.LEFT),
        (JobState.TIMEOUT, e.IncidentEnd.LEFT),
        (JobState.FAILED, e.IncidentEnd.RELAPSED),
    ],
)
def test_the_end_of_the_next_attempt_ends_the_incident(state: JobState, end: e.IncidentEnd) -> None:
    ended = replace(AGAIN, state=state, ended_at=at(300))
    (closed,) = verification(evidence(_running_again(), ended, at(301)))
    assert isinstance(closed, e.IncidentClosed)
    assert closed.end is end


@pytest.mark.parametrize(
    ("view", "end"),
    [
        pytest.param(replace(FAILED, state=JobState.CANCELLED, cancelled_by=1000), e.IncidentEnd.LEFT, id="cancelled"),
        pytest.param(replace(FAILED, state=JobState.COMPLETED), e.IncidentEnd.JOB_ENDED, id="completed"),
        pytest.param(None, e.IncidentEnd.JOB_ENDED, id="the scheduler forgot it"),
    ],
)
def test_the_end_of_the_job_ends_the_incident(view: object, end: e.IncidentEnd) -> None:
    (closed,) = verification(evidence(_failed(), view, at(500)))  # type: ignore[arg-type]
    assert isinstance(closed, e.IncidentClosed)
    assert closed.end is end


def test_an_owner_who_cancelled_is_named_and_another_is_a_uid() -> None:
    for uid, who in ((FAILED.owner_uid, f"its owner {FAILED.user}"), (4711, "uid 4711"), (None, "somebody")):
        cancelled = replace(FAILED, state=JobState.CANCELLED, cancelled_by=uid)
        (closed,) = verification(evidence(_failed(), cancelled, at(500)))
        assert isinstance(closed, e.IncidentClosed)
        assert closed.reason == f"{who} cancelled the job"


def test_a_suspicion_that_heals_ends_by_itself() -> None:
    record = with_incident(seen(RUNNING))
    going_on = replace(OLD, step=50, step_at=at(100), highest_step=50, median_step_s=1.0)
    (closed,) = verification(evidence(record, RUNNING, at(101), first=going_on))
    assert isinstance(closed, e.IncidentClosed)
    assert closed.end is e.IncidentEnd.RECOVERED


def test_a_job_that_cannot_be_read_is_not_taken_for_gone() -> None:
    unseen = replace(evidence(_failed(), None, at(500)), looked=False)
    assert verification(unseen) == ()


def _said_to_be_healthy(record: JobRecord) -> JobRecord:
    """The record after a verdict and an advice on what it holds: nothing is wrong."""
    incident = record.incidents[-1]
    verdict = Verdict(
        domain=FaultDomain.NONE, cause="healthy", summary="no sign", remedy=Remedy.NONE, remedy_reason="nothing",
        confidence=0.8, fingerprint="fp",
    )  # fmt: skip
    advice = Advice(
        id="adv-1", incident_id=incident.id, attempt=incident.attempt, generation=1, action=Remedy.NONE,
        reasons=("nothing is wrong",), guards=(), issued_at=at(92), expires_at=at(500),
    )  # fmt: skip
    stamp = Stamp(at=at(92), clock="server")
    reached = e.VerdictReached(incident_id=incident.id, verdict=verdict, findings=len(incident.findings), at=stamp)
    return folded([reached, e.AdviceIssued(incident_id=incident.id, advice=advice, at=stamp)], record)


def test_what_was_said_of_a_running_attempt_does_not_end_the_incident_of_one_that_failed_since() -> None:
    record = _said_to_be_healthy(with_incident(seen(RUNNING)))
    assert verification(evidence(record, FAILED, at(101))) == (), "the history does not know the end yet"
    record = folded(job_events(record, FAILED, (), None, at(101)), record)
    assert len(record.incidents[-1].findings) == 2, "the end is a finding of its own"
    assert verification(evidence(record, FAILED, at(101))) == (), "the end is not judged yet"
    (closed,) = verification(evidence(_said_to_be_healthy(record), FAILED, at(102)))
    assert isinstance(closed, e.IncidentClosed)
