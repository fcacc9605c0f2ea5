"""Whatever lines come, in whatever roles and order: what no verdict may ever say."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from relance.attribution import attribute, faults_sentence
from relance.attribution.runs import judge_runs
from relance.domain.encoding import decode, encode
from relance.domain.faults import FaultDomain, Remedy, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import MAX_HITS, Beside, Certainty, Coverage, FindingKind, RuleHit, Sight
from relance.domain.verdicts import CaseFile, Presence, Verdict
from relance.domain.views import JobState, NodeState, NodeView, StepView
from tests.unit.attribution.cases import (
    FAILED,
    NODES,
    RANKS,
    RUNNING,
    at,
    case,
    earlier,
    finding,
    hit,
    trained_until,
    xid79,
)

SYMPTOMS = (
    "gpu_fell_off_bus", "gpu_recovery_action", "gpu_recovery_none", "python_exception", "task_killed", "task_exit",
    "task_terminated", "step_teardown", "user_cancelled", "preempted", "nfs_stall", "nfs_recovered", "node_failed",
    "collective_timeout", "in_job_restart", "done", "signal_received", "gpu_page_fault", "ib_retry_exceeded", "hang",
    "store_unreachable", "gdr_off", "spin_wait_hang", "port_down", "port_up", "path_missing", "watchdog_state",
    "no_progress_reported", "pod_scheduled", "ecc_contained", "cuda_oom",
)  # fmt: skip
FEW = settings(max_examples=25)
"""Cases are large: drawing one takes longer than judging it."""
PLACES = st.one_of(st.none(), st.sampled_from([*NODES, "n9"]))
SECONDS = st.integers(-900, 320)
CAPTURES = st.dictionaries(
    st.sampled_from([
        "node", "peer", "host", "rank", "task", "exit", "frame", "exception", "seq", "op", "enqueued", "timeout_ms",
        "pid", "slow", "own_address",
    ]),
    st.sampled_from(["n1", "n2-ib0", "n9", "5", "0-7", "1", "143", "train.py:41 in read", "", "ALLREDUCE", "10.0.0.1"]),
    max_size=6,
)  # fmt: skip
BESIDE = st.lists(
    st.builds(
        Beside,
        rules=st.sampled_from([("gpu-fell-off-bus",), ("n*",), ("*",)]),
        role=st.sampled_from(Role),
    ),
    max_size=2,
).map(tuple)
PRESENCE = st.builds(
    Presence,
    ranks=st.frozensets(st.integers(0, 9), max_size=8),
    nodes=st.frozensets(st.sampled_from([*NODES, "n9"]), max_size=4),
    last_at=st.dictionaries(st.integers(0, 9), SECONDS.map(at), max_size=8),
    first_at=st.one_of(st.none(), SECONDS.map(at)),
)


@st.composite
def hits(draw: st.DrawFn) -> RuleHit:
    """A hit of any kind, with or without time and place."""
    when = draw(SECONDS)
    timed = draw(st.booleans())
    return hit(
        draw(st.sampled_from(SYMPTOMS)),
        when,
        at=at(when) if timed else None,
        seen_at=at(when + draw(st.integers(-30, 30))),
        domain=draw(st.sampled_from(FaultDomain)),
        role=draw(st.sampled_from(Role)),
        suspect=draw(st.sampled_from(SuspectKind)),
        restart=draw(st.sampled_from(RestartHint)),
        scope=draw(st.sampled_from(Scope)),
        weight=draw(st.floats(0.0, 1.0)),
        node=draw(PLACES),
        rank=draw(st.one_of(st.none(), st.integers(0, 9))),
        device=draw(st.one_of(st.none(), st.just("0000:5e:00"))),
        file=draw(st.sampled_from(["job.log", "n2/kern.log", ""])),
        offset=draw(st.integers(0, 50)),
        excerpt=draw(st.sampled_from(["", "[rank3]: KeyError: 'x'", "n2 kernel: NVRM: Xid", "\n\n"])),
        captures=draw(CAPTURES),
        beside=draw(BESIDE),
    )


@st.composite
def cases(draw: st.DrawFn) -> CaseFile:
    """Any case: any lines in any findings of any job."""
    found = tuple(
        replace(
            finding(*draw(st.lists(hits(), max_size=4)), kind=kind),
            id=f"fnd-{index}",
            certainty=draw(st.sampled_from(Certainty)),
        )
        for index, kind in enumerate(draw(st.lists(st.sampled_from(FindingKind), max_size=2)))
    )
    job = draw(
        st.one_of(
            st.none(),
            st.builds(
                lambda **fields: replace(FAILED, **fields),
                state=st.sampled_from(JobState),
                exit_code=st.sampled_from([None, 0, 1, 137, 143]),
                steps=st.sampled_from([(), None, (StepView(name="17.0", state=JobState.FAILED),)]),
            ),
        )
    )
    views = draw(
        st.lists(
            st.builds(
                NodeView,
                name=st.sampled_from([*NODES, "n9"]),
                state=st.sampled_from(NodeState),
                reason=st.sampled_from(["", "Not responding", "Kill task failed", "NHC: check_xid"]),
                set_by=st.sampled_from([None, "slurm", "olga"]),
                since=st.one_of(st.none(), SECONDS.map(at)),
            ),
            max_size=2,
        )
    )
    return case(
        job=job,
        findings=found,
        nodes=draw(st.sampled_from([NODES, NODES[:1], ()])),
        rank_to_node=draw(st.sampled_from([RANKS, {}])),
        node_views=tuple(views),
        earlier=tuple(earlier("fp-1", count, progress=None) for count in range(draw(st.integers(0, 3)))),
        coverage=draw(st.sampled_from([(), (Coverage(source="job.log", sight=Sight.SEEN),)])),
        progress=draw(st.one_of(st.none(), SECONDS.map(trained_until))),
        signs=tuple(draw(st.lists(hits(), max_size=3))),
        presence=draw(st.one_of(st.none(), PRESENCE)),
        addresses=draw(st.sampled_from([{}, {"10.0.0.1": "n3"}])),
    )


@FEW
@given(cases())
def test_every_case_gets_a_whole_verdict(given_case: CaseFile) -> None:
    verdict = attribute(given_case)
    assert verdict.summary
    assert verdict.cause
    assert verdict.remedy_reason
    assert verdict.fingerprint.startswith("fp-")
    assert 0.0 <= verdict.confidence <= 1.0
    assert len(verdict.evidence) <= MAX_HITS
    assert faults_sentence(verdict).endswith(".")
    assert decode(Verdict, encode(verdict)) == verdict


@FEW
@given(cases())
def test_only_nodes_of_the_allocation_are_suspect_and_each_once(given_case: CaseFile) -> None:
    names = [suspect.node for suspect in attribute(given_case).suspects]
    assert len(names) == len(set(names))
    if given_case.nodes:
        assert set(names) <= set(given_case.nodes)


@FEW
@given(cases())
def test_no_node_is_blamed_where_somebody_decided_and_none_excluded_without_grounds(given_case: CaseFile) -> None:
    verdict = attribute(given_case)
    if verdict.domain in (FaultDomain.NONE, FaultDomain.USER):
        assert verdict.suspects == ()
        assert verdict.remedy is Remedy.NONE
    if verdict.remedy is Remedy.RESTART_EXCLUDING:
        assert any(suspect.strength.value == "hard" or suspect.before for suspect in verdict.suspects)
    assert judge_runs((given_case,)) == verdict, "a single run is judged as a case"


@FEW
@given(cases())
def test_an_attempt_that_the_scheduler_says_was_cancelled_or_completed_is_left_alone(given_case: CaseFile) -> None:
    for state in (JobState.CANCELLED, JobState.COMPLETED, JobState.TIMEOUT, JobState.PREEMPTED):
        job = replace(given_case.job or FAILED, state=state)
        assert attribute(replace(given_case, job=job)).remedy is Remedy.NONE


@FEW
@given(cases())
def test_the_order_of_findings_hits_and_signs_changes_nothing(given_case: CaseFile) -> None:
    lines = [*(item for one in given_case.findings for item in one.hits), *given_case.signs]
    assume(len({(item.rule, item.file, item.offset) for item in lines}) == len(lines))
    assume(len({item.kind for item in given_case.findings}) == len(given_case.findings))
    backwards = tuple(replace(item, hits=item.hits[::-1]) for item in given_case.findings[::-1])
    turned = replace(given_case, findings=backwards, signs=given_case.signs[::-1])
    assert attribute(given_case) == attribute(turned)


@FEW
@given(cases())
def test_what_training_went_on_after_makes_no_node_suspect_unless_it_is_slow(given_case: CaseFile) -> None:
    last = given_case.progress or trained_until(0)
    findings = tuple(item for item in given_case.findings if item.kind is not FindingKind.SLOWDOWN)
    gone_on = replace(
        given_case,
        findings=findings,
        progress=replace(last, step_at=at(2000)),
        node_views=(),
        job=RUNNING,
        presence=None,
    )
    assert attribute(gone_on).suspects == ()


@FEW
@given(cases())
def test_a_host_that_is_not_of_the_job_says_nothing_that_counts(given_case: CaseFile) -> None:
    assume(given_case.nodes)
    foreign = xid79(99, node="n9", beside=(Beside(rules=("*",), role=Role.ROOT),), excerpt="of a neighbour")
    alone = attribute(replace(given_case, signs=(foreign,), findings=(), node_views=(), presence=None))
    assert alone.suspects == ()
    assert alone.cause != "gpu_fell_off_bus"
    beside = replace(given_case, signs=(*given_case.signs, foreign))
    verdict, without = attribute(beside), attribute(given_case)
    assert verdict.suspects == without.suspects
    assert (verdict.domain, verdict.cause, verdict.remedy) == (without.domain, without.cause, without.remedy)


@FEW
@given(cases(), st.integers(2, 4))
def test_runs_that_were_alike_name_no_node_twice_and_none_that_no_run_was_on(given_case: CaseFile, runs: int) -> None:
    assume(given_case.nodes)
    names = [suspect.node for suspect in judge_runs((given_case,) * runs).suspects]
    assert len(names) == len(set(names))
    assert set(names) <= set(given_case.nodes)


QUIET = st.sampled_from([Role.CONTEXT, Role.DIAGNOSTIC])
NOTHING_SAID = ("hang", "no_progress_reported", "store_unreachable")
"""Symptoms whose whole meaning is that a job does not go on."""


@FEW
@given(cases(), st.data())
def test_a_job_that_steps_to_the_end_is_left_alone_whatever_is_only_context(
    given_case: CaseFile, data: st.DataObject
) -> None:
    lines = [item for one in given_case.findings for item in one.hits]
    quiet = tuple(
        replace(item, role=data.draw(QUIET), beside=())
        for item in (*lines, *given_case.signs)
        if item.symptom not in NOTHING_SAID
    )
    healthy = replace(
        given_case, findings=(), signs=quiet, node_views=(), progress=trained_until(298),
        job=data.draw(st.sampled_from([None, RUNNING])),
    )  # fmt: skip
    verdict = attribute(healthy)
    assert verdict.remedy in (Remedy.NONE, Remedy.WAIT)
    assert verdict.suspects == ()
