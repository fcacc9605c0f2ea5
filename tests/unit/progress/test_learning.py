"""Steps of unknown formats: learned from lines that repeat with a growing number, and from nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from relance.domain.encoding import decode, encode
from relance.domain.progress import StepSeen
from relance.progress import ProgressReader, ReaderState, start, track, track_steps
from relance.progress.learning import MOST_ENTRIES
from tests.unit.progress.blocks import READ_AT, block, megatron

BYTES_AT_MOST = 16 * 1024


def live(lines: Iterable[str], state: ReaderState | None = None) -> tuple[ReaderState, list[StepSeen]]:
    """Lines that come one after the other, each with the next reading."""
    reader, state, offset, seen = ProgressReader(), state or ReaderState(), 0, list[StepSeen]()
    for number, line in enumerate(lines):
        data = f"{line}\n".encode()
        at = READ_AT + timedelta(seconds=10 * number)
        state, marks = reader.read(replace(block(data, offset), read_at=at), state)
        offset += len(data)
        seen += [mark for mark in marks if isinstance(mark, StepSeen)]
    return state, seen


LEARNED = {
    "a step word before": "2026-05-02 11:00:07,123 INFO trainer: it {n} | nll 3.2{n} | lr 3e-0{d}",
    "a step word with a total": "[rank0]: train step {n}/20000 took 2.1{d}s",
    "a step word after": "done {n} iterations, nll 3.{n}",
    "a keyword": "ppl=1{d}.5 updates={n} bsz=4096",
    "right-aligned numbers": "batch {n:8d} nll 2.{n}",
    "a number with a fraction beside it": "{n}  2.3{n}  0.000{d}  11.2",
    "an epoch of one's own": "Epoch {n:03d} acc 0.8{n} f1 0.7{d}",
    "a colon": "step {n}: nll 3.{n}",
    "a number sign": "update #{n} score 2.{d}",
}
OTHERS = {
    "times": "2026-05-02 11:{m:02d}:00 all is well",
    "seconds since 1970": "step_clock 17146404{n:02d}",
    "bytes": "it wrote {n} bytes",
    "megabytes": "step buffer {n} MB, 0.5 full",
    "a percentage": "step {n}% of 1.0",
    "a heartbeat": "heartbeat {n} 1.0 load",
    "a watchdog": "watchdog step {n} 0.5",
    "waiting": "still waiting, iteration {n} of 100, 0.5 s",
    "seconds that pass": "elapsed {n} s, 2.5 left",
    "ranks": "rank {n} is ready, 0.5",
    "layers": "converting layer {n} of 0.5",
    "attempts": "connection attempt {n} failed, next in 2.0 s",
    "an evaluation": "eval step {n} nll 2.5",
    "a process": "worker[{n}] says 2.5",
    "an address": "connected to 192.0.2.{d}:{n} 2.5",
    "a version": "library 1.{n} 2.5",
    "a collective": "NCCL opCount {n} 2.5",
    "a warm-up": "warmup iteration {n}: 2.5",
    "tokens": "tokens {n} 2.5",
    "a number alone": "{n}",
    "a whole number beside it": "{n} 17 files",
    "a file": "wrote part-{n}.bin 2.5",
}


def told(shape: str, count: int = 40, gap: int = 1) -> list[str]:
    return [shape.format(n=7 + gap * at, m=at % 60, d=at % 9 + 1) for at in range(count)]


@pytest.mark.parametrize("name", LEARNED)
def test_steps_are_learned_from_lines_that_repeat(name: str) -> None:
    state, seen = live(told(LEARNED[name]))
    assert state.dialect == "learned"
    assert [mark.step for mark in seen] == list(range(seen[0].step, 47))
    assert seen[0].step <= 7 + 13
    assert all(mark.is_learned for mark in seen)


@pytest.mark.parametrize("name", OTHERS)
def test_other_numbers_that_grow_are_no_steps(name: str) -> None:
    state, seen = live(told(OTHERS[name]))
    assert (state.learned, seen) == (None, [])


def test_the_gap_may_be_any_and_lines_of_other_ranks_are_no_hindrance() -> None:
    lines = [f"[rank{rank}]: {line}" for line in told("it {n} nll 3.{n}", gap=50) for rank in range(3)]
    state, seen = live(lines)
    assert state.learned == "[rankN]: it N nll N"
    assert {after.step - before.step for before, after in pairwise(seen)} == {50}


def test_what_is_shown_has_no_numbers() -> None:
    state, _ = live(told("host-17 it {n} nll 3.{n} token=12345"))
    assert state.learned is not None
    assert not any(letter.isdigit() for letter in state.learned)


def test_a_gap_that_does_not_repeat_teaches_nothing() -> None:
    numbers = [1, 3, 8, 9, 20, 22, 31, 33, 47, 50, 61, 80, 82, 90, 91, 99]
    assert live([f"it {number} nll 2.5" for number in numbers])[0].learned is None


def test_what_is_counted_at_once_teaches_nothing_until_it_goes_on_for_long() -> None:
    lines = "".join(f"{line}\n" for line in told("step {n}: reading shapes", count=16)).encode()
    state, marks = ProgressReader().read(block(lines), ReaderState())
    assert (state.learned, marks) == (None, ())
    lines = "".join(f"{line}\n" for line in told("step {n}: nll", count=60)).encode()
    state, marks = ProgressReader().read(block(lines), ReaderState())
    assert state.learned == "step N: nll"
    assert len(marks) == 60


def test_of_several_numbers_the_one_with_a_word_for_it_is_taken() -> None:
    state, seen = live([f"{10 + at}  2.31  it {300 + 10 * at}" for at in range(40)])
    assert {mark.step % 10 for mark in seen} == {0}
    assert state.learned is not None


def test_a_loss_that_is_no_number_hides_no_step() -> None:
    state, _ = live(told("it {n} | nll 3.{n}"))
    _, seen = live(["it 47 | nll nan", "it 48 | nll inf"], state)
    assert [mark.step for mark in seen] == [47, 48]


def test_a_known_format_that_comes_later_goes_before_what_was_learned() -> None:
    state, _ = live(told("step {n} of the set-up"))
    assert state.learned is not None
    state, seen = live([megatron(5).strip()], state)
    assert (state.dialect, state.learned) == ("megatron", None)
    assert [(mark.step, mark.is_learned) for mark in seen] == [(5, False)]


def test_when_the_learned_lines_stop_others_may_take_their_place() -> None:
    state, _ = live(told("step {n} of the set-up"))
    state, seen = live(told("it {n} | nll 3.{n}"), state)
    assert [mark.step for mark in seen][-1] == 46
    assert state.learned == "it N | nll N"


def test_lines_between_learned_ones_do_not_take_their_place() -> None:
    lines = [line for at in range(40) for line in (f"it {at} | nll 3.{at}", f"update {at // 2} of the cache")]
    state, _ = live(lines)
    assert state.learned == "it N | nll N"


def test_what_is_remembered_is_small_whatever_comes() -> None:
    state, _ = live([f"{'abcdefghijklmnopqrstuvwxyz'[at % 26] * (at % 60 + 1)} it {at}" for at in range(3000)])
    assert len(state.learning.entries) <= MOST_ENTRIES
    assert len(json.dumps(encode(state))) < BYTES_AT_MOST


def test_learning_survives_writing_down_at_any_point() -> None:
    lines = told(LEARNED["a step word before"])
    state, once = ReaderState(), live(lines)
    reader, offset = ProgressReader(), 0
    for number, line in enumerate(lines):
        data = f"{line}\n".encode()
        at = READ_AT + timedelta(seconds=10 * number)
        state, _ = reader.read(replace(block(data, offset), read_at=at), state)
        state = decode(ReaderState, json.loads(json.dumps(encode(state))))
        offset += len(data)
    assert state == once[0]


def test_progress_says_that_it_was_learned() -> None:
    _, seen = live(told("it {n} | nll 3.{n}"))
    progress = start(READ_AT)
    for mark in seen[:5]:
        progress = track(progress, mark, READ_AT)
    assert progress.progress.is_learned
    assert track_steps(progress, seen[5:], READ_AT).progress.is_learned


def test_with_a_pattern_of_ones_own_nothing_is_learned() -> None:
    reader, state = ProgressReader(own=r"never (?P<step>\d+)"), ReaderState()
    for number, line in enumerate(told("it {n} | nll 3.{n}")):
        at = READ_AT + timedelta(seconds=number)
        state, marks = reader.read(replace(block(f"{line}\n".encode()), read_at=at), state)
        assert marks == ()
    assert state.learned is None
