from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relance.slurm.errors import UnreadableError
from relance.slurm.parsing.accounting import ACCOUNTING_COLUMNS, parse_accounting
from relance.slurm.parsing.glances import GLANCE_COLUMNS, parse_glances
from relance.slurm.parsing.rows import read_rows
from relance.slurm.parsing.steps import parse_steps
from relance.slurm.parsing.values import shown_moment
from relance.slurm.records import AccountedJob, ExitCode
from tests.unit.slurm.recorded import MARK, RELEASES, SCENES, recorded, table

HOSTILE = st.text(alphabet=st.sampled_from("ab|~\n\t =,\x1f\x00é0"), max_size=30)
STEP_TITLES = ("STEPID", "USER", "START_TIME", "NODELIST", "NAME")
GLANCE_TITLES = ("JOBID", *(column.upper() for column in GLANCE_COLUMNS[1:]))
GLANCE_ROW = (
    "6", "3", "1", "FAILED", "2", "1795966852", "1795966973", "NonZeroExitCode", "1795966852", "N/A", "1",
    "gpu[001-002]", "30:00", "(null)", "(null)", "1", "train", "ada", "/logs/%j", "(null)", "llm",
)  # fmt: skip


def accounting(release: str, scene: str = SCENES[1]) -> tuple[AccountedJob, ...]:
    """The recorded rows, their separator put in the place of the mark."""
    lines = recorded(release, scene, "sacct.txt").decode().splitlines()
    return parse_accounting(table(*(tuple(line.split("|")) for line in lines)), mark=MARK)


@given(st.lists(st.tuples(HOSTILE, HOSTILE), max_size=5))
def test_no_text_of_a_user_moves_a_cell(rows: list[tuple[str, str]]) -> None:
    titles, read = read_rows(table(("A", "B"), *rows), mark=MARK, first_title="A")
    assert titles == ("A", "B")
    assert read == rows


@given(st.lists(st.tuples(HOSTILE, HOSTILE), min_size=1, max_size=5), st.integers(min_value=1))
def test_a_table_that_was_cut_off_is_unreadable(rows: list[tuple[str, str]], lost: int) -> None:
    whole = table(("A", "B"), *rows)
    cut = whole[: len(whole) - 1 - lost % (len(whole) - 1)]
    if cut.endswith(f"{MARK}\n".encode()):
        return  # cut between two rows, which only the command's exit code can tell
    with pytest.raises(UnreadableError):
        read_rows(cut, mark=MARK, first_title="A")


@pytest.mark.parametrize("output", [b"", b"\n", b"A   " + MARK.encode() + b"\n", b"B" + MARK.encode() + b"\n", b"A|\n"])
def test_what_is_not_the_table_is_not_an_empty_table(output: bytes) -> None:
    with pytest.raises(UnreadableError):
        read_rows(output, mark=MARK, first_title="A")


def test_a_glance() -> None:
    (seen,) = parse_glances(table(GLANCE_TITLES, GLANCE_ROW), mark=MARK)
    assert (seen.job_id, seen.array_job_id, seen.array_tasks, seen.state, seen.restart_count) == (
        6,
        3,
        "1",
        "FAILED",
        2,
    )
    assert (seen.submitted_at, seen.started_at) == (1795966852, 1795966973)


@pytest.mark.parametrize("column", [name for name in GLANCE_COLUMNS if name not in ("jobid", "arrayjobid")])
def test_a_glance_tells_that_something_changed(column: str) -> None:
    index = GLANCE_COLUMNS.index(column)
    changed = {"state": "RUNNING"}.get(column, "7")
    other = (*GLANCE_ROW[:index], changed, *GLANCE_ROW[index + 1 :])
    (first,) = parse_glances(table(GLANCE_TITLES, GLANCE_ROW), mark=MARK)
    (second,) = parse_glances(table(GLANCE_TITLES, other), mark=MARK)
    assert first.print_ != second.print_


def test_a_start_that_is_only_expected_changes_nothing() -> None:
    waiting = (*GLANCE_ROW[:3], "PENDING", *GLANCE_ROW[4:])
    later = (*waiting[:6], "1795999999", *waiting[7:])
    (first,) = parse_glances(table(GLANCE_TITLES, waiting), mark=MARK)
    (second,) = parse_glances(table(GLANCE_TITLES, later), mark=MARK)
    assert first == second


def test_a_begin_that_is_ages_ahead_hides_no_glance_and_no_row_of_accounting() -> None:
    far = "1001796053594"
    (seen,) = parse_glances(table(GLANCE_TITLES, (*GLANCE_ROW[:5], far, *GLANCE_ROW[6:])), mark=MARK)
    assert (seen.submitted_at or 0) > 32_503_680_000
    assert shown_moment("-5", "an eligible time") is None


