"""What lines tell of a job's progress, read as the watcher reads them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from relance.bootstrap.proofs.facts import StepFacts
from relance.domain.observations import LogBlock
from relance.domain.progress import StepSeen
from relance.progress import ProgressReader, ReaderState, start, track


def steps_of(blocks: Iterable[LogBlock], pattern: str | None, now: datetime) -> StepFacts:
    """The steps in blocks of a job's logs, each log's in order. A pattern that cannot be used recognises nothing.

    Logs are read one after the other; of several that tell of steps, the one that tells of most of them counts.
    """
    ordered = sorted(blocks, key=lambda block: (block.file, block.offset))
    found = [_of_log(tuple(log), pattern, now) for _, log in groupby(ordered, key=attrgetter("file"))]
    return max(found, key=lambda each: each.steps, default=StepFacts())


def _of_log(blocks: tuple[LogBlock, ...], pattern: str | None, now: datetime) -> StepFacts:
    reader, state, progress = ProgressReader(pattern), ReaderState(), start(now)
    for block in blocks:
        state, marks = reader.read(block, state)
        for mark in marks:
            if isinstance(mark, StepSeen):
                progress = track(progress, mark, now)
    told = progress.progress
    if not told.steps_seen:
        return StepFacts()
    return StepFacts(
        reader=state.dialect or "steps",
        steps=told.steps_seen,
        step=told.step,
        median_step_s=told.median_step_s,
        learned=state.learned,
    )
