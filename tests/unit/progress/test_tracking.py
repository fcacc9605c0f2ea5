from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta

from relance.domain.encoding import decode, encode
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Phase, PhaseSeen, Progress, ProgressMark, StepSeen
from relance.progress import ProgressState, seen_up_to, start, track, with_start
from relance.progress.tracking import WINDOW

BEGIN = datetime(2026, 5, 2, 11, 0, tzinfo=UTC)


def at(second: float) -> datetime:
    return BEGIN + timedelta(seconds=second)


def step(number: int, second: float, time_s: float | None = None, loss: float | None = 2.0) -> StepSeen:
    return StepSeen(at=at(second), step=number, total=100, step_time_s=time_s, loss=loss, grad_norm=0.5)


def checkpoint(event: CheckpointEvent, second: float, number: int | None = None) -> CheckpointSeen:
    return CheckpointSeen(at=at(second), event=event, step=number)


def tracked(*marks: ProgressMark) -> ProgressState:
    state = start(BEGIN)
    for mark in marks:
        state = track(state, mark, mark.at)
    return state


def progress(*marks: ProgressMark) -> Progress:
    return tracked(*marks).progress


def test_nothing_is_known_before_the_first_mark() -> None:
    assert start(BEGIN).progress == Progress(as_of=BEGIN)
    assert track(None, step(7, 3), at(5)).progress.as_of == at(5)


def test_steps_give_first_last_highest_and_total() -> None:
    known = progress(step(11, 1), step(12, 2), step(13, 3))
    assert (known.first_step, known.first_step_at, known.step, known.step_at) == (11, at(1), 13, at(3))
    assert (known.highest_step, known.total_steps, known.steps_seen, known.phase) == (13, 100, 3, Phase.TRAINING)
    assert (known.loss, known.grad_norm) == (2.0, 0.5)


def test_the_median_takes_the_times_that_steps_say_without_the_first_three() -> None:
    assert progress(*[step(each, each, 50.0) for each in range(3)]).median_step_s is None
    slow_start = [step(each, each, 50.0) for each in range(3)]
    usual = [step(each, each, 1.0 + each / 100) for each in range(3, 8)]
    assert progress(*slow_start, *usual).median_step_s == 1.05


def test_without_them_the_median_takes_the_times_between_lines_by_the_steps_between_them() -> None:
    assert progress(*[step(10 * each, 20.0 * each) for each in range(8)]).median_step_s == 2.0


