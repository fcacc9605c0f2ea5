"""Several runs of one output: what came back each time, what went from node to node, and what a later run settles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relance.attribution import attribute
from relance.attribution.runs import judge_runs
from relance.domain.faults import FaultDomain, Remedy, RestartHint, Role, SuspectKind
from relance.domain.findings import RuleHit
from relance.domain.keys import AttemptKey
from relance.domain.verdicts import CaseFile, Strength, Verdict
from tests.unit.attribution.cases import (
    JOB,
    NODES,
    RANKS,
    at,
    case,
    hit,
    key_error,
    killed,
    launch_failure,
    trained_until,
    xid79,
)


def run(number: int, *hits: RuleHit, steps: int | None = None, **changes: Any) -> CaseFile:  # noqa: ANN401 - any field
    """One run of an output whose scheduler is not known; `steps`: how far it came."""
    progress = None if steps is None else replace(trained_until(90), highest_step=steps, step=steps)
    given = case(*hits, job=None, progress=progress, attempt=AttemptKey(job=JOB, restart_count=number))
    return replace(given, **changes)


def runs(*hits: RuleHit | None, steps: tuple[int | None, ...] = ()) -> Verdict:
    """The verdict on runs with these lines, one each; None: a run without any."""
    reached = (*steps, *[None] * len(hits))
    made = [
        run(number, *([] if line is None else [line]), steps=reached[number]) for number, line in enumerate(hits)
    ]  # fmt: skip
    return judge_runs(made)


def named(verdict: Verdict) -> tuple[str, ...]:
    return tuple(item.node for item in verdict.suspects)


def test_an_unknown_fault_three_times_without_progress_is_no_accident() -> None:
    assert runs(killed(100), killed(100)).remedy is Remedy.RESTART
    assert runs(killed(100), killed(100), killed(100)).remedy is Remedy.STOP


def test_runs_that_each_came_further_are_not_stopped() -> None:
    lines = [killed(100)] * 4
    assert runs(*lines, steps=(100, 200, 300, 400)).remedy is Remedy.RESTART
    assert runs(*lines, steps=(100, 100, 100, 100)).remedy is Remedy.STOP


def test_a_bug_that_came_again_needs_no_try_to_confirm_it() -> None:
    assert runs(key_error(100)).confirmable
    again = runs(key_error(100), key_error(100))
    assert (again.remedy, again.confirmable) == (Remedy.STOP, False)


def test_two_exceptions_of_other_kinds_are_two_faults() -> None:
    other = key_error(100, excerpt="[rank3]: OSError: gone", captures={"exception": "OSError"})
    verdict = runs(other, key_error(100))
    assert (verdict.remedy, verdict.confirmable) == (Remedy.STOP, True)


def test_the_fault_of_the_last_run_is_judged_not_one_that_was_mended() -> None:
    verdict = runs(key_error(100), key_error(100), xid79(100))
    assert (verdict.cause, named(verdict)) == ("gpu_fell_off_bus", ("n2",))


def test_the_evidence_is_of_the_first_run_with_the_fault() -> None:
    verdict = runs(xid79(20), key_error(50), key_error(100))
    assert (verdict.cause, verdict.evidence[0].when) == ("python_exception", at(50))


def test_a_last_run_that_goes_on_has_recovered() -> None:
    going = run(1, steps=500)
    verdict = judge_runs([run(0, killed(100)), going])
    assert verdict == attribute(going)
    assert verdict.remedy is Remedy.NONE


@pytest.mark.parametrize(("by_hand", "cause"), [(True, "task_killed"), (False, "healthy")])
def test_what_had_failed_is_the_question_where_somebody_started_it_again(by_hand: bool, cause: str) -> None:
    assert judge_runs([run(0, killed(100)), run(1, steps=500)], by_hand=by_hand).cause == cause


def test_a_fault_that_came_three_times_outweighs_a_last_run_that_has_not_come_as_far_yet() -> None:
    often = [run(number, key_error(100)) for number in range(3)]
    verdict = judge_runs([*often, run(3, steps=5)])
    assert (verdict.cause, verdict.remedy) == ("python_exception", Remedy.STOP)


def test_a_run_that_a_person_ended_is_no_fault_of_the_runs_before() -> None:
    told = hit("user_cancelled", 100, domain=FaultDomain.USER, restart=RestartHint.SCHEDULER)
    verdict = runs(killed(100), killed(100), told)
    assert (verdict.domain, verdict.remedy) == (FaultDomain.USER, Remedy.NONE)


def doubtful(node: str, rank: int) -> RuleHit:
    """A CUDA error that does not say why, on one of the nodes."""
    return replace(launch_failure(100, rank), node=node)


def test_a_doubtful_fault_that_was_on_another_node_each_time_goes_with_the_job() -> None:
    verdict = runs(doubtful("n1", 0), doubtful("n2", 2), doubtful("n3", 4))
    assert (verdict.domain, verdict.remedy, named(verdict)) == (FaultDomain.APPLICATION, Remedy.STOP, ())
    assert (verdict.confirmable, verdict.restart_limit_without_progress) == (False, None)


def test_one_that_stays_on_a_node_is_that_nodes() -> None:
    verdict = runs(doubtful("n2", 2), doubtful("n2", 2), doubtful("n2", 2))
    assert (verdict.remedy, named(verdict)) == (Remedy.RESTART_EXCLUDING, ("n2",))


def test_a_broken_device_is_not_said_to_wander() -> None:
    verdict = runs(xid79(100, "n1"), xid79(100, "n2"), xid79(100, "n3"))
    assert verdict.remedy is Remedy.RESTART_EXCLUDING
    assert set(named(verdict)) == {"n1", "n2", "n3"}


def test_what_all_nodes_of_the_job_have_in_turn_is_not_theirs() -> None:
    pair: dict[str, Any] = {"nodes": NODES[:2], "rank_to_node": {rank: RANKS[rank] for rank in range(4)}}
    verdict = judge_runs([run(0, xid79(100, "n1"), **pair), run(1, xid79(100, "n2"), **pair)])
    assert (verdict.remedy, named(verdict), verdict.restart_limit_without_progress) == (Remedy.STOP, (), None)


def test_the_nodes_of_earlier_runs_are_kept_out_with_the_last() -> None:
    verdict = runs(xid79(100, "n1"), xid79(100, "n2"))
    assert set(named(verdict)) == {"n1", "n2"}
    assert {item.strength for item in verdict.suspects} == {Strength.HARD}


SEGFAULT = hit(
    "segfault", 100, rank=2, domain=FaultDomain.APPLICATION, suspect=SuspectKind.NONE, restart=RestartHint.ONCE
)


def test_a_fault_that_may_be_the_programs_follows_a_node_that_was_suspect_before() -> None:
    verdict = runs(xid79(100, "n2"), SEGFAULT)
    assert (verdict.domain, verdict.remedy) == (FaultDomain.HARDWARE, Remedy.RESTART_EXCLUDING)
    assert (named(verdict), verdict.confirmable) == (("n2",), False)


FOLLOWS_NOT = {
    "another node was suspect": (xid79(100, "n3"), SEGFAULT),
    "a fault that no device shows": (xid79(100, "n2"), replace(SEGFAULT, symptom="config_invalid")),
    "where it was is not known": (xid79(100, "n2"), replace(SEGFAULT, rank=None)),
}


@pytest.mark.parametrize("name", FOLLOWS_NOT)
def test_a_fault_does_not_follow_a_node_where(name: str) -> None:
    verdict = runs(*FOLLOWS_NOT[name])
    assert (verdict.domain, named(verdict)) == (FaultDomain.APPLICATION, ())


def test_a_job_of_one_node_is_not_told_to_go_without_it() -> None:
    one: dict[str, Any] = {"nodes": ("n2",), "rank_to_node": {2: "n2"}}
    verdict = judge_runs([run(0, xid79(100, "n2"), **one), run(1, SEGFAULT, **one)])
    assert verdict.domain is FaultDomain.APPLICATION


def test_a_run_without_a_step_made_no_progress_though_an_earlier_one_had() -> None:
    assert runs(*[killed(100)] * 4, steps=(100, None, None, None)).remedy is Remedy.STOP


def test_a_consequence_in_each_run_is_not_hidden_by_context() -> None:
    context = hit("cold_start", 5, role=Role.CONTEXT)
    lines = [run(number, context, key_error(100)) for number in range(2)]
    assert judge_runs(lines).cause == "python_exception"
