"""Pauses that an attempt got over by itself, and which of them are waited for again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relance.detectors.rhythms import UNKNOWN, Rhythm
from relance.domain.observations import Life
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Phase, PhaseSeen, StepSeen
from tests.unit.detectors.timelines import at

HOUR_S = 3600.0


def stepped(rhythm: Rhythm, *seconds: float) -> Rhythm:
    first = (rhythm.step or 0) + 1
    return rhythm.after_all([StepSeen(at=at(each), step=first + index) for index, each in enumerate(seconds)])


def test_the_longest_pause_of_late_is_known() -> None:
    rhythm = stepped(UNKNOWN, 0, 1, 2, 42, 43, 53, 54)

    assert rhythm.longest_s == 40.0
    assert len(rhythm.gaps_s) == 6


def test_a_pause_that_came_once_counts_for_hours_and_one_that_came_twice_for_days() -> None:
    once = stepped(UNKNOWN, 0, 300, 301, 321, 13 * HOUR_S, 13 * HOUR_S + 1, 26 * HOUR_S)
    assert once.longest_s == 13 * HOUR_S - 1

    rhythm = stepped(UNKNOWN, 0, 300, 301)
    every_second = [301 + number for number in range(1, 14 * 3600)]
    assert stepped(rhythm, *every_second).longest_s == 0.0

    again = stepped(rhythm, 500, 501, *(501 + number for number in range(1, 14 * 3600)))
    assert again.longest_s == 199.0


def test_what_was_announced_is_no_pause_and_what_nobody_announced_is_one() -> None:
    rhythm = stepped(UNKNOWN, 0, 1)
    begun = rhythm.marked(CheckpointSeen(at=at(2), event=CheckpointEvent.BEGUN), Phase.SAVING)
    assert stepped(begun, 600).longest_s == 0.0

    told_after = rhythm.marked(CheckpointSeen(at=at(500), event=CheckpointEvent.DURABLE), Phase.TRAINING)
    assert stepped(told_after, 510).longest_s == 499.0

    begun_late = rhythm.marked(PhaseSeen(at=at(100), phase=Phase.EVALUATING), Phase.EVALUATING)
    assert stepped(begun_late, 600).longest_s == 99.0

    grew = rhythm.marked(Life(at=at(9), what="checkpoint folder"), Phase.TRAINING)
    assert stepped(grew, 600).longest_s == 0.0


def test_a_save_that_one_rank_announces_before_another_reports_the_step_is_announced() -> None:
    rhythm = stepped(UNKNOWN, 0, 1).marked(CheckpointSeen(at=at(2), event=CheckpointEvent.BEGUN), Phase.SAVING)

    reported = rhythm.after(StepSeen(at=at(2), step=3), Phase.SAVING)

    assert stepped(reported, 600).longest_s == 0.0


STEPS = st.builds(StepSeen, at=st.integers(0, 90).map(at), step=st.integers(1, 30))
MARKS = st.one_of(
    STEPS,
    st.builds(PhaseSeen, at=st.integers(0, 90).map(at), phase=st.sampled_from(Phase)),
    st.builds(Life, at=st.integers(0, 90).map(at), what=st.just("folder")),
)


@given(st.lists(MARKS, max_size=8), st.lists(STEPS, max_size=20))
def test_many_steps_at_once_come_to_the_same(before: list[StepSeen | PhaseSeen | Life], steps: list[StepSeen]) -> None:
    rhythm = UNKNOWN
    for mark in before:
        if isinstance(mark, StepSeen):
            rhythm = rhythm.after(mark)
        else:
            rhythm = rhythm.marked(mark, mark.phase if isinstance(mark, PhaseSeen) else Phase.TRAINING)
    one_by_one = rhythm
    for seen in steps:
        one_by_one = one_by_one.after(seen)

    assert rhythm.after_all(steps) == one_by_one
    assert len(one_by_one.pauses) <= 4
