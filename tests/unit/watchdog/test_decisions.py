from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta

import pytest

from relance.domain.advice import ActionEnd, ActionKind
from relance.domain.deeds import DeedState, WatchdogDeed
from relance.domain.ledgers import Began, Decided, Entry, Expected, LetGo, Outcome, Verb
from relance.domain.stages import Stage
from relance.domain.views import Hold, JobState, JobView
from relance.watchdog.decisions import Ground, Left, Want, decide
from relance.watchdog.settings import Rules
from tests.unit.watchdog.grounds import (
    DUE,
    ENDED,
    STARTED,
    SUBMITTED,
    after,
    began,
    deed,
    did,
    ended,
    failed,
    ground,
    held,
    intended,
    key,
    taken,
)

HOLD = (began(), intended(Verb.REQUEUE_HELD), did(Verb.REQUEUE_HELD))
LATE = after(1011 + 60)
"""When the controller has not gone on with what it held at 1011 for as long as it may."""


def verbs(found: Ground) -> list[tuple[str, str]]:
    return [(type(item).__name__, item.verb.value) for item in decide(found)]


def wants(found: Ground) -> list[Verb]:
    return [item.verb for item in decide(found) if isinstance(item, Want)]


# ------------------------------------------------------------------------------------------------------------- requeue


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.NODE_FAIL])
def test_a_taken_attempt_that_slurm_is_about_to_forget_is_requeued(state: JobState) -> None:
    (want,) = decide(ground(taken(), jobs=(failed(state=state),)))
    assert isinstance(want, Want)
    assert (want.attempt, want.verb, want.restart_count) == (key(), Verb.REQUEUE, 1)


def test_it_is_requeued_no_sooner_than_a_margin_before_slurm_forgets_it() -> None:
    assert wants(ground(taken(), at=DUE - timedelta(seconds=1))) == []
    assert wants(ground(taken(), at=DUE)) == [Verb.REQUEUE]


def test_where_slurm_forgets_soon_half_of_the_time_is_the_controllers() -> None:
    assert wants(ground(taken(), at=ENDED + timedelta(seconds=9), min_job_age_s=20.0)) == []
    assert wants(ground(taken(), at=ENDED + timedelta(seconds=10), min_job_age_s=20.0)) == [Verb.REQUEUE]


@pytest.mark.parametrize("age_s", [0.0, None])
def test_where_slurm_never_forgets_or_nobody_knows_when_nothing_is_requeued(age_s: float | None) -> None:
    assert decide(ground(taken(), at=after(1e6), min_job_age_s=age_s)) == ()


@pytest.mark.parametrize(
    "entries",
    [
        (),
        (taken(key("18")),),
        (taken(), LetGo(attempts=(str(key()),), reason="stage", at=ENDED)),
        (taken(), Decided(attempt=str(key()), reason="stop", at=ENDED)),
        (taken(), began(), ended(ActionEnd.FAILED)),
        (taken(), began(), ended(ActionEnd.UNKNOWN)),
        (taken(), began(successor="18"), ended(ActionEnd.SUCCEEDED)),
        (taken(key(count=1)),),
    ],
    ids=["no entry", "another job", "let go", "decided", "failed", "unknown", "successor", "another attempt"],
)
def test_without_the_ledgers_word_nothing_is_requeued(entries: tuple[Entry, ...]) -> None:
    assert decide(ground(*entries)) == ()


@pytest.mark.parametrize(
    "state",
    [state for state in JobState if state not in (JobState.FAILED, JobState.NODE_FAIL)],
    ids=lambda it: it.value,
)
def test_in_any_other_state_nothing_is_requeued(state: JobState) -> None:
    assert decide(ground(taken(), jobs=(failed(state=state),))) == ()


@pytest.mark.parametrize(
    ("job", "entry"),
    [
        (failed(submitted_at=after(500)), taken()),
        (failed(restart_count=1), taken()),
        (failed(restart_count=2, submitted_at=after(2000)), taken(key(count=2))),
        (failed(restart_count=2, submitted_at=after(-5)), taken(key(count=2))),
        (failed(ended_at=None), taken()),
    ],
    ids=["reused id", "restarted", "reused after it was taken", "reused before", "no end"],
)
def test_an_attempt_that_is_not_the_taken_one_is_left_alone(job: JobView, entry: Entry) -> None:
    assert decide(ground(entry, jobs=(job,))) == ()


