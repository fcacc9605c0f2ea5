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
    """Imports, collectives, compilation: before the first step."""
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
    """A training step that a log line reports. `at` is the line's own time, or when it was read."""

    at: datetime
    step: int
    total: int | None = None
    step_time_s: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    file: str = ""
    offset: int = 0


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
