"""A controller's steps as events: preparation, steps, and the end of an action. Pure and idempotent."""

from __future__ import annotations

from relance.domain import events as e
from relance.domain.advice import StepRecord
from relance.domain.incidents import Incident, IncidentState
from relance.domain.records import JobRecord
from relance.domain.stages import Stage


def step_events(record: JobRecord, step: StepRecord, stage: Stage) -> tuple[e.JobEvent, ...]:
    """The event of one step; nothing when it is known already, or belongs to an advice that is no longer in force."""
    if step.action_id is None:
        return _prepared(record, step, stage)
    incident = next((item for item in record.incidents if item.action and item.action.id == step.action_id), None)
    if incident is None or incident.action is None or step.id in incident.action.steps:
        return ()
    if step.end is None:
        return (
            e.ActionStepped(
                incident_id=incident.id,
                action_id=step.action_id,
                step_id=step.id,
                step=step.step,
                detail=step.detail,
                at=step.at,
                accepted_at=step.accepted_at,
            ),
        )
    kind = e.ACTION_ENDS[step.end]
    ended: e.JobEvent = kind(  # type: ignore[assignment]  # every kind in the table is a job's event
        incident_id=incident.id,
        action_id=step.action_id,
        step_id=step.id,
        reason=step.detail,
        at=step.at,
        accepted_at=step.accepted_at,
    )
    return (ended,)


def _prepared(record: JobRecord, step: StepRecord, stage: Stage) -> tuple[e.JobEvent, ...]:
    incident = _advised(record, step.advice_id)
    if incident is None or incident.advice is None or step.effect is None:
        return ()
    if f"{step.advice_id}/{stage.value}/{step.effect.digest}" in incident.prepared:
        return ()
    return (
        e.ActionPrepared(
            incident_id=incident.id,
            advice_id=step.advice_id,
            generation=incident.advice.generation,
            effect=step.effect,
            stage=stage,
            at=step.at,
        ),
    )


def _advised(record: JobRecord, advice_id: str) -> Incident | None:
    return next(
        (
            item
            for item in record.incidents
            if item.state is IncidentState.ADVISED and item.advice is not None and item.advice.id == advice_id
        ),
        None,
    )
