"""What is remembered of a job's attempts, and what of it counts once an attempt has ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.controllers.slurm.attempts import Attempts
from relance.slurm.records import AccountedJob, AccountedStep
from tests.unit.slurm.recorded import job_with

RUNNING = job_with(submitted_at=100, started_at=110, restart_count=0)
FAILED = replace(RUNNING, states=("FAILED",), ends_at=200)
STEP = AccountedStep(job_id=12, step_id="0", name="python", state="RUNNING")
ROW = AccountedJob(
    job_id=12, shown_id="12", name="llm", uid=1001, state="RUNNING", submitted_at=100, started_at=110, steps=(STEP,)
)


def test_what_steps_showed_while_a_job_ran_tells_nothing_of_who_ended_it() -> None:
    attempts = Attempts("alpha")
    attempts.meet(RUNNING)
    assert attempts.learn(RUNNING, [ROW], 0.0).steps
    assert attempts.meet(FAILED).steps is None
    # Neither accounting that is away nor one that lags behind makes it known.
    assert attempts.learn(FAILED, None, 1.0).steps is None
    assert attempts.learn(FAILED, [ROW], 2.0).steps is None
    ended = replace(STEP, state="CANCELLED", cancelled_by=1001, ended_at=200)
    told = attempts.learn(FAILED, [replace(ROW, state="FAILED", ended_at=200, steps=(ended,))], 3.0)
    assert [step.cancelled_by for step in told.steps or ()] == [1001]


AGAIN = job_with(submitted_at=300, started_at=310, restart_count=2)
FIRST_ROW = replace(ROW, state="REQUEUED", ended_at=150, steps=())
SECOND_ROW = replace(FIRST_ROW, submitted_at=200, started_at=210, ended_at=250)
CURRENT_ROW = replace(ROW, submitted_at=300, started_at=310)


def test_a_first_attempt_that_accounting_has_gives_the_job_its_key_at_once() -> None:
    attempts = Attempts("alpha")
    attempts.meet(AGAIN)
    known = attempts.learn(AGAIN, [FIRST_ROW, SECOND_ROW, CURRENT_ROW], 0.0)
    assert known.is_first_sure
    assert known.first_submitted_at is not None
    assert known.first_submitted_at.timestamp() == 100


@pytest.mark.parametrize(
    "rows", [[], [CURRENT_ROW], [SECOND_ROW, CURRENT_ROW]], ids=["nothing", "the current one", "all but the first"]
)
def test_however_often_accounting_answers_without_the_first_attempt_no_other_is_taken_for_it(
    rows: list[AccountedJob],
) -> None:
    attempts = Attempts("alpha")
    attempts.meet(AGAIN)
    for tries in range(10):
        assert attempts.learn(AGAIN, rows, tries * 1.9).first_submitted_at is None
    # Later it is told of, so that the cluster can be told of as a whole; but not as a job whose key is known.
    stand_in = attempts.learn(AGAIN, rows, 20.0)
    assert stand_in.first_submitted_at is not None
    assert not stand_in.is_first_sure
    assert attempts.owed(100.0) == ["12"]
    # slurmdbd has caught up.
    known = attempts.learn(AGAIN, [FIRST_ROW, SECOND_ROW, CURRENT_ROW], 100.0)
    assert known.is_first_sure
    assert known.first_submitted_at is not None
    assert known.first_submitted_at.timestamp() == 100
    assert {attempt.first_submitted_at for attempt in known.past} == {known.first_submitted_at}
    assert attempts.owed(100.0) == []


def test_accounting_that_is_away_tells_nothing_of_the_first_attempt_however_long_that_is() -> None:
    attempts = Attempts("alpha")
    attempts.meet(AGAIN)
    assert attempts.learn(AGAIN, None, 0.0).first_submitted_at is None
    assert attempts.learn(AGAIN, None, 1000.0).first_submitted_at is None


ENDED_ROW = replace(ROW, state="FAILED", ended_at=200)


def test_a_job_that_left_unseen_is_kept_until_accounting_tells_its_end() -> None:
    attempts = Attempts("alpha")
    attempts.meet(RUNNING)
    assert attempts.missed([], 1000.0) == ["12"]
    # Accounting is away, or has not heard of the end yet.
    attempts.bury("12", [], 1000.0)
    assert attempts.past(1000.0) == ()
    assert attempts.missed([], 1000.4) == ["12"]
    attempts.bury("12", [ROW], 1000.4)
    assert attempts.missed([], 1010.0) == ["12"]
    attempts.bury("12", [ENDED_ROW], 1010.0)
    assert [ended.ended_at.timestamp() for ended in attempts.past(1010.0) if ended.ended_at] == [200]
    assert attempts.missed([], 1011.0) == []


def test_the_end_of_a_job_that_left_unseen_is_asked_for_with_pauses_and_not_for_ever() -> None:
    attempts = Attempts("alpha")
    attempts.meet(RUNNING)
    asked = 0
    for second in range(3600):
        for raw_id in attempts.missed([], float(second)):
            attempts.bury(raw_id, [], float(second))
            asked += 1
    assert 10 <= asked <= 25
    assert attempts.missed([], 4000.0) == []


def test_a_job_that_was_seen_to_end_is_not_missed() -> None:
    attempts = Attempts("alpha")
    attempts.meet(RUNNING)
    attempts.meet(FAILED)
    assert attempts.missed([], 1000.0) == []


def test_a_job_that_is_listed_again_is_not_missed_any_more_and_one_that_has_its_id_does_not_hide_its_end() -> None:
    attempts = Attempts("alpha")
    attempts.meet(RUNNING)
    assert attempts.missed([], 1000.0) == ["12"]
    attempts.meet(RUNNING)
    assert attempts.missed(["12"], 1001.0) == []
    assert attempts.missed([], 1002.0) == ["12"]
    attempts.meet(replace(RUNNING, submitted_at=990, started_at=991))
    assert attempts.missed(["12"], 1003.0) == ["12"]
