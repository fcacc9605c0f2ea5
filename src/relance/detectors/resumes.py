"""Did not resume: a new attempt that begins below the last durable checkpoint (design 8)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from relance.detectors.watched import Watched
from relance.domain.findings import Certainty, Finding, FindingKind
from relance.domain.keys import stable_id
from relance.domain.observations import Observation
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Progress, StepSeen
from relance.domain.replacing import replace

NAME: Final = "resume"
_CLOCKS_S: Final = 1.0
"""A scheduler tells the start in whole seconds."""
_ZONES_S: Final = 1800.0
"""A line that seems older still is rather one whose time is that of another zone: they are an hour apart at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeState:
    """Whether it is known how the attempt began."""

    version: int = 1
    settled: bool = False


def step(
    state: ResumeState, observation: Observation, watched: Watched, progress: Progress
) -> tuple[ResumeState, tuple[Finding, ...]]:
    """The state after an observation, and the finding that may come of it; time has no part in it.

    The first step after a checkpoint of step `c` is `c + 1`, or `c` where a program counts from 0: only below that
    work is lost that was safe.
    """
    durable = watched.durable_before
    if state.settled or durable is None or _is_of_the_one_before(observation, watched):
        return state, ()
    if isinstance(observation, CheckpointSeen) and observation.event is CheckpointEvent.COLD:
        words = f"starts from the beginning; step {durable} was durable"
        return replace(state, settled=True), (_finding(observation.at, watched, progress, words),)
    if isinstance(observation, StepSeen):
        settled = replace(state, settled=True)
        if observation.step >= durable:
            return settled, ()
        words = f"starts from step {observation.step}; step {durable} was durable"
        return settled, (_finding(observation.at, watched, progress, words),)
    return state, ()


def _is_of_the_one_before(observation: Observation, watched: Watched) -> bool:
    """Whether a line tells by its own time that an earlier attempt wrote it into the log that both have.

    Its watcher was away when that attempt ended, so that the new one is read from where the old one's reading ended.
    """
    if watched.started_at is None or not isinstance(observation, (StepSeen, CheckpointSeen)):
        return False
    return timedelta(seconds=_CLOCKS_S) < watched.started_at - observation.at < timedelta(seconds=_ZONES_S)


def _finding(at: datetime, watched: Watched, progress: Progress, words: str) -> Finding:
    return Finding(
        id=stable_id("f", watched.attempt, NAME, watched.durable_before),
        attempt=watched.attempt,
        detector=NAME,
        kind=FindingKind.DID_NOT_RESUME,
        certainty=Certainty.CONFIRMED,
        symptom="cold_start_unwanted",
        summary=words,
        first_evidence_at=at,
        symptom_at=at,
        progress=progress,
    )
