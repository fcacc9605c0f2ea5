"""Claims: whether a controller may begin an advice now. Pure; the append that follows is the one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain import events as e
from relance.domain.advice import ActionKind, Advice, Answer, Claim, PermitWish
from relance.domain.fleet import Storm
from relance.domain.incidents import Incident, IncidentState
from relance.domain.keys import stable_id
from relance.domain.limits import Limits, StormLimits
from relance.domain.quiet_hours import Quiet
from relance.domain.records import JobRecord
from relance.domain.recoveries import MostRecoveries
from relance.domain.stages import EffectiveStage, Stage, Standing
from relance.domain.views import ClusterReport
from relance.policy import GateQuestion, LeaseSeen, gates
from relance.recovery.assigning import view_of
from relance.recovery.storms import is_after_storm

_LEAST_LEFT = timedelta(seconds=5)
"""What is claimed with less time left may expire before its first command, after a rest and two reads of the job (about
two seconds, seen); then it comes to nothing, and an attempt is claimed only once."""

_IN_THE_APPEND = LeaseSeen(held=True, words="the append that follows checks it in its transaction")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """What a claim is checked against."""

    stage: EffectiveStage
    standing: Standing
    switch: Stage | None
    report: ClusterReport | None
    view_max_age_s: float
    now: datetime
    storm: Storm | None = None
    """The storm that concerns the job, with the canary that goes first after it."""
    successor: EffectiveStage | None = None
    """The stage of the job that the advice touches in place of its own, if it names one."""
    quiet: Quiet | None = None
    """The quiet hours that count for the job; None: there are none now."""
    recoveries: int = 0
    """How many recoveries are under way on the cluster; the append that follows counts them again."""
    most_recoveries: int = 1


def incident_of(record: JobRecord, claim: Claim) -> Incident | None:
    """The incident that a claimed advice belongs to."""
    return next(
        (item for item in record.incidents if item.advice is not None and item.advice.id == claim.advice_id), None
    )


def refusal(counter: Counter, incident: Incident | None, claim: Claim) -> str | None:
    """Why a claim may not be granted; None when nothing speaks against it."""
    if incident is None or incident.advice is None:
        return "there is no such advice in force"
    advice = incident.advice
    if advice.generation != claim.generation or advice.attempt != claim.attempt:
        return f"generation {claim.generation} was voided by {advice.generation}"
    if incident.state is not IncidentState.ADVISED:
        return f"the incident is {incident.state.value}"
    if not advice.may_begin:
        return "this advice does not ask for an action now"
    if expired := _expiry_against(advice, counter.now):
        return expired
    if counter.report is None or (counter.now - counter.report.as_of).total_seconds() > counter.view_max_age_s:
        return f"the newest look at the scheduler is older than {counter.view_max_age_s:.0f} s"
    against = (_kind_against(counter.report, advice, claim.kind), _successor_against(counter, advice))
    if other := next(filter(None, (*against, _canary_before(counter.storm, advice))), None):
        return other
    question = GateQuestion(
        advice=advice,
        stage=counter.stage,
        standing=counter.standing,
        switch=counter.switch,
        approval=incident.approval,
        effect_digest=claim.effect.digest,
        facts=counter.report.facts,
        lease=_IN_THE_APPEND,
        now=counter.now,
        quiet=counter.quiet,
        recoveries=counter.recoveries,
        most_recoveries=counter.most_recoveries,
    )
    closed = [gate for gate in gates(question) if gate.answer is not Answer.YES]
    return "; ".join(f"{gate.name}: {gate.reason}" for gate in closed) if closed else None


def _expiry_against(advice: Advice, now: datetime) -> str:
    """Why there is no time left to begin; empty while there is."""
    if advice.expires_at <= now:
        return f"the advice expired at {advice.expires_at.isoformat()}"
    if advice.expires_at - now < _LEAST_LEFT:
        return f"the advice expires at {advice.expires_at.isoformat()}, too soon to begin; it is decided again then"
    return ""


def _kind_against(report: ClusterReport, advice: Advice, kind: ActionKind) -> str:
    """Why this kind of action does not fit what is to be done; empty when it does.

    Only a restart takes the attempt's own key, so nothing may pass for a mere update that is a restart.
    """
    if (kind is ActionKind.CANCEL) != advice.cancels_running:
        return f"{kind.value} is not what the advice asks for"
    if advice.park and kind is ActionKind.RESTART:
        return "restart is not what the advice asks for: it parks the job"
    view = view_of(report, advice.attempt.job)
    requeued = bool(advice.successor) or (view is not None and view.restart_count > advice.attempt.restart_count)
    if kind is ActionKind.CONSTRAIN and view is not None and not requeued:
        return "nobody has requeued the job, so there is nothing to add to"
    if kind in (ActionKind.RESTART, ActionKind.PARK) and requeued:
        return "the job is in the queue again already"
    return ""


def _successor_against(counter: Counter, advice: Advice) -> str:
    """Why the job that goes on in place of this one is not to be touched; empty when nothing speaks against it."""
    stage = counter.successor
    if not advice.successor or (stage is not None and stage.stage.rank >= counter.stage.stage.rank):
        return ""
    why = "; ".join(stage.why) if stage is not None else "the scheduler does not show it"
    return f"job {advice.successor} is not to be touched: {why}"


def _canary_before(storm: Storm | None, advice: Advice) -> str:
    """Who goes first after a storm, in words; empty when this advice need not wait for it."""
    if advice.park or storm is None or storm.cleared_at is None or storm.canary_stepped:
        return ""
    if storm.canary in (None, str(advice.attempt)):
        return ""
    return f"the storm has cleared; {storm.canary} goes first, to its first step"


def action_id(claim: Claim) -> str:
    """The id of the action that a claim begins: the same for the same advice, so that a repeated claim is harmless."""
    return stable_id("act", claim.advice_id, claim.generation)


def unique_key(claim: Claim) -> str:
    """What may be claimed once for ever: the restart of an attempt; anything else once for each advice."""
    if claim.kind in (ActionKind.RESTART, ActionKind.PARK):
        return f"restart/{claim.attempt}"
    return f"{claim.kind.value}/{claim.advice_id}"


def started(incident: Incident, claim: Claim, stage: EffectiveStage, now: datetime) -> e.ActionStarted:
    """The event that a granted claim appends."""
    return e.ActionStarted(
        incident_id=incident.id,
        action_id=action_id(claim),
        advice_id=claim.advice_id,
        generation=claim.generation,
        attempt=claim.attempt,
        kind=claim.kind,
        effect=claim.effect,
        holder=claim.holder,
        lease_epoch=claim.lease_epoch,
        stage=stage.stage,
        at=now,
    )


def permits(
    claim: Claim, storm: Storm | None, record: JobRecord, limits: StormLimits, now: datetime
) -> tuple[PermitWish, ...]:
    """The limits over many jobs that a claim counts against. Ending a job for good starts nothing, and needs none."""
    incident = incident_of(record, claim)
    parks = incident is not None and incident.advice is not None and incident.advice.park
    if claim.kind is ActionKind.CANCEL:
        return ()
    if claim.kind is ActionKind.PARK or parks:
        return park_permits(claim.cluster, limits)
    return restart_permits(record, storm, limits, now)


def most_recoveries(claim: Claim, record: JobRecord, limits: Limits) -> MostRecoveries | None:
    """The limit of recoveries at once that a claim must fit under; None for what is none."""
    incident = incident_of(record, claim)
    parks = incident is not None and incident.advice is not None and incident.advice.park
    if parks or claim.kind in (ActionKind.PARK, ActionKind.CANCEL):
        return None
    return MostRecoveries(cluster=claim.cluster, most=limits.restarts.at_once)


def park_permits(cluster: str, limits: StormLimits) -> tuple[PermitWish, ...]:
    """The limit that parking counts against: it is a requeue like another, but may not wait for those of restarts."""
    return (PermitWish(scope=f"park/{cluster}", burst=limits.bucket_burst, refill_s=limits.park_refill_s),)


def restart_permits(
    record: JobRecord, storm: Storm | None, limits: StormLimits, now: datetime
) -> tuple[PermitWish, ...]:
    """The limits over many jobs that a restart counts against: the cluster's bucket, and the array's.

    After the storm that concerns the job they are slower.
    """
    after_storm, cluster = is_after_storm(storm, limits, now), record.job.cluster
    burst = 1 if after_storm else limits.bucket_burst
    refill_s = limits.after_storm_refill_s if after_storm else limits.bucket_refill_s
    wishes = [PermitWish(scope=f"restart/{cluster}", burst=burst, refill_s=refill_s)]
    if record.array:
        wishes.append(PermitWish(scope=f"restart/{cluster}/{record.array}", burst=burst, refill_s=refill_s))
    return tuple(wishes)
