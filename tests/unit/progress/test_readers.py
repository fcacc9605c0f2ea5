from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone

import pytest

from relance.domain.encoding import decode, encode
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Phase, PhaseSeen, ProgressMark, StepSeen
from relance.progress import OwnPattern, PatternError, ProgressReader, ReaderState
from tests.unit.progress.blocks import READ_AT, block, megatron, read, titan


def at(hour: int, minute: int, second: int, microsecond: int = 0) -> datetime:
    return datetime(2026, 5, 2, hour, minute, second, microsecond, UTC)


def test_a_megatron_step_is_read_with_all_that_it_says() -> None:
    text = "starting\n" + megatron(340, 2)
    assert read(text) == [
        StepSeen(
            at=at(11, 2, 7, 418802),
            step=340,
            total=20000,
            step_time_s=8.1234,
            loss=3.218845,
            grad_norm=0.873,
            file="job.log",
            offset=9,
            throughput=412.7,
            throughput_unit="TFLOP/s/GPU",
        )
    ]


def test_a_torchtitan_step_is_read_through_its_colours() -> None:
    text = "x\n" + titan(1320, 12, label="[rank0]:")
    assert read(text) == [
        StepSeen(
            at=at(11, 0, 12, 1000),
            step=1320,
            loss=6.81234,
            grad_norm=1.9021,
            file="job.log",
            offset=2,
            throughput=7312.0,
            throughput_unit="tokens/s/GPU",
        )
    ]


@pytest.mark.parametrize("label", ["7: ", "[rank7]:", "[1,7]<stdout>:", "2026-05-02T11:30:00.5Z [rank7]: "])
def test_labels_stand_before_a_step_without_harm(label: str) -> None:
    (seen,) = read(label + megatron(340, 2))
    assert isinstance(seen, StepSeen)
    assert (seen.step, seen.loss) == (340, 3.218845)
    assert seen.at in {at(11, 2, 7, 418802), at(11, 30, 0, 500000)}


def test_lines_that_ranks_wrote_into_each_other_are_read_from_their_marks() -> None:
    text = "some other rank's words" + megatron(1, 1).rstrip("\n") + megatron(2, 2, loss="1.5")
    steps = [mark for mark in read(text) if isinstance(mark, StepSeen)]
    assert [(seen.step, seen.loss, seen.at.minute) for seen in steps] == [(1, 3.218845, 1), (2, 1.5, 2)]


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("nan", math.nan),
        ("NAN", math.nan),
        ("inf", math.inf),
        ("-INF", -math.inf),
        ("-inf", -math.inf),
        ("2.1E-01", 0.21),
        ("1,234.5", 1234.5),
        ("7", 7.0),
    ],
)
def test_losses_may_be_any_number(text: str, loss: float) -> None:
    (seen,) = read(megatron(5, loss=text))
    assert isinstance(seen, StepSeen)
    assert seen.loss is not None
    assert seen.loss == loss or math.isnan(seen.loss) is math.isnan(loss)


def test_older_and_other_losses_of_megatron_are_read() -> None:
    text = " iteration     3/  10 | elapsed time per iteration (ms): 20.5 | mtp_1 loss: 4.0E+00 | grad norm: nan |\n"
    (seen,) = read(text)
    assert isinstance(seen, StepSeen)
    assert (seen.loss, seen.at, seen.step_time_s) == (4.0, READ_AT, 0.0205)


def test_without_a_full_date_or_with_one_ahead_the_time_of_reading_stands() -> None:
    assert read(megatron(5).replace("[2026-05-02 11:00:07.418802]", "11:00:07"))[0].at == READ_AT
    assert read(megatron(5).replace("2026-05-02", "2026-05-03"))[0].at == READ_AT


def test_a_time_without_offset_is_read_in_the_sites_zone() -> None:
    reader = ProgressReader(zone=timezone(timedelta(hours=2)))
    (seen,) = reader.read(block(megatron(5).encode()), ReaderState())[1]
    assert seen.at == at(9, 0, 7, 418802)


