"""Who stood out in a hang, and nodes that are left out once an attempt has ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relance.attribution import attribute, faults_sentence
from relance.domain.faults import FaultDomain, Remedy, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import Certainty, Finding, FindingKind, OddNode, Sign
from relance.domain.stages import EndRunning
from relance.domain.verdicts import Strength, Suspect
from tests.unit.attribution.cases import RUNNING, at, case, finding, hit, key_error, xid79

SAID = "no progress for 200 s after step 40"


def odd(node: str, *signs: Sign) -> OddNode:
    return OddNode(node=node, by=frozenset(signs))


def hang(*odd_ones: OddNode, certainty: Certainty = Certainty.CONFIRMED, **fields: Any) -> Finding:  # noqa: ANN401 - any field
    return finding(
        kind=FindingKind.HANG, certainty=certainty, symptom="hang", summary=SAID, odd=odd_ones,
        **{"id": f"fnd-{odd_ones}", **fields},
    )  # fmt: skip


def health(symptom: str = "row_remap_pending", node: str = "n3", **fields: Any) -> Finding:  # noqa: ANN401 - any field
    """A node's metric told of a state that needs a reset, while steps went on."""
    sign = hit(
        symptom, 10, scope=Scope.METRICS, role=Role.CONTEXT, domain=FaultDomain.HARDWARE, suspect=SuspectKind.SELF,
        restart=RestartHint.NOTHING, node=node, device="gpu2", file=f"prometheus/{symptom}/{node}",
    )  # fmt: skip
    return finding(
        sign, kind=FindingKind.NODE_HEALTH, certainty=Certainty.SUSPECTED, symptom=symptom, symptom_at=at(10),
        **{"isolate": (node,), "id": f"fnd-{symptom}-{node}", **fields},
    )  # fmt: skip


@pytest.mark.parametrize(
    "signs",
    [
        {Sign.DEVICE},
        {Sign.KERNEL, Sign.GPU_SIGNATURE},
        {Sign.NODE_SILENT, Sign.GPU_SIGNATURE},
        {Sign.NODE_SILENT, Sign.COLLECTIVE},
    ],
)
def test_a_hang_with_hard_evidence_on_the_odd_node_goes_on_without_it(signs: set[Sign]) -> None:
    verdict = attribute(case(job=RUNNING, findings=(hang(odd("n3", *signs)),)))

    assert (verdict.remedy, verdict.proof) == (Remedy.RESTART_EXCLUDING, EndRunning.HANG)
    assert [(item.node, item.strength) for item in verdict.suspects] == [("n3", Strength.HARD)]


@pytest.mark.parametrize(
    "signs", [{Sign.GPU_SIGNATURE}, {Sign.STACKS}, {Sign.STACKS, Sign.COLLECTIVE}, {Sign.NODE_SILENT}]
)
def test_where_a_rank_stood_is_weak_evidence_against_its_node(signs: set[Sign]) -> None:
    verdict = attribute(case(job=RUNNING, findings=(hang(odd("n3", *signs)),)))

    assert verdict.remedy is Remedy.RESTART
    assert [(item.node, item.strength) for item in verdict.suspects] == [("n3", Strength.WEAK)]


def test_the_same_node_that_stands_out_again_within_a_week_is_left_out() -> None:
    before = Suspect(node="n3", strength=Strength.WEAK, reason="it stood out")
    history = (("n3", before, at(-86_400)),)

    verdict = attribute(case(job=RUNNING, findings=(hang(odd("n3", Sign.STACKS)),), node_history=history))

    assert verdict.remedy is Remedy.RESTART_EXCLUDING


def test_what_two_findings_of_one_hang_say_of_a_node_counts_together() -> None:
    found = (hang(odd("n3", Sign.NODE_SILENT)), hang(odd("n3", Sign.COLLECTIVE)))

    verdict = attribute(case(job=RUNNING, findings=found))

    assert [item.strength for item in verdict.suspects] == [Strength.HARD]


def test_the_first_node_is_not_suspect_for_an_idle_gpu_as_in_any_save() -> None:
    verdict = attribute(case(job=RUNNING, findings=(hang(odd("n1", Sign.GPU_SIGNATURE)),)))

    assert verdict.suspects == ()


def test_a_suspected_hang_makes_nobody_suspect() -> None:
    verdict = attribute(case(job=RUNNING, findings=(hang(odd("n3", Sign.DEVICE), certainty=Certainty.SUSPECTED),)))

    assert (verdict.remedy, verdict.suspects) == (Remedy.WAIT, ())


def test_a_node_that_was_failing_is_left_out_once_the_attempt_has_ended_for_another_reason() -> None:
    timed_out = hit(
        "collective_timeout", 100, rank=1, domain=FaultDomain.UNKNOWN, role=Role.CASCADE, restart=RestartHint.OK
    )

    verdict = attribute(case(findings=(health(), finding(timed_out))))

    assert verdict.remedy is Remedy.RESTART_EXCLUDING
    ((suspect),) = verdict.suspects
    assert (suspect.node, suspect.strength, suspect.isolated) == ("n3", Strength.WEAK, True)
    assert suspect.before
    assert "n3" in verdict.remedy_reason
    assert "node" not in faults_sentence(verdict)


def test_a_node_that_is_failing_is_nothing_to_act_on_while_the_job_goes_on() -> None:
    verdict = attribute(case(job=RUNNING, findings=(health(),)))

    assert (verdict.remedy, verdict.suspects, verdict.proof) == (Remedy.NONE, (), None)


def test_a_stop_is_no_restart_without_a_node() -> None:
    bug = replace(key_error(100), restart=RestartHint.NO)

    verdict = attribute(case(findings=(health(), finding(bug))))

    assert verdict.remedy is Remedy.STOP
    assert verdict.suspects == ()


def test_a_node_to_blame_is_not_named_a_second_time() -> None:
    verdict = attribute(case(findings=(health(node="n2"), health("pcie_degraded", node="n3"), finding(xid79(99)))))

    assert [(item.node, item.isolated) for item in verdict.suspects] == [("n2", False), ("n3", True)]
    assert faults_sentence(verdict).startswith("It is a node, not your code: n2 (")


def test_a_sign_that_calls_for_no_isolation_leaves_nobody_out() -> None:
    timed_out = hit(
        "collective_timeout", 100, rank=1, domain=FaultDomain.UNKNOWN, role=Role.CASCADE, restart=RestartHint.OK
    )

    verdict = attribute(case(findings=(health("clock_skew", isolate=()), finding(timed_out))))

    assert (verdict.remedy, verdict.suspects) == (Remedy.RESTART, ())


@pytest.mark.parametrize(("showing", "isolated"), [(1, ["n2"]), (2, []), (4, [])])
def test_a_state_that_many_nodes_of_the_attempt_show_leaves_none_of_them_out(showing: int, isolated: list[str]) -> None:
    timed_out = hit(
        "collective_timeout", 100, rank=1, domain=FaultDomain.UNKNOWN, role=Role.CASCADE, restart=RestartHint.OK
    )
    told = [health(node=node) for node in ("n2", "n3", "n4", "n1")[:showing]]

    verdict = attribute(case(findings=(*told, finding(timed_out))))

    assert [suspect.node for suspect in verdict.suspects] == isolated
