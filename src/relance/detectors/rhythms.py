"""The rhythm of an attempt: how long it usually takes from one report of a step to the next.

That is not the step time: many programs report every tenth or hundredth step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median
from typing import Final

from relance.domain.progress import Progress, StepSeen

GAPS: Final = 8
"""Gaps that the usual one is the median of, so that a pause for a save or an evaluation does not count."""
GAPS_TO_KNOW: Final = 3
"""With fewer the rhythm is not known: first steps compile, and read for the first time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """The last gaps between reports of new steps, in seconds by the times of their lines."""

    step: int | None = None
    at: datetime | None = None
    gaps_s: tuple[float, ...] = ()

    def after(self, seen: StepSeen) -> Rhythm:
        """With one more report."""
        if self.step is None or self.at is None:
            return replace(self, step=seen.step, at=seen.at)
        if seen.step == self.step:
            return self
        gap_s = (seen.at - self.at).total_seconds()
        known = seen.step > self.step and gap_s >= 0.0
        gaps_s = (*self.gaps_s, gap_s)[-GAPS:] if known else self.gaps_s
        return Rhythm(step=seen.step, at=seen.at, gaps_s=gaps_s)

    def after_all(self, steps: Iterable[StepSeen]) -> Rhythm:
        """With several more reports: the same as with one after the other."""
        step, at = self.step, self.at
        gaps_s = deque(self.gaps_s, GAPS)
        for seen in steps:
            if step is not None and at is not None:
                if seen.step == step:
                    continue
                gap_s = (seen.at - at).total_seconds()
                if seen.step > step and gap_s >= 0.0:
                    gaps_s.append(gap_s)
            step, at = seen.step, seen.at
        return Rhythm(step=step, at=at, gaps_s=tuple(gaps_s))

    def usual_s(self, progress: Progress) -> float | None:
        """How long a report usually is in coming, at least a step; None: not known."""
        if len(self.gaps_s) < GAPS_TO_KNOW:
            return None
        return max(median(self.gaps_s), progress.median_step_s or 0.0)


UNKNOWN: Final = Rhythm()
"""Nothing known yet."""
