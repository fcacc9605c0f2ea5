from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from relance.domain.advice import Advice, Answer
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.fleet import Storm
from relance.domain.keys import AttemptKey
from relance.domain.progress import Phase, Progress
from relance.domain.records import AttemptRecord
from relance.domain.stages import EndRunning
from relance.domain.verdicts import Strength
from relance.domain.views import Hold, JobState, NodeState, NodeView, StepView, Wish
from relance.policy import Question, decide, same_decision
from relance.policy.guards import GUARDS
from tests.unit.policy.questions import (
    AT,
    COPY,
    ENDED,
    FIRST,
    JOB,
    NO_PROGRESS,
    NODES,
    REQUEUED,
    STEPPING,
    SUSPECT,
    WEAK,
    answers,
    at,
    guard,
    kept_out,
    question,
    restarted,
    running,
    with_,
)

ASKED = question()
STORM = Storm(storm_id="s1", reason="jobs of 4 owners failed", opened_at=at(3590))
CLEARED = replace(STORM, cleared_at=at(3650), canary="alpha/9/20260502T110000Z/0")
BUG: Mapping[str, Any] = {
    "verdict__domain": FaultDomain.APPLICATION,
    "verdict__remedy": Remedy.RESTART,
    "verdict__suspects": (),
}
OUTCOME = AttemptRecord(attempt=FIRST, started_at=at(10), ended_at=ENDED)


def decided(**changes: Any) -> Advice:  # noqa: ANN401 - any field of a question
    return decide(with_(ASKED, **changes))


def test_a_failed_job_with_a_hard_suspect_is_started_again_without_it() -> None:
    advice = decide(ASKED)
    assert (advice.action, advice.exclude, advice.hold, advice.park) == (
        Remedy.RESTART_EXCLUDING, ("n2",), False, False,
    )  # fmt: skip
    assert advice.exclude_until == at(3700 + 86400)
    assert set(answers(advice).values()) == {Answer.YES}
    assert advice.may_begin
    assert (advice.generation, advice.attempt, advice.incident_id) == (1, FIRST, "inc-1")


