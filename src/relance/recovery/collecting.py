"""When evidence of a suspected hang is wanted, and whether its collection may begin now. Pure.

Never of a job that steps: the question is asked when the order is given, and again at the claim, with the newest word
of the watcher. What was collected is news only while the same silence lasts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from relance.domain import collecting_events as ce
from relance.domain.advice import PermitWish
from relance.domain.collecting import APART_S, MOST_AN_ATTEMPT, EvidenceClaim, EvidenceOrder, Silence
from relance.domain.findings import MAX_HITS, Certainty, RuleHit
from relance.domain.incidents import Incident, IncidentState
from relance.domain.keys import AttemptKey, stable_id
from relance.domain.limits import Limits
from relance.domain.progress import Progress
from relance.domain.records import JobRecord
from relance.domain.stages import EffectiveStage, Stage
from relance.domain.views import ClusterReport, JobState
from relance.recovery.assigning import view_of

_BEFORE_ACTION = (IncidentState.OPEN, IncidentState.JUDGED, IncidentState.ADVISED)
_AT_ONCE, _REFILL_S = 4, 5.0
"""When a shared fault stops hundreds of jobs, the first few tell as much as all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the question rests on. `progress` is what the watcher said last, None when it has not said anything yet."""

    record: JobRecord
    incident: Incident
    report: ClusterReport | None
    progress: Progress | None
    stage: EffectiveStage
    watched: bool
    """Whether a watcher is at work on the cluster."""
    limits: Limits
    now: datetime


def silence_now(record: JobRecord, incident: Incident, progress: Progress | None) -> Silence | None:
    """The newest silence of an incident's attempt, while no sign of life has come since; None where there is none."""
    return _lasting(record, incident.attempt, progress, incident.findings)


def silence_shown(record: JobRecord, attempt: AttemptKey, progress: Progress | None) -> Silence | None:
    """The newest silence of an attempt, also one that is no incident (yet), while no sign of life has come since."""
    return _lasting(record, attempt, progress, record.finding_ids)


def _lasting(
    record: JobRecord, attempt: AttemptKey, progress: Progress | None, findings: Collection[str]
) -> Silence | None:
    told = [item for item in record.silences if item.attempt == attempt and item.finding_id in findings]
    if not told or progress is None or _lives_since(told[-1], progress):
        return None
    return told[-1]


def evidence_orders(ground: Ground) -> tuple[EvidenceOrder, ...]:
    """The orders for one incident: evidence that is wanted now, and what was begun and is not told of yet."""
    incident = ground.incident
    found = [_order(ground, item.finding_id, item, "it has begun") for item in incident.evidence if item.is_open]
    silence = silence_now(ground.record, incident, ground.progress)
    if silence is None or _why_not_wanted(ground, silence):
        return tuple(found)
    key = key_of(silence)
    known = next((item for item in incident.evidence if item.key == key), None)
    if known is None or known.started_at is None:
        found.append(_order(ground, silence.finding_id, known, _why_not_run(ground), key))
    return tuple(found)


def refusal(ground: Ground, claim: EvidenceClaim) -> str:
    """Why a claim may not be granted; empty when nothing speaks against it."""
    silence = silence_now(ground.record, ground.incident, ground.progress)
    if silence is None:
        return "the job has gone on, or nobody knows whether it has: nothing is collected of a job that steps"
    if key_of(silence) != claim.key:
        return "it was for an earlier silence"
    known = next((item for item in ground.incident.evidence if item.key == claim.key), None)
    if known is not None and known.started_at is not None:
        return "it was begun before, and is begun once"
    return _why_not_wanted(ground, silence) or _why_not_run(ground)


def key_of(silence: Silence) -> str:
    """The key of the evidence of one silence: under it a command is run at most once.

    A silence is told several times, as suspected, lasting, confirmed: what stays the same is the steps before it.
    """
    steps = silence.steps_seen
    return stable_id("ev", silence.attempt, silence.finding_id if steps is None else f"after {steps} steps")


def unique_key(claim: EvidenceClaim) -> str:
    """What may be claimed once for ever."""
    return f"evidence/{claim.attempt}/{claim.key}"


def permits(claim: EvidenceClaim) -> tuple[PermitWish, ...]:
    """The limit over many jobs that a claim counts against."""
    return (PermitWish(scope=f"evidence/{claim.cluster}", burst=_AT_ONCE, refill_s=_REFILL_S),)