def test_lines_read_at_one_moment_give_no_step_times() -> None:
    marks = [step(each, 60.0 * (each // 5)) for each in range(25)]
    known = progress(*marks)
    assert known.median_step_s is not None
    assert known.median_step_s > 0.0


def test_one_slow_step_and_a_save_do_not_move_the_median_but_are_the_longest_pause() -> None:
    marks: list[ProgressMark] = [step(each, each) for each in range(10)]
    marks += [checkpoint(CheckpointEvent.BEGUN, 9.1, 9), checkpoint(CheckpointEvent.DURABLE, 40, 9), step(10, 49)]
    marks += [step(11, 50), step(12, 51)]
    known = progress(*marks)
    assert known.median_step_s == 1.0
    assert known.longest_pause_s == 40.0


def test_the_window_is_bounded_and_follows_the_pace() -> None:
    marks = [step(each, each, 1.0 if each < 500 else 3.0) for each in range(700)]
    state = tracked(*marks)
    assert len(state.times_s) == WINDOW
    assert state.progress.median_step_s == 3.0
    assert len(json.dumps(encode(state))) < 4096


def test_a_step_that_is_said_again_or_late_changes_nothing_but_the_time() -> None:
    once = progress(step(4, 1), step(5, 2))
    again = progress(step(4, 1), step(5, 2), step(4, 2.5), step(5, 2.6))
    assert again.step_at == at(2.6)
    assert (again.step, again.steps_seen, again.highest_step) == (once.step, once.steps_seen, once.highest_step)


def test_a_step_back_is_followed_and_the_highest_step_stays() -> None:
    known = progress(*[step(each, each) for each in range(20)], step(5, 90), step(6, 91))
    assert (known.step, known.highest_step, known.first_step) == (6, 19, 0)
    assert known.median_step_s == 1.0
    assert known.longest_pause_s == 1.0


def test_checkpoints_are_begun_then_durable_and_one_without_step_is_the_last_begun() -> None:
    known = progress(
        step(20, 1), checkpoint(CheckpointEvent.BEGUN, 2), step(30, 3), checkpoint(CheckpointEvent.DURABLE, 4)
    )
    assert (known.checkpoint_begun, known.checkpoint_durable, known.checkpoint_durable_at) == (20, 20, at(4))
    assert known.phase is Phase.TRAINING
    saving = progress(step(20, 1), checkpoint(CheckpointEvent.BEGUN, 2, 20))
    assert (saving.phase, saving.checkpoint_durable) == (Phase.SAVING, None)


def test_a_load_and_a_cold_start_are_kept() -> None:
    assert progress(checkpoint(CheckpointEvent.LOADED, 1, 400)).loaded_step == 400
    cold = progress(checkpoint(CheckpointEvent.COLD, 1))
    assert (cold.started_cold, cold.phase) == (True, Phase.STARTING)
    assert not progress(checkpoint(CheckpointEvent.COLD, 1), checkpoint(CheckpointEvent.LOADED, 2, 3)).started_cold


def test_phases_are_followed_and_an_evaluation_is_no_step_time() -> None:
    marks: list[ProgressMark] = [step(each, each) for each in range(8)]
    marks += [PhaseSeen(at=at(8), phase=Phase.EVALUATING)]
    assert progress(*marks).phase is Phase.EVALUATING
    marks += [PhaseSeen(at=at(60), phase=Phase.TRAINING), step(8, 61), step(9, 62)]
    assert max(tracked(*marks).times_s) == 1.0


def test_a_loss_that_is_no_number_is_not_known() -> None:
    assert progress(step(1, 1, loss=math.nan)).loss is None


def test_the_watermark_never_goes_back() -> None:
    state = seen_up_to(seen_up_to(start(BEGIN), at(9)), at(3))
    assert state.progress.as_of == at(9)


def test_the_state_survives_writing_down_at_any_point() -> None:
    marks: list[ProgressMark] = [step(each, each) for each in range(9)]
    marks.insert(4, checkpoint(CheckpointEvent.BEGUN, 3.5, 3))
    state = start(BEGIN)
    for mark in marks:
        state = decode(ProgressState, json.loads(json.dumps(encode(track(state, mark, mark.at)))))
    assert state == tracked(*marks)


def test_a_save_goes_on_although_another_rank_reports_the_saved_step_after_its_announcement() -> None:
    marks = (step(19, 1), checkpoint(CheckpointEvent.BEGUN, 2, 20), step(20, 2.1))
    assert progress(*marks).phase is Phase.SAVING
    assert progress(*marks, step(21, 60)).phase is Phase.TRAINING, "an asynchronous save does not stop the steps"
    assert progress(*marks, checkpoint(CheckpointEvent.DURABLE, 60, 20)).phase is Phase.TRAINING
    assert progress(*marks, checkpoint(CheckpointEvent.DURABLE, 60, 20), step(21, 61)).median_step_s is None


def test_how_long_saves_take_is_known_from_their_begin_until_they_are_durable() -> None:
    saves: list[ProgressMark] = [step(1, 1)]
    for count, took in enumerate((10.0, 30.0, 20.0)):
        at_s = 100.0 * (count + 1)
        saves += [
            checkpoint(CheckpointEvent.BEGUN, at_s, count),
            checkpoint(CheckpointEvent.BEGUN, at_s + 1, count),
            checkpoint(CheckpointEvent.DURABLE, at_s + took, count),
        ]
    known = progress(*saves)
    assert (known.last_save_s, known.median_save_s) == (20.0, 20.0)
    assert progress(*saves[:4]).last_save_s == 10.0


def test_a_save_of_which_only_the_end_is_told_has_no_duration() -> None:
    ended = progress(step(1, 1), checkpoint(CheckpointEvent.DURABLE, 9, 1))
    other = progress(step(1, 1), checkpoint(CheckpointEvent.BEGUN, 2, 5), checkpoint(CheckpointEvent.DURABLE, 9, 4))
    at_once = progress(step(1, 1), checkpoint(CheckpointEvent.BEGUN, 2, 5), checkpoint(CheckpointEvent.DURABLE, 2, 5))
    assert [known.last_save_s for known in (ended, other, at_once)] == [None, None, None]


def test_pauses_for_saves_and_evaluations_are_known_by_their_kind() -> None:
    marks: list[ProgressMark] = [step(each, each) for each in range(5)]
    marks += [checkpoint(CheckpointEvent.BEGUN, 4.5, 4), step(5, 34)]
    marks += [PhaseSeen(at=at(34.5), phase=Phase.EVALUATING), step(6, 94), step(7, 200), step(8, 201)]
    known = progress(*marks)
    assert (known.longest_save_s, known.longest_evaluation_s, known.longest_pause_s) == (30.0, 60.0, 106.0)
    assert progress(*marks[:5]).longest_save_s is None


def test_an_asynchronous_save_is_no_longer_pause_than_its_own() -> None:
    marks: list[ProgressMark] = [step(1, 1), checkpoint(CheckpointEvent.BEGUN, 1.5, 1), step(2, 4), step(3, 6)]
    marks += [checkpoint(CheckpointEvent.DURABLE, 60, 1), step(4, 90)]
    known = progress(*marks)
    assert (known.longest_save_s, known.last_save_s) == (3.0, 58.5)


def test_the_time_to_the_first_step_counts_from_the_attempts_start() -> None:
    assert with_start(tracked(step(1, 50)), at(-10)).progress.start_s == 60.0
    assert with_start(tracked(step(1, 50), step(2, 60)), at(-10)).progress.start_s == 60.0
    assert with_start(start(BEGIN), at(-10)).progress.start_s is None
    assert with_start(tracked(step(1, 50)), None).progress.start_s is None
    assert with_start(tracked(step(1, 50)), at(70)).progress.start_s is None, "a clock that goes wrong"


def test_the_last_throughput_that_was_told_is_known_with_its_unit() -> None:
    told = StepSeen(at=at(1), step=1, throughput=412.5, throughput_unit="TFLOP/s/GPU")
    known = progress(told, step(2, 2))
    assert (known.throughput, known.throughput_unit) == (412.5, "TFLOP/s/GPU")
    assert progress(StepSeen(at=at(1), step=1, throughput=math.inf)).throughput is None


def test_what_is_told_of_a_step_later_is_added_to_it() -> None:
    bare = StepSeen(at=at(1), step=5)
    known = progress(bare, StepSeen(at=at(2), step=5, loss=2.5, grad_norm=0.5, throughput=9.0, throughput_unit="it/s"))
    assert (known.loss, known.grad_norm, known.throughput, known.steps_seen) == (2.5, 0.5, 9.0, 1)


def test_a_durable_line_without_any_step_does_not_forget_the_one_before() -> None:
    marks = (checkpoint(CheckpointEvent.DURABLE, 1, 40), checkpoint(CheckpointEvent.DURABLE, 2))
    assert progress(*marks).checkpoint_durable == 40


def test_a_state_from_before_these_were_known_is_still_read() -> None:
    plain = encode(tracked(step(1, 1), step(2, 2)))
    for name in ("saved", "evaluated", "save_begun_at", "saves_s"):
        del plain[name]
    for name in ("throughput", "throughput_unit", "start_s", "last_save_s", "median_save_s", "longest_save_s",
                 "longest_evaluation_s", "is_learned"):  # fmt: skip
        del plain["progress"][name]
    assert decode(ProgressState, plain) == tracked(step(1, 1), step(2, 2))