def test_a_later_attempt_is_known_by_when_it_was_taken() -> None:
    job = failed(restart_count=2, submitted_at=after(600))
    assert wants(ground(taken(key(count=2), at=after(700)), jobs=(job,))) == [Verb.REQUEUE]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"requeue_allowed": False}, "--no-requeue"),
        ({"preempted_at": after(900)}, "preempted"),
        ({"exit_code": 0, "exit_signal": 15}, "TERM"),
    ],
)
def test_what_somebody_decided_is_left_and_said(changes: dict[str, object], why: str) -> None:
    (left,) = decide(ground(taken(), jobs=(failed(**changes),)))
    assert isinstance(left, Left)
    assert why in left.reason


@pytest.mark.parametrize(
    ("changes", "is_twin"),
    [
        ({}, True),
        ({"state": JobState.RUNNING, "started_at": after(1100)}, True),
        ({"work_dir": "/other"}, True),
        ({"script_id": "/other.sh", "work_dir": "/other"}, False),
        ({"user": "owner2"}, False),
        ({"name": "another"}, False),
        ({"submitted_at": after(5), "first_submitted_at": after(5)}, False),
        ({"state": JobState.UNKNOWN}, True),
        ({"state": JobState.CANCELLED, "ended_at": after(1101), "submitted_at": after(20),
          "first_submitted_at": after(20)}, False),
        ({"name": "next", "dependency": "afterany:17"}, True),
    ],
)  # fmt: skip
def test_nobody_runs_twice(changes: dict[str, object], *, is_twin: bool) -> None:
    base: dict[str, object] = {"name": "train-17", "state": JobState.PENDING, "started_at": None, "ended_at": None}
    base |= {"submitted_at": after(1050), "first_submitted_at": after(1050)}
    other = failed("18", **(base | changes))
    (item,) = decide(ground(taken(), jobs=(failed(), other)))
    assert isinstance(item, Left if is_twin else Want)


def test_while_a_living_controller_carries_out_an_action_nothing_is_requeued() -> None:
    open_action = (taken(), began(), intended(Verb.REQUEUE))
    assert decide(ground(*open_action, alive_at=DUE - timedelta(seconds=30))) == ()
    assert wants(ground(*open_action, alive_at=DUE - timedelta(seconds=61))) == [Verb.REQUEUE]
    assert wants(ground(*open_action, alive_at=None)) == [Verb.REQUEUE]


def test_a_living_controller_without_an_action_on_it_loses_no_attempt() -> None:
    assert wants(ground(taken(), alive_at=DUE)) == [Verb.REQUEUE]


def test_what_a_dead_controller_sent_may_still_arrive_for_a_while() -> None:
    sent = (taken(), began(), intended(Verb.REQUEUE, at=DUE))
    assert decide(ground(*sent, at=DUE + timedelta(seconds=14))) == ()
    assert wants(ground(*sent, at=DUE + timedelta(seconds=15))) == [Verb.REQUEUE]


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ((began(), intended(Verb.REQUEUE), did(Verb.REQUEUE, outcome=Outcome.REFUSED)), "refused"),
        ((began(), intended(Verb.CANCEL)), "end it for good"),
    ],
)
def test_what_the_controller_could_not_or_would_not_restart_is_left(entries: tuple[Entry, ...], why: str) -> None:
    (left,) = decide(ground(taken(), *entries))
    assert isinstance(left, Left)
    assert why in left.reason


@pytest.mark.parametrize("kind", [kind for kind in ActionKind if kind not in (ActionKind.RESTART, ActionKind.PARK)])
def test_a_dead_controllers_other_actions_are_not_followed_by_a_requeue(kind: ActionKind) -> None:
    assert decide(ground(taken(), began(kind))) == ()


@pytest.mark.parametrize("state", [state for state in DeedState if state not in (DeedState.WOULD, DeedState.NOT_SENT)])
def test_an_attempt_is_requeued_once_whatever_came_of_it(state: DeedState) -> None:
    assert decide(ground(taken(), deeds=(deed(state),))) == ()


def test_what_was_called_off_may_be_tried_again_a_few_times() -> None:
    off = tuple(deed(DeedState.NOT_SENT, id=f"d{number}", number=number) for number in range(1, 6))
    assert wants(ground(taken(), deeds=off[:4])) == [Verb.REQUEUE]
    assert decide(ground(taken(), deeds=off)) == ()


