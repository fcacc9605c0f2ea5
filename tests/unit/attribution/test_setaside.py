"""What was set aside for a verdict, and why: the lines that an operator would ask about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relance.attribution import attribute
from relance.attribution.setaside import Reason, SetAside, set_aside
from relance.domain.faults import FaultDomain, RestartHint, Role, Scope
from relance.domain.findings import Beside
from relance.domain.verdicts import CaseFile
from relance.domain.views import JobState
from tests.unit.attribution.cases import FAILED, case, hit, key_error, teardown, timeout, trained_until, xid79


def rows(*cases: CaseFile) -> tuple[SetAside, ...]:
    return set_aside(cases, attribute(cases[-1]))


def reasons(found: Sequence[SetAside]) -> dict[str, Reason]:
    return {row.hit.symptom: row.reason for row in found}


def test_nothing_is_set_aside_where_one_line_says_all() -> None:
    assert rows(case(key_error(90))) == ()


def test_what_training_went_on_after_is_outlived() -> None:
    caught = hit("nccl_remote_error", 20)
    found = rows(case(caught, key_error(95), progress=trained_until(90)))
    assert reasons(found)["nccl_remote_error"] is Reason.OUTLIVED


def test_a_row_of_another_node_is_said_to_be_of_another_node() -> None:
    found = rows(case(key_error(90), xid79(80, node="n9")))
    assert [(row.reason, row.node) for row in found] == [(Reason.OTHER_NODE, "n9")]


def test_a_row_from_before_the_attempt_is_earlier() -> None:
    assert reasons(rows(case(key_error(90), xid79(-5000))))["gpu_fell_off_bus"] is Reason.EARLIER


def test_what_came_back_is_recovered() -> None:
    stall = hit("nfs_stall", 50, scope=Scope.KERNEL, domain=FaultDomain.STORAGE, node="n1", file="n1/kern.log")
    back = replace(stall, rule="nfs-recovered", symptom="nfs_recovered", role=Role.RECOVERY, at=stall.when, offset=9)
    assert reasons(rows(case(stall, back, key_error(90))))["nfs_stall"] is Reason.RECOVERED


def test_consequences_and_noise_of_the_shut_down_are_told_apart() -> None:
    late = hit("broken_pipe", 99, role=Role.MAYBE)
    found = reasons(rows(case(key_error(90), timeout(95, 1), teardown(97), late)))
    assert found["collective_timeout"] is Reason.CONSEQUENCE
    assert found["step_teardown"] is Reason.TEARDOWN
    assert found["broken_pipe"] is Reason.TEARDOWN


def test_what_a_line_beside_it_says_better_is_beside() -> None:
    milder = hit("disk_full", 90, beside=(Beside(rules=("key-*",), role=Role.CASCADE),))
    better = hit("key_missing", 91, rule="key-missing")
    assert reasons(rows(case(milder, better)))["disk_full"] is Reason.BESIDE


def test_what_could_be_a_cause_and_is_not_is_outweighed() -> None:
    maybe = hit("slow_storage", 93, role=Role.MAYBE, domain=FaultDomain.STORAGE, restart=RestartHint.OK)
    assert reasons(rows(case(key_error(90), maybe)))["slow_storage"] is Reason.OUTWEIGHED


def test_frightening_lines_of_a_job_that_completed_are_harmless() -> None:
    done = replace(FAILED, state=JobState.COMPLETED, exit_code=0)
    assert reasons(rows(case(key_error(90), job=done))) == {"python_exception": Reason.HARMLESS}


def test_lines_of_a_job_that_a_person_cancelled_are_decided() -> None:
    cancelled = replace(FAILED, state=JobState.CANCELLED)
    assert reasons(rows(case(key_error(90), job=cancelled))) == {"python_exception": Reason.DECIDED}


def test_like_lines_of_one_file_and_node_are_one_row_with_their_number() -> None:
    advice = [hit("advice", 10 + number, role=Role.DIAGNOSTIC) for number in range(7)]
    (row,) = rows(case(*advice, key_error(90)))
    assert (row.reason, row.count, row.hit.offset) == (Reason.DIAGNOSTIC, 7, 1000)


def test_there_are_never_too_many_and_the_most_telling_stay() -> None:
    advice = [hit(f"advice_{number}", 10, role=Role.DIAGNOSTIC, offset=number) for number in range(80)]
    found = rows(case(*advice, xid79(80, node="n9"), key_error(90)))
    assert len(found) == 50
    assert found[0].reason is Reason.OTHER_NODE


def test_what_is_the_cause_of_one_run_is_not_set_aside_because_another_run_outlived_it() -> None:
    everywhere = [key_error(20 + rank / 10, rank=rank) for rank in range(8)]
    outlived = case(*everywhere, progress=trained_until(90), job=None)
    fatal = case(*everywhere, job=None)
    verdict = attribute(fatal)
    assert len(verdict.evidence) < len(everywhere), "some are not shown as evidence"
    assert set_aside((outlived,), verdict)
    assert set_aside((outlived, fatal), verdict) == ()
