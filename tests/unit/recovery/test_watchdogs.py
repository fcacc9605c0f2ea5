"""What the watchdog did is our own doing: in the record of the job, at intake, and in what people are told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from relance.domain import events as e
from relance.domain.clocks import Stamp
from relance.domain.deeds import DeedState, WatchdogDeed, deed_id
from relance.domain.ledgers import Verb
from relance.domain.records import JobRecord, apply
from relance.domain.stages import Stage
from relance.recovery import wordings
from relance.recovery.intake import job_events
from relance.recovery.tellings import told
from relance.recovery.watchdogs import deed_events
from tests.unit.recovery.situations import AGAIN, FAILED, FIRST, REQUEUED, RUNNING, at, folded, seen

OURS = [DeedState.INTENDED, DeedState.SILENT, DeedState.DONE]
OTHERS = [DeedState.WOULD, DeedState.REFUSED, DeedState.NOT_SENT, DeedState.LOST]


def deed(state: DeedState, verb: Verb = Verb.REQUEUE, number: int = 1) -> WatchdogDeed:
    return WatchdogDeed(
        id=deed_id(FIRST, verb, number),
        attempt=FIRST,
        verb=verb,
        number=number,
        state=state,
        stage=Stage.ACT,
        argv=("scontrol", verb.value, FIRST.job.raw_id),
        restart_count=1,
        reason="Slurm is about to forget it",
        at=at(340),
        answered_at=at(341),
        text="",
    )


def told_of(record: JobRecord, *states: DeedState) -> JobRecord:
    for state in states:
        for event in deed_events(record, deed(state)):
            changed = apply(record, event)
            assert isinstance(changed, JobRecord)
            record = changed
    return record


def restarted(record: JobRecord) -> JobRecord:
    """The record after looks that show the next attempt wait and run."""
    for view, seconds in ((REQUEUED, 345), (AGAIN, 470)):
        record = folded(job_events(record, view, (), None, at(seconds)), record)
    return record


@pytest.mark.parametrize("state", OURS)
def test_a_restart_by_the_watchdog_is_ours_and_nobody_elses(state: DeedState) -> None:
    record = restarted(told_of(seen(RUNNING, FAILED), state))
    assert record.outside == ()
    assert record.attempts[-1].by_us
    assert record.incidents[0].by_watchdog
    assert record.incidents[0].restarted_by_us


@pytest.mark.parametrize("state", [*OTHERS, None])
def test_a_restart_that_no_deed_explains_is_somebody_elses(state: DeedState | None) -> None:
    record = restarted(told_of(seen(RUNNING, FAILED), *([state] if state else [])))
    assert record.outside == ("requeue: restart count is 1",)
    assert not record.attempts[-1].by_us
    assert not record.incidents[0].restarted_by_us


@pytest.mark.parametrize("last", OTHERS[1:])
def test_the_last_word_on_a_deed_decides(last: DeedState) -> None:
    record = told_of(seen(RUNNING, FAILED), DeedState.INTENDED, last, DeedState.DONE)
    assert [item.state for item in record.watchdog] == [last]
    assert not record.incidents[0].by_watchdog


def test_an_incident_that_opens_after_the_deed_knows_of_it_and_when_it_was_accepted() -> None:
    record = told_of(seen(RUNNING), DeedState.DONE)
    record = folded(job_events(record, FAILED, (), None, at(400)), record)
    incident = record.incidents[0]
    assert incident.by_watchdog
    assert incident.times.act == Stamp(at=at(341), clock="watchdog")


def test_a_release_restarts_nothing() -> None:
    record = seen(RUNNING, FAILED)
    changed = apply(record, e.WatchdogActed(attempt=FIRST, deed=deed(DeedState.DONE, Verb.RELEASE)))
    assert isinstance(changed, JobRecord)
    assert not changed.restarted_by_watchdog(FIRST)


def test_the_newest_deeds_of_a_job_are_kept() -> None:
    record = seen(RUNNING)
    for number in range(1, 31):
        changed = apply(record, e.WatchdogActed(attempt=FIRST, deed=deed(DeedState.NOT_SENT, number=number)))
        assert isinstance(changed, JobRecord)
        record = changed
    assert [item.number for item in record.watchdog] == list(range(11, 31))


@pytest.mark.parametrize("state", list(DeedState))
def test_each_state_of_a_deed_has_its_sentence(state: DeedState) -> None:
    words = wordings.deed(deed(state))
    assert "watchdog" in words
    assert "restarted attempt 1" in words
    telling = told(e.WatchdogActed(attempt=FIRST, deed=replace(deed(state), text="Access/permission denied")))
    assert (telling.title, telling.who) == (words, "watchdog")
    assert "scontrol requeue" in telling.detail
    assert "Access/permission denied" in telling.detail


def test_a_release_names_the_attempt_that_was_held() -> None:
    assert wordings.deed(deed(DeedState.DONE, Verb.RELEASE)) == "the watchdog released attempt 2"


def test_the_time_of_a_deed_is_when_it_was_intended() -> None:
    assert told(e.WatchdogActed(attempt=FIRST, deed=deed(DeedState.DONE))).at == at(340)
    assert deed(DeedState.DONE).answered_at == at(340) + timedelta(seconds=1)