def _others(count: int, at_s: float, *, of_job: str = "") -> tuple[WatchdogDeed, ...]:
    return tuple(
        deed(
            DeedState.DONE,
            id=f"dog-{number}",
            attempt=key(of_job or f"{100 + number}", count=number if of_job else 0),
            at=after(at_s),
        )
        for number in range(count)
    )


def test_one_job_is_requeued_three_times_at_most() -> None:
    ever = _others(3, -1e6, of_job="17")
    job = failed(restart_count=3, submitted_at=after(600))
    entry = taken(key(count=3), at=after(700))
    assert wants(ground(entry, jobs=(job,), deeds=ever[:2])) == [Verb.REQUEUE]
    (left,) = decide(ground(entry, jobs=(job,), deeds=ever))
    assert isinstance(left, Left)
    assert left.is_limit


def test_a_cluster_sees_ten_requeues_an_hour_at_most() -> None:
    jobs = tuple(failed(f"{number}") for number in range(20, 35))
    entry = taken(*(key(job.raw_id) for job in jobs))
    assert len(wants(ground(entry, jobs=jobs))) == 10
    assert len(wants(ground(entry, jobs=jobs, deeds=_others(8, 1000)))) == 2
    assert len(wants(ground(entry, jobs=jobs, deeds=_others(8, 1240 - 3601)))) == 10
    assert sum(isinstance(item, Left) and item.is_limit for item in decide(ground(entry, jobs=jobs))) == 5


def test_partitions_that_are_not_served_are_left_alone() -> None:
    rules = Rules(stage=Stage.ACT, partitions=("gpu", "big"))
    assert wants(ground(taken(), rules=rules)) == [Verb.REQUEUE]
    assert decide(ground(taken(), rules=rules, jobs=(failed(partition="cpu"),))) == ()
    assert decide(ground(*HOLD, rules=rules, jobs=(held(partition="gpu,cpu"),), at=LATE)) == ()
    assert wants(ground(*HOLD, rules=rules, jobs=(held(partition="gpu,big"),), at=LATE)) == [Verb.RELEASE]


@pytest.mark.parametrize("stage", [Stage.OBSERVE, Stage.APPROVE])
def test_below_act_a_want_is_said_once(stage: Stage) -> None:
    rules = Rules(stage=stage)
    assert wants(ground(taken(), rules=rules)) == [Verb.REQUEUE]
    assert decide(ground(taken(), rules=rules, deeds=(deed(DeedState.WOULD),))) == ()
    assert wants(ground(taken(), deeds=(deed(DeedState.WOULD),))) == [Verb.REQUEUE]


def test_a_ledger_of_another_cluster_asks_for_nothing() -> None:
    assert decide(ground(taken(), cluster="beta")) == ()
    assert decide(ground(*HOLD, jobs=(held(),), at=LATE, cluster="beta")) == ()


def test_a_crash_after_which_srun_ended_the_other_ranks_is_no_sign_of_a_person() -> None:
    assert wants(ground(taken(), jobs=(failed(exit_code=143),))) == [Verb.REQUEUE]


def test_keys_that_cannot_be_read_are_passed_over() -> None:
    entry = replace(taken(), attempts=("nonsense", str(key())))
    assert wants(ground(entry)) == [Verb.REQUEUE]


# ------------------------------------------------------------------------------------------------------------- release


def test_what_the_controller_held_and_did_not_go_on_with_is_released() -> None:
    assert decide(ground(*HOLD, jobs=(held(),), at=LATE - timedelta(seconds=1))) == ()
    (want,) = decide(ground(*HOLD, jobs=(held(),), at=LATE))
    assert isinstance(want, Want)
    assert (want.attempt, want.verb, want.restart_count) == (key(), Verb.RELEASE, 1)


def test_every_entry_of_the_action_is_a_sign_that_the_controller_goes_on() -> None:
    later = (*HOLD, intended(Verb.CONSTRAIN, 2, at=after(1050)), did(Verb.CONSTRAIN, 2, at=after(1051)))
    assert decide(ground(*later, jobs=(held(),), at=after(1051 + 59))) == ()
    assert wants(ground(*later, jobs=(held(),), at=after(1051 + 60))) == [Verb.RELEASE]


