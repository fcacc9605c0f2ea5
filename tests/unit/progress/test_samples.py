"""Whole lives of attempts as each framework tells them: every line that matters is read, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
import re2

from relance.domain.encoding import decode, encode
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Phase, PhaseSeen, Progress, ProgressMark, StepSeen
from relance.progress import ProgressReader, ReaderState, start, track, wanted_literals, wanted_patterns
from relance.progress.frameworks import DIALECTS
from tests.unit.progress.blocks import READ_AT, block, read
from tests.unit.progress.samples import SAMPLES

BEGUN, DURABLE = CheckpointEvent.BEGUN, CheckpointEvent.DURABLE
LOADED, COLD = CheckpointEvent.LOADED, CheckpointEvent.COLD
TOLD: dict[str, list[object]] = {
    "megatron": [
        Phase.COMPILING, Phase.STARTING, Phase.STARTING, Phase.LOADING, (LOADED, 400), Phase.STARTING, 401, 402,
        (BEGUN, 402), (BEGUN, 402), (DURABLE, 402), Phase.EVALUATING, Phase.TRAINING, Phase.ENDING,
    ],
    "torchtitan": [
        Phase.COMPILING, Phase.LOADING, (LOADED, 40), Phase.STARTING, 50, (BEGUN, None), (DURABLE, None),
        Phase.TRAINING, Phase.ENDING,
    ],
    "deepspeed": [
        Phase.COMPILING, Phase.STARTING, Phase.LOADING, (LOADED, 110), 120, (BEGUN, 120), (BEGUN, 120), (DURABLE, 120),
    ],
    "transformers": [
        Phase.STARTING, (LOADED, 490), 500, Phase.EVALUATING, Phase.EVALUATING, Phase.TRAINING, (BEGUN, 500),
        (DURABLE, 500), 501, Phase.ENDING,
    ],
    "epochs": [
        Phase.LOADING, (LOADED, None), Phase.EVALUATING, 1120, Phase.EVALUATING, (BEGUN, None), (DURABLE, None), 1121,
        Phase.ENDING,
    ],
    "nemo": [
        (LOADED, None), 79, (BEGUN, 79), (BEGUN, 79), (DURABLE, 79), (DURABLE, 79), Phase.EVALUATING, Phase.ENDING,
    ],
    "composer": [(COLD, None), 40, Phase.EVALUATING, 41],
    "composer-batches": [16, 17],
    "maxtext": [(COLD, None), 31, (BEGUN, 31), (DURABLE, 31), Phase.EVALUATING, Phase.TRAINING],
    "fairseq": [
        Phase.LOADING, (LOADED, 190), 200, Phase.EVALUATING, Phase.TRAINING, (BEGUN, 200), (DURABLE, 200), Phase.ENDING,
    ],
    "generic": [40210, 40211],
}  # fmt: skip
FIGURES: dict[str, tuple[object, ...]] = {
    "megatron": (8.1234, 3.218845, 0.873, 412.7, "TFLOP/s/GPU"),
    "torchtitan": (None, 6.81234, 1.9021, 7312.0, "tokens/s/GPU"),
    "deepspeed": (None, None, None, 60.8, "samples/s"),
    "transformers": (2.0, 2.114, 1.32, None, ""),
    "epochs": (0.25, 2.31, None, None, ""),
    "nemo": (6.71, 3.402, None, 710.0, "TFLOP/s/GPU"),
    "composer": (2.0, 6.9021, None, 91234.0, "tokens/s"),
    "composer-batches": (None, 6.9021, None, None, ""),
    "maxtext": (5.402, 7.911, None, 6068.1, "tokens/s/device"),
    "fairseq": (2.0, 10.1, 1.2, 5120.0, "words/s"),
    "generic": (5.12033, 1.7312, 0.45, 1770.0, "tokens/s"),
}
"""Of the first step: its time in seconds, loss, gradient norm, throughput."""


def told(mark: ProgressMark) -> object:
    if isinstance(mark, StepSeen):
        return mark.step
    return (mark.event, mark.step) if isinstance(mark, CheckpointSeen) else mark.phase


@pytest.mark.parametrize("name", SAMPLES)
def test_a_life_is_told_in_order(name: str) -> None:
    assert [told(mark) for mark in read(SAMPLES[name])] == TOLD[name]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_step_is_told_with_its_figures(name: str) -> None:
    first = next(mark for mark in read(SAMPLES[name]) if isinstance(mark, StepSeen))
    figures = (first.step_time_s, first.loss, first.grad_norm, first.throughput, first.throughput_unit)
    assert figures == FIGURES[name]


@pytest.mark.parametrize("name", SAMPLES)
def test_each_framework_is_known_by_its_own_name(name: str) -> None:
    state, _ = ProgressReader().read(block(SAMPLES[name].encode()), ReaderState())
    assert state.dialect == name


def test_every_dialect_has_a_sample() -> None:
    assert {dialect.name for dialect in DIALECTS} - set(SAMPLES) == {"generic-loss-first"}


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_known_in_the_end_does_not_depend_on_the_bounds_of_blocks(name: str) -> None:
    lines = SAMPLES[name].encode().splitlines(keepends=True)
    whole = known([b"".join(lines)])
    for at in range(1, len(lines)):
        assert known([b"".join(lines[:at]), b"".join(lines[at:])]) == whole
    assert known(lines) == whole


def known(pieces: list[bytes]) -> Progress:
    reader, state, progress, offset = ProgressReader(), ReaderState(), start(READ_AT), 0
    for piece in pieces:
        state, marks = reader.read(block(piece, offset), state)
        state = decode(ReaderState, json.loads(json.dumps(encode(state))))
        offset += len(piece)
        for mark in marks:
            progress = track(progress, mark, READ_AT)
    return replace(progress.progress, step_at=None)  # a line that tells more of a step may be a moment later


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("is_known", [False, True])
def test_each_line_that_is_read_matches_what_is_wanted_of_a_store(name: str, *, is_known: bool) -> None:
    state = ReaderState(dialect=name) if is_known else None
    patterns = [re2.compile(pattern) for pattern in wanted_patterns(state=state)]
    lines = SAMPLES[name].splitlines(keepends=True)
    passing = [line for line in lines if any(pattern.search(line) for pattern in patterns)]
    assert [told(mark) for mark in read("".join(passing))] == TOLD[name]
    for line in lines:
        if any(isinstance(mark, StepSeen) for mark in read(line)):
            assert any(literal in line.encode() for literal in wanted_literals(name))


def test_a_store_leaves_out_what_tells_nothing_once_the_dialect_is_known() -> None:
    patterns = [re2.compile(pattern) for pattern in wanted_patterns(state=ReaderState(dialect="megatron"))]
    noise = ["step 3 of the set-up", "loss of link on mlx5_0", "Epoch 3", "[rank0]: NCCL INFO Init COMPLETE"]
    assert not [line for line in noise if any(pattern.search(line) for pattern in patterns)]


def test_a_save_that_stops_the_program_is_whole_once_a_later_step_comes() -> None:
    bar = " 50%|#####     | {}/1000 [00:20<16:40,  2.00s/it]\n"
    save = "Saving model checkpoint to out/checkpoint-500\n"
    assert not durable(bar.format(500) + save + bar.format(500))
    assert durable(bar.format(500) + save + bar.format(501)) == [(500, "out/checkpoint-500")]
    reader, state = ProgressReader(), ReaderState()
    state, first = reader.read(block((bar.format(500) + save).encode()), state)
    state, second = reader.read(block(bar.format(501).encode(), 500), state)
    assert not [mark for mark in first if isinstance(mark, CheckpointSeen) and mark.event is DURABLE]
    assert [told(mark) for mark in second] == [(DURABLE, 500), 501]


def durable(text: str) -> list[tuple[int | None, str | None]]:
    return [(mark.step, mark.path) for mark in read(text) if isinstance(mark, CheckpointSeen) and mark.event is DURABLE]


def test_a_bar_of_another_length_is_an_evaluation_until_the_known_one_goes_on_or_is_over() -> None:
    text = (
        " 50%|#####     | 50/100 [00:20<00:20,  2.50it/s]\n"
        + "".join(f" {at}%|#  | {at}/10 [00:01<00:09,  1.00it/s]\n" for at in range(1, 10))
        + " 51%|#####     | 51/100 [00:40<00:20,  2.50it/s]\n"
        + "100%|##########| 100/100 [00:60<00:00,  2.50it/s]\n"
        + " 10%|#         | 20/200 [00:20<00:20,  2.50it/s]\n"
    )
    assert [told(mark) for mark in read(text)] == [50, Phase.EVALUATING, 51, 100, 20]


def test_what_a_line_tells_more_of_a_step_comes_with_it_also_when_it_comes_later() -> None:
    lines = [b" 50%|#####     | 50/100 [00:20<00:20,  2.50it/s]\n", b"{'loss': 2.5, 'grad_norm': 1.5}\n"]
    assert (known(lines).loss, known(lines).grad_norm) == (2.5, 1.5)
    (seen,) = read(b"".join(lines))
    assert isinstance(seen, StepSeen)
    assert (seen.step, seen.loss) == (50, 2.5)


@pytest.mark.parametrize("name", SAMPLES)
def test_marks_are_no_later_than_the_reading_and_name_the_file(name: str) -> None:
    marks = read(SAMPLES[name])
    assert all(mark.at <= READ_AT for mark in marks)
    offsets = [mark.offset for mark in marks if isinstance(mark, StepSeen)]
    assert all(before < after for before, after in pairwise(offsets))


OTHERS = {
    "a talk about checkpoints": "we saved a checkpoint of the plan and loaded the checkpoint of yesterday",
    "an evaluation of something else": "Evaluating on 12 samples of the tokenizer",
    "a validation loss in a table": "validation loss at iteration 3",
    "an argument": "save_interval ............ 500, eval_iters ........ 10",
    "a bar of shards": "Loading checkpoint shards: 100%|####| 4/4 [00:01<00:00]",
    "a bar that has not begun": "  0%|          | 0/1000 [00:00<?, ?it/s]",
    "an epoch that has not begun": "Epoch 0:   0%|          | 0/1000 [00:00<?, ?it/s]",
    "a mention of compiling": "compiling the list of files",
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_sounds_like_it_tells_nothing(name: str) -> None:
    assert read(OTHERS[name] + "\n") == []


def test_marks_of_one_framework_do_not_count_in_the_logs_of_another() -> None:
    step = " iteration      401/   20000 | lm loss: 3.2E+00 | grad norm: 0.8 |\n"
    assert [told(mark) for mark in read(step + "[Torch] Checkpoint global_step9 is ready now!\n")] == [401]
    assert PhaseSeen not in {type(mark) for mark in read("step 5: loss 2.0\nvalidation loss at iteration 5\n")}


def test_where_megatron_runs_on_deepspeed_the_lines_that_tell_more_are_read() -> None:
    other = "[2026-05-02 11:00:40,311] [INFO] [logging.py:128:log_dist] [Rank 0] step={}, skipped=2, lr=[3e-05]\n"
    line = " iteration      {}/   20000 | elapsed time per iteration (ms): 812.0 | lm loss: 3.2E+00 |\n"
    reader, state, seen = ProgressReader(), ReaderState(), list[StepSeen]()
    for text in (other.format(10), line.format(10) + other.format(11) + line.format(11), line.format(12)):
        state, marks = reader.read(block(text.encode()), state)
        seen += [mark for mark in marks if isinstance(mark, StepSeen)]
    assert (state.dialect, [(mark.step, mark.loss) for mark in seen]) == (
        "megatron", [(10, None), (11, 3.2), (12, 3.2)],
    )  # fmt: skip
    assert [told(mark) for mark in read(other.format(10) + line.format(10))] == [10]
