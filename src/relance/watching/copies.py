"""Copies: several sources may hold the same log, and what they tell late of an attempt's progress is no news.

Which source is ahead is seen by who tells a step first; the others are its copies until one of them is beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence

from relance.domain.progress import CheckpointEvent, CheckpointSeen, Progress, ProgressMark, StepSeen


def told_first(
    marks: Sequence[ProgressMark], source: str, leader: str | None, known: Progress
) -> tuple[str | None, Sequence[ProgressMark]]:
    """Who leads after marks of a source, and those of them that are news.

    Of a source that does not lead, a step counts if it is higher than any before: then it leads. Steps that go back
    are news of the leader alone. What it tells of phases counts, as it may hold other output of the job.
    """
    if leader in (None, source):
        has_steps = leader is None and any(isinstance(mark, StepSeen) for mark in marks)
        return (source if has_steps else leader), marks
    highest = -1 if known.highest_step is None else known.highest_step
    for place, mark in enumerate(marks):
        if isinstance(mark, StepSeen) and mark.step > highest:
            before = [each for each in marks[:place] if _is_news(each, known)]
            return source, [*before, *marks[place:]]
    return leader, [mark for mark in marks if _is_news(mark, known)]


def _is_news(mark: ProgressMark, known: Progress) -> bool:
    if isinstance(mark, StepSeen):
        return False
    if isinstance(mark, CheckpointSeen) and mark.step is not None:
        if mark.event is CheckpointEvent.BEGUN:
            return mark.step != known.checkpoint_begun
        if mark.event is CheckpointEvent.DURABLE:
            return mark.step != known.checkpoint_durable
    return True