@pytest.mark.parametrize(
    "changes",
    [
        {"hold": Hold.NONE},
        {"hold": Hold.ADMIN},
        {"hold": Hold.UNKNOWN},
        {"restart_count": 0},
        {"restart_count": 2},
        {"state": JobState.RUNNING, "hold": Hold.NONE},
        {"state": JobState.CANCELLED, "hold": Hold.NONE},
    ],
)
def test_what_is_not_held_as_we_left_it_is_not_released(changes: dict[str, object]) -> None:
    assert decide(ground(*HOLD, jobs=(held(**changes),), at=after(5000))) == ()


@pytest.mark.parametrize(
    "entries",
    [
        (),
        (began(),),
        (began(), intended(Verb.REQUEUE), did(Verb.REQUEUE)),
        (began(), intended(Verb.REQUEUE_HELD), did(Verb.REQUEUE_HELD, outcome=Outcome.REFUSED)),
        (began(), intended(Verb.REQUEUE_HELD), did(Verb.REQUEUE_HELD, outcome=Outcome.NOT_SENT)),
        (*HOLD, intended(Verb.RELEASE, 2), did(Verb.RELEASE, 2)),
        (*HOLD, ended(ActionEnd.SUCCEEDED)),
    ],
    ids=["no entry", "no intent", "plain requeue", "refused", "not sent", "released", "succeeded"],
)
def test_without_our_intent_in_the_ledger_nothing_is_released(entries: tuple[Entry, ...]) -> None:
    assert not any(isinstance(item, Want) for item in decide(ground(*entries, jobs=(held(),), at=after(5000))))


def _taken_over(**changes: object) -> Began:
    """What a controller writes that takes up another's action: the job waits, held by that one's requeue."""
    seen = Expected(raw_id="17", restart_count=1, submitted_at=held().submitted_at, state=JobState.PENDING)
    made = replace(began(), expected=seen, taken_over=True, requeued=True, held=True)
    return replace(made, **changes)  # type: ignore[arg-type]  # an entry's own fields


def test_a_hold_that_was_taken_over_with_its_action_is_released_too() -> None:
    assert wants(ground(_taken_over(), jobs=(held(),), at=after(5000))) == [Verb.RELEASE]


@pytest.mark.parametrize(
    "entries",
    [
        (_taken_over(held=False),),
        (_taken_over(), intended(Verb.RELEASE), did(Verb.RELEASE)),
        (_taken_over(expected=began().expected),),
    ],
    ids=["not held when it was taken over", "released since", "another attempt"],
)
def test_a_hold_that_is_not_of_the_action_taken_over_stays(entries: tuple[Entry, ...]) -> None:
    assert decide(ground(*entries, jobs=(held(),), at=after(5000))) == ()


@pytest.mark.parametrize("outcome", [None, Outcome.SILENT])
def test_a_hold_of_which_nobody_noted_the_answer_is_ours_if_it_is_of_its_time(outcome: Outcome | None) -> None:
    answers = () if outcome is None else (did(Verb.REQUEUE_HELD, outcome=outcome),)
    entries = (began(), intended(Verb.REQUEUE_HELD), *answers)
    assert wants(ground(*entries, jobs=(held(),), at=LATE)) == [Verb.RELEASE]
    assert decide(ground(*entries, jobs=(held(submitted_at=after(1010 - 61)),), at=LATE)) == ()
    assert decide(ground(*entries, jobs=(held(submitted_at=after(1010 + 76)),), at=after(5000))) == ()


@pytest.mark.parametrize("outcome", [None, Outcome.SILENT, Outcome.REFUSED, Outcome.NOT_SENT])
def test_a_release_by_the_controller_that_came_to_nothing_is_done_by_us(outcome: Outcome | None) -> None:
    answers = () if outcome is None else (did(Verb.RELEASE, 2, outcome=outcome),)
    entries = (*HOLD, intended(Verb.RELEASE, 2), *answers)
    assert wants(ground(*entries, jobs=(held(),), at=after(5000))) == [Verb.RELEASE]


def test_a_job_that_the_controller_was_about_to_cancel_for_a_copy_stays_held_and_is_said() -> None:
    (left,) = decide(ground(*HOLD, intended(Verb.CANCEL, 2), jobs=(held(),), at=after(5000)))
    assert isinstance(left, Left)
    assert "about to cancel it" in left.reason


