"""What a dialect is: how one framework writes of steps, checkpoints and phases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from relance.domain.progress import CheckpointEvent, Phase

Finder = Callable[[bytes], Iterator[tuple[int, "StepText"]]]
"""Finds the steps that a text tells of, each with its position, in order."""

SAME: Final = b"="
"""In place of a step's number: the line tells more of the step before it."""


class StepText(NamedTuple):
    """A step as the text has it.

    `step` is empty where the line bears no number: then it tells more of the step before it, or is counted where none
    bears one. `per_s` are steps a second. `is_bar`: the line is a bar without a name, which other things have as well.
    `is_more`: where the number is that of the step before, the line tells more of it.
    """

    step: bytes
    total: bytes | None = None
    loss: bytes | None = None
    grad_norm: bytes | None = None
    step_time_s: bytes | None = None
    step_time_ms: bytes | None = None
    throughput: bytes | None = None
    unit: str = ""
    per_s: bytes | None = None
    is_bar: bool = False
    is_more: bool = False


class Told(Enum):
    """What a line tells beside steps; the value is the event or phase that it means."""

    SAVE_BEGUN = CheckpointEvent.BEGUN
    SAVED = CheckpointEvent.DURABLE
    LOADED = CheckpointEvent.LOADED
    COLD = CheckpointEvent.COLD
    LOADING = Phase.LOADING
    STARTING = Phase.STARTING
    COMPILING = Phase.COMPILING
    EVALUATING = Phase.EVALUATING
    TRAINING = Phase.TRAINING
    ENDING = Phase.ENDING
    STARTS_AT = "starts_at"
    """torchtitan's `Training starts at step 1`: a cold start, if nothing was loaded before."""
    SAVES = "saves"
    """A save for which the program stops and of whose end no line tells: the next step proves that it is whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A pattern (RE2 syntax) for lines that tell something; groups `step` and `path` where they name it.

    `is_plain`: nobody else writes so, so that it counts before the dialect is known.
    """

    pattern: str
    told: Told
    is_plain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one framework writes.

    `literals` are such that each of its step lines has at least one of them. `kin` are the frameworks, by name, whose
    marks come with its steps; None: of any, those that nobody else writes. `yields_to` names a dialect that tells more
    where both are written.
    """

    name: str
    find_steps: Finder
    literals: tuple[bytes, ...]
    kin: tuple[str, ...] | None = ()
    yields_to: str = ""


def marked(text: bytes, mark: bytes, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """The matches of a pattern that begins with a fixed mark, found at the speed of the mark."""
    position = text.find(mark)
    while position >= 0:
        match = pattern.match(text, position)
        if match is not None:
            yield match
        position = text.find(mark, match.end() if match else position + len(mark))
