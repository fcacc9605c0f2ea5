"""First evidence: where a cause first shows, which is seldom where it is loudest."""

from __future__ import annotations

from dataclasses import replace

from relance.attribution import attribute
from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import RuleHit
from relance.domain.verdicts import CaseFile, Verdict
from tests.unit.attribution.cases import (
    at,
    case,
    down,
    finding,
    hit,
    key_error,
    killed,
    launch_failure,
    teardown,
    timeout,
    trained_until,
    xid79,
)


def first(given: CaseFile) -> RuleHit:
    return attribute(given).evidence[0]


def shown(verdict: Verdict) -> list[str]:
    return [line.symptom for line in verdict.evidence]


def test_the_nodes_row_is_shown_before_what_the_program_made_of_it() -> None:
    given = case(launch_failure(101), xid79(99), teardown(102))
    assert shown(attribute(given))[0] == "gpu_fell_off_bus"


def test_of_like_rows_on_a_suspect_the_earliest_is_shown_first() -> None:
    worn = xid79(95, symptom="row_remap_failure", rule="remap")
    given = case(xid79(99), worn, killed(100))
    assert first(given).when == at(95)


def test_what_a_rank_of_another_node_says_is_not_the_first_evidence() -> None:
    said = hit(
        "cuda_ecc", 95, rank=3, domain=FaultDomain.HARDWARE, suspect=SuspectKind.RANK, restart=RestartHint.EXCLUDE
    )
    assert first(case(xid79(99), said)).symptom == "cuda_ecc"
    assert first(case(xid79(99), replace(said, rank=5))).symptom == "gpu_fell_off_bus"


def test_what_was_said_long_before_is_not_of_the_same_event() -> None:
    doubt = hit("bad_checkpoint", 100, role=Role.MAYBE)
    assert first(case(doubt, key_error(195))).symptom == "bad_checkpoint"
    assert first(case(replace(doubt, at=at(20), seen_at=at(21)), key_error(195))).symptom == "python_exception"


def test_of_the_ranks_that_show_a_fault_the_first_is_shown() -> None:
    given = case(*(key_error(100 + rank, rank=rank) for rank in (3, 1, 5)))
    assert (first(given).rank, first(given).when) == (1, at(101))


def test_lines_of_one_file_that_were_written_together_are_in_the_order_of_the_file() -> None:
    """Ranks write side by side: half a second says nothing."""
    one, other = key_error(100.4, rank=1, offset=1), key_error(100, rank=2, offset=2)
    assert first(case(other, one)).rank == 1


def test_where_times_cannot_be_compared_the_programs_own_line_comes_before_a_hosts() -> None:
    row = xid79(99, at=None, seen_at=at(300), domain=FaultDomain.HARDWARE)
    own = hit(
        "cuda_ecc", 90, at=None, seen_at=at(300), rank=3, domain=FaultDomain.HARDWARE, suspect=SuspectKind.RANK,
        restart=RestartHint.EXCLUDE,
    )  # fmt: skip
    verdict = attribute(case(row, own, job=None))
    assert verdict.cause == "gpu_fell_off_bus"
    assert first(case(row, own, job=None)).symptom == "cuda_ecc"


def test_what_foreshadowed_a_fault_in_the_same_log_is_where_it_first_shows() -> None:
    drop = hit("loss_scale_drop", 60, role=Role.CONTEXT)
    end = hit("loss_scale_exhausted", 100)
    assert first(case(drop, end)).symptom == "loss_scale_drop"
    assert first(case(replace(drop, file="other.log"), end)).symptom == "loss_scale_exhausted"


def test_the_end_of_a_process_is_shown_where_it_is_first_told() -> None:
    exited = replace(killed(100), symptom="worker_exit", rule="worker-exit", offset=9000, role=Role.CONTEXT)
    assert first(case(killed(100), exited)).symptom == "worker_exit"
    other = replace(exited, rank=5, captures={"node": "n3", "task": "5"})
    assert first(case(killed(100), other)).symptom == "task_killed"


def test_the_ends_of_two_processes_are_told_apart_by_their_numbers() -> None:
    ours = replace(killed(100), captures={"node": "n2", "pid": "41"})
    told = replace(ours, symptom="worker_exit", rule="worker-exit", offset=9000, role=Role.CONTEXT)
    assert first(case(ours, told)).symptom == "worker_exit"
    assert first(case(ours, replace(told, captures={"node": "n2", "pid": "77"}))).symptom == "task_killed"


def test_for_a_node_that_the_scheduler_lost_the_rows_on_it_are_shown_and_notes_last() -> None:
    note = xid79(80, "n4", scope=Scope.NOTES, file="note.txt", symptom="bmc_event", rule="bmc", role=Role.MAYBE)
    row = xid79(120, "n4", role=Role.MAYBE, symptom="pcie_nonfatal", rule="pcie")
    elsewhere = xid79(110, "n1", role=Role.MAYBE, symptom="pcie_nonfatal", rule="pcie")
    verdict = attribute(case(timeout(160, 0), note, row, elsewhere, node_views=(down("n4"),)))
    assert verdict.cause == "node_unreachable"
    assert shown(verdict) == ["pcie_nonfatal", "bmc_event"]


def test_what_training_went_on_after_is_not_where_a_later_fault_first_shows() -> None:
    given = case(key_error(100, rank=1), key_error(195, rank=3), progress=trained_until(190))
    assert first(given).when == at(195)


def test_few_lines_are_shown_each_once() -> None:
    rows = [key_error(100 + rank / 10, rank=rank) for rank in range(8)]
    twice = case(findings=(finding(*rows), finding(*rows[::-1])))
    evidence = attribute(twice).evidence
    assert len(evidence) == 6
    assert len({(line.rank, line.offset) for line in evidence}) == 6


def test_what_the_runner_up_says_of_the_same_node_is_shown_beside() -> None:
    verdict = attribute(case(xid79(99), launch_failure(101)))
    assert "gpu_fell_off_bus" in shown(verdict)
    assert "launch_failure" in shown(verdict)