def test_an_empty_queue_is_empty() -> None:
    assert parse_glances(table(GLANCE_TITLES), mark=MARK) == ()
    assert parse_steps(table(STEP_TITLES), mark=MARK) == ()


def test_a_glance_of_other_columns_is_unreadable() -> None:
    with pytest.raises(UnreadableError):
        parse_glances(table(GLANCE_TITLES[:-1], GLANCE_ROW[:-1]), mark=MARK)


def test_steps() -> None:
    rows = (
        ("48.batch", "ada", "1796048134", "gpu001", "batch"),
        ("48.0", "ada", "1796048134", "gpu[001-002]", "a\n48.1|root"),
        ("3_1.extern", "root", "N/A", "", "extern"),
        ("10+1.2", "ada", "1796048134", "gpu003", "x"),
    )
    steps = parse_steps(table(STEP_TITLES, *rows), mark=MARK)
    assert [(step.job_id, step.step_id, step.is_slurms_own) for step in steps] == [
        ("48", "batch", True), ("48", "0", False), ("3_1", "extern", True), ("10+1", "2", False),
    ]  # fmt: skip
    assert (steps[1].name, steps[1].nodes, steps[2].started_at) == ("a\n48.1|root", ("gpu001", "gpu002"), None)


@pytest.mark.parametrize("shown", ["48", "48.", "x.0", "48.0 1", ""])
def test_a_step_without_an_id_is_unreadable(shown: str) -> None:
    with pytest.raises(UnreadableError):
        parse_steps(table(STEP_TITLES, (shown, "ada", "N/A", "", "x")), mark=MARK)


@pytest.mark.parametrize("release", RELEASES)
def test_attempts_of_each_release(release: str) -> None:
    first, *_ = attempts = accounting(release)
    assert [(each.shown_id, each.job_id, each.state) for each in attempts if each.job_id in (1, 4, 6, 10, 11, 13)] == [
        ("1", 1, "REQUEUED"), *((("4", 4, "TIMEOUT"),) if release != "22.05" else ()), ("3_1", 6, "FAILED"),
        *((("4", 4, "TIMEOUT"),) if release == "22.05" else ()), ("10+0", 10, "RUNNING"), ("10+1", 11, "RUNNING"),
        ("13", 13, "NODE_FAIL"),
    ]  # fmt: skip
    assert first.nodes == ("gpu001", "gpu002")
    assert first.started_at is not None
    assert first.ended_at is not None
    assert 10 < first.ended_at - first.started_at < 30
    assert first.comment == '{"relance":{"mode":"act","max_restarts":3}}'
    by_id = {each.job_id: each for each in attempts}
    assert (by_id[12].state, by_id[12].cancelled_by) == ("CANCELLED", 0)
    assert by_id[2].derived_exit == ExitCode(code=0, signal=9)
    assert by_id[10].ended_at is None


def test_steps_stand_below_their_attempt() -> None:
    titles = ACCOUNTING_COLUMNS

    def row(raw: str, state: str) -> tuple[str, ...]:
        known = {
            "JobID": raw, "JobIDRaw": raw, "State": state, "ExitCode": "0:9", "Submit": "1796048116",
            "Start": "1796048116", "End": "Unknown", "NodeList": "gpu001", "JobName": "x",
        }  # fmt: skip
        return tuple(known.get(title, "") for title in titles)

    rows = (row("5", "REQUEUED"), row("5.batch", "CANCELLED"), row("5", "FAILED"), row("5.0", "CANCELLED by 1001"))
    first, second = parse_accounting(table(titles, *rows), mark=MARK)
    assert [step.step_id for step in first.steps] == ["batch"]
    assert [(step.step_id, step.cancelled_by) for step in second.steps] == [("0", 1001)]
    with pytest.raises(UnreadableError):
        parse_accounting(table(titles, rows[1]), mark=MARK)


def test_accounting_of_nothing_is_empty() -> None:
    assert parse_accounting(table(ACCOUNTING_COLUMNS), mark=MARK) == ()


@given(st.integers(min_value=0), st.binary(max_size=6))
def test_mangled_accounting_is_read_or_unreadable(place: int, put: bytes) -> None:
    lines = recorded("25.11", SCENES[1], "sacct.txt").decode().splitlines()
    whole = table(*(tuple(line.split("|")) for line in lines))
    at = place % len(whole)
    try:
        parse_accounting(whole[:at] + put + whole[at + len(put) :], mark=MARK)
    except UnreadableError:
        return