NONE_OF_OURS: dict[str, tuple[dict[str, Any], str]] = {
    "cancelled": ({"job__state": JobState.CANCELLED}, "cancelled"),
    "completed": ({"job__state": JobState.COMPLETED}, "completed"),
    "time limit": ({"job__state": JobState.TIMEOUT}, "time limit"),
    "deadline": ({"job__state": JobState.DEADLINE}, "deadline"),
    "preempted": ({"job__state": JobState.PREEMPTED}, "preempted"),
    "preempted in its grace time": ({"job__preempted_at": at(3599)}, "preempted"),
    "cancelled by a uid under FAILED": ({"job__cancelled_by": 0}, "uid 0"),
    "a step cancelled by a uid": (
        {"job__steps": (StepView(name="17.0", state=JobState.CANCELLED, cancelled_by=1000),)}, "uid 1000",
    ),
    "held by its owner": ({"job": replace(REQUEUED, hold=Hold.USER)}, "held"),
    "held by an administrator": ({"job__hold": Hold.ADMIN}, "held"),
    "held by the scheduler": ({"job__hold": Hold.SCHEDULER}, "gave up starting"),
    "accounting shows a preemption behind a pending record": (
        {"job": REQUEUED, "record__attempts": (replace(OUTCOME, outcome=JobState.PREEMPTED),)}, "preempted",
    ),
    "the verdict found a person's decision": (
        {"verdict__domain": FaultDomain.USER, "verdict__remedy": Remedy.NONE}, "gpu fell off bus",
    ),
    "started again by somebody else": ({"job": replace(REQUEUED, state=JobState.RUNNING)}, "somebody else"),
    "the scheduler forgot it": ({"job": None}, "no longer knows"),
    "the id is another job's now": ({"job__first_submitted_at": at(5000)}, "no longer knows"),
    "the owner disagreed": ({"record__disagreed": "it was my data"}, "it was my data"),
    "a copy is running": ({"fleet__others": (COPY,)}, "job 18"),
    "it did not resume": (
        {"verdict__cause": "did_not_resume", "verdict__remedy": Remedy.NONE}, "owner was told",
    ),
    "an earlier attempt did not resume": ({"earlier": (restarted(0, cause="did_not_resume"),)}, "owner was told"),
    "requeued by somebody else, and nothing to add": (
        {"job": REQUEUED, "verdict__remedy": Remedy.RESTART}, "nothing to add",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NONE_OF_OURS)
def test_nothing_is_done_where_somebody_decided(name: str) -> None:
    changes, words = NONE_OF_OURS[name]
    advice = decided(**changes)
    assert advice.action is Remedy.NONE, advice.reasons
    assert not advice.hold
    assert not advice.may_begin
    assert words in advice.reasons[0]
    assert len(advice.guards) == len(GUARDS)


def test_a_job_that_somebody_else_requeued_gets_our_exclusions_and_nothing_more() -> None:
    advice = decided(job=REQUEUED)
    assert (advice.action, advice.exclude, advice.may_begin) == (Remedy.RESTART_EXCLUDING, ("n2",), True)
    assert "requeued it already" in advice.reasons[0]
    assert guard(advice, "attempt_over").answer is Answer.YES


def test_a_preemption_of_an_earlier_attempt_is_no_decision_about_this_one() -> None:
    assert decided(job__preempted_at=at(5)).action.restarts


HELD: dict[str, tuple[dict[str, Any], str, Answer, float | None]] = {
    "state unknown": ({"job__state": JobState.UNKNOWN}, "attempt_over", Answer.UNKNOWN, None),
    "no look yet": ({"job": None, "fleet__as_of": None}, "attempt_over", Answer.UNKNOWN, None),
    "an older attempt is shown": (
        {"incident__attempt": AttemptKey(job=JOB, restart_count=1)}, "attempt_over", Answer.UNKNOWN, None,
    ),
    "the look is old": ({"fleet__as_of": at(3689)}, "view_fresh", Answer.NO, None),
    "steps unreadable on FAILED": ({"job__steps": None}, "nobody_decided", Answer.UNKNOWN, None),
    "whether it is held is not known": ({"job__hold": Hold.UNKNOWN}, "nobody_decided", Answer.UNKNOWN, None),
    "a namesake without script and folder": (
        {"fleet__others": (replace(COPY, script_id="", work_dir=""),)}, "no_twin", Answer.UNKNOWN, None,
    ),
    "somebody debugs": ({"job__somebody_at_work": "step 17.1 of ada"}, "nobody_at_work", Answer.NO, None),
    "late evidence may come": ({"verdict__last_root_at": at(3690)}, "verdict_final", Answer.NO, 3705),
    "just ended": ({"job__ended_at": at(3695)}, "verdict_final", Answer.NO, 3710),
    "a lost node: the scheduler requeues by itself": (
        {"job__state": JobState.NODE_FAIL, "job__ended_at": at(3680), "verdict__last_root_at": None},
        "no_own_requeue", Answer.NO, 3740,
    ),
    "too few nodes without the hard suspect": (
        {"fleet__nodes": tuple(NodeView(name=name, state=NodeState.IDLE) for name in NODES[:4])},
        "enough_nodes", Answer.NO, None,
    ),
    "nodes not known": ({"fleet__nodes": ()}, "enough_nodes", Answer.UNKNOWN, None),
    "no permit": ({"fleet__permit_free_at": at(3720)}, "permit_free", Answer.NO, 3720),
    "the scheduler was just started": (
        {"fleet__facts": replace(ASKED.fleet.facts, booted_at=at(3500))},  # type: ignore[type-var]
        "scheduler_settled", Answer.NO, 3800,
    ),
    "a canary goes first": ({"fleet__storm": CLEARED}, "no_shared_cause", Answer.NO, None),
}  # fmt: skip


PARKED = ("a canary goes first", "too few nodes without the hard suspect")
"""The guards that hold a job for longer than the scheduler remembers it."""


@pytest.mark.parametrize("name", HELD)
def test_a_guard_holds_and_says_until_when(name: str) -> None:
    changes, which, answer, until = HELD[name]
    advice = decided(**changes)
    assert (guard(advice, which).answer, advice.hold) == (answer, not advice.park), advice.guards
    assert advice.park is (name in PARKED)
    assert advice.action.restarts
    assert advice.decide_again_at == (None if until is None else at(until)) or advice.park
    assert advice.decide_again_on


def test_after_the_settle_time_the_verdict_is_final() -> None:
    early = decided(verdict__last_root_at=at(3690), now=at(3704.9))
    late = decided(verdict__last_root_at=at(3690), now=at(3705), fleet__as_of=at(3705))
    assert (early.hold, early.settle_until) == (True, at(3705))
    assert (late.hold, late.settle_until) == (False, None)


def test_even_a_stop_waits_for_late_evidence() -> None:
    stop: dict[str, Any] = {"verdict__remedy": Remedy.STOP, "job__ended_at": at(3695)}
    assert (decided(**stop).action, decided(**stop).hold) == (Remedy.STOP, True)
    later = decided(**stop, now=at(3711))
    assert (later.action, later.hold) == (Remedy.STOP, False)


def test_a_cancellation_does_not_wait_for_anything() -> None:
    advice = decided(job__state=JobState.CANCELLED, job__ended_at=at(3699), fleet__as_of=at(3000))
    assert (advice.action, advice.hold) == (Remedy.NONE, False)


def test_a_job_that_requeued_by_itself_before_is_given_time_to_do_so_again() -> None:
    second = AttemptKey(job=JOB, restart_count=1)
    by_itself: dict[str, Any] = {
        "incident__attempt": second,
        "job__restart_count": 1,
        "job__ended_at": at(3670),
        "record__attempts": (OUTCOME, AttemptRecord(attempt=second, started_at=at(3610), by_us=False)),
    }
    assert guard(decided(**by_itself), "no_own_requeue").ask_again_at == at(3730)
    ours = by_itself | {"record__attempts": (OUTCOME, AttemptRecord(attempt=second, started_at=at(3610), by_us=True))}
    assert guard(decided(**ours), "no_own_requeue").answer is Answer.YES
    for outcome in (JobState.NODE_FAIL, JobState.BOOT_FAIL, JobState.PREEMPTED):  # the scheduler's, not the job's
        attempts = (replace(OUTCOME, outcome=outcome), by_itself["record__attempts"][1])
        assert guard(decided(**by_itself | {"record__attempts": attempts}), "no_own_requeue").answer is Answer.YES


STORMS: dict[str, tuple[dict[str, Any], bool]] = {
    "a storm is open": ({"fleet__storm": STORM}, True),
    "what it depends on has to come back": ({"verdict__remedy": Remedy.WAIT, "verdict__suspects": ()}, True),
    "a canary goes first": ({"fleet__storm": CLEARED}, True),
    "the canary has stepped": ({"fleet__storm": replace(CLEARED, canary_stepped=True)}, False),
    "it is the canary itself": ({"fleet__storm": replace(CLEARED, canary=str(FIRST))}, False),
    "there is no canary yet": ({"fleet__storm": replace(CLEARED, canary=None)}, False),
}


@pytest.mark.parametrize("name", STORMS)
def test_while_a_shared_cause_is_open_an_ended_job_is_parked(name: str) -> None:
    changes, parked = STORMS[name]
    advice = decided(**changes)
    assert (advice.park, advice.hold, advice.may_begin) == (parked, False, True)
    assert advice.park_until == (at(3700 + 1800) if parked else None)
    assert advice.decide_again_at == advice.park_until


@pytest.mark.parametrize("storm", [STORM, CLEARED, replace(CLEARED, canary=str(FIRST))])
def test_no_node_is_excluded_in_a_storm_or_before_its_canary_has_made_a_step(storm: Storm) -> None:
    advice = decided(fleet__storm=storm)
    assert (advice.action, advice.exclude) == (Remedy.RESTART, ())
    assert any("storm" in reason for reason in advice.reasons)


@pytest.mark.parametrize("storm", [replace(CLEARED, canary_stepped=True), replace(CLEARED, canary=None)])
def test_after_a_storm_a_bad_node_is_excluded_as_before_it(storm: Storm) -> None:
    assert decided(fleet__storm=storm).action is Remedy.RESTART_EXCLUDING


def test_a_parked_job_still_needs_the_guards_that_keep_others_safe() -> None:
    advice = decided(fleet__storm=STORM, job__steps=None)
    assert (advice.park, advice.hold) == (False, True)


def test_what_still_runs_is_never_parked() -> None:
    advice = decide(with_(running(ASKED), **SLOW_DEATH, fleet__storm=STORM))
    assert (advice.ends_running, advice.park, advice.hold) == (EndRunning.DEAD_RANK, False, True)
    assert advice.decide_again_on == "the shared cause clears"


def test_after_the_longest_park_a_job_is_tried_all_the_same() -> None:
    advice = decided(fleet__storm=STORM, now=at(3600 + 14400), fleet__as_of=at(3600 + 14400))
    assert (advice.park, guard(advice, "no_shared_cause").answer) == (False, Answer.YES)


SLOW_DEATH: Mapping[str, Any] = {
    "verdict__proof": EndRunning.DEAD_RANK,
    "verdict__proof_at": at(3610),
    "progress": replace(STEPPING, step_at=at(3612), as_of=at(3690)),
}

LIVING: dict[str, tuple[dict[str, Any], bool]] = {
    "a log line, however frightening": ({}, False),
    "a dead rank and silence since": (dict(SLOW_DEATH), True),
    "a dead rank, but not silent for long enough": (
        {**SLOW_DEATH, "progress": replace(STEPPING, step_at=at(3650), as_of=at(3690))}, False,
    ),
    "a dead rank, and sources that were not read": (
        {**SLOW_DEATH, "progress": replace(STEPPING, step_at=at(3612), as_of=at(3660))}, False,
    ),
    "a dead rank, and slow steps": (
        {**SLOW_DEATH, "progress": replace(STEPPING, step_at=at(3612), as_of=at(3690), median_step_s=30.0)}, False,
    ),
    "a dead rank, and no progress known": ({**SLOW_DEATH, "progress": None}, False),
    "a dead rank, and progress that is not recognised": ({**SLOW_DEATH, "progress": Progress(as_of=at(3690))}, False),
    "a dead rank, and its step has ended while the script goes on": (
        {**SLOW_DEATH, "job__steps": (StepView(name="batch", state=JobState.RUNNING),
                                      StepView(name="0", state=JobState.FAILED, exit_signal=9))}, False,
    ),
    "a dead rank, and the others of its step wait for it": (
        {**SLOW_DEATH, "job__steps": (StepView(name="batch", state=JobState.RUNNING),
                                      StepView(name="0", state=JobState.RUNNING))}, True,
    ),
    "a dead rank of a job that trains in its script": (
        {**SLOW_DEATH, "job__steps": (StepView(name="batch", state=JobState.RUNNING),)}, True,
    ),
    "a lost node and silence since": ({**SLOW_DEATH, "verdict__proof": EndRunning.NODE_LOST}, True),
    "a confirmed hang": (
        {"verdict__proof": EndRunning.HANG, "verdict__proof_at": at(3612),
         "progress": replace(STEPPING, step_at=at(3612))}, True,
    ),
    "a hang that got over it": (
        {"verdict__proof": EndRunning.HANG, "verdict__proof_at": at(3612),
         "progress": replace(STEPPING, step_at=at(3680))}, False,
    ),
    "a checkpoint written after the death": (
        {**SLOW_DEATH, "progress": replace(STEPPING, step_at=at(3612), checkpoint_durable_at=at(3660))}, False,
    ),
    "a remedy of wait": ({**SLOW_DEATH, "verdict__remedy": Remedy.WAIT}, False),
    "it is suspended": ({**SLOW_DEATH, "job__state": JobState.SUSPENDED}, False),
    "it is completing": ({**SLOW_DEATH, "job__state": JobState.COMPLETING}, False),
    "it may not be requeued": ({**SLOW_DEATH, "job__requeue_allowed": False}, False),
    "a stop, and the site cancels nothing": ({**SLOW_DEATH, "verdict__remedy": Remedy.STOP}, False),
}  # fmt: skip


@pytest.mark.parametrize("name", LIVING)
def test_a_running_attempt_is_ended_only_by_proof_and_silence(name: str) -> None:
    changes, ends = LIVING[name]
    advice = decide(with_(running(ASKED), **changes))
    if ends:
        assert advice.ends_running is changes["verdict__proof"]
        assert (advice.action, advice.hold) == (Remedy.RESTART_EXCLUDING, False)
    else:
        assert (advice.action, advice.ends_running, advice.may_begin) == (Remedy.WAIT, None, False)
        assert advice.decide_again_on


def test_a_wait_for_silence_names_the_time() -> None:
    changes = {**SLOW_DEATH, "progress": replace(STEPPING, step_at=at(3650), as_of=at(3690))}
    assert decide(with_(running(ASKED), **changes)).decide_again_at == at(3710)


def test_a_restarter_inside_the_job_is_given_its_time() -> None:
    busy = with_(running(ASKED), **SLOW_DEATH, verdict__in_job_restart_at=at(3620))
    assert (decide(busy).hold, decide(busy).decide_again_at) == (True, at(3620 + 900))
    later = with_(busy, now=at(3620 + 900), fleet__as_of=at(3620 + 900))
    assert not decide(later).hold
    assert not decided(verdict__in_job_restart_at=at(3599)).hold


def test_a_stop_cancels_a_dead_attempt_only_where_the_site_said_so() -> None:
    changes = {**SLOW_DEATH, "verdict__remedy": Remedy.STOP, "limits__stop_cancels_running": True}
    advice = decide(with_(running(ASKED), **changes))
    assert (advice.action, advice.cancels_running, advice.ends_running, advice.may_begin) == (
        Remedy.STOP, True, EndRunning.DEAD_RANK, True,
    )  # fmt: skip
    alive = decide(with_(running(ASKED), verdict__remedy=Remedy.STOP, limits__stop_cancels_running=True))
    assert (alive.action, alive.cancels_running) == (Remedy.WAIT, False)


def three(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any field of an earlier attempt
    return {"progress": NO_PROGRESS, "earlier": tuple(restarted(count, **changes) for count in range(3))}


BUDGETS: dict[str, tuple[dict[str, Any], Remedy]] = {
    "three without progress": (three(), Remedy.STOP),
    "three whose progress is not known": (three(progress=None), Remedy.RESTART_EXCLUDING),
    "three, and progress since": ({**three(), "progress": STEPPING}, Remedy.RESTART_EXCLUDING),
    "three, and a checkpoint since, but too few steps": (
        {**three(), "progress": replace(STEPPING, first_step_at=at(3300))}, Remedy.STOP,
    ),
    "three, and steps since, but no new checkpoint": (
        {**three(), "progress": replace(STEPPING, loaded_step=500)}, Remedy.STOP,
    ),
    "three, and steps since, checkpoints not recognised": (
        {**three(), "progress": replace(STEPPING, checkpoint_begun=None, checkpoint_durable=None)}, Remedy.STOP,
    ),
    "three, the last with progress": (
        {"progress": NO_PROGRESS, "earlier": (restarted(0), restarted(1), restarted(2, progress=True))},
        Remedy.RESTART_EXCLUDING,
    ),
    "three that others did": (three(restarted_by_us=False), Remedy.RESTART_EXCLUDING),
    "one that we killed at launch counts for nothing": (
        {"progress": NO_PROGRESS, "earlier": (restarted(0), restarted(1), restarted(2, cause="launch_revoked"))},
        Remedy.RESTART_EXCLUDING,
    ),
    "two that we killed at launch count once": (
        {"progress": NO_PROGRESS,
         "earlier": (restarted(0), restarted(1), *(restarted(count, cause="launch_revoked") for count in (2, 3)))},
        Remedy.STOP,
    ),
    "one try, and the same again": (
        {**BUG, "progress": NO_PROGRESS, "verdict__restart_limit_without_progress": 1, "earlier": (restarted(0),)},
        Remedy.STOP,
    ),
    "one try, and something else before": (
        {**BUG, "progress": NO_PROGRESS, "verdict__restart_limit_without_progress": 1,
         "earlier": (restarted(0, fingerprint="fp-2"),), "now": at(9000), "fleet__as_of": at(9000)},
        Remedy.RESTART,
    ),
    "an unknown cause, twice before": (
        {**BUG, "progress": NO_PROGRESS, "verdict__restart_limit_without_progress": 2,
         "earlier": (restarted(0, fingerprint="a"), restarted(1, fingerprint="b"))},
        Remedy.STOP,
    ),
    "eight within a day": (
        {"earlier": tuple(restarted(count, progress=True) for count in range(8))}, Remedy.STOP,
    ),
    "eight, not all within a day": (
        {"earlier": tuple(restarted(count, progress=True, ended_at=at(3000 - 20000 * count)) for count in range(8))},
        Remedy.RESTART_EXCLUDING,
    ),
    "twenty in all": (
        {"earlier": tuple(restarted(count, progress=True, ended_at=at(-100000 * count)) for count in range(20))},
        Remedy.STOP,
    ),
    "as many as the job wanted": ({"record__wish": Wish(max_restarts=1), "earlier": (restarted(0, progress=True),)},
                                  Remedy.STOP),
    "the job wants none": ({"record__wish": Wish(max_restarts=0)}, Remedy.STOP),
    "its attempts used three times the limit": ({"job__time_limit_s": 1000.0}, Remedy.STOP),
    "its attempts used less": ({"job__time_limit_s": 1300.0}, Remedy.RESTART_EXCLUDING),
    "it may not be requeued": ({"job__requeue_allowed": False}, Remedy.STOP),
    "a remedy of stop": ({"verdict__remedy": Remedy.STOP}, Remedy.STOP),
}  # fmt: skip


@pytest.mark.parametrize("name", BUDGETS)
def test_budgets(name: str) -> None:
    changes, action = BUDGETS[name]
    advice = decided(**changes)
    assert advice.action is action, advice.reasons
    if action is Remedy.STOP and changes.get("verdict__remedy") is not Remedy.STOP:
        assert "no restart" in advice.reasons[0] or "not be requeued" in advice.reasons[0]


STARTING = Progress(as_of=at(3690), phase=Phase.STARTING)
SILENT = Progress(as_of=at(3690))
FIRST_STEPS: dict[str, tuple[dict[str, Any], bool]] = {
    "a bug at the start of the first attempt": ({**BUG, "progress": STARTING}, False),
    "a sign of the node": ({"progress": STARTING}, True),
    "a fault of storage": ({**BUG, "verdict__domain": FaultDomain.STORAGE, "progress": STARTING}, True),
    "an unknown end, and nothing that shows whether it began": (
        {**BUG, "verdict__domain": FaultDomain.UNKNOWN, "progress": SILENT}, True,
    ),
    "nothing was read": ({**BUG, "progress": None}, True),
    "a later attempt gets one": (
        {**BUG, "progress": STARTING, "earlier": (restarted(0, progress=True),), "now": at(9000),
         "fleet__as_of": at(9000)},
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST_STEPS)
def test_what_ends_before_its_first_step_is_a_mistake_unless_a_node_or_the_system_shows(name: str) -> None:
    changes, restarts = FIRST_STEPS[name]
    assert decided(**changes).action.restarts is restarts


@pytest.mark.parametrize(
    ("count", "until"), [(0, None), (1, 3630), (2, 3660), (3, 3720), (9, 5400)],
    ids=["none before", "one", "two", "three", "many"],
)  # fmt: skip
def test_the_pause_doubles_with_each_restart_without_progress_and_has_an_end(count: int, until: float | None) -> None:
    asked = with_(
        ASKED, verdict__remedy=Remedy.RESTART, verdict__suspects=(), progress=None, now=at(3616),
        fleet__as_of=at(3616), limits__restarts=replace(ASKED.limits.restarts, per_day=99),
        earlier=tuple(restarted(item, progress=None) for item in range(count)),
    )  # fmt: skip
    advice = decide(asked)
    assert guard(advice, "backoff_passed").ask_again_at == (None if until is None else at(until))
    assert (advice.hold or advice.park) is (until is not None)


def test_there_is_no_pause_when_the_nodes_change() -> None:
    assert not decided(earlier=(restarted(0),), progress=NO_PROGRESS, now=at(3616), fleet__as_of=at(3616)).hold


MANY = tuple(NodeView(name=f"n{number}", state=NodeState.IDLE, partitions=("gpu",)) for number in range(1, 101))
EXCLUSIONS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "weak evidence, the first time": ({"verdict__suspects": (WEAK,)}, ()),
    "weak evidence, again within a week": ({"verdict__suspects": (replace(WEAK, before=(at(-86400),)),)}, ("n3",)),
    "weak evidence, again after a week": ({"verdict__suspects": (replace(WEAK, before=(at(-700000),)),)}, ()),
    "a node that the scheduler does not know": ({"verdict__suspects": (replace(SUSPECT, node="n99"),)}, ()),
    "three at once: two a decision": (
        {"verdict__suspects": tuple(replace(SUSPECT, node=name) for name in ("n1", "n2", "n3"))}, ("n1", "n2"),
    ),
    "the job's own cap, in a large partition": (
        {"fleet__exclusions": (kept_out("n7"), kept_out("n8")), "fleet__nodes": MANY}, (),
    ),
    "other jobs' exclusions do not count against the job's cap": (
        {"fleet__exclusions": (kept_out("n7", job="x"), kept_out("n8", job="x")), "fleet__nodes": MANY}, ("n2",),
    ),
    "two are out for this job already": ({"fleet__exclusions": (kept_out("n7"), kept_out("n8"))}, ()),
    "two were out, one ran out": (
        {"fleet__exclusions": (kept_out("n7"), kept_out("n8", until=at(3600)))}, ("n2",),
    ),
    "the partition's share is used up by others": (
        {"fleet__exclusions": (kept_out("n7", job="alpha/1/x"), kept_out("n8", job=None))}, (),
    ),
    "a small partition has room for one": (
        {"fleet__nodes": tuple(NodeView(name=name, state=NodeState.IDLE, partitions=("gpu",)) for name in NODES[:9]),
         "verdict__suspects": tuple(replace(SUSPECT, node=name) for name in ("n1", "n2"))},
        ("n1",),
    ),
    "weak evidence, and too few nodes without it": (
        {"fleet__nodes": tuple(NodeView(name=name, state=NodeState.IDLE, partitions=("gpu",)) for name in NODES[:4]),
         "verdict__suspects": (replace(WEAK, before=(at(-86400),)),)},
        (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXCLUSIONS)
def test_exclusions_stay_within_their_limits_and_each_cut_is_said(name: str) -> None:
    changes, nodes = EXCLUSIONS[name]
    advice = decided(**changes)
    assert advice.exclude == nodes
    assert advice.action is (Remedy.RESTART_EXCLUDING if nodes else Remedy.RESTART)
    if len(nodes) < len(changes.get("verdict__suspects", (SUSPECT,))):
        assert any("not excluded" in reason for reason in advice.reasons)


def test_hard_evidence_that_leaves_too_few_nodes_is_said_and_the_job_is_parked_for_a_person_to_choose() -> None:
    few = tuple(NodeView(name=name, state=NodeState.IDLE, partitions=("gpu",)) for name in NODES[:4])
    advice = decided(fleet__nodes=few)
    assert (advice.park, advice.exclude, advice.exclusion_is_hard) == (True, ("n2",), True)
    assert "a person has to choose" in guard(advice, "enough_nodes").reason
    assert advice.park_until == at(3700 + 1800)
    late = decided(fleet__nodes=few, now=at(3600 + 14400), fleet__as_of=at(3600 + 14400))
    assert (late.park, late.hold) == (False, True)


def test_whether_the_evidence_is_hard_goes_with_the_advice() -> None:
    weak = decided(verdict__suspects=(replace(WEAK, before=(at(-86400),)),))
    assert (weak.exclude, weak.exclusion_is_hard) == (("n3",), False)
    assert decide(ASKED).exclusion_is_hard


NODE = NodeView(name="n1", state=NodeState.IDLE, partitions=("gpu",), features=("h100",))
ROOM: dict[str, tuple[dict[str, Any], Answer]] = {
    "another partition does not count": ({"partitions": ("cpu",)}, Answer.NO),
    "nor does another feature": ({"features": ("a100",)}, Answer.NO),
    "nor a node in maintenance": ({"state": NodeState.MAINTENANCE}, Answer.NO),
    "nor one that is down": ({"state": NodeState.DOWN}, Answer.NO),
    "one at work counts": ({"state": NodeState.ALLOCATED}, Answer.YES),
    "one that is not known may": ({"state": NodeState.UNKNOWN}, Answer.UNKNOWN),
}


@pytest.mark.parametrize("name", ROOM)
def test_room_is_counted_over_partition_features_and_states(name: str) -> None:
    changes, answer = ROOM[name]
    nodes = [replace(NODE, name=f"n{number}") for number in range(1, 6)]
    nodes[4] = replace(nodes[4], **changes)
    advice = decided(fleet__nodes=tuple(nodes), job__features=("h100",), verdict__suspects=(SUSPECT,))
    assert guard(advice, "enough_nodes").answer is answer


def test_the_users_own_exclusions_and_node_lists_are_kept() -> None:
    assert guard(decided(job__excluded=tuple(NODES[4:])), "enough_nodes").answer is Answer.NO
    assert guard(decided(job__required=("n2",)), "enough_nodes").answer is Answer.NO
    assert guard(decided(job__required=("n1",)), "enough_nodes").answer is Answer.YES


@pytest.mark.parametrize("job", [str(JOB), None], ids=["for this job", "for all jobs"])
def test_nodes_that_are_kept_out_already_are_no_room(job: str | None) -> None:
    five = tuple(NodeView(name=name, state=NodeState.IDLE, partitions=("gpu",)) for name in NODES[:5])
    changes: dict[str, Any] = {"fleet__nodes": five, "verdict__remedy": Remedy.RESTART}
    out = (kept_out("n1", job=job), kept_out("n2", job=job))
    assert guard(decided(**changes, fleet__exclusions=out[:1]), "enough_nodes").answer is Answer.YES
    assert guard(decided(**changes, fleet__exclusions=out), "enough_nodes").answer is Answer.NO


def test_on_a_full_cluster_the_wait_is_said() -> None:
    full = tuple(NodeView(name=name, state=NodeState.ALLOCATED, partitions=("gpu",)) for name in NODES)
    advice = decided(fleet__nodes=full)
    assert not advice.hold
    assert "queue" in guard(advice, "enough_nodes").reason


TWINS: dict[str, tuple[dict[str, Any], Answer]] = {
    "another name": ({"name": "other"}, Answer.YES),
    "another script and folder": ({"script_id": "s2", "work_dir": "/home/ada/other"}, Answer.YES),
    "the same folder": ({"script_id": "s2"}, Answer.NO),
    "it is over, and was so before this one ended": (
        {"state": JobState.FAILED, "first_submitted_at": at(100), "started_at": at(200), "ended_at": at(3500)},
        Answer.YES,
    ),
    "it is over, and took this one's place": ({"state": JobState.COMPLETED, "ended_at": at(3690)}, Answer.NO),
    "submitted before the attempt began, and running all the time": (
        {"first_submitted_at": AT, "started_at": at(100)}, Answer.YES,
    ),
    "submitted before, started after the end: a singleton's successor": (
        {"first_submitted_at": AT, "started_at": at(3602)}, Answer.NO,
    ),
    "an old job that was requeued": (
        {"first_submitted_at": at(-5000), "submitted_at": at(3650), "started_at": None, "state": JobState.PENDING},
        Answer.YES,
    ),
    "a singleton that waits": (
        {"first_submitted_at": AT, "dependency": "singleton(unfulfilled)", "state": JobState.PENDING,
         "started_at": None, "script_id": "s2", "work_dir": "/x"},
        Answer.NO,
    ),
    "one that follows this job": (
        {"name": "next", "dependency": "afterany:3:17(unfulfilled)", "state": JobState.PENDING}, Answer.NO,
    ),
    "one that follows another": (
        {"name": "next", "dependency": "afterany:170(unfulfilled)", "state": JobState.PENDING}, Answer.YES,
    ),
    "one that follows only a success": ({"name": "next", "dependency": "afterok:17"}, Answer.YES),
    "another user's": ({"user": "bo"}, Answer.YES),
}  # fmt: skip


@pytest.mark.parametrize("name", TWINS)
def test_nobody_twice(name: str) -> None:
    changes, answer = TWINS[name]
    same_nodes: dict[str, Any] = {"verdict__remedy": Remedy.RESTART, "verdict__suspects": ()}
    advice = decided(fleet__others=(replace(COPY, **changes),), **same_nodes)
    assert guard(advice, "no_twin").answer is answer, guard(advice, "no_twin").reason
    assert advice.action.restarts is (answer is not Answer.NO)


FOLLOWER = replace(COPY, name="next", dependency="afterany:17", state=JobState.PENDING, started_at=None)


def test_the_next_of_a_chain_is_kept_off_the_node_while_it_waits_and_this_attempt_is_left() -> None:
    advice = decided(fleet__others=(FOLLOWER,))
    assert (advice.successor, advice.exclude, advice.may_begin, advice.park) == ("18", ("n2",), True, False)
    assert "next attempt" in advice.reasons[0]
    runs = decided(fleet__others=(replace(FOLLOWER, state=JobState.RUNNING),))
    assert (runs.action, runs.successor) == (Remedy.NONE, "")


def test_the_next_of_a_chain_that_waits_is_not_left_before_late_evidence_may_have_come() -> None:
    unknown: dict[str, Any] = {"verdict__remedy": Remedy.RESTART, "verdict__suspects": ()}
    advice = decided(job__ended_at=at(3695), fleet__others=(FOLLOWER,), **unknown)
    assert (advice.action, advice.hold, advice.settle_until) == (Remedy.NONE, True, at(3710))
    late = decided(job__ended_at=at(3695), fleet__others=(FOLLOWER,), now=at(3711), fleet__as_of=at(3711), **unknown)
    assert (late.action, late.hold) == (Remedy.NONE, False)
    runs = replace(FOLLOWER, state=JobState.RUNNING)
    assert not decided(job__ended_at=at(3695), fleet__others=(runs,), **unknown).hold, "nothing can be put on it"


def test_a_chain_that_makes_no_sense_any_more_is_told_with_a_command_that_holds_the_rest() -> None:
    advice = decided(fleet__others=(FOLLOWER,), verdict__remedy=Remedy.STOP)
    assert (advice.action, advice.may_begin) == (Remedy.STOP, False)
    assert any("scontrol hold 18" in reason for reason in advice.reasons)


def test_a_decision_of_a_person_comes_before_the_next_of_a_chain() -> None:
    advice = decided(fleet__others=(FOLLOWER,), job__state=JobState.CANCELLED)
    assert (advice.action, advice.successor) == (Remedy.NONE, "")


def test_in_a_storm_nothing_is_put_on_the_next_of_a_chain_and_nothing_is_parked() -> None:
    advice = decided(fleet__others=(FOLLOWER,), fleet__storm=STORM)
    assert (advice.action, advice.successor, advice.park) == (Remedy.NONE, "", False)


def test_the_tasks_of_one_array_are_no_twins() -> None:
    advice = decided(job__array="16", fleet__others=(replace(COPY, array="16"),))
    assert advice.action.restarts


EXPIRIES: dict[str, tuple[dict[str, Any], float]] = {
    "an ended attempt: before the scheduler forgets it": ({}, 3600 + 300 - 30),
    "a longer memory": (
        {"fleet__facts": replace(ASKED.fleet.facts, min_job_age_s=3600.0)},  # type: ignore[type-var]
        3600 + 3600 - 30,
    ),
    "past that, and still there": ({"now": at(3900), "fleet__as_of": at(3900)}, 3960),
    "requeued by others: soon": ({"job": REQUEUED}, 3698 + 60),
}


@pytest.mark.parametrize("name", EXPIRIES)
def test_an_advice_expires_with_what_it_rests_on(name: str) -> None:
    changes, expiry = EXPIRIES[name]
    assert decided(**changes).expires_at == at(expiry)


def test_an_advice_on_a_running_attempt_expires_with_the_look_that_it_rests_on() -> None:
    assert decide(with_(running(ASKED), **SLOW_DEATH)).expires_at == at(3698 + 60)


def test_the_id_is_the_attempts_and_the_generations() -> None:
    again = decide(replace(ASKED, now=at(3705)))
    assert decide(ASKED).id == again.id
    assert decide(replace(ASKED, generation=2)).id != again.id


SAME: dict[str, tuple[Question, bool]] = {
    "a little later": (with_(ASKED, now=at(3705), fleet__as_of=at(3704)), True),
    "more idle nodes": (with_(ASKED, fleet__nodes=ASKED.fleet.nodes[:20]), True),
    "a hold": (with_(ASKED, fleet__permit_free_at=at(3800)), False),
    "another node": (with_(ASKED, verdict__suspects=(replace(SUSPECT, node="n4"),)), False),
    "another cause": (with_(ASKED, verdict__summary="ecc uncontained on n2"), False),
    "a decision": (with_(ASKED, job__state=JobState.CANCELLED), False),
    "parked": (with_(ASKED, fleet__storm=STORM), False),
}


@pytest.mark.parametrize("name", SAME)
def test_only_a_changed_decision_is_another(name: str) -> None:
    other, same = SAME[name]
    assert same_decision(decide(ASKED), decide(other)) is same


def test_a_later_settle_time_is_another_decision() -> None:
    one = decided(verdict__last_root_at=at(3690))
    assert same_decision(one, decided(verdict__last_root_at=at(3690), now=at(3701)))
    assert not same_decision(one, decided(verdict__last_root_at=at(3695)))


def test_weak_and_hard_suspects_are_told_apart_in_the_reasons() -> None:
    both = (replace(WEAK, strength=Strength.WEAK), SUSPECT)
    advice = decided(verdict__suspects=both)
    assert advice.exclude == ("n2",)
    assert any(reason.startswith("n2 is left out") for reason in advice.reasons)
    assert any(reason.startswith("n3 not excluded: the evidence is weak") for reason in advice.reasons)
