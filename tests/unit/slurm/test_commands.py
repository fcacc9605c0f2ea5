from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.slurm import commands
from relance.slurm.commands import Change, Wanted
from relance.slurm.errors import BadArgumentError
from relance.slurm.parsing.glances import GLANCE_COLUMNS
from tests.unit.slurm.recorded import MARK

NO_IDS = ["", "0", "1 2", "1;2", "-1", "--all", "1_", "1_a", "1,2", "1\n", "१", "1.0", "1_[1-2]", "$(id)", "1" * 11]


def test_the_restart_sets_everything_in_one_call() -> None:
    change = Change(excluded_nodes=("gpu002", "gpu001", "x9"), starts_at=0)
    assert commands.update("3_1", change) == (
        "scontrol", "update", "JobId=3_1", "ExcNodeList=gpu[001-002],x9", "StartTime=now",
    )  # fmt: skip


def test_a_time_is_absolute_and_utc() -> None:
    assert commands.update("12", Change(starts_at=1796068800))[-1] == "StartTime=2026-11-30T20:00:00"


def test_everything_else_that_may_be_set() -> None:
    change = Change(
        excluded_nodes=(), dependency="afterok:12:3_1,singleton", time_limit_s=61, stdout="/logs/a-%j.r2", priority=7
    )
    assert commands.update("12", change)[3:] == (
        "ExcNodeList=", "Dependency=afterok:12:3_1,singleton", "TimeLimit=2", "StdOut=/logs/a-%j.r2", "Priority=7",
    )  # fmt: skip
    assert commands.update("12", Change(dependency=""))[3:] == ("Dependency=",)


@pytest.mark.parametrize(
    "change",
    [
        Change(),
        Change(excluded_nodes=("gpu001 StartTime=now",)),
        Change(excluded_nodes=("gpu[001-002]",)),
        Change(starts_at=-1),
        Change(dependency="afterok:1 JobId=2"),
        Change(dependency="afterok:"),
        Change(dependency="expand:1"),
        Change(time_limit_s=0),
        Change(stdout="relative"),
        Change(stdout="/a b"),
        Change(stdout="/a\n"),
        Change(priority=-1),
    ],
)
def test_a_value_that_is_not_fit_enters_no_command(change: Change) -> None:
    with pytest.raises(BadArgumentError):
        commands.update("12", change)


@pytest.mark.parametrize("job", NO_IDS)
def test_what_is_no_id_enters_no_command(job: str) -> None:
    for build in (commands.requeue, commands.requeue_held, commands.hold, commands.release, commands.cancel):
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


def test_the_question_whether_a_job_fits_submits_nothing() -> None:
    wanted = Wanted(
        node_count=2, task_count=16, partition="train", features="h100&ib", gres="gpu:8", excluded_nodes=("gpu001",),
        required_nodes=("gpu002",), time_limit_s=3600,
    )  # fmt: skip
    argv = commands.would_fit(wanted)
    assert argv[:2] == ("sbatch", "--test-only")
    assert argv[2:-3] == (
        "--nodes=2", "--ntasks=16", "--partition=train", "--constraint=h100&ib", "--gres=gpu:8", "--time=60",
        "--exclude=gpu001", "--nodelist=gpu002",
    )  # fmt: skip


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(node_count=-1),
        Wanted(node_count=1, partition="a b"),
        Wanted(node_count=1, features="a; b"),
        Wanted(node_count=1, account="--uid=0"),
    ],
)
def test_a_wish_that_is_not_fit_enters_no_command(wanted: Wanted) -> None:
    with pytest.raises(BadArgumentError):
        commands.would_fit(wanted)
