"""Step lines of further frameworks: each shape gives its step, and what only looks alike gives none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from relance.domain.faults import Scope
from relance.domain.observations import LogBlock
from relance.domain.progress import StepSeen
from relance.progress import ProgressReader, ReaderState

NOW = datetime(2026, 5, 2, 12, tzinfo=UTC)

STEPS: dict[str, tuple[str, int]] = {
    "DeepSpeed": (
        "[2026-05-02 11:00:40,311] [INFO] [logging.py:128:log_dist] [Rank 0] step=120, skipped=2, lr=[3e-05]",
        120,
    ),
    "NeMo": ("Training epoch 0, iteration 79/999 | lr: 2.4e-05 | global_step: 79 | reduced_train_loss: 3.402", 79),
    "MaxText": ("completed step: 31, seconds: 5.402, TFLOP/s/device: 371.2, total_weights: 524288, loss: 7.911", 31),
    "Composer": ("[epoch=1][batch=40/4800]:", 40),
    "fairseq": ('2026-05-02 11:00:00 | INFO | train_inner | {"epoch": 1, "loss": "10.1", "num_updates": "200"}', 200),
    "fairseq's bar": (
        "2026-05-02 11:00:00 | INFO | train_inner | epoch 002:   4100 / 9310 loss=3.101, ppl=5.96",
        22720,
    ),
    "Lightning's bar": ("Epoch 1:  12%|#2   | 120/1000 [00:30<03:40, 4.0it/s, v_num=0, train_loss=2.31]", 1120),
    "torchvision's bar": ("Epoch: [3]  [  2210/160145]  eta: 5 days  loss: 6.8879  time: 0.410", 482645),
    "a script of one's own": ("(worker1, rank=1, pid=2201, ip=192.0.2.7) step 5110 loss 1.401", 5110),
    "another": ("iter 40211: loss 1.7312, time: 5120.33ms, speed: 1770 toks/s/device", 40211),
    "a bar without a description": (" 12%|#2        | 120/1000 [00:30<03:40,  4.0it/s]", 120),
    "a rank's bar": ("[rank3]:  12%|#2        | 120/1000 [00:30<03:40,  4.0it/s]", 120),
    "a task's bar": (" 3:  12%|#2        | 120/1000 [00:30<03:40,  4.0it/s]", 120),
    "a logged bar": ("2026-05-02 11:00:00 INFO:  12%|#2   | 120/1000 [00:30<03:40,  4.0it/s]", 120),
    "a bar of steps": ("Steps:  12%|#2   | 120/1000 [00:30<03:40,  4.0it/s, loss=0.1]", 120),
    "a bar drawn over itself": ("\r 12%|#2 | 120/1000 [00:30<03:40]\r", 120),
    "a name that holds such a word": ("[latest-test_run] payload: step 12 loss 2.0", 12),
    "one with both losses": ("step 2000: train loss 1.80, val loss 1.90", 2000),
    "one with the loss in front": ("train loss=0.911 lr=1e-4 step=1231", 1231),
}
NO_STEPS = {
    "a validation": "validation at step 200: loss 3.1",
    "a step that is resumed from": "resumed from checkpoint step 200, loss 3.1",
    "a loss of data held out": "step 200: val loss 3.1",
    "the same with an underscore": "step 200 | val_loss 3.1",
    "a step of an evaluation": "[eval] step 10/200 loss 3.1",
    "the Trainer's evaluation": "{'eval_loss': 2.1, 'epoch': 1.0}",
    "a save": "saved checkpoint at step 200, loss 3.1",
    "data being mapped": "Map:  50%|#####     | 500/1000 [00:01<00:01, 400.00 examples/s]",
    "data being cut": "Tokenizing (num_proc=8):  12%|#2  | 120/1000 [00:30<03:40]",
    "files being fetched": "Downloading shards:  30%|###  | 30/100 [00:03<00:07, 9.9it/s]",
    "files being fetched, by a rank": "[rank0]: Fetching 30 files:  30%|###  | 10/30 [00:03<00:07, 9.9it/s]",
    "weights being loaded": "Loading checkpoint shards: 100%|####| 4/4 [00:01<00:00]",
    "Lightning's validation": "Validation DataLoader 0:  12%|#2 | 12/100 [00:30<03:40]",
    "an argument": "--loss-scale 0 --step-batch 32",
    "a step without a loss": "step 3 of the set-up: reading the data",
}


def read(*lines: str) -> list[int]:
    data = "".join(f"{line}\n" for line in lines).encode()
    block = LogBlock(file="job.log", offset=0, data=data, scope=Scope.APPLICATION, read_at=NOW)
    return [mark.step for mark in ProgressReader().read(block, ReaderState())[1] if isinstance(mark, StepSeen)]


@pytest.mark.parametrize("name", STEPS)
def test_a_step_line_gives_its_step(name: str) -> None:
    line, step = STEPS[name]
    assert read(line) == [step]


@pytest.mark.parametrize("name", NO_STEPS)
def test_what_only_looks_like_a_step_gives_none(name: str) -> None:
    assert read(NO_STEPS[name]) == []


def test_reports_without_a_number_are_counted() -> None:
    lines = [f"{{'loss': 2.1{at}, 'grad_norm': 1.3, 'learning_rate': 4e-05, 'epoch': 0.{at}}}" for at in range(1, 4)]
    assert read(*lines) == [1, 2, 3]


def test_ranks_that_write_side_by_side_tell_each_step_once() -> None:
    lines = [f"[rank{rank}]: step {number} loss 2.{rank}" for number in (10, 11) for rank in range(4)]
    assert read(*lines) == [10, 11]
    assert read("[rank0]: step 10 loss 2.0[rank1]: step 10 loss 2.1") == [10]


def test_validation_between_steps_does_not_turn_the_count_back() -> None:
    assert read("step 10 loss 2.0", "step 10: val loss 2.4", "step 11 loss 1.9") == [10, 11]


def test_what_a_framework_is_known_by_goes_before_the_shape_of_any_script() -> None:
    first = "[2026-05-02 11:02:07] iteration      340/   20000 | consumed samples: 9 | lm loss: 3.2E+00 |"
    assert read(first, "step 3 loss 1.0") == [340]