def test_a_step_that_other_ranks_say_too_is_told_once_but_a_step_back_is_told() -> None:
    text = "".join(titan(step, 1, label=f"[rank{rank}]: ") for step in (5, 6, 5) for rank in range(4))
    assert [mark.step for mark in read(text) if isinstance(mark, StepSeen)] == [5, 6, 5]


def test_a_progress_bar_with_carriage_returns_does_not_hide_steps() -> None:
    assert [mark.step for mark in read("10%|#\r20%|##\r" + megatron(8)) if isinstance(mark, StepSeen)] == [8]


def test_the_dialect_is_the_first_whose_steps_are_seen_and_stays() -> None:
    reader, state = ProgressReader(), ReaderState()
    state, marks = reader.read(block((megatron(1) + titan(99)).encode()), state)
    assert (state.dialect, len(marks)) == ("megatron", 1)
    state, marks = reader.read(block((titan(100) + megatron(2)).encode()), state)
    assert [mark.step for mark in marks if isinstance(mark, StepSeen)] == [2]


def test_an_evaluation_of_torchtitan_is_no_step() -> None:
    text = titan(10) + "[titan] 2026-05-02 11:00:20,001 - root - INFO - validate step: 10  loss:  6.5  memory: 1GiB\n"
    assert [type(mark) for mark in read(text)] == [StepSeen, PhaseSeen]


def test_megatrons_life_is_told_in_order() -> None:
    text = (
        " loading checkpoint from /ckpt/run7 at iteration 400\n"
        "  successfully loaded checkpoint from /ckpt/run7 [ t 1/2, p 1/4 ] at iteration 400\n"
        "[before the start of training step] datetime: 2026-05-02 11:00:00 \n"
        + megatron(401)
        + "[2026-05-02 11:01:00.1] saving checkpoint at iteration     401 to /ckpt/run7 in torch_dist format\n"
        "  [2026-05-02 11:01:02.1] scheduled an async checkpoint save at iteration     401 to /ckpt/run7\n"
        + megatron(402)
        + "  [2026-05-02 11:02:00.5] successfully saved checkpoint from iteration     401 to /ckpt/run7 [ t 1/1 ]\n"
        "Evaluating on 4096 samples\n validation loss at iteration 402 | lm loss value: 3.1 | lm loss PPL: 22.1 | \n"
        "[after training is done] datetime: 2026-05-02 11:03:00 \n"
    )
    told = [
        (mark.event, mark.step) if isinstance(mark, CheckpointSeen) else getattr(mark, "phase", "step")
        for mark in read(text)
    ]
    assert told == [
        Phase.LOADING,
        (CheckpointEvent.LOADED, 400),
        Phase.STARTING,
        "step",
        (CheckpointEvent.BEGUN, 401),
        (CheckpointEvent.BEGUN, 401),
        "step",
        (CheckpointEvent.DURABLE, 401),
        Phase.EVALUATING,
        Phase.TRAINING,
        Phase.ENDING,
    ]
    saved = next(
        mark for mark in read(text) if isinstance(mark, CheckpointSeen) and mark.event is CheckpointEvent.DURABLE
    )
    assert (saved.at, saved.path) == (at(11, 2, 0, 500000), "/ckpt/run7")


def test_a_cold_start_of_megatron_is_told_once_and_a_local_save_is_not_durable() -> None:
    text = (
        "WARNING: could not find the metadata file /ckpt/run7/latest_checkpointed_iteration.txt\n"
        "    will not load any checkpoints and will start from random\n"
        "  successfully saved local checkpoint from iteration     401\n"
    )
    assert [mark.event for mark in read(text) if isinstance(mark, CheckpointSeen)] == [CheckpointEvent.COLD]


