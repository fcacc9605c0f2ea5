"""One job as a table shows it, over the record that was read of it before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relance.slurm.errors import UnreadableError
from relance.slurm.parsing.briefs import BRIEF_COLUMNS, parse_brief, parse_exclusions
from relance.slurm.records import ExitCode, HeldBy, SlurmJob
from tests.unit.slurm.recorded import MARK, job_with, table

TITLES = ("JOBID", *(column.upper() for column in BRIEF_COLUMNS[1:]))
FAILED = job_with(
    states=("FAILED",), restart_count=0, submitted_at=100, started_at=110, ends_at=200, exit=ExitCode(code=1, signal=0),
    features="h100", dependency="afterany:3",
)  # fmt: skip
PENDING = {
    "jobid": "12", "state": "PENDING", "restartcnt": "1", "submittime": "201", "starttime": "N/A",
    "reason": "BeginTime", "eligibletime": "322", "preempttime": "N/A", "requeue": "1", "nodelist": "",
    "partition": "train", "prioritylong": "4294901756", "comment": "relance:off\nbecause of=me",
}  # fmt: skip


def shown(*rows: dict[str, str], former: SlurmJob = FAILED) -> SlurmJob | None:
    cells = (tuple(row[column] for column in BRIEF_COLUMNS) for row in rows)
    return parse_brief(table(TITLES, *cells), mark=MARK, former=former)


def test_what_changes_is_taken_from_the_table_and_the_rest_from_the_record() -> None:
    assert shown(PENDING) == replace(
        FAILED, states=("PENDING",), restart_count=1, submitted_at=201, started_at=None, reason="BeginTime",
        eligible_at=322, requeue=True, nodes=(), partition="train", priority=4294901756, held_by=HeldBy.NOBODY,
        comment="relance:off\nbecause of=me",
    )  # fmt: skip


def test_a_hold_and_a_preemption_are_seen() -> None:
    held = shown(PENDING | {"reason": "JobHeldUser", "prioritylong": "0"})
    assert held is not None
    assert held.held_by is HeldBy.USER
    preempted = shown(PENDING | {"preempttime": "199"})
    assert preempted is not None
    assert preempted.preempted_at == 199


def test_an_ended_job_that_is_as_it_was_keeps_its_exit() -> None:
    same = PENDING | {"state": "FAILED", "restartcnt": "0", "submittime": "100", "starttime": "110", "reason": "None"}
    found = shown(same)
    assert found is not None
    assert found.exit == FAILED.exit
    assert found.ends_at == FAILED.ends_at


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="not there"),
        pytest.param([PENDING, PENDING], id="there twice"),
        pytest.param([PENDING | {"jobid": "13"}], id="another job"),
        pytest.param([PENDING | {"state": "FAILED"}], id="another attempt has ended"),
        pytest.param([PENDING | {"state": "CANCELLED", "restartcnt": "0", "submittime": "100"}], id="ended otherwise"),
        pytest.param([PENDING | {"state": "FROZEN"}], id="a state that is not known"),
        pytest.param([PENDING | {"requeue": "perhaps"}], id="a flag that is not known"),
        pytest.param([PENDING | {"restartcnt": "N/A"}], id="no restart count"),
        pytest.param([PENDING | {"submittime": "N/A"}], id="no submit time"),
        pytest.param([PENDING | {"prioritylong": "0.5"}], id="a priority of another form"),
        pytest.param([PENDING | {"nodelist": "gpu[1"}], id="nodes that cannot be read"),
    ],
)
def test_what_the_table_does_not_tell_for_sure_is_left_to_the_full_record(rows: list[dict[str, str]]) -> None:
    assert shown(*rows) is None


@pytest.mark.parametrize("output", [b"", table(("JOBID", "STATE")), table(TITLES)[:-3]])
def test_another_table_is_unreadable(output: bytes) -> None:
    with pytest.raises(UnreadableError):
        parse_brief(output, mark=MARK, former=FAILED)


def test_exclusions_are_those_of_the_one_job() -> None:
    titles = ("JOBID", "EXC_NODES")

    def read(*rows: tuple[str, str]) -> Any:  # noqa: ANN401 - compared below
        return parse_exclusions(table(titles, *rows), mark=MARK, job_id=12)

    assert read(("12", "gpu[001-002]")) == ("gpu001", "gpu002")
    assert read(("12", "(null)")) == ()
    assert read(("12", "")) == ()
    assert read(("13", "gpu001")) is None
    assert read() is None
    assert read(("12", "gpu001"), ("12", "gpu002")) is None
    with pytest.raises(UnreadableError):
        parse_exclusions(table(("JOBID",), ("12",)), mark=MARK, job_id=12)
