from __future__ import annotations

import pytest

from relance.simulation import step_messages


@pytest.mark.parametrize(
    ("ranks", "returncode", "line"),
    [
        ([3], -9, "srun: error: n1: task 3: Killed"),
        ([7, 1, 2, 3, 5], -15, "srun: error: n1: tasks 1-3,5,7: Terminated"),
        ([0, 1], 1, "srun: error: n1: tasks 0-1: Exited with exit code 1"),
        ([2], -11, "srun: error: n1: task 2: Segmentation fault"),
        ([2], -6, "srun: error: n1: task 2: Aborted"),
    ],
)
def test_bad_ends_are_told_as_srun_tells_them(ranks: list[int], returncode: int, line: str) -> None:
    assert step_messages.task_ended("n1", ranks, returncode) == line


@pytest.mark.parametrize(("rank", "ranks", "label"), [(0, 1, b"0: "), (3, 10, b"3: "), (3, 11, b"03: ")])
def test_labels_are_as_wide_as_the_highest_rank(rank: int, ranks: int, label: bytes) -> None:
    assert step_messages.label(rank, ranks) == label


def test_a_requeue_is_told_by_slurmstepd() -> None:
    line = step_messages.step_cancelled(60811, "fg-31", 1_789_825_454.0, "DUE TO JOB REQUEUE")
    assert (
        line == "slurmstepd: error: *** STEP 60811.0 ON fg-31 CANCELLED AT 2026-09-19T13:44:14 DUE TO JOB REQUEUE ***"
    )