def test_torchtitans_load_names_its_step_by_the_folder_before() -> None:
    reader, state = ProgressReader(), ReaderState()
    line = "[titan] 2026-05-02 11:00:00,001 - root - INFO - "
    state, _ = reader.read(block(f"{line}Loading the checkpoint from out/checkpoint/step-500.\n".encode()), state)
    state, marks = reader.read(block(f"{line}Finished loading the checkpoint in 2.1 seconds.\n".encode()), state)
    assert marks == (
        CheckpointSeen(at=at(11, 0, 0, 1000), event=CheckpointEvent.LOADED, step=500, path="out/checkpoint/step-500"),
    )
    assert reader.read(block(f"{line}Training starts at step 501.\n".encode()), state)[1] == (
        PhaseSeen(at=at(11, 0, 0, 1000), phase=Phase.STARTING),
    )


def test_torchtitan_starting_at_step_1_without_a_load_is_a_cold_start() -> None:
    assert [getattr(mark, "event", None) for mark in read("INFO - Training starts at step 1.\n")] == [
        CheckpointEvent.COLD,
        None,
    ]


def test_torchtitans_saves_name_a_step_only_at_the_end() -> None:
    text = (
        "INFO - Saving the checkpoint (or staging if async is enabled).\n"
        "INFO - Finished saving the checkpoint (or staging if async is enabled) in 3.20 seconds.\n"
        "INFO - Saving a full checkpoint in float32 at last step, step 1000.\n"
        "INFO - Training completed\n"
    )
    told = [(mark.event, mark.step) for mark in read(text) if isinstance(mark, CheckpointSeen)]
    assert told == [(CheckpointEvent.BEGUN, None), (CheckpointEvent.DURABLE, None), (CheckpointEvent.BEGUN, 1000)]


def test_a_pattern_of_ones_own_gives_steps_beside_the_known_marks() -> None:
    own = r"it (?P<step>[\d,]+)/(?P<total>\d+) took (?P<step_time_ms>[\d.]+)ms l=(?P<loss>\S+) g=(?P<grad_norm>\S+)"
    text = (
        "ep 1 it 1,200/5000 took 250.5ms l=2.25 g=0.5\n"
        + megatron(9)
        + "  successfully saved checkpoint from iteration 7\n"
    )
    step, saved = read(text, own)
    assert step == StepSeen(
        at=READ_AT, step=1200, total=5000, step_time_s=0.2505, loss=2.25, grad_norm=0.5, file="job.log", offset=0
    )
    assert isinstance(saved, CheckpointSeen)


@pytest.mark.parametrize(
    ("pattern", "message", "remedy"),
    [
        (r"step (\d+)", "no group for the step", "(?P<step>"),
        (r"step (?P<step>\d+) (?P<speed>\d+)", "a group 'speed'", "Known groups are step, total, loss"),
        (r"(?P<step>\d+", "no RE2 syntax: missing )", "escape"),
        (r"(?<=x)(?P<step>\d+)", "no RE2 syntax", "look-around"),
        (r"(?P<step>\d*)", "matches an empty line", "digit"),
        (r"(?P<step>\d+) (?P<step_time_s>\d+) (?P<step_time_ms>\d+)", "time twice", "Keep"),
        (r"étape (?P<step>\d+)", "not ASCII", "UTF-8"),
    ],
)
def test_a_pattern_that_cannot_be_used_says_why_and_what_to_do(pattern: str, message: str, remedy: str) -> None:
    with pytest.raises(PatternError) as caught:
        OwnPattern(pattern)
    assert message in str(caught.value)
    assert remedy in caught.value.remedy


def test_what_is_no_number_is_left_out() -> None:
    own = r"step (?P<step>\S+) loss (?P<loss>\S+)"
    assert read("step many loss few\n", own) == []
    (seen,) = read("step 7 loss few\nstep 99999999999999999999 loss 1\n", own)
    assert isinstance(seen, StepSeen)
    assert (seen.step, seen.loss) == (7, None)


def test_an_overlap_is_not_read_twice() -> None:
    text = (megatron(1).rstrip("\n") + megatron(2).rstrip("\n") + megatron(3)).encode()
    cut, overlap = len(megatron(1)) + 20, 40
    reader = ProgressReader()
    state, first = reader.read(block(text[:cut]), ReaderState())
    state, second = reader.read(block(text[cut - overlap :], cut - overlap, overlap), state)
    assert [mark.step for mark in (*first, *second) if isinstance(mark, StepSeen)] in ([1, 2, 3], [1, 3])