def test_a_held_job_is_not_released_beside_a_copy_of_it() -> None:
    started = replace(began(), expected=replace(began().expected, started_at=STARTED))
    hold = (started, intended(Verb.REQUEUE_HELD), did(Verb.REQUEUE_HELD))
    copy = failed(
        "18", name="train-17", state=JobState.RUNNING, submitted_at=after(1020), first_submitted_at=after(1020)
    )
    assert wants(ground(*hold, jobs=(held(),), at=after(5000))) == [Verb.RELEASE]
    (left,) = decide(ground(*hold, jobs=(held(), copy), at=after(5000)))
    assert isinstance(left, Left)
    assert "twice" in left.reason


def test_an_action_that_ended_and_left_a_job_held_is_said_and_left_to_a_person() -> None:
    (left,) = decide(ground(*HOLD, ended(ActionEnd.ABANDONED), jobs=(held(),), at=after(5000)))
    assert isinstance(left, Left)
    assert "held" in left.reason


def test_what_somebody_holds_after_our_release_stays_held() -> None:
    done = deed(DeedState.DONE, Verb.RELEASE)
    assert decide(ground(*HOLD, jobs=(held(),), at=after(5000), deeds=(done,))) == ()


@pytest.mark.parametrize("state", [DeedState.INTENDED, DeedState.SILENT])
def test_a_release_that_is_not_settled_is_not_done_again(state: DeedState) -> None:
    assert decide(ground(*HOLD, jobs=(held(),), at=after(5000), deeds=(deed(state, Verb.RELEASE),))) == ()


def test_a_release_that_came_to_nothing_is_tried_again_three_times_in_all() -> None:
    lost = tuple(deed(DeedState.LOST, Verb.RELEASE, id=f"d{number}", number=number) for number in range(1, 4))
    assert wants(ground(*HOLD, jobs=(held(),), at=LATE, deeds=lost[:2])) == [Verb.RELEASE]
    assert verbs(ground(*HOLD, jobs=(held(),), at=LATE, deeds=lost)) == [("Left", "release")]


def test_releases_have_no_hourly_limit() -> None:
    assert wants(ground(*HOLD, jobs=(held(),), at=LATE, deeds=_others(12, 1000))) == [Verb.RELEASE]


def test_below_act_a_release_is_said_once() -> None:
    rules = Rules(stage=Stage.OBSERVE)
    assert wants(ground(*HOLD, jobs=(held(),), at=LATE, rules=rules)) == [Verb.RELEASE]
    said = (deed(DeedState.WOULD, Verb.RELEASE),)
    assert decide(ground(*HOLD, jobs=(held(),), at=LATE, rules=rules, deeds=said)) == ()


def test_the_times_of_the_cases_are_in_their_order() -> None:
    assert SUBMITTED < STARTED < ENDED < DUE


@pytest.mark.parametrize("names", [{}, {"name": "train"}], ids=["each its name", "all one name"])
def test_thousands_of_jobs_that_failed_at_once_are_decided_on_in_time(names: dict[str, str]) -> None:
    """Not each is compared with each: the watch would stand still for minutes."""
    jobs = tuple(failed(str(number), **names) for number in range(1, 1501))
    began_s = time.process_time()
    found = decide(ground(taken(*(key(job.raw_id) for job in jobs)), jobs=jobs))
    assert len(found) == len(jobs)
    assert sum(isinstance(item, Want) for item in found) == Rules().per_hour
    assert time.process_time() - began_s < 5.0


def test_a_twin_is_found_among_jobs_of_its_name_and_among_those_that_depend_on_it() -> None:
    others = tuple(failed(str(number), state=JobState.RUNNING) for number in range(100, 120))
    copy = failed("30", name="train-17", state=JobState.PENDING, first_submitted_at=after(20))
    successor = failed("31", state=JobState.PENDING, dependency="afterany:17(unfulfilled)")
    for twin in (copy, successor):
        (left,) = decide(ground(taken(), jobs=(failed(), *others, twin)))
        assert isinstance(left, Left)
        assert f"job {twin.raw_id} (pending)" in left.reason
    (want,) = decide(ground(taken(), jobs=(failed(), *others)))
    assert isinstance(want, Want)
