"""What the ranks' own books of a chaos run say: whether a step was lost, done out of turn, or done by two at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_BEGINS = re.compile(r"^attempt (\d+) (begins|finds another writer)$")
_STEP = re.compile(r"^\S+ \S+ rank \d+ finished iteration (\d+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAttempt:
    """One attempt of one rank: which, and the steps that it finished, in the order of the book."""

    number: int
    steps: tuple[int, ...]
    is_alone: bool = True
    """Whether no earlier attempt of the rank was still alive."""


def read_book(path: Path) -> tuple[RankAttempt, ...]:
    """The attempts in a rank's book; a line that was cut off by the rank's end is left out."""
    if not path.exists():
        return ()
    found: list[RankAttempt] = []
    number, alone, steps = -1, True, list[int]()
    for line in path.read_text(encoding="ascii", errors="replace").splitlines():
        if begins := _BEGINS.match(line):
            if number >= 0:
                found.append(RankAttempt(number=number, steps=tuple(steps), is_alone=alone))
            number, alone, steps = int(begins[1]), begins[2] == "begins", []
        elif step := _STEP.match(line):
            steps.append(int(step[1]))
    if number >= 0:
        found.append(RankAttempt(number=number, steps=tuple(steps), is_alone=alone))
    return tuple(found)


def lost(book: Sequence[RankAttempt], steps: int, checkpoint_every: int) -> list[str]:
    """What was lost: a step that was never done, one done again although it was saved, or the end not reached.

    An attempt begins after the newest durable checkpoint: that of the highest step ever, or the one before it when the
    last attempt ended before that save was durable.
    """
    wrong: list[str] = []
    highest, before = 0, 0
    for attempt in book:
        if not attempt.steps:
            continue
        first = attempt.steps[0]
        newest = highest // checkpoint_every * checkpoint_every
        # A save follows its step: it is certainly durable only once a step beyond it was finished.
        certain = newest if highest > newest else max(0, newest - checkpoint_every)
        if first - 1 not in {newest, certain}:
            wrong.append(f"attempt {attempt.number} begins with step {first}, after step {highest} was done")
        highest, before = max(highest, *attempt.steps), attempt.number
    if highest != steps:
        wrong.append(f"the last step is {highest} of {steps}, in attempt {before}")
    return wrong


def doubled(book: Sequence[RankAttempt]) -> list[str]:
    """What was done by two at once: an attempt that found another alive, or steps of two attempts in one run."""
    wrong = [f"attempt {each.number} found another writer" for each in book if not each.is_alone]
    for attempt in book:
        in_turn = range(attempt.steps[0], attempt.steps[0] + len(attempt.steps)) if attempt.steps else range(0)
        if attempt.steps != tuple(in_turn):
            wrong.append(f"attempt {attempt.number} has steps out of turn: {_around(attempt.steps)}")
    numbers = [each.number for each in book]
    wrong += [f"attempt {number} began twice" for number in sorted(set(numbers)) if numbers.count(number) > 1]
    if numbers != sorted(numbers):
        wrong.append(f"attempts began out of order: {numbers}")
    return wrong


def _around(steps: Sequence[int]) -> str:
    """The steps about the first that is out of turn."""
    place = next(at for at in range(1, len(steps)) if steps[at] != steps[at - 1] + 1)
    return ", ".join(str(step) for step in steps[max(0, place - 2) : place + 3])
