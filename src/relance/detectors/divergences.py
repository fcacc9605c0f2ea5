"""Divergence: a loss or a gradient norm that ran away. Told with the last durable checkpoint before it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from relance.detectors.runaways import Runaway, Runs
from relance.detectors.watched import Watched
from relance.domain.findings import Certainty, Finding, FindingKind
from relance.domain.keys import stable_id
from relance.domain.observations import Observation, SeenUpTo
from relance.domain.progress import CheckpointEvent, CheckpointSeen, Progress, StepSeen
from relance.domain.replacing import replace

NAME: Final = "divergence"
_NOTHING: Final = Runs()
FINDINGS_AT_MOST: Final = 6
DURABLES: Final = 2
"""The newest checkpoints that are remembered, beside the last one before a trouble that may be under way: a save that
goes on beside the steps is durable some steps later."""
_WORDS: Final = {
    "loss_nan": "the loss is no number from step {step} on",
    "grad_norm_nan": "the gradient norm is no number from step {step} on",
    "loss_diverged": "the loss has risen far above its usual level at step {step} and does not come back",
    "grad_norm_diverged": "the gradient norm has stayed far above its usual level since step {step}, the loss higher",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceState:
    """What the detector knows: of loss and norm, the newest durable checkpoints, and what was told."""

    version: int = 1
    runs: Runs = _NOTHING
    durables: tuple[int, ...] = ()
    told: Runaway | None = None
    findings: int = 0


def step(
    state: DivergenceState, observation: Observation, now: datetime, watched: Watched, progress: Progress
) -> tuple[DivergenceState, tuple[Finding, ...]]:
    """The state after an observation, and the findings that come of it. `now` is the watermark."""
    if isinstance(observation, StepSeen):
        return replace(state, runs=state.runs.after_all((observation,), watched.divergence)), ()
    if isinstance(observation, CheckpointSeen):
        return _after_checkpoint(state, observation, progress), ()
    runaway, told = state.runs.runaway, state.told
    if not isinstance(observation, SeenUpTo) or runaway == told or watched.is_over(now):
        return state, ()
    if told is not None:
        return replace(state, told=None), (_finding(told, state, watched, progress, over=True),)
    if runaway is None or state.findings >= FINDINGS_AT_MOST:
        return state, ()
    after = replace(state, told=runaway, findings=state.findings + 1)
    return after, (_finding(runaway, state, watched, progress),)


def _after_checkpoint(state: DivergenceState, seen: CheckpointSeen, progress: Progress) -> DivergenceState:
    """Keep the newest durable checkpoints that differ; one that was loaded is durable."""
    if seen.event is CheckpointEvent.DURABLE:
        saved = seen.step if seen.step is not None else progress.checkpoint_durable
    elif seen.event is CheckpointEvent.LOADED:
        saved = seen.step if seen.step is not None else progress.loaded_step
    else:
        return state
    if saved is None or saved in state.durables[-1:]:
        return state
    begun = state.runs.trouble_step
    known = (*state.durables, saved)
    before = max((each for each in known if begun is not None and each < begun), default=None)
    newest = [each for each in known if each != before][-DURABLES:]
    return replace(state, durables=tuple(newest) if before is None else (before, *newest))


def _durable_before(runaway: Runaway, state: DivergenceState, watched: Watched) -> int | None:
    known = [saved for saved in (*state.durables, watched.durable_before) if saved is not None]
    return max((saved for saved in known if saved < runaway.first_step), default=None)


def _finding(
    runaway: Runaway, state: DivergenceState, watched: Watched, progress: Progress, *, over: bool = False
) -> Finding:
    at = (progress.step_at or runaway.at) if over else runaway.at
    return Finding(
        id=stable_id("f", watched.attempt, NAME, "over" if over else runaway.cause, runaway.first_step),
        attempt=watched.attempt,
        detector=NAME,
        kind=FindingKind.DIVERGENCE,
        certainty=Certainty.CONFIRMED,
        symptom="divergence_over" if over else runaway.cause,
        summary=_summary(runaway, state, watched, over=over),
        first_evidence_at=at,
        symptom_at=at,
        progress=progress,
        over=over,
        durable_before=_durable_before(runaway, state, watched),
    )


def _summary(runaway: Runaway, state: DivergenceState, watched: Watched, *, over: bool) -> str:
    if over:
        return f"loss and gradient norm are usual again, after the trouble from step {runaway.first_step} on"
    durable = _durable_before(runaway, state, watched)
    before = "no durable checkpoint before it is known"
    if durable is not None:
        before = f"the last durable checkpoint before it is that of step {durable}"
    return f"{_WORDS[runaway.cause].format(step=runaway.first_step)}; {before}"
