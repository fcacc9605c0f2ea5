from __future__ import annotations

from datetime import timedelta

import pytest

from relance.domain.deeds import DeedState, under_way
from relance.domain.ledgers import Decided, Verb, apply
from relance.domain.views import Hold, JobState, JobView
from relance.slurm.records import AccountedJob, AccountedStep
from relance.watchdog.decisions import Want, decide
from relance.watchdog.settling import settled, who_decided, why_not_now
from tests.unit.watchdog.grounds import (
    DUE,
    ENDED,
    SUBMITTED,
    after,
    began,
    deed,
    did,
    failed,
    ground,
    held,
    intended,
    key,
    taken,
)

SENT = after(1241)
UNDER_WAY, OVER = SENT + timedelta(seconds=14), SENT + timedelta(seconds=15)


@pytest.mark.parametrize("state", [DeedState.INTENDED, DeedState.SILENT])
@pytest.mark.parametrize(
    ("verb", "job", "soon", "later"),
    [
        (Verb.REQUEUE, failed(), None, DeedState.LOST),
        (Verb.REQUEUE, held(hold=Hold.NONE), DeedState.DONE, DeedState.DONE),
        (Verb.REQUEUE, failed(restart_count=2), DeedState.DONE, DeedState.DONE),
        (Verb.REQUEUE, None, None, DeedState.LOST),
        (Verb.RELEASE, held(), None, DeedState.LOST),
        (Verb.RELEASE, held(hold=Hold.NONE), DeedState.DONE, DeedState.DONE),
        (Verb.RELEASE, held(restart_count=2), DeedState.DONE, DeedState.DONE),
        (Verb.RELEASE, failed(), None, DeedState.LOST),
    ],
)
def test_what_nobody_answered_for_is_settled_by_looking(
    state: DeedState, verb: Verb, job: JobView | None, soon: DeedState | None, later: DeedState
) -> None:
    open_deed = deed(state, verb)
    assert settled(open_deed, job, UNDER_WAY).state is (soon or state)
    assert settled(open_deed, job, OVER).state is later


@pytest.mark.parametrize("state", [state for state in DeedState if state.is_final])
def test_the_last_word_on_a_deed_stays(state: DeedState) -> None:
    told = deed(state)
    assert settled(told, None, after(1e6)) is told


def test_a_deed_is_in_the_way_while_its_command_may_arrive() -> None:
    assert under_way((deed(DeedState.SILENT),), key(), UNDER_WAY) is not None
    assert under_way((deed(DeedState.SILENT),), key(), OVER) is None
    assert under_way((deed(DeedState.SILENT),), key("18"), UNDER_WAY) is None
    assert under_way((deed(DeedState.DONE),), key(), UNDER_WAY) is None


def test_a_deed_from_the_future_is_in_the_way_no_longer_than_one_from_the_past() -> None:
    assert under_way((deed(DeedState.SILENT),), key(), SENT - timedelta(hours=1)) is None


def _want() -> Want:
    (want,) = decide(ground(taken()))
    assert isinstance(want, Want)
    return want


def test_a_want_stands_while_the_last_look_shows_the_same() -> None:
    assert why_not_now(_want(), ground(taken()), failed()) == ""


@pytest.mark.parametrize(
    "job",
    [
        None,
        failed(restart_count=1, submitted_at=after(1239)),
        failed(submitted_at=after(1239)),
        failed(state=JobState.PENDING),
        failed(state=JobState.NODE_FAIL),
        failed("18"),
        failed(preempted_at=after(990)),
    ],
)
def test_a_want_falls_when_the_last_look_shows_another_job_state_or_attempt(job: JobView | None) -> None:
    assert why_not_now(_want(), ground(taken()), job)


def test_a_want_falls_when_the_controller_has_begun_or_decided_meanwhile() -> None:
    assert why_not_now(_want(), ground(taken(), began(), alive_at=DUE), failed())
    fresh = ground(taken())
    decided = apply(fresh.ledger, Decided(attempt=str(key()), reason="stop", at=DUE))
    assert why_not_now(_want(), ground(taken(), ledger=decided), failed())


def test_a_release_falls_when_the_controller_goes_on() -> None:
    hold = (began(), intended(Verb.REQUEUE_HELD), did(Verb.REQUEUE_HELD))
    before = ground(*hold, jobs=(held(),), at=after(1100))
    (want,) = decide(before)
    assert isinstance(want, Want)
    assert why_not_now(want, before, held()) == ""
    goes_on = ground(*hold, intended(Verb.RELEASE, 2, at=after(1099)), jobs=(held(),), at=after(1100))
    assert why_not_now(want, goes_on, held())


def _row(**changes: object) -> AccountedJob:
    facts: dict[str, object] = {
        "job_id": 17,
        "shown_id": "17",
        "name": "train-17",
        "state": "FAILED",
        "submitted_at": int(SUBMITTED.timestamp()),
        "ended_at": int(ENDED.timestamp()),
    }
    return AccountedJob(**(facts | changes))  # type: ignore[arg-type]  # a row's own fields


def test_accounting_that_tells_a_plain_end_speaks_against_nothing() -> None:
    step = AccountedStep(job_id=17, step_id="0", name="train", state="FAILED")
    told = who_decided(failed(), (_row(steps=(step,)),))
    assert (told.reason, told.is_final) == ("", False)


@pytest.mark.parametrize(
    "row",
    [
        _row(cancelled_by=1001, state="CANCELLED"),
        _row(state="PREEMPTED"),
        _row(state="COMPLETED"),
        _row(steps=(AccountedStep(job_id=17, step_id="0", name="train", state="CANCELLED", cancelled_by=0),)),
    ],
)
def test_somebody_who_ended_it_or_a_step_of_it_has_decided(row: AccountedJob) -> None:
    told = who_decided(failed(), (row,))
    assert told.reason
    assert told.is_final


@pytest.mark.parametrize(
    "rows",
    [(), (_row(ended_at=None),), (_row(submitted_at=5),), (_row(job_id=18),)],
    ids=["none", "runs", "old", "other"],
)
def test_accounting_that_does_not_tell_the_end_is_no_word_that_nobody_decided(rows: tuple[AccountedJob, ...]) -> None:
    told = who_decided(failed(), rows)
    assert told.reason
    assert not told.is_final
