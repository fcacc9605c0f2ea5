"""Orders: the advice in force, with everything that bears on carrying it out. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from relance.domain.incidents import Incident, IncidentState
from relance.domain.records import ClusterRecord, JobRecord
from relance.domain.stages import ClusterStages, EffectiveStage, Stage, Standing, effective_stage
from relance.domain.views import JobView
from relance.ports.backends import Order
from relance.recovery.sites import ClusterRules

_IN_FORCE = frozenset({IncidentState.ADVISED, IncidentState.ACTING, IncidentState.UNSETTLED})


def standing(record: JobRecord, rules: ClusterRules, view: JobView | None = None) -> Standing:
    """What a job brings to the question of its stage; `view` as the scheduler shows it, where it does."""
    return Standing(
        job=record.job,
        partition=record.partition,
        wish=record.wish.mode,
        opted_in=rules.covers(record.partition, record.account),
        in_array=record.array is not None,
        only_watched=view.only_watched if view is not None else "",
        barred=rules.bars(record.partition),
    )


def switch(record: JobRecord, now: datetime) -> Stage | None:
    """The ceiling set for this job alone, while it lasts."""
    lasts = record.switch_until is None or record.switch_until > now
    return record.switch if lasts else None


def job_stage(
    record: JobRecord, cluster: ClusterRecord, rules: ClusterRules, now: datetime, view: JobView | None = None
) -> EffectiveStage:
    """The effective stage of a job, and why; `view` as the scheduler shows it now, where it does."""
    stages, ceiling = cluster.stages(), switch(record, now)
    jobs = {str(record.job): ceiling} if ceiling is not None else {}
    limits = ClusterStages(cluster=stages.cluster, partitions=stages.partitions, jobs=jobs, caps=stages.caps)
    return effective_stage(limits, standing(as_shown(record, view), rules, view))


def as_shown(record: JobRecord, view: JobView | None) -> JobRecord:
    """The record with the partition and account that the scheduler shows: a job that was moved has its new one's."""
    return replace(record, partition=view.partition, account=view.account) if view is not None else record


def order(
    record: JobRecord, incident: Incident, stage: EffectiveStage, view: JobView | None, ours: tuple[str, ...]
) -> Order | None:
    """The order for one incident; None when there is nothing to prepare, carry out or settle."""
    advice = incident.advice
    if advice is None or incident.state not in _IN_FORCE:
        return None
    approval = incident.approval
    approved = approval is not None and approval.yes and approval.generation == advice.generation
    prefix = f"{advice.id}/{stage.stage.value}/"
    return Order(
        advice=advice,
        raw_id=advice.successor or record.job.raw_id,
        partition=view.partition if view else record.partition,
        stage=stage,
        approved=approved,
        approved_digest=approval.effect_digest if approved and approval else "",
        prepared=any(key.startswith(prefix) for key in incident.prepared),
        action=incident.action if incident.state is not IncidentState.ADVISED else None,
        our_exclusions=ours,
    )
