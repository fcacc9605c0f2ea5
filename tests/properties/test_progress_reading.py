"""Marks of progress do not depend on where blocks begin and end, nor on what stands between the lines."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from relance.detectors.watched import Watched
from relance.detectors.watches import SINGLE_STEPS, WatchState, watch, watch_steps
from relance.domain.faults import Scope
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import LogBlock
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Phase, PhaseSeen, ProgressMark, StepSeen
from relance.progress import ProgressReader, ReaderState, start, track, track_steps

READ_AT = datetime(2026, 5, 2, 12, 0, tzinfo=UTC)
READER = ProgressReader()

numbers = st.integers(0, 99_999)
losses = st.sampled_from(["2.1E+00", "nan", "inf", "1,024.5", "7"])
steps = st.builds(
    lambda step, loss: f" [2026-05-02 11:00:07.1] iteration {step:8d}/  100000 | lm loss: {loss} | grad norm: 0.8 |",
    numbers,
    losses,
)
checkpoints = st.builds(
    lambda step, what: what.format(step=step),
    numbers,
    st.sampled_from(
        [
            "[2026-05-02 11:01:00.1] saving checkpoint at iteration {step:7d} to /ckpt/run7 in torch_dist format",
            "  successfully saved checkpoint from iteration {step:7d} to /ckpt/run7 [ t 1/1, p 1/1 ]",
            "  successfully loaded checkpoint from /ckpt/run7 [ t 1/2, p 1/4 ] at iteration {step}",
            "    will not load any checkpoints and will start from random",
        ]
    ),
)
noise = st.sampled_from([
    "", "iteration", "iteration 5/", "step:", "step: 7 of many", "loss: 3", "number of skipped iterations:   0 |",
    "10%|#\r20%|##", "\x1b[31mred\x1b[0m", "saving checkpoint", "[rank3]: fine",
])  # fmt: skip
labels = st.sampled_from(["", "7: ", "[rank7]: ", "[1,7]<stdout>:"])
lines = st.builds(lambda label, line: f"{label}{line}\n".encode(), labels, steps | checkpoints | noise)


@given(st.lists(lines, max_size=25), st.sets(st.integers(1, 24)))
def test_marks_do_not_depend_on_the_bounds_of_blocks(text: list[bytes], cuts: set[int]) -> None:
    bounds = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [b"".join(text[begin:end]) for begin, end in itertools.pairwise(bounds)]
    assert _plain(_read(pieces)) == _plain(_read([b"".join(text)]))


@given(st.lists(steps, max_size=10), st.lists(noise, min_size=10, max_size=10))
def test_noise_between_the_lines_hides_no_step(told: list[str], between: list[str]) -> None:
    plain = "".join(f"{line}\n" for line in told).encode()
    noisy = "".join(f"{line}\n{other}\n" for line, other in zip(told, between, strict=False)).encode()
    assert _steps(_read([noisy])) == _steps(_read([plain]))


@given(st.lists(lines, max_size=60))
def test_what_is_tracked_is_sound_and_bounded(text: list[bytes]) -> None:
    marks = _read([b"".join(text)])
    state = start(READ_AT)
    for mark in marks:
        state = track(state, mark, READ_AT)
    progress = state.progress
    said = _steps(marks)
    assert progress.highest_step == max(said, default=None)
    assert progress.first_step == (said[0] if said else None)
    assert (progress.step is None) == (not said)
    assert progress.steps_seen <= len(said)
    assert len(state.times_s) <= 64


instants = st.integers(0, 400).map(lambda seconds: READ_AT + timedelta(seconds=seconds / 2))
some_steps = st.builds(
    StepSeen,
    at=instants,
    step=st.integers(0, 12),
    total=st.none() | st.integers(10, 20),
    step_time_s=st.none() | st.sampled_from([0.5, 2.0]),
    loss=st.none() | st.sampled_from([1.0, math.inf]),
    throughput=st.none() | st.sampled_from([7.0, math.nan]),
    throughput_unit=st.sampled_from(["tokens/s", ""]),
    is_learned=st.booleans(),
    file=st.just("job.log"),
)
other_marks = st.builds(PhaseSeen, at=instants, phase=st.sampled_from(Phase)) | st.builds(
    CheckpointSeen, at=instants, event=st.sampled_from(CheckpointEvent), step=st.none() | st.integers(0, 12)
)


@given(st.lists(other_marks | some_steps, max_size=6), st.lists(some_steps, max_size=12))
def test_many_steps_at_once_come_to_what_they_come_to_one_by_one(
    before: list[ProgressMark], run: list[StepSeen]
) -> None:
    state = start(READ_AT)
    for mark in before:
        state = track(state, mark, READ_AT)
    one_by_one = state
    for seen in run:
        one_by_one = track(one_by_one, seen, READ_AT)
    assert track_steps(state, run, READ_AT) == one_by_one


@given(st.lists(some_steps, min_size=SINGLE_STEPS, max_size=20))
def test_detectors_come_to_the_same_with_many_steps_at_once(run: list[StepSeen]) -> None:
    watched = Watched(attempt=AttemptKey(job=JobKey(cluster="c", raw_id="1", submitted_at=READ_AT), restart_count=0))
    states = [WatchState()]
    for seen in run:
        states.append(watch(states[-1], seen, READ_AT, watched, start(READ_AT).progress)[0])
    at_once = watch_steps(states[SINGLE_STEPS], run[SINGLE_STEPS:], watched)
    assert at_once == states[-1] or len(run) == SINGLE_STEPS


def _read(pieces: list[bytes]) -> list[ProgressMark]:
    state, offset, found = ReaderState(), 0, list[ProgressMark]()
    for piece in pieces:
        block = LogBlock(file="job.log", offset=offset, data=piece, scope=Scope.APPLICATION, read_at=READ_AT)
        state, marks = READER.read(block, state)
        offset += len(piece)
        found += marks
    return found


def _plain(marks: list[ProgressMark]) -> list[str]:
    """As text, in which a NaN is equal to itself."""
    return [repr(mark) for mark in marks]


def _steps(marks: list[ProgressMark]) -> list[int]:
    return [mark.step for mark in marks if isinstance(mark, StepSeen)]
