"""Somebody decides about an attempt between our read of it and our requeue: the wish stands, whatever we had begun."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.controlling.moves import Answered, End, Saw, Send, Transaction
from relance.controlling.sequences import advance
from relance.domain.advice import ActionEnd
from relance.domain.ledgers import Outcome, Verb
from relance.domain.views import JobState, PastAttempt
from tests.unit.controlling.test_sequences import FAILED, PENDING, REPORT, UPDATE, WRITE, moment

REQUEUED = PastAttempt(
    raw_id="17", first_submitted_at=FAILED.first_submitted_at, restart_count=0, state=JobState.REQUEUED
)


def knowing(*past: PastAttempt) -> Transaction:
    """A transaction about to write, that looked when accounting said this."""
    return replace(WRITE, report=replace(REPORT, past=past))


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (replace(REQUEUED, state=JobState.CANCELLED), "was cancelled"),
        (replace(REQUEUED, state=JobState.CANCELLED, cancelled_by=1001), "was cancelled by uid 1001"),
        (replace(REQUEUED, cancelled_by=1001), "was cancelled by uid 1001"),
    ],
    ids=("cancelled", "cancelled by a uid", "requeued, and cancelled by a uid"),
)
def test_what_we_revived_is_cancelled_before_it_starts(before: PastAttempt, words: str) -> None:
    turn = advance(knowing(before), Saw(job=PENDING), moment())
    assert turn.step == Send(verb=Verb.CANCEL, restart_count=1)
    assert words in turn.notes[0].detail
    sent = advance(turn.transaction, Answered(outcome=Outcome.DONE), moment())
    ended = advance(sent.transaction, Saw(job=replace(PENDING, state=JobState.CANCELLED)), moment())
    assert isinstance(ended.step, End)
    assert ended.step.end is ActionEnd.ABANDONED
    assert ended.step.reason.startswith("our pending attempt was cancelled: ")
    assert words in ended.step.reason


def test_what_the_scheduler_preempted_and_requeued_is_left_to_it() -> None:
    turn = advance(knowing(replace(REQUEUED, state=JobState.PREEMPTED)), Saw(job=PENDING), moment())
    assert isinstance(turn.step, End)
    assert turn.step.end is ActionEnd.ABANDONED
    assert turn.step.reason == "left as it is: accounting says that the attempt before was preempted"


@pytest.mark.parametrize(
    "past",
    [
        (),
        (REQUEUED,),
        (replace(REQUEUED, state=JobState.FAILED),),
        (replace(REQUEUED, raw_id="18", state=JobState.CANCELLED),),
        (replace(REQUEUED, restart_count=3, state=JobState.CANCELLED),),
    ],
    ids=("untold", "requeued", "failed", "of another job", "of another attempt"),
)
def test_what_nobody_decided_about_goes_on(past: tuple[PastAttempt, ...]) -> None:
    assert advance(knowing(*past), Saw(job=PENDING), moment()).step == UPDATE


def test_what_somebody_else_requeued_is_not_ours_to_cancel() -> None:
    theirs = replace(knowing(replace(REQUEUED, state=JobState.CANCELLED)), requeued_by_us=False)
    assert advance(theirs, Saw(job=PENDING), moment()).step == UPDATE