def started(claim: EvidenceClaim, now: datetime) -> ce.EvidenceStarted:
    """The event that a granted claim appends."""
    return ce.EvidenceStarted(
        incident_id=claim.incident_id,
        key=claim.key,
        attempt=claim.attempt,
        effect=claim.effect,
        holder=claim.holder,
        lease_epoch=claim.lease_epoch,
        at=now,
    )


def collected_hits(record: JobRecord, attempt: AttemptKey, progress: Progress | None) -> tuple[RuleHit, ...]:
    """What was collected of an attempt shows, while the silence lasts that it was collected in."""
    incident = record.open_incident
    if incident is None or incident.attempt != attempt:
        return ()
    silence = silence_now(record, incident, progress)
    if silence is None:
        return ()
    key = key_of(silence)
    hits = [hit for item in incident.evidence if item.key == key for hit in item.hits]
    return tuple(hits[:MAX_HITS])


def _lives_since(silence: Silence, progress: Progress) -> bool:
    """Whether there was a step or a durable checkpoint since a silence was told."""
    saved_at = progress.checkpoint_durable_at
    if saved_at is not None and saved_at > max(silence.symptom_at, silence.saved_at or silence.symptom_at):
        return True
    if silence.steps_seen is not None:
        return progress.steps_seen != silence.steps_seen
    return progress.step_at is not None and progress.step_at > silence.symptom_at


def _why_not_wanted(ground: Ground, silence: Silence) -> str:
    """Why no evidence of this silence is wanted at all; empty when it is."""
    incident, view = ground.incident, view_of(ground.report, ground.record.job)
    if silence.certainty is Certainty.CONFIRMED:
        return "the hang is confirmed already"
    if incident.state not in _BEFORE_ACTION:
        return "an action on this attempt has begun"
    if ground.stage.stage is Stage.OFF:
        return "the stage is off"
    if view is None or view.state is not JobState.RUNNING or view.restart_count != incident.attempt.restart_count:
        return "the attempt does not run any more"
    if view.somebody_at_work:
        return f"somebody is at work in the job: {view.somebody_at_work}"
    return _too_often(ground, key_of(silence))


def _too_often(ground: Ground, key: str) -> str:
    attempt = ground.incident.attempt
    others = [
        item.prepared_at
        for incident in ground.record.incidents
        if incident.attempt == attempt
        for item in incident.evidence
        if item.key != key and item.prepared_at is not None
    ]
    if len(others) >= MOST_AN_ATTEMPT:
        return f"{MOST_AN_ATTEMPT} silences of this attempt were looked into already"
    if others and (ground.now - max(others)).total_seconds() < APART_S:
        return f"the last silence was looked into less than {APART_S:.0f} s ago"
    return ""


def _why_not_run(ground: Ground) -> str:
    """Why the command may be shown and not run; empty when nothing speaks against it."""
    stage, report, progress = ground.stage, ground.report, ground.progress
    if stage.stage is not Stage.ACT:
        return f"the stage is {stage.stage.value}, and only act lets it be run: {'; '.join(stage.why)}"
    if not ground.watched or progress is None:
        return "no watcher is at work, so it is not known whether the job steps"
    unread_s = (ground.now - progress.as_of).total_seconds()
    if unread_s > ground.limits.logs_max_age_s:
        return f"its logs were last read to their end {unread_s:.0f} s ago: it may have gone on since"
    most_s = ground.limits.view_max_age_s
    if report is None or (ground.now - report.as_of).total_seconds() > most_s:
        return f"the newest look at the scheduler is older than {most_s:.0f} s"
    return ""


def _order(
    ground: Ground, finding_id: str, known: ce.Collecting | None, why_not: str, key: str | None = None
) -> EvidenceOrder:
    incident = ground.incident
    return EvidenceOrder(
        key=key or (known.key if known is not None else ""),
        incident_id=incident.id,
        finding_id=finding_id,
        attempt=incident.attempt,
        raw_id=ground.record.job.raw_id,
        stage=ground.stage,
        why_not=why_not,
        prepared=known.shown if known is not None else (),
        started_by=known.holder if known is not None else "",
        started_at=known.started_at if known is not None else None,
    )
