"""The course of a finished log: whether its last steps took much longer, or gave losses that are no numbers.

Slow is not broken, and one bad step is not the end; what is made of it is attribution's (signatures.md S001, T034).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from relance.domain.observations import LogBlock
from relance.domain.progress import Course, StepSeen
from relance.progress import ProgressReader, ReaderState

_PART_BYTES = 192 * 1024
_FEWEST = 3
_MOST = 20
"""So many of the last steps are held against those before: three at least, and so many that one pause has no say."""


def course_of(blocks: Iterable[LogBlock], reader: ProgressReader) -> Course:
    """The course of a log, by its beginning and its end."""
    first: LogBlock | None = None
    tail = b""
    for block in blocks:
        if first is None:
            first = replace(block, data=block.data[:_PART_BYTES])
            tail = block.data[_PART_BYTES:]
        else:
            tail += block.data[block.overlap :]
        tail = tail[-_PART_BYTES:]
    if first is None:
        return Course()
    state, steps = ReaderState(), list[StepSeen]()
    for data in (first.data, tail):
        state, marks = reader.read(replace(first, data=data, offset=0, overlap=0), state)
        steps += [mark for mark in marks if isinstance(mark, StepSeen)]
    return Course(slower=_slower(steps), without_number=_without_number(steps))


def _slower(steps: Sequence[StepSeen]) -> float | None:
    times_s = [mark.step_time_s for mark in steps if mark.step_time_s is not None]
    if len(times_s) < len(steps):
        times_s = [
            (later.at - step.at).total_seconds() / (later.step - step.step)
            for step, later in pairwise(steps)
            if later.step > step.step and later.at > step.at
        ]
    last = max(_FEWEST, min(_MOST, len(times_s) // 4))
    if len(times_s) < 2 * last:
        return None
    usual_s = median(times_s[: len(times_s) // 2])
    return median(times_s[-last:]) / usual_s if usual_s > 0 else None


def _without_number(steps: Sequence[StepSeen]) -> int:
    count = 0
    for mark in reversed(steps):
        told = [value for value in (mark.loss, mark.grad_norm) if value is not None]
        if not told or all(math.isfinite(value) for value in told):
            break
        count += 1
    return count