def test_the_state_survives_writing_down() -> None:
    state, _ = ProgressReader().read(block(megatron(1).encode()), ReaderState())
    assert decode(ReaderState, json.loads(json.dumps(encode(state)))) == state


@pytest.mark.parametrize(
    "before",
    [
        "[2026-05-02 11:00:07.123] ", " [2026-05-02 11:00:07.123456] ", "12: [2026-05-02 11:00:07] ",
        "7:  [2026-05-02T11:00:07.123] ", "2026-05-02 10:00:00 [2026-05-02 11:00:07.123] ", "[2026-13-02 11:00:07] ",
        "[rank7]: [2026-05-02 11:00:07.123] ", "[2026-05-02 11:00:07.1] ", "[2026-05-02 11:00:07,123] ", "",
    ],
)  # fmt: skip
def test_the_quick_way_to_a_time_and_the_general_one_are_one(before: str) -> None:
    line = f"{before}iteration       40/     100 | lm loss: 2.0 |\n".encode()
    (quick,) = steps(ProgressReader().read(block(line), ReaderState())[1])
    (general,) = steps(ProgressReader(zone=timezone(timedelta(), "our own")).read(block(line), ReaderState())[1])
    assert quick == general


def steps(marks: tuple[ProgressMark, ...]) -> list[StepSeen]:
    return [mark for mark in marks if isinstance(mark, StepSeen)]


def test_an_own_pattern_may_tell_of_saves_and_of_throughput_too() -> None:
    own = (
        r"at (?P<step>\d+), (?P<throughput>[\d.]+) seq/s"
        r"|keeping (?P<saving>\d+)|kept (?P<saved>\d+)"
    )
    marks = read("at 7, 12.5 seq/s\nkeeping 7\nat 8, 12.5 seq/s\nkept 7\n", own)
    assert [(mark.step, getattr(mark, "throughput", None), getattr(mark, "event", None)) for mark in marks if not
            isinstance(mark, PhaseSeen)] == [
        (7, 12.5, None), (7, None, CheckpointEvent.BEGUN), (8, 12.5, None), (7, None, CheckpointEvent.DURABLE),
    ]  # fmt: skip


def test_with_an_own_pattern_what_frameworks_plainly_announce_counts_too() -> None:
    text = "at 7\nsuccessfully saved checkpoint from iteration     400 to /ckpt/run7\nvalidation loss at iteration 7\n"
    assert [type(mark) for mark in read(text, r"at (?P<step>\d+)")] == [StepSeen, CheckpointSeen]


def test_the_state_of_a_reader_from_before_is_still_read() -> None:
    plain = encode(ProgressReader().read(block(megatron(1).encode()), ReaderState())[0])
    del plain["carried"], plain["learning"]
    state = decode(ReaderState, plain)
    assert (state.dialect, state.step) == ("megatron", 1)


@pytest.mark.parametrize(
    "change",
    [
        ("| learning rate", "| skipped samples: 0 | learning rate"),
        (" | loss scale: 1.0", ""),
        ("| lm loss", "| load_balancing_loss: 1.2E-02 | lm loss"),
        ("grad norm: 0.873", "grad norm: nan"),
        ("number of skipped", "num zeros: 12 | number of skipped"),
        ("consumed samples", "consumed tokens"),
    ],
)
def test_the_quick_way_through_a_megatron_line_and_the_piecewise_one_are_one(change: tuple[str, str]) -> None:
    usual, other = read(megatron(5))[0], read(megatron(5).replace(*change))[0]
    assert isinstance(usual, StepSeen)
    assert isinstance(other, StepSeen)
    figures = [(seen.step, seen.total, seen.step_time_s, seen.loss, seen.throughput) for seen in (usual, other)]
    assert figures[0] == figures[1]
