"""Dialects: how Megatron-LM and torchtitan write of steps, checkpoints and phases.

The shapes are those of their sources: megatron/training/training.py and checkpointing.py, and torchtitan's
components/metrics.py and checkpoint.py. Lines are matched from their marks on, not from their beginnings, because ranks
write into each other's lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from relance.domain.progress import CheckpointEvent, Phase

_NUMBER = rb"([+-]?(?:[\d.,]+(?:[eE][+-]?\d+)?|nan|inf|NaN|Inf|infinity))"
_MOST_LINE_BYTES = 4096

Finder = Callable[[bytes], Iterator[tuple[int, "StepText"]]]


class StepText(NamedTuple):
    """A step as the text has it; `step` is empty where the line bears no number, so that reports are counted."""

    step: bytes
    total: bytes | None = None
    loss: bytes | None = None
    grad_norm: bytes | None = None
    step_time_s: bytes | None = None
    step_time_ms: bytes | None = None


class Told(Enum):
    """What a line tells beside steps; the value is the event or phase that it means."""

    SAVE_BEGUN = CheckpointEvent.BEGUN
    SAVED = CheckpointEvent.DURABLE
    LOADED = CheckpointEvent.LOADED
    COLD = CheckpointEvent.COLD
    LOADING = Phase.LOADING
    STARTING = Phase.STARTING
    EVALUATING = Phase.EVALUATING
    TRAINING = Phase.TRAINING
    ENDING = Phase.ENDING
    STARTS_AT = "starts_at"
    """torchtitan's `Training starts at step 1`: a cold start, if nothing was loaded before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A pattern (RE2 syntax) for lines that tell something; groups `step` and `path` where they name it."""

    pattern: str
    told: Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one framework writes."""

    name: str
    find_steps: Finder
    marks: tuple[Mark, ...]


_MEGATRON_STEP = re.compile(rb"iteration +(\d{1,12})/ *(\d{1,12}) +\|")
_MEGATRON_MS = re.compile(rb"elapsed time per iteration \(ms\): *" + _NUMBER)
_MEGATRON_LM_LOSS = re.compile(rb"lm loss: *" + _NUMBER)
_MEGATRON_LOSS = re.compile(rb"loss: *" + _NUMBER)
_MEGATRON_NORM = re.compile(rb"grad norm: *" + _NUMBER)
_TITAN_STEP = re.compile(rb"step: *([\d,]{1,15}) +loss: *" + _NUMBER + rb"(?: +grad_norm: *" + _NUMBER + rb")?")


def megatron_steps(text: bytes) -> Iterator[tuple[int, StepText]]:
    """Step lines of Megatron-LM: ` [time] iteration 340/ 20000 | … | lm loss: 3.2E+00 | … |`."""
    found = list(_marked(text, b"iteration ", _MEGATRON_STEP))
    afters = (*(match.start() for match in found[1:]), len(text))
    for match, after in zip(found, afters, strict=False):
        begin, end = match.span()
        line_end = text.find(b"\n", end, after)
        rest = text[end - 1 : min(after if line_end < 0 else line_end, end + _MOST_LINE_BYTES)]
        loss = _number_after(rest, b"lm loss:", _MEGATRON_LM_LOSS) or _number_after(rest, b"loss:", _MEGATRON_LOSS)
        norm = _number_after(rest, b"grad norm:", _MEGATRON_NORM)
        step_ms = _number_after(rest, b"elapsed time per iteration (ms):", _MEGATRON_MS)
        yield begin, StepText(match[1], match[2], loss, norm, None, step_ms)


def _number_after(text: bytes, label: bytes, pattern: re.Pattern[bytes]) -> bytes | None:
    """The number after a label. A plain search for the label is several times as fast as the pattern's own."""
    begin = text.find(label)
    if begin < 0:
        return None
    found = pattern.match(text, begin) or pattern.search(text, begin + 1)
    return None if found is None else found[1]


def titan_steps(text: bytes) -> Iterator[tuple[int, StepText]]:
    """Step lines of torchtitan: `[titan] time - root - INFO - step: 20  loss: 6.8  grad_norm: 1.9  …`."""
    for match in _marked(text, b"step:", _TITAN_STEP):
        if text[max(0, match.start() - 9) : match.start()] != b"validate ":
            yield match.start(), StepText(step=match[1], loss=match[2], grad_norm=match[3])


MEGATRON = Dialect(
    name="megatron",
    find_steps=megatron_steps,
    marks=(
        Mark(
            told=Told.SAVE_BEGUN,
            pattern=r"(?:saving checkpoint|scheduled an async checkpoint save) at iteration +(?P<step>\d+)"
            r" to (?P<path>\S+)",
        ),
        Mark(
            told=Told.SAVED,
            pattern=r"successfully saved checkpoint (?:from|at) iteration +(?P<step>\d+)(?: to (?P<path>\S+))?",
        ),
        Mark(told=Told.LOADING, pattern=r"loading (?:distributed |release )?checkpoint from (?P<path>\S+)"),
        Mark(
            told=Told.LOADED,
            pattern=r"successfully loaded checkpoint from (?P<path>\S+).{0,200}? at iteration +(?P<step>\d+)",
        ),
        Mark(told=Told.COLD, pattern=r"will not load any checkpoints and will start from random"),
        Mark(
            told=Told.STARTING,
            pattern=r"\[(?:after megatron is initialized|after model|after dataloaders|before the start of training)"
            r"[^\]]{0,80}\] datetime:|initializing torch distributed|time to initialize megatron",
        ),
        Mark(told=Told.EVALUATING, pattern=r"Evaluating (?:on \d+ samples|iter \d+/\d+)"),
        Mark(told=Told.TRAINING, pattern=r"(?:validation|test) loss at (?:iteration|the end)"),
        Mark(told=Told.ENDING, pattern=r"\[after training is done\]|exiting program (?:at iteration|after|with code)"),
    ),
)
TITAN = Dialect(
    name="torchtitan",
    find_steps=titan_steps,
    marks=(
        Mark(
            told=Told.SAVE_BEGUN,
            pattern=r"Saving (?:the|a (?:full|model only)) checkpoint(?:.{0,80}?step,? +(?:step )?(?P<step>\d+))?",
        ),
        Mark(told=Told.SAVED, pattern=r"Finished saving the checkpoint"),
        Mark(
            told=Told.LOADING,
            pattern=r"Loading the checkpoint(?: from (?P<path>\S*?(?:step-(?P<step>\d+))?)\.?(?:\s|$))?",
        ),
        Mark(told=Told.LOADED, pattern=r"Finished loading the checkpoint"),
        Mark(told=Told.STARTS_AT, pattern=r"Training starts at step +(?P<step>\d+)"),
        Mark(told=Told.TRAINING, pattern=r"validate step: *\d+"),
        Mark(told=Told.ENDING, pattern=r"- Training completed"),
    ),
)
DIALECTS = (MEGATRON, TITAN)


def without_marks(name: str, find_steps: Finder) -> Dialect:
    """A dialect of steps alone."""
    return Dialect(name=name, find_steps=find_steps, marks=())


def _marked(text: bytes, mark: bytes, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """The matches of a pattern that begins with a fixed mark, found at the speed of the mark."""
    position = text.find(mark)
    while position >= 0:
        match = pattern.match(text, position)
        if match is not None:
            yield match
        position = text.find(mark, match.end() if match else position + len(mark))
