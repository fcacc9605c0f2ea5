"""A job that is slow or diverges goes on: it is told, a node is named where one shows why, and nothing is done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relance.attribution import attribute
from relance.domain.faults import FaultDomain, Remedy, RestartHint, Role, Scope
from relance.domain.findings import Certainty, Finding, FindingKind, RuleHit
from relance.domain.verdicts import CaseFile, Strength, Verdict
from tests.unit.attribution.cases import FAILED, FIRST, RUNNING, at, case, hit, trained_until


def told(kind: FindingKind, symptom: str, when: float, *hits: RuleHit, **changes: Any) -> Finding:  # noqa: ANN401
    first = Finding(
        id=f"{symptom} {when} {len(hits)}",
        attempt=FIRST,
        detector=kind.value,
        kind=kind,
        certainty=Certainty.CONFIRMED,
        symptom=symptom,
        summary="from step 90 on steps take 15 % longer: 1.15 s instead of 1 s",
        first_evidence_at=at(when),
        symptom_at=at(when),
        hits=hits,
    )
    return replace(first, **changes)


def throttled(node: str = "n3", when: float = 150) -> RuleHit:
    return hit(
        "clocks_throttled", when, scope=Scope.METRICS, node=node, role=Role.CONTEXT, domain=FaultDomain.HARDWARE,
        file="prometheus/m/n", restart=RestartHint.NOTHING, captures={"slow": "yes"}, excerpt=f"{node} is throttled",
    )  # fmt: skip


SLOW = told(FindingKind.SLOWDOWN, "slowdown", 140)
SLOW_THERE = told(FindingKind.SLOWDOWN, "slowdown", 140, throttled())


def running(*findings: Finding, **changes: Any) -> CaseFile:  # noqa: ANN401 - any field of a case
    given = case(job=RUNNING, progress=trained_until(290))
    return replace(given, findings=findings, **changes)


def test_a_slow_job_without_a_sign_on_a_node_is_left_alone_and_nobody_is_blamed() -> None:
    verdict = attribute(running(SLOW))
    assert (verdict.cause, verdict.remedy, verdict.suspects) == ("slowdown", Remedy.NONE, ())
    assert verdict.remedy_reason.startswith("no node evidence")
    assert "15 % longer" in verdict.summary


def test_with_a_sign_on_one_node_that_node_is_named_and_still_nothing_is_done() -> None:
    verdict = attribute(running(SLOW_THERE))
    assert (verdict.cause, verdict.domain, verdict.remedy) == ("clocks_throttled", FaultDomain.HARDWARE, Remedy.NONE)
    assert [(each.node, each.strength) for each in verdict.suspects] == [("n3", Strength.WEAK)]
    assert "n3" in verdict.remedy_reason
    assert verdict.to_leave_out == ()


def test_a_sign_that_comes_later_names_the_node() -> None:
    verdict = attribute(running(SLOW, SLOW_THERE))
    assert [each.node for each in verdict.suspects] == ["n3"]


def test_a_sign_beside_it_that_tells_of_the_nodes_health_names_the_node() -> None:
    health = told(FindingKind.NODE_HEALTH, "clocks_throttled", 160, throttled())
    assert [each.node for each in attribute(running(SLOW, health)).suspects] == ["n3"]


def test_where_many_nodes_show_it_none_stands_out() -> None:
    verdict = attribute(running(told(FindingKind.SLOWDOWN, "slowdown", 140, throttled("n2"), throttled("n3"))))
    assert (verdict.cause, verdict.suspects) == ("slowdown", ())
    assert verdict.remedy_reason.startswith("no node evidence")
    assert "2 nodes show" in verdict.summary


def test_a_slowdown_that_is_over_is_none() -> None:
    over = told(FindingKind.SLOWDOWN, "slowdown_over", 240, over=True)
    verdict = attribute(running(SLOW_THERE, over))
    assert (verdict.remedy, verdict.domain, verdict.suspects) == (Remedy.NONE, FaultDomain.NONE, ())


def test_even_beside_a_caught_failure_a_slow_job_that_runs_is_never_restarted() -> None:
    caught = told(FindingKind.CRASH, "python_exception", 100, hit("python_exception", 100))
    verdict = attribute(running(caught, SLOW_THERE))
    assert verdict.remedy is Remedy.NONE


DIVERGED = told(
    FindingKind.DIVERGENCE, "loss_nan", 140, summary="the loss is no number from step 90 on", durable_before=80
)


def test_what_is_said_of_a_loss_that_ran_away_names_the_checkpoint_before_it() -> None:
    verdict = attribute(running(DIVERGED))
    assert (verdict.cause, verdict.domain, verdict.remedy) == ("loss_nan", FaultDomain.APPLICATION, Remedy.NONE)
    assert "step 80" in verdict.remedy_reason


def of_both() -> Verdict:
    return attribute(running(SLOW, DIVERGED))


def test_a_loss_that_ran_away_comes_before_slowness() -> None:
    assert of_both().cause == "loss_nan"


@pytest.mark.parametrize("over", [False, True], ids=["still", "come back"])
def test_an_end_after_it_is_explained_by_it_only_while_it_lasts(*, over: bool) -> None:
    ended = told(FindingKind.EXIT, "ended_failed", 200)
    back = [told(FindingKind.DIVERGENCE, "divergence_over", 190, over=True)] if over else []
    verdict = attribute(replace(running(DIVERGED, *back, ended), job=FAILED))
    assert (verdict.cause == "loss_nan") is not over
