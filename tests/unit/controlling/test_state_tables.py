"""The state table of design 10: all states and counts, its conditions, and the page that shows it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from relance.controlling.state_tables import CONDITIONS, TABLE, Case, Course, held, parked_by_us, ruling
from relance.domain.advice import Advice
from relance.domain.faults import Remedy
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.ledgers import Expected, Parked
from relance.domain.stages import EndRunning
from relance.domain.views import Hold, JobState, JobView, PastAttempt, StepView
from tests.layers import ROOT

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
JOB = JobView(
    raw_id="17",
    first_submitted_at=T0,
    submitted_at=T0 + timedelta(hours=1),
    restart_count=2,
    name="llama",
    user="ada",
    owner_uid=1001,
    partition="train",
    state=JobState.FAILED,
    started_at=T0 + timedelta(hours=2),
    requeue_allowed=True,
    steps=(),
)
ADVICE = Advice(
    id="adv",
    incident_id="inc",
    attempt=AttemptKey(job=JobKey(cluster="alpha", raw_id="17", submitted_at=T0), restart_count=2),
    generation=1,
    action=Remedy.RESTART,
    reasons=(),
    guards=(),
    issued_at=T0,
    expires_at=T0 + timedelta(hours=9),
)
BEFORE = PastAttempt(raw_id="17", first_submitted_at=T0, restart_count=2, state=JobState.REQUEUED)
CASE = Case(cluster="alpha", advice=ADVICE, job=JOB, base_count=2, consent=frozenset(), past=(BEFORE,))
HIGHER = replace(JOB, restart_count=3, state=JobState.PENDING, submitted_at=T0 + timedelta(hours=3), started_at=None)
STOP = replace(ADVICE, action=Remedy.STOP, cancels_running=True)
ENDS = replace(ADVICE, ends_running=EndRunning.HANG)
FAILURES = {JobState.FAILED, JobState.NODE_FAIL, JobState.OUT_OF_MEMORY, JobState.BOOT_FAIL}


def course(case: Case) -> Course:
    return ruling(case).course


@pytest.mark.parametrize("state", list(JobState))
def test_an_attempt_that_ended_is_restarted_after_a_failure_and_after_nothing_else(state: JobState) -> None:
    wanted = Course.TRANSACTION if state in FAILURES else Course.NOTHING
    assert course(replace(CASE, job=replace(JOB, state=state))) is wanted


@pytest.mark.parametrize("state", list(JobState))
def test_a_job_that_somebody_restarted_first_is_constrained_while_it_waits_and_at_no_other_time(
    state: JobState,
) -> None:
    wanted = Course.CONSTRAIN if state is JobState.PENDING else Course.NOTHING
    assert course(replace(CASE, job=replace(HIGHER, state=state))) is wanted


@pytest.mark.parametrize("state", list(JobState))
def test_a_stop_cancels_what_runs_and_nothing_else(state: JobState) -> None:
    wanted = Course.CANCEL if state is JobState.RUNNING else Course.NOTHING
    assert course(replace(CASE, advice=STOP, job=replace(JOB, state=state))) is wanted


@pytest.mark.parametrize("state", list(JobState))
@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_any_other_restart_count_means_that_somebody_else_was_at_it(state: JobState, count: int) -> None:
    assert course(replace(CASE, job=replace(JOB, state=state, restart_count=count))) is Course.NOTHING


@pytest.mark.parametrize(
    ("consent", "wanted"),
    [
        (frozenset({EndRunning.HANG}), Course.TRANSACTION),
        (frozenset({EndRunning.DEAD_RANK}), Course.NOTHING),
        (None, Course.TRANSACTION),
    ],
)
def test_a_running_attempt_needs_the_consent_of_its_kind(consent: frozenset[EndRunning] | None, wanted: Course) -> None:
    case = replace(CASE, advice=ENDS, job=replace(JOB, state=JobState.RUNNING), consent=consent)
    assert course(case) is wanted


EXPECTED = Expected(
    raw_id="17", restart_count=2, submitted_at=JOB.submitted_at, state=JobState.FAILED, started_at=JOB.started_at
)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"submitted_at": JOB.submitted_at + timedelta(seconds=2)}, "the submit time has changed"),
        ({"state": JobState.NODE_FAIL}, "it was failed and is node_fail now"),
        ({"first_submitted_at": T0 + timedelta(seconds=1)}, "the id 17 belongs to another job now"),
    ],
)
def test_a_job_that_is_not_as_it_was_prepared_for_is_left(change: dict[str, object], reason: str) -> None:
    found = ruling(replace(CASE, expected=EXPECTED, job=replace(JOB, **change)))  # type: ignore[arg-type]
    assert found.course is Course.NOTHING
    assert reason in found.reason


def test_a_submit_time_that_another_query_gives_in_whole_seconds_is_the_same() -> None:
    job = replace(JOB, submitted_at=JOB.submitted_at + timedelta(milliseconds=900))
    assert course(replace(CASE, expected=EXPECTED, job=job)) is Course.TRANSACTION


def past(state: JobState) -> tuple[PastAttempt, ...]:
    return (replace(BEFORE, state=state),)


RUNNING = replace(JOB, state=JobState.RUNNING)
CASES_AGAINST: dict[str, tuple[Case, ...]] = {
    "somebody decided": (
        replace(CASE, job=replace(JOB, cancelled_by=0)),
        replace(CASE, job=replace(JOB, preempted_at=T0)),
        replace(CASE, job=replace(JOB, steps=(StepView(name="0", state=JobState.CANCELLED, cancelled_by=1001),))),
        replace(CASE, job=HIGHER, past=past(JobState.PREEMPTED)),
        replace(CASE, job=HIGHER, past=past(JobState.CANCELLED)),
    ),
    "step rows unread": (
        replace(CASE, job=replace(JOB, steps=None)),
        replace(CASE, advice=ENDS, consent=None, job=replace(RUNNING, steps=None)),
        replace(CASE, advice=STOP, job=replace(RUNNING, steps=None)),
    ),
    "attempt before untold": (replace(CASE, job=HIGHER, past=()),),
    "only watched": (
        replace(CASE, job=replace(JOB, only_watched="it is interactive")),
        replace(CASE, advice=ENDS, consent=None, job=replace(RUNNING, only_watched="it is interactive")),
        replace(CASE, advice=STOP, job=replace(RUNNING, only_watched="it is interactive")),
        replace(CASE, job=replace(HIGHER, only_watched="it is interactive")),
    ),
    "no requeue allowed": (replace(CASE, job=replace(JOB, requeue_allowed=False)),),
    "made for a running attempt": (replace(CASE, advice=ENDS),),
    "no consent": (replace(CASE, job=RUNNING), replace(CASE, advice=ENDS, job=RUNNING)),
    "another start": (
        replace(
            CASE,
            advice=ENDS,
            consent=frozenset({EndRunning.HANG}),
            job=replace(RUNNING, started_at=T0),
            expected=replace(EXPECTED, state=JobState.RUNNING),
        ),
    ),
    "somebody at work": (
        replace(
            CASE, advice=ENDS, consent=None, job=replace(RUNNING, somebody_at_work="step 17.1 of ada: gdb on rank 0")
        ),
    ),
    "held": tuple(replace(CASE, job=replace(HIGHER, hold=hold)) for hold in (Hold.USER, Hold.ADMIN, Hold.UNKNOWN)),
    "not parked by us": (replace(CASE, job=replace(JOB, state=JobState.PENDING)),),
    "no right to cancel": (replace(CASE, advice=replace(STOP, cancels_running=False), job=RUNNING),),
}


@pytest.mark.parametrize("name", list(CONDITIONS))
def test_each_condition_speaks_against_it_with_a_sentence_and_nothing_is_done(name: str) -> None:
    for case in CASES_AGAINST[name]:
        sentence = CONDITIONS[name](case)
        assert sentence
        found = ruling(case)
        assert (found.course, found.reason) == (Course.NOTHING, sentence)


def test_a_hold_that_cannot_be_read_is_not_called_a_hold() -> None:
    assert held(replace(HIGHER, hold=Hold.UNKNOWN)) == "whether somebody holds it cannot be read"


def test_a_hold_of_the_schedulers_own_is_nobody_elses() -> None:
    told = held(replace(HIGHER, hold=Hold.SCHEDULER, reason="launch_failed_requeued_held"))
    assert told == "the scheduler gave up starting it and holds it (launch_failed_requeued_held)"


def test_the_wait_of_a_parked_job_is_ours_only_while_its_time_is_the_one_that_we_gave_it() -> None:
    until = T0 + timedelta(hours=5)
    parked = Parked(action_id="act", job="alpha/17", until=until, at=T0)
    waiting = replace(JOB, state=JobState.PENDING, eligible_at=until)
    assert parked_by_us(waiting, parked)
    assert course(replace(CASE, job=waiting, parked=parked)) is Course.CONSTRAIN
    for other in (until + timedelta(minutes=1), None):
        assert not parked_by_us(replace(waiting, eligible_at=other), parked)
    assert not parked_by_us(waiting, None)


def test_the_page_shows_the_table_as_it_is() -> None:
    page = (ROOT / "docs" / "explanation" / "transaction.md").read_text()
    section = page.split("## What the state that was read allows")[1].split("\n## ")[0]
    shown = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith(("| restart", "| constrain a", "| stop"))
    ]
    wanted = [
        [
            row.wants.value,
            row.count.value,
            ", ".join(state.value.upper() for state in row.states),
            row.course.value,
            ", ".join(row.unless),
        ]
        for row in TABLE
    ]
    assert shown == wanted
