"""Whatever the situation: what no advice may ever ask for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from relance.domain.advice import Advice, Answer, Exclusion
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.fleet import Storm
from relance.domain.progress import Phase, Progress
from relance.domain.records import AttemptRecord
from relance.domain.stages import EndRunning
from relance.domain.verdicts import Strength, Suspect
from relance.domain.views import Hold, JobState, NodeState, NodeView, SchedulerFacts, StepView, Wish
from relance.policy import Question, decide, same_decision
from relance.policy.attempts import Place, place_of
from relance.policy.exclusions import caps
from relance.policy.guards import GUARDS
from tests.unit.policy.questions import (
    COPY,
    FIRST,
    JOB,
    NODES,
    NOW,
    REQUEUED,
    STEPPING,
    at,
    question,
    restarted,
    running,
    with_,
)

ASKED = question()
MUST_BE_YES = {rule.name for rule in GUARDS if rule.unknown_holds}
ENDED_BY_DECISION = {
    JobState.CANCELLED, JobState.COMPLETED, JobState.TIMEOUT, JobState.DEADLINE, JobState.PREEMPTED,
}  # fmt: skip


SECONDS = st.integers(min_value=0, max_value=4000).map(at)
LATE = st.integers(min_value=3590, max_value=3720).map(at)
SUSPECTS = st.lists(
    st.builds(
        Suspect,
        node=st.sampled_from([*NODES[:8], "n99"]),
        strength=st.sampled_from(Strength),
        reason=st.just("seen"),
        before=st.lists(st.integers(-800000, 0).map(at), max_size=2).map(tuple),
    ),
    max_size=5,
    unique_by=lambda item: item.node,
).map(tuple)
EARLIER = st.lists(
    st.tuples(st.booleans(), st.sampled_from([True, False, None]), st.sampled_from(["fp-1", "fp-2"])), max_size=5
).map(
    lambda rows: tuple(
        restarted(count, progress=progress, fingerprint=fingerprint, restarted_by_us=ours)
        for count, (ours, progress, fingerprint) in enumerate(rows)
    )
)
PROGRESSES = st.builds(
    Progress,
    as_of=LATE,
    phase=st.sampled_from(Phase),
    first_step_at=st.one_of(st.none(), SECONDS),
    step=st.one_of(st.none(), st.integers(0, 1000)),
    step_at=st.one_of(st.none(), SECONDS, LATE),
    steps_seen=st.integers(0, 1000),
    median_step_s=st.one_of(st.none(), st.floats(0.01, 60.0)),
    checkpoint_durable=st.one_of(st.none(), st.integers(0, 1000)),
    checkpoint_durable_at=st.one_of(st.none(), LATE),
)
NODES_SEEN = st.lists(st.sampled_from(NodeState), min_size=0, max_size=12).map(
    lambda states: tuple(
        NodeView(name=f"n{index + 1}", state=state, partitions=("gpu",)) for index, state in enumerate(states)
    )
)
OUT = st.lists(
    st.tuples(st.sampled_from(NODES[:10]), st.sampled_from([str(JOB), None, "alpha/1/20260502T110000Z"])),
    min_size=1,
    max_size=4,
).map(
    lambda rows: tuple(
        Exclusion(cluster="alpha", node=node, reason="before", owner="relance", since=at(0), job=job)
        for node, job in rows
    )
)
STORM = Storm(storm_id="s", reason="storage", opened_at=at(3000))
CANARY = replace(STORM, cleared_at=at(3500), canary="somebody else")
CANCELLED_STEP = (StepView(name="17.0", state=JobState.CANCELLED, cancelled_by=0),)
OUTCOMES = (JobState.FAILED, JobState.PREEMPTED, JobState.CANCELLED)

CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "job": st.sampled_from([None, REQUEUED, REQUEUED]),
    "job__state": st.sampled_from(JobState),
    "job__restart_count": st.sampled_from([0, 1, 2]),
    "job__hold": st.sampled_from(Hold),
    "job__steps": st.sampled_from([None, CANCELLED_STEP]),
    "job__cancelled_by": st.just(1000),
    "job__preempted_at": LATE,
    "job__ended_at": st.one_of(st.none(), LATE),
    "job__somebody_at_work": st.just("step 17.1 of ada"),
    "job__requeue_allowed": st.booleans(),
    "job__time_limit_s": st.sampled_from([1000.0, 86400.0]),
    "job__excluded": st.sampled_from([("n9",), NODES[4:]]),
    "job__required": st.sampled_from([("n2",), ("n1",)]),
    "fleet__as_of": st.sampled_from([at(3000), at(3689), None]),
    "fleet__facts": st.sampled_from([None, SchedulerFacts(release="25.11.7", booted_at=at(3650))]),
    "fleet__others": st.just((COPY,)),
    "fleet__nodes": NODES_SEEN,
    "fleet__exclusions": OUT,
    "fleet__storm": st.sampled_from([STORM, STORM, CANARY]),
    "fleet__permit_free_at": st.just(at(3720)),
    "verdict__domain": st.sampled_from(FaultDomain),
    "verdict__remedy": st.sampled_from(Remedy),
    "verdict__cause": st.just("did_not_resume"),
    "verdict__suspects": SUSPECTS,
    "verdict__restart_limit_without_progress": st.sampled_from([1, 2]),
    "verdict__proof": st.one_of(st.none(), st.sampled_from(EndRunning)),
    "verdict__proof_at": st.one_of(st.none(), SECONDS, LATE),
    "verdict__last_root_at": st.one_of(st.none(), LATE),
    "verdict__in_job_restart_at": SECONDS,
    "record__disagreed": st.just("it was my data"),
    "record__wish": st.sampled_from([Wish(max_restarts=0), Wish(max_restarts=2)]),
    "record__attempts": st.sampled_from(OUTCOMES).map(
        lambda outcome: (AttemptRecord(attempt=FIRST, started_at=at(10), outcome=outcome),)
    ),
    "progress": st.one_of(st.none(), PROGRESSES),
    "earlier": EARLIER,
}
"""What may be otherwise than in a question with everything in order."""

DYING = with_(
    running(ASKED),
    verdict__proof=EndRunning.DEAD_RANK,
    verdict__proof_at=at(3610),
    progress=replace(STEPPING, step_at=at(3612), as_of=at(3690)),
)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """An ended or a dying attempt, with a few things otherwise than they should be."""
    asked = draw(st.sampled_from([ASKED, ASKED, DYING]))
    names = draw(st.lists(st.sampled_from(sorted(CHANGES)), max_size=5, unique=True))
    for name in sorted(names):
        if not (name.startswith("job__") and asked.fleet.job is None):
            asked = with_(asked, **{name: draw(CHANGES[name])})
    return asked


def answers_of(advice: Advice) -> dict[str, Answer]:
    return {item.name: item.answer for item in advice.guards}


@given(questions())
def test_a_restart_begins_only_when_every_guard_that_must_be_known_says_yes(asked: Question) -> None:
    advice = decide(asked)
    assert [item.name for item in advice.guards] == [rule.name for rule in GUARDS]
    if advice.may_begin and not advice.park:
        found = answers_of(advice)
        assert {name for name in MUST_BE_YES if found[name] is not Answer.YES} == set()
        assert Answer.NO not in found.values()


@given(questions())
def test_what_somebody_decided_is_never_undone(asked: Question) -> None:
    advice = decide(asked)
    job, known = asked.fleet.job, asked.record.attempt(asked.incident.attempt)
    somebody = asked.record.disagreed or (known is not None and known.outcome in ENDED_BY_DECISION)
    if job is not None and place_of(asked) is not Place.GONE:
        somebody = somebody or job.state in ENDED_BY_DECISION or job.cancelled_by is not None
        somebody = somebody or job.preempted_at is not None or job.hold in (Hold.USER, Hold.ADMIN)
        somebody = somebody or (
            job.restart_count == 0 and any(step.cancelled_by is not None for step in job.steps or ())
        )
    if somebody:
        assert advice.action is Remedy.NONE
        assert not advice.may_begin


@given(questions())
def test_a_running_attempt_is_never_ended_without_proof_and_silence(asked: Question) -> None:
    advice, progress = decide(asked), asked.progress
    if place_of(asked) is Place.LIVING:
        assert advice.ends_running is not None or not advice.may_begin
        assert not advice.park
    if advice.ends_running is None:
        return
    assert asked.verdict.proof is advice.ends_running
    assert asked.verdict.proof_at is not None
    assert progress is not None
    assert progress.step_at is not None
    if advice.ends_running is EndRunning.HANG:
        assert progress.step_at <= asked.verdict.proof_at
    else:
        quiet = progress.as_of - max(progress.step_at, asked.verdict.proof_at)
        assert quiet >= timedelta(seconds=asked.limits.dead_rank_min_s)


@given(questions())
def test_exclusions_never_exceed_the_caps(asked: Question) -> None:
    advice = decide(asked)
    decision, job, partition = caps(asked)
    mine = {item.node for item in asked.fleet.exclusions if item.job == str(JOB)}
    everybody = {item.node for item in asked.fleet.exclusions} & {node.name for node in asked.fleet.nodes}
    new = set(advice.exclude)
    assert len(advice.exclude) == len(new) <= decision
    assert not new or len(mine) + len(new) <= job
    assert not new or len(everybody) + len(new) <= partition
    assert new <= {suspect.node for suspect in asked.verdict.suspects}
    assert (advice.action is Remedy.RESTART_EXCLUDING) is bool(new)
    storm = asked.fleet.storm
    assert not (new and storm is not None and storm.cleared_at is None)
    if new and asked.fleet.nodes:
        assert new <= {node.name for node in asked.fleet.nodes}


@given(questions())
def test_every_hold_and_every_wait_names_when_or_on_what_it_is_decided_again(asked: Question) -> None:
    advice = decide(asked)
    if advice.hold or advice.park or advice.action is Remedy.WAIT:
        assert advice.decide_again_at is not None or advice.decide_again_on
    if advice.park:
        assert advice.park_until is not None
        assert advice.park_until > asked.now
    assert advice.reasons
    assert all(advice.reasons)
    assert all(item.reason for item in advice.guards)
    assert advice.expires_at > asked.now


@given(questions())
def test_an_old_or_missing_look_begins_nothing(asked: Question) -> None:
    as_of = asked.fleet.as_of
    if as_of is None or asked.now - as_of > timedelta(seconds=asked.limits.view_max_age_s):
        assert not decide(asked).may_begin


@given(questions())
def test_nobody_is_run_twice(asked: Question) -> None:
    if asked.fleet.others:
        assert not decide(asked).may_begin


@given(questions())
def test_a_job_that_wants_no_restarts_gets_none(asked: Question) -> None:
    advice = decide(with_(asked, record__wish=Wish(max_restarts=0)))
    assert not advice.may_begin or place_of(asked) is Place.REQUEUED


@given(questions())
def test_the_same_question_has_the_same_answer(asked: Question) -> None:
    assert decide(asked) == decide(asked)
    assert same_decision(decide(asked), decide(replace(asked, generation=2)))


@given(questions(), st.integers(1, 5))
def test_nothing_is_different_a_moment_later_but_times(asked: Question, later_s: int) -> None:
    """With the view refreshed and nothing else changed, only a time that was named can change the decision."""
    now, again = decide(asked), decide(_later(asked, later_s))
    named = [item.ask_again_at for item in now.guards if item.ask_again_at is not None]
    named += [at for at in (now.decide_again_at,) if at is not None]
    passed = any(NOW < moment <= NOW + timedelta(seconds=later_s) for moment in named)
    if not passed:
        assert same_decision(now, again)


def _later(asked: Question, later_s: int) -> Question:
    as_of = asked.fleet.as_of
    moved = None if as_of is None else as_of + timedelta(seconds=later_s)
    return replace(asked, now=asked.now + timedelta(seconds=later_s), fleet=replace(asked.fleet, as_of=moved))
