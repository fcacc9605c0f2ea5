"""What a training's own output says of its attempts: an account that owes nothing to Relance. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_LOADED = re.compile(r"successfully loaded checkpoint .* at iteration (\d+)")
_COLD = re.compile(r"will not load any checkpoints")
_SAVED = re.compile(r"successfully saved checkpoint from iteration\s+(\d+)")
_FRIGHT = re.compile(r"out of memory, emptied the cache")
_STEP = re.compile(r"\] iteration\s+(\d+)/")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOutput:
    """One attempt by its own words."""

    loaded_step: int
    """The checkpoint that it went on from; 0: none."""
    first_step: int | None = None
    last_step: int | None = None
    saved_step: int | None = None
    """The newest checkpoint that it said was saved."""
    frightened: bool = False
    """Whether it said that it ran out of memory and got over it."""


def attempts_in(text: str) -> tuple[AttemptOutput, ...]:
    """The attempts that came to their first words, in order, from the output of all of them."""
    found: list[AttemptOutput] = []
    for line in text.splitlines():
        if loaded := _LOADED.search(line):
            found.append(AttemptOutput(loaded_step=int(loaded[1])))
        elif _COLD.search(line):
            found.append(AttemptOutput(loaded_step=0))
        elif found:
            found[-1] = _after(found[-1], line)
    return tuple(found)


def _after(attempt: AttemptOutput, line: str) -> AttemptOutput:
    if step := _STEP.search(line):
        first = attempt.first_step if attempt.first_step is not None else int(step[1])
        return replace(attempt, first_step=first, last_step=int(step[1]))
    if _FRIGHT.search(line):
        return replace(attempt, frightened=True)
    if saved := _SAVED.search(line):
        return replace(attempt, saved_step=int(saved[1]))
    return attempt
