from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.slurm import commands
from relance.slurm.commands import Change
from relance.slurm.errors import BadArgumentError
from relance.slurm.parsing.glances import GLANCE_COLUMNS
from tests.unit.slurm.recorded import MARK

NO_IDS = ["", "0", "1 2", "1;2", "-1", "--all", "1_", "1_a", "1,2", "1\n", "१", "1.0", "1_[1-2]", "$(id)", "1" * 11]


def test_the_restart_sets_everything_in_one_call() -> None:
    change = Change(excluded_nodes=("gpu002", "gpu001", "x9"), starts_at=0)
    assert commands.update("3_1", change) == (
        "scontrol", "update", "JobId=3_1", "ExcNodeList=gpu[001-002],x9", "StartTime=now",
    )  # fmt: skip


def test_an_empty_list_clears_the_exclusions() -> None:
    assert commands.update("12", Change(excluded_nodes=()))[3:] == ("ExcNodeList=",)


def test_a_time_is_absolute_and_utc() -> None:
    assert commands.update("12", Change(starts_at=1796068800))[-1] == "StartTime=2026-11-30T20:00:00"


@pytest.mark.parametrize(
    "change",
    [
        Change(),
        Change(excluded_nodes=("gpu001 StartTime=now",)),
        Change(excluded_nodes=("gpu[001-002]",)),
        Change(starts_at=-1),
    ],
)
def test_a_value_that_is_not_fit_enters_no_command(change: Change) -> None:
    with pytest.raises(BadArgumentError):
        commands.update("12", change)


@pytest.mark.parametrize("job", NO_IDS)
def test_what_is_no_id_enters_no_command(job: str) -> None:
    for build in (commands.requeue, commands.release, commands.cancel):
        with pytest.raises(BadArgumentError):
            build(job)
    with pytest.raises(BadArgumentError):
        commands.requeue(job, if_living=True)
    with pytest.raises(BadArgumentError):
        commands.some_jobs([job])
    with pytest.raises(BadArgumentError):
        commands.accounting_of(["12", job], mark=MARK)


def test_no_jobs_are_not_all_jobs() -> None:
    with pytest.raises(BadArgumentError):
        commands.some_jobs([])
    with pytest.raises(BadArgumentError):
        commands.accounting_of([], mark=MARK)


@given(st.text(max_size=20))
def test_a_job_in_a_command_is_one_job(text: str) -> None:
    try:
        argv = commands.cancel(text)
    except BadArgumentError:
        return
    assert argv == ("scancel", text)
    assert text.replace("_", "").replace("+", "").isdigit()


def test_each_column_of_a_glance_ends_in_the_mark() -> None:
    columns = commands.glance(mark=MARK)[-1].removeprefix("--Format=").split(",")
    assert columns == [f"{column}:{MARK}" for column in GLANCE_COLUMNS]


@pytest.mark.parametrize("mark", ["|", "~abc~", "~" + "0" * 16, "~" + "g" * 16 + "~", ""])
def test_a_mark_that_could_be_guessed_or_misread_is_refused(mark: str) -> None:
    with pytest.raises(BadArgumentError):
        commands.glance(mark=mark)


def test_accounting_shows_every_attempt() -> None:
    argv = commands.accounting_since(1796068800, mark=MARK, has_restarts=True)
    assert argv[:4] == ("sacct", "--duplicates", "--parsable", f"--delimiter={MARK}")
    assert argv[4].endswith(",Restarts")
    assert argv[5:] == ("--allusers", "--starttime=2026-11-30T20:00:00")
    assert commands.accounting_of(["12", "3_1"], mark=MARK)[-1] == "--jobs=12,3_1"


def test_living_steps_of_some_jobs() -> None:
    assert "--jobs=12,13" in commands.living_steps(mark=MARK, ids=["12", "13"])
    assert not [word for word in commands.living_steps(mark=MARK) if word.startswith("--jobs")]
