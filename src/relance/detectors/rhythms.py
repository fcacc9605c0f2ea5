"""The rhythm of an attempt: how long it usually takes from one report of a step to the next, and how long it pauses.

That is not the step time: many programs report every tenth or hundredth step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from relance.domain.observations import Life
from relance.domain.progress import CheckpointSeen, Phase, PhaseSeen, Progress, StepSeen
from relance.domain.replacing import replace

GAPS: Final = 8
"""Gaps that the usual one is the median of, so that a pause for a save or an evaluation does not count."""
GAPS_TO_KNOW: Final = 3
"""With fewer the rhythm is not known: first steps compile, and read for the first time."""
PAUSE_LEAST_S: Final = 2.0
"""A shorter pause is none that anybody would wait for."""
PAUSES: Final = 4
"""So many of the longest pauses are kept."""
PAUSES_FOR: Final = timedelta(hours=72)
"""So long: what comes once a day is learned."""
ONCE_FOR: Final = timedelta(hours=12)
"""A pause that came but once counts for so long: a file system that hung yesterday is no reason to wait today."""
ANNOUNCED: Final = frozenset({
    Phase.STARTING, Phase.COMPILING, Phase.LOADING, Phase.EVALUATING, Phase.SAVING, Phase.ENDING,
})  # fmt: skip
"""Phases in which no step is to be expected: what they last says nothing about a silence that nobody announced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A time without a sign of life that nobody had announced, and when it was over."""

    for_s: float
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """The last gaps between reports of new steps, in seconds by the times of their lines, and the longest pauses.

    `mark_at` is the last line about a phase or a checkpoint since the last step; `is_excused` says that a phase was
    announced since then, or a checkpoint folder grew.
    """

    step: int | None = None
    at: datetime | None = None
    gaps_s: tuple[float, ...] = ()
    mark_at: datetime | None = None
    is_excused: bool = False
    pauses: tuple[Pause, ...] = ()

    def after(self, seen: StepSeen, phase: Phase = Phase.TRAINING) -> Rhythm:
        """With one more report, after which the attempt is in `phase`: a save of that step may be under way."""
        if self.step is not None and self.at is not None and seen.step == self.step:
            return self
        gaps_s, pauses = self.gaps_s, self.pauses
        if self.step is not None and self.at is not None and seen.step > self.step:
            gap_s = (seen.at - self.at).total_seconds()
            gaps_s = (*gaps_s, gap_s)[-GAPS:] if gap_s >= 0.0 else gaps_s
            pauses = self._pauses_with(seen.at)
        return Rhythm(step=seen.step, at=seen.at, gaps_s=gaps_s, is_excused=phase in ANNOUNCED, pauses=pauses)

    def after_all(self, steps: Iterable[StepSeen]) -> Rhythm:
        """With several more reports while training goes on: the same as with one after the other."""
        step, at, pauses = self.step, self.at, self.pauses
        is_first = True
        gaps_s = deque(self.gaps_s, GAPS)
        for seen in steps:
            if seen.step == step:
                continue
            if step is not None and at is not None and seen.step > step:
                gap_s = (seen.at - at).total_seconds()
                if gap_s >= 0.0:
                    gaps_s.append(gap_s)
                if is_first:
                    pauses = self._pauses_with(seen.at)
                elif gap_s > PAUSE_LEAST_S:
                    pauses = _with_pause(pauses, gap_s, seen.at)
            step, at, is_first = seen.step, seen.at, False
        if is_first:
            return self
        return Rhythm(step=step, at=at, gaps_s=tuple(gaps_s), pauses=pauses)

    def marked(self, seen: CheckpointSeen | PhaseSeen | Life, phase: Phase) -> Rhythm:
        """With another sign of life than a step, after which the attempt is in `phase`."""
        if isinstance(seen, Life):
            return self if self.is_excused else replace(self, is_excused=True)
        return replace(self, mark_at=seen.at, is_excused=phase in ANNOUNCED, pauses=self._pauses_with(seen.at))

    def usual_s(self, progress: Progress) -> float | None:
        """How long a report usually is in coming, at least a step; None: not known."""
        if len(self.gaps_s) < GAPS_TO_KNOW:
            return None
        return max(median(self.gaps_s), progress.median_step_s or 0.0)

    @property
    def longest_s(self) -> float:
        """How long a pause that nobody announces may be expected to last: one of late, or one that came again."""
        if self.at is None or not self.pauses:
            return 0.0
        lengths = sorted(pause.for_s for pause in self.pauses)
        again = lengths[-2:-1]
        late = [pause.for_s for pause in self.pauses if self.at - pause.at <= ONCE_FOR]
        return max((*again, *late), default=0.0)

    def _pauses_with(self, at: datetime) -> tuple[Pause, ...]:
        """The pauses with the one that a sign of life ends, if it is one that nobody had announced."""
        since = self.mark_at or self.at
        if since is None or self.is_excused:
            return self.pauses
        for_s = (at - since).total_seconds()
        return _with_pause(self.pauses, for_s, at) if for_s > PAUSE_LEAST_S else self.pauses


def _with_pause(pauses: tuple[Pause, ...], for_s: float, at: datetime) -> tuple[Pause, ...]:
    """The longest pauses of late, with one more; of equal ones the later."""
    if len(pauses) < PAUSES or at - min(pause.at for pause in pauses) > PAUSES_FOR:
        return (*(pause for pause in pauses if at - pause.at <= PAUSES_FOR), Pause(for_s=for_s, at=at))
    shortest = min(pauses, key=lambda pause: (pause.for_s, pause.at))
    if for_s < shortest.for_s:
        return pauses
    return (*(pause for pause in pauses if pause is not shortest), Pause(for_s=for_s, at=at))


UNKNOWN: Final = Rhythm()
"""Nothing known yet."""
