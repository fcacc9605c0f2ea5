"""Patience: for how long a silence is no news, by the limits and by what the attempt got over before."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from relance.detectors.rhythms import ANNOUNCED, Rhythm
from relance.detectors.watched import Watched
from relance.domain.progress import Phase, Progress

PAUSE_TIMES: Final = 2.0
"""A pause of up to this many times the longest that the attempt got over by itself is no news."""
MORE_TIMES: Final = 0.5
PAUSE_TIMES_AT_MOST: Final = 3.0
"""Each silence that was suspected wrongly, from the second on, makes the factor larger by so much, up to this."""
COLLECTED_BEFORE: Final = 0.5
"""So many usual gaps before signs may confirm a hang evidence of it is wanted."""
AHEAD_S: Final = 30.0
"""A store is told of lines so late at most, mostly (`delay_s` is 10 as shipped)."""
LEARNED_TIMES: Final = 5.0
"""What was learned to be steps may be something else that counts: so many times the usual patience."""


def quiet_from(now: datetime, last_step_at: datetime | None) -> datetime:
    """When a silence begins that is seen at the watermark `now`: not before the last step.

    A log store delivers a line at once, and is known to be read to its end only up to a while before; a step that is
    further ahead was written by another clock.
    """
    ahead_s = (last_step_at - now).total_seconds() if last_step_at is not None else 0.0
    return last_step_at if last_step_at is not None and 0.0 < ahead_s <= AHEAD_S else now


def allowed_s(phase: Phase, watched: Watched, progress: Progress) -> float:
    """How long an announced phase suspends the clock, in seconds; none that is announced: 0.

    A save or an evaluation has as long as others of its kind took in this attempt, some times over.
    """
    limits = watched.hang
    if phase not in ANNOUNCED:
        return 0.0
    longest_s = {
        Phase.SAVING: progress.longest_save_s,
        Phase.EVALUATING: progress.longest_evaluation_s,
    }.get(phase)
    if longest_s is None:
        return limits.phase_limit_s
    return max(limits.phase_min_s, limits.phase_times * longest_s)


def patience_s(rhythm: Rhythm, wrong: int, watched: Watched, progress: Progress) -> float:
    """How long a silence in training is no news, in seconds; `wrong` is how many suspicions came to nothing."""
    limits = watched.hang
    usual_s = rhythm.usual_s(progress)
    if usual_s is None:  # the first steps take as long as they take
        return limits.phase_limit_s
    least_s = max(limits.suspected_min_s, limits.suspected_medians * usual_s)
    if progress.is_learned:
        least_s *= LEARNED_TIMES
    return max(least_s, learned_s(rhythm, wrong, watched))


def learned_s(rhythm: Rhythm, wrong: int, watched: Watched) -> float:
    """How long the attempt is known to pause without a word, with room, in seconds."""
    times = min(PAUSE_TIMES + MORE_TIMES * max(0, wrong - 1), PAUSE_TIMES_AT_MOST)
    return min(times * rhythm.longest_s, watched.hang.phase_limit_s)


def lasting_s(rhythm: Rhythm, wrong: int, watched: Watched, progress: Progress) -> float:
    """How long a silence has to be until it is taken to last, in seconds.

    Where steps are slow that is a little before signs may confirm it, so that what is collected then is in time.
    """
    limits = watched.hang
    known_s = max(limits.suspected_min_s, learned_s(rhythm, wrong, watched))
    slow_s = (limits.signed_medians - COLLECTED_BEFORE) * (rhythm.usual_s(progress) or 0.0)
    return max(limits.lasting_min_s, limits.lasting_times * known_s, slow_s)


def start_s(watched: Watched) -> float:
    """How long an attempt may take to its first step, by how long its workflow's earlier ones took, in seconds."""
    limits = watched.hang
    if watched.start_before_s is None:
        return limits.start_limit_s
    return max(limits.start_min_s, limits.start_times * watched.start_before_s)


def picture_s(watched: Watched, progress: Progress) -> float:
    """How long a silence has to last before the GPUs' picture alone makes it a hang, in seconds."""
    limits = watched.hang
    pause_s = max(progress.longest_pause_s or 0.0, watched.pause_before_s or 0.0)
    return max(limits.gpu_min_s, limits.gpu_pause_times * pause_s)
