"""Progress of an attempt: what its logs say about steps and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class Phase(Enum):
    """What an attempt is doing, by its own words."""

    UNKNOWN = "unknown"
    """Nothing recognised yet."""
    STARTING = "starting"
    """Imports, collectives, reading of data: before the first step."""
    COMPILING = "compiling"
    """An announced compilation: of the model, of kernels, or of a change in either while steps go by."""
    LOADING = "loading"
    """Reading a checkpoint."""
    TRAINING = "training"
    """Steps go by."""
    EVALUATING = "evaluating"
    """An announced evaluation."""
    SAVING = "saving"
    """Writing a checkpoint."""
    ENDING = "ending"
    """The program said that it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeen:
    """A training step that a log line reports. `at` is the line's own time, or when it was read.

    `throughput` is as the line has it, of what `throughput_unit` says, such as `tokens/s/GPU` or `TFLOP/s/GPU`.
    `is_learned`: the line is of no known format, its repetition alone says that it tells steps.
    """

    at: datetime
    step: int
    total: int | None = None
    step_time_s: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    file: str = ""
    offset: int = 0
    throughput: float | None = None
    throughput_unit: str = ""
    is_learned: bool = False


class CheckpointEvent(Enum):
    """What happened to a checkpoint."""

    BEGUN = "begun"
    """A save was begun or scheduled."""
    DURABLE = "durable"
    """The save is complete and can be loaded."""
    LOADED = "loaded"
    """The attempt started from it."""
    COLD = "cold"
    """The attempt found none and starts from the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSeen:
    """A checkpoint line. `step` is None when the line does not name it."""

    at: datetime
    event: CheckpointEvent
    step: int | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSeen:
    """A line that announces a phase."""

    at: datetime
    phase: Phase


ProgressMark = StepSeen | CheckpointSeen | PhaseSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How the steps of a finished log went: what can only be said of many together.

    `slower` is how many times longer the last steps took than those before, where both are known.
    `without_number` counts the last steps in a row whose loss or gradient was no number.
    """

    slower: float | None = None
    without_number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """All that is known of one attempt's progress, as of `as_of` (the watermark of its sources).

    Steps are counts, times are seconds. `first_step` is the first step this attempt reported; a checkpoint step is the
    last step that the checkpoint holds.

    A pause is the time from one report of a step to the next. `longest_pause_s` is the longest of all,
    `longest_save_s` and `longest_evaluation_s` the longest of those in which a save or an evaluation was announced.
    `last_save_s` and `median_save_s` are how long saves took from their begin until they were durable, which steps may
    go on beside. `start_s` is the time from the attempt's start, by the scheduler, to its first step.
    `throughput` is the last one told, in `throughput_unit`. `is_learned`: the steps are read from lines of no known
    format, so that what looks like one may be something else that counts.
    """

    as_of: datetime
    phase: Phase = Phase.UNKNOWN
    first_step: int | None = None
    first_step_at: datetime | None = None
    step: int | None = None
    step_at: datetime | None = None
    highest_step: int | None = None
    total_steps: int | None = None
    steps_seen: int = 0
    median_step_s: float | None = None
    longest_pause_s: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    checkpoint_begun: int | None = None
    checkpoint_durable: int | None = None
    checkpoint_durable_at: datetime | None = None
    loaded_step: int | None = None
    started_cold: bool = False
    throughput: float | None = None
    throughput_unit: str = ""
    start_s: float | None = None
    last_save_s: float | None = None
    median_save_s: float | None = None
    longest_save_s: float | None = None
    longest_evaluation_s: float | None = None
    is_learned: bool = False
