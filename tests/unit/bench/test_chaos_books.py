"""The judge of a chaos run sees what it is there to see: a book that is wrong in some way is never called right."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.chaos_books import RankAttempt, doubled, lost, read_book
from bench.chaos_verdicts import without_cause
from bench.punishers import Deed, Hit

EVERY, STEPS = 10, 30


def attempts(*runs: range) -> tuple[RankAttempt, ...]:
    """The attempts of a rank that finished these steps."""
    return tuple(RankAttempt(number=number, steps=tuple(run)) for number, run in enumerate(runs))


@pytest.mark.parametrize(
    "runs",
    [
        (range(1, 31),),
        (range(1, 16), range(11, 31)),
        # Killed after the step of a save: the save may be durable or not.
        (range(1, 21), range(21, 31)),
        (range(1, 21), range(11, 31)),
        # An attempt that came to no step, and one that did not come beyond the old one.
        (range(1, 16), range(0), range(11, 14), range(11, 31)),
    ],
)
def test_attempts_that_go_on_from_the_newest_save_lose_nothing(runs: tuple[range, ...]) -> None:
    assert lost(attempts(*runs), STEPS, EVERY) == []
    assert doubled(attempts(*runs)) == []


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        ((range(1, 16), range(1, 31)), "begins with step 1, after step 15"),
        ((range(1, 16), range(16, 31)), "begins with step 16, after step 15"),
        ((range(1, 22), range(11, 31)), "begins with step 11, after step 21"),
        ((range(1, 16), range(11, 30)), "the last step is 29 of 30"),
        ((), "the last step is 0 of 30"),
    ],
)
def test_steps_done_again_though_saved_or_never_done_are_lost(runs: tuple[range, ...], says: str) -> None:
    assert [each for each in lost(attempts(*runs), STEPS, EVERY) if says in each]


@pytest.mark.parametrize(
    "book",
    [
        (RankAttempt(number=0, steps=(1, 2, 2, 3)),),
        (RankAttempt(number=0, steps=(1, 2, 4)),),
        (RankAttempt(number=0, steps=(1,)), RankAttempt(number=0, steps=(1,))),
        (RankAttempt(number=1, steps=(1,)), RankAttempt(number=0, steps=(1,))),
        (RankAttempt(number=0, steps=(1,)), RankAttempt(number=1, steps=(1,), is_alone=False)),
    ],
)
def test_two_writers_are_seen(book: tuple[RankAttempt, ...]) -> None:
    assert doubled(book)


def test_a_book_is_read_attempt_by_attempt_and_a_cut_line_is_left_out(tmp_path: Path) -> None:
    book = tmp_path / "rank-1.log"
    step = "2026-12-01 00:00:00 rank 1 finished iteration"
    book.write_text(f"attempt 0 begins\n{step} 1\n{step} 2\n{step[:9]}\nattempt 3 finds another writer\n{step} 1\n")
    assert read_book(book) == (
        RankAttempt(number=0, steps=(1, 2)),
        RankAttempt(number=3, steps=(1,), is_alone=False),
    )
    assert read_book(tmp_path / "none") == ()


def row(number: int, began: float, ended: float, *nodes: str) -> dict[str, object]:
    """An attempt in accounting."""
    ends = {"start_time": began, "end_time": ended, "state": "FAILED", "exit_code": "1:0"}
    return {"restart_count": number, "nodes": list(nodes), **ends}


ROWS = (row(0, 100.0, 200.0, "gpu001"), row(1, 210.0, 300.0, "gpu002"))


@pytest.mark.parametrize(
    "hit",
    [
        Hit(deed=Deed.RANK, at=199.0, job=7, restart_count=0),
        Hit(deed=Deed.NODE, at=170.0, node="gpu001", until=190.0),
        Hit(deed=Deed.NODE, at=90.0, node="gpu001", until=99.0),
        Hit(deed=Deed.SLURMD, at=99.0, node="gpu001", until=101.0),
    ],
)
def test_an_attempt_that_was_hit_has_a_cause(hit: Hit) -> None:
    assert without_cause(7, ROWS, [hit]) == []


@pytest.mark.parametrize(
    "hit",
    [
        Hit(deed=Deed.RANK, at=199.0, job=8, restart_count=0),
        Hit(deed=Deed.RANK, at=199.0, job=7, restart_count=1),
        Hit(deed=Deed.NODE, at=170.0, node="gpu002", until=190.0),
        Hit(deed=Deed.NODE, at=250.0, node="gpu001", until=260.0),
        Hit(deed=Deed.SLURMD, at=170.0, node="gpu001", until=172.0),
        Hit(deed=Deed.CONTROLLER, at=150.0, until=160.0),
    ],
)
def test_an_attempt_that_nobody_hit_is_a_healthy_one_that_was_ended(hit: Hit) -> None:
    assert without_cause(7, ROWS, [hit])
