"""The state machine alone: what it asks for next, for what it saw in which phase."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from relance.controlling.moves import (
    Answered,
    Blind,
    End,
    Leave,
    Look,
    Looked,
    Missing,
    Moment,
    Phase,
    Read,
    Saw,
    Seen,
    Send,
    Step,
    Transaction,
    Unreadable,
)
from relance.controlling.paces import Pace
from relance.controlling.resumptions import Setting, resumed
from relance.controlling.sequences import advance
from relance.controlling.updates import ENDING_LIMIT_S
from relance.domain.advice import ActionEnd, ActionKind, Advice, Effect
from relance.domain.faults import Remedy
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.ledgers import ActionRecord, Began, Expected, LedgerState, Outcome, Verb
from relance.domain.limits import Limits
from relance.domain.views import ClusterReport, Hold, JobState, JobView, NodeState, NodeView, SchedulerFacts, StepView

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
FAILED = JobView(
    raw_id="17",
    first_submitted_at=T0,
    submitted_at=T0,
    restart_count=0,
    name="llama",
    user="ada",
    owner_uid=1001,
    partition="train",
    state=JobState.FAILED,
    node_count=2,
    started_at=T0 + timedelta(minutes=1),
    ended_at=T0 + timedelta(minutes=9),
    requeue_allowed=True,
    script_id="script of llama",
    steps=(),
)
PENDING = replace(
    FAILED,
    state=JobState.PENDING,
    reason="BeginTime",
    restart_count=1,
    submitted_at=T0 + timedelta(minutes=10),
    eligible_at=T0 + timedelta(minutes=10, seconds=120),
    started_at=None,
    ended_at=None,
)
RUNNING = replace(PENDING, state=JobState.RUNNING, reason="", nodes=("n2", "n3"), started_at=T0 + timedelta(minutes=11))
COPY = replace(
    FAILED, raw_id="18", state=JobState.PENDING, first_submitted_at=T0 + timedelta(minutes=10), ended_at=None
)
DEAD = replace(RUNNING, state=JobState.FAILED, ended_at=T0 + timedelta(minutes=11, seconds=1))
REPORT = ClusterReport(
    cluster="alpha",
    session="",
    sequence=0,
    as_of=T0,
    facts=SchedulerFacts(release="25.11"),
    jobs=(FAILED,),
    nodes=tuple(NodeView(name=f"n{number}", state=NodeState.IDLE) for number in (1, 2, 3)),
)
BEGAN = Began(
    action_id="act",
    advice=Advice(
        id="adv",
        incident_id="inc",
        attempt=AttemptKey(job=JobKey(cluster="alpha", raw_id="17", submitted_at=T0), restart_count=0),
        generation=1,
        action=Remedy.RESTART_EXCLUDING,
        reasons=(),
        guards=(),
        issued_at=T0,
        expires_at=T0 + timedelta(hours=1),
        exclude=("n1",),
    ),
    kind=ActionKind.RESTART,
    effect=Effect(summary="", commands=(), digest=""),
    expected=Expected(
        raw_id="17", restart_count=0, submitted_at=T0, state=JobState.FAILED, started_at=FAILED.started_at
    ),
    holder="controller-1",
    at=T0,
)
START = Transaction(began=BEGAN, cluster="alpha", expected=BEGAN.expected, base_count=0, target_count=1)
REQUEUE = Send(verb=Verb.REQUEUE, restart_count=1)
UPDATE = Send(verb=Verb.CONSTRAIN, restart_count=1, exclude=("n1",), ours=("n1",))
CHECK = replace(START, report=REPORT, looked_at_s=100.0)
SETTLE = replace(START, phase=Phase.SETTLE, requeues=1, settle_since_s=75.0)
QUEUE = replace(START, phase=Phase.QUEUE, requeued_by_us=True, requeues=1, queue_since_s=99.0)
WRITE = replace(QUEUE, phase=Phase.WRITE, pending_since_s=98.9, report=REPORT, looked_at_s=100.0)
WATCH = replace(WRITE, phase=Phase.WATCH, written_at_s=99.5, wrote=UPDATE, writes=1, added=("n1",))
WATCH = replace(WATCH, looked_since_update=True)


def moment(seconds: float = 100.0, leave: Leave = Leave.GRANTED, reason: str = "") -> Moment:
    at = T0 + timedelta(minutes=10, seconds=seconds - 90)
    return Moment(at=at, monotonic_s=seconds, leave=leave, leave_reason=reason)


def step(transaction: Transaction, seen: Seen, now: Moment | None = None) -> Step:
    return advance(transaction, seen, now or moment()).step


def abandoned(reason: str) -> End:
    return End(end=ActionEnd.ABANDONED, reason=reason)


def done(outcome: Outcome = Outcome.DONE, text: str = "") -> Answered:
    return Answered(outcome=outcome, text=text)


@pytest.mark.parametrize(
    ("transaction", "seen", "wanted"),
    [
        pytest.param(START, Looked(report=REPORT), Read(), id="looked: read the job"),
        pytest.param(START, Saw(job=FAILED), Look(), id="read without a look: look first"),
        pytest.param(CHECK, Saw(job=FAILED), REQUEUE, id="failed as expected: requeue"),
        pytest.param(replace(CHECK, looked_at_s=97.0), Saw(job=FAILED), Look(), id="the look is old: look again"),
        pytest.param(
            CHECK, Saw(job=replace(FAILED, state=JobState.UNKNOWN)), Read(after_s=1.0), id="unreadable: read again"
        ),
        pytest.param(CHECK, Saw(job=PENDING), Look(after_s=0.7), id="somebody was first: rest, then update"),
        pytest.param(
            CHECK, Missing(text="x"), abandoned("the scheduler does not know the job any more: x"), id="gone"
        ),
        pytest.param(CHECK, Blind(text="x"), Look(after_s=1.0), id="no look: look again"),
        pytest.param(replace(CHECK, sent=REQUEUE), done(), Read(), id="requeue accepted: read"),
        pytest.param(replace(CHECK, sent=REQUEUE), done(Outcome.SILENT), Read(after_s=1.0), id="no answer: read"),
        pytest.param(replace(CHECK, sent=REQUEUE), done(Outcome.REFUSED, "no"), Read(), id="refused: read once"),
        pytest.param(SETTLE, Saw(job=FAILED), Read(after_s=1.0), id="not done yet: wait for its time limit"),
        pytest.param(replace(SETTLE, settle_since_s=70.0), Saw(job=FAILED), Look(), id="not done: ask anew"),
        pytest.param(
            replace(SETTLE, settle_since_s=70.0, requeues=2),
            Saw(job=FAILED),
            End(end=ActionEnd.FAILED, reason="the scheduler did not answer the requeue, and did not do it"),
            id="not done twice",
        ),
        pytest.param(SETTLE, Saw(job=PENDING), Look(after_s=0.7), id="done after all: rest"),
        pytest.param(
            replace(SETTLE, refused="no"),
            Saw(job=FAILED),
            End(end=ActionEnd.FAILED, reason="the scheduler refused the requeue: no"),
            id="refused and not done",
        ),
        pytest.param(QUEUE, Saw(job=PENDING), Look(after_s=0.7), id="pending: rest, and look towards its end"),
        pytest.param(
            QUEUE, Saw(job=replace(FAILED, state=JobState.COMPLETING)), Read(after_s=0.2), id="old attempt ends: wait"
        ),
        pytest.param(
            QUEUE,
            Saw(job=replace(FAILED, state=JobState.CANCELLED, cancelled_by=1001)),
            abandoned("it was cancelled by uid 1001 beside our requeue, and does not wait: left as it is"),
            id="cancelled before the requeue came",
        ),
        pytest.param(
            QUEUE,
            Saw(job=replace(FAILED, state=JobState.COMPLETED)),
            abandoned("it was completed beside our requeue, and does not wait: left as it is"),
            id="completed before the requeue came",
        ),
        pytest.param(
            QUEUE, Saw(job=replace(RUNNING, state=JobState.COMPLETING)), Read(after_s=0.2),
            id="old attempt ends, counted already: wait",
        ),
        pytest.param(QUEUE, Saw(job=FAILED), Read(after_s=0.2), id="not requeued yet: read again"),
        pytest.param(
            replace(QUEUE, queue_since_s=89.0, requeues=2),
            Saw(job=FAILED),
            End(end=ActionEnd.FAILED, reason="the scheduler accepted the requeue and did not do it: it is failed"),
            id="accepted and never done, twice",
        ),
        pytest.param(replace(QUEUE, queue_since_s=89.0), Saw(job=FAILED), Look(), id="accepted and not done: anew"),
        pytest.param(QUEUE, Saw(job=RUNNING), Read(after_s=0.2), id="started by itself: watch"),
        pytest.param(
            QUEUE,
            Saw(job=replace(PENDING, restart_count=2)),
            abandoned("somebody else requeued it: the restart count is 2"),
            id="requeued by another",
        ),
        pytest.param(WRITE, Saw(job=PENDING), UPDATE, id="rested: update"),
        pytest.param(
            replace(WRITE, pending_since_s=99.5), Saw(job=PENDING), Read(after_s=0.5), id="looked, not rested: read"
        ),
        pytest.param(
            replace(WRITE, pending_since_s=100.0, looked_at_s=99.0), Saw(job=PENDING), Look(after_s=0.7),
            id="not looked since it was pending",
        ),
        pytest.param(
            WRITE,
            Saw(job=replace(PENDING, hold=Hold.USER)),
            abandoned("after the requeue: it is held (user), and not by us"),
            id="held meanwhile",
        ),
        pytest.param(
            WRITE,
            Saw(job=replace(PENDING, hold=Hold.UNKNOWN)),
            abandoned("after the requeue: whether somebody holds it cannot be read"),
            id="held or not",
        ),
        pytest.param(replace(WRITE, sent=UPDATE), done(), Look(), id="update accepted: look for copies once more"),
        pytest.param(
            replace(WRITE, sent=UPDATE, requeued_by_us=False), done(), Read(),
            id="accepted for what others requeued, and no copy would change anything: read back",
        ),
        pytest.param(WATCH, Looked(report=REPORT), Read(), id="looked after the update: read back"),
        pytest.param(
            replace(WATCH, report=replace(REPORT, jobs=(FAILED, COPY))), Saw(job=replace(PENDING, eligible_at=T0)),
            Send(verb=Verb.CANCEL, restart_count=1), id="a copy came before the update: ours makes way",
        ),
        pytest.param(
            replace(WATCH, report=replace(REPORT, jobs=(FAILED, COPY)), requeued_by_us=False),
            Saw(job=replace(PENDING, excluded=("n1",), eligible_at=T0)), Read(after_s=0.2),
            id="a copy came, and what waits is not ours to cancel",
        ),
        pytest.param(
            replace(WATCH, looked_since_update=False), Blind(text="x"), Read(), id="no look after the update: read"
        ),
        pytest.param(
            replace(WATCH, looked_since_update=False, blind_since_s=99.0), Saw(job=PENDING), Look(after_s=1.0),
            id="not looked after the update: look again",
        ),
        pytest.param(replace(WRITE, sent=UPDATE), done(Outcome.SILENT), Read(after_s=1.0), id="update unanswered"),
        pytest.param(
            WATCH, Saw(job=replace(PENDING, excluded=("n1",), eligible_at=T0)), Read(after_s=0.2), id="reads as written"
        ),
        pytest.param(WATCH, Saw(job=PENDING), Look(), id="does not read as written: write again"),
        pytest.param(replace(WATCH, running_since_s=98.5), Saw(job=RUNNING), Read(after_s=0.2), id="not two seconds"),
        pytest.param(
            replace(WATCH, running_since_s=98.0),
            Saw(job=RUNNING),
            End(end=ActionEnd.SUCCEEDED, reason="runs on n2, n3"),
            id="two seconds",
        ),
        pytest.param(
            replace(WATCH, running_since_s=98.0),
            Saw(job=replace(RUNNING, nodes=("n1", "n2"))),
            End(end=ActionEnd.SUCCEEDED, reason="runs on n1, n2, before n1 could be kept out"),
            id="started before the exclusion was there",
        ),
        pytest.param(
            WATCH, Saw(job=replace(RUNNING, state=JobState.CANCELLED)),
            abandoned("after the requeue it was cancelled: left"), id="cancelled",
        ),
        pytest.param(
            WATCH, Saw(job=replace(RUNNING, state=JobState.SUSPENDED)),
            abandoned("after the requeue it was suspended: left"), id="suspended",
        ),
        pytest.param(WATCH, Unreadable(text="x"), Read(after_s=1.0), id="silent: read again"),
    ],
)  # fmt: skip
def test_the_next_step(transaction: Transaction, seen: Seen, wanted: Step) -> None:
    assert step(transaction, seen) == wanted


def test_without_leave_the_first_command_waits_or_is_given_up() -> None:
    assert step(CHECK, Saw(job=FAILED), moment(leave=Leave.WAIT)) == Read(after_s=0.2)
    never = moment(leave=Leave.NEVER, reason="the advice has expired")
    assert step(CHECK, Saw(job=FAILED), never) == abandoned("the advice has expired")


def test_after_the_requeue_leave_is_not_asked_any_more() -> None:
    never = moment(leave=Leave.NEVER, reason="a STOP file is there")
    assert step(WRITE, Saw(job=PENDING), never) == UPDATE


def test_a_launch_is_repeated_once_under_the_next_count() -> None:
    dead = replace(DEAD, reason="JobLaunchFailure", steps=())
    turn = advance(WATCH, Saw(job=dead), moment())
    assert (turn.step, turn.transaction.base_count, turn.transaction.phase) == (Look(), 1, Phase.CHECK)
    again = advance(replace(turn.transaction, report=REPORT, looked_at_s=100.0), Saw(job=dead), moment())
    assert again.step == Send(verb=Verb.REQUEUE, restart_count=2)
    last = replace(WATCH, repeats=1)
    assert step(last, Saw(job=dead)) == End(
        end=ActionEnd.FAILED, reason="the new attempt died at launch: failed JobLaunchFailure"
    )


@pytest.mark.parametrize(
    ("steps", "reason", "launched"),
    [
        ((), "NonZeroExitCode", False),
        (("batch",), "JobLaunchFailure", False),
        (("batch", "0"), "NonZeroExitCode", True),
        (None, "JobLaunchFailure", False),
        (None, "NonZeroExitCode", True),
    ],
    ids=["no steps", "the script alone", "ranks ran", "no accounting, the reason says so", "no accounting"],
)
def test_an_attempt_whose_ranks_ran_did_not_die_at_launch_however_short_it_was(
    steps: tuple[str, ...] | None, reason: str, launched: bool
) -> None:
    rows = None if steps is None else tuple(StepView(name=name, state=JobState.FAILED) for name in steps)
    turn = step(WATCH, Saw(job=replace(DEAD, reason=reason, steps=rows)))
    if launched:
        assert turn == End(end=ActionEnd.SUCCEEDED, reason="restarted: the new attempt ran for 1 s and is failed")
    else:
        assert turn == Look()


@pytest.mark.parametrize(
    ("transaction", "silent_s", "wanted"),
    [
        (CHECK, 9.0, Read(after_s=1.0)),
        (CHECK, 10.0, abandoned("the scheduler is silent: x")),
        (QUEUE, 599.0, Read(after_s=1.0)),
        (QUEUE, 600.0, End(end=ActionEnd.UNKNOWN, reason="the scheduler is silent: x")),
    ],
)
def test_patience_with_a_silent_scheduler(transaction: Transaction, silent_s: float, wanted: Step) -> None:
    silent = replace(transaction, silent_since_s=100.0)
    assert step(silent, Unreadable(text="x"), moment(100.0 + silent_s)) == wanted


@pytest.mark.parametrize("requeued", [True, False])
def test_a_requeue_of_the_process_before_is_ours_again_after_another_crash(*, requeued: bool) -> None:
    record = ActionRecord(began=replace(BEGAN, taken_over=True, requeued=requeued))
    setting = Setting(cluster="alpha", limits=Limits(), pace=Pace())
    found = resumed(record, setting, LedgerState(), 100.0)
    assert (found.requeued_by_us, found.target_count) == (requeued, 1)
    assert found.phase is (Phase.QUEUE if requeued else Phase.CHECK)


def test_an_attempt_that_does_not_end_is_unknown_after_a_quarter_of_an_hour() -> None:
    ending = Saw(job=replace(FAILED, state=JobState.COMPLETING))
    assert step(QUEUE, ending, moment(99.0 + 899)) == Read(after_s=1.0)
    found = step(QUEUE, ending, moment(99.0 + 900))
    assert isinstance(found, End)
    assert found.end is ActionEnd.UNKNOWN


def test_started_anew_while_the_old_attempt_ends_it_still_writes_its_exclusions() -> None:
    """Slurm counts the restart while what the requeue ends is COMPLETING; who just started did not see it before."""
    ending = Saw(job=replace(RUNNING, state=JobState.COMPLETING))
    turn = advance(replace(QUEUE, is_resumed=True), ending, moment())
    turn = advance(turn.transaction, Saw(job=PENDING), moment())
    assert turn.transaction.phase is Phase.WRITE


def test_an_attempt_that_does_not_end_is_not_waited_for_without_end_by_who_took_over() -> None:
    ending = Saw(job=replace(RUNNING, state=JobState.COMPLETING))
    turn = advance(replace(QUEUE, queue_since_s=None, is_resumed=True), ending, moment())
    turn = advance(turn.transaction, ending, moment(100.0 + ENDING_LIMIT_S))
    assert turn.transaction.phase is Phase.WATCH
