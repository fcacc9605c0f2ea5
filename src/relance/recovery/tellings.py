"""How each event is told: a title and a detail, in plain words. Pure; every event type has its sentence."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from relance.attribution import faults_sentence
from relance.domain import events as e
from relance.domain.collecting_events import EvidenceEvent
from relance.domain.deeds import WatchdogDeed
from relance.domain.findings import Certainty, FindingKind
from relance.domain.fleet import place_words
from relance.domain.requests import BY_US
from relance.domain.verdicts import Opinion
from relance.recovery import wordings


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """An event in words. `at` is when it happened by its own account, None when it does not say."""

    title: str
    detail: str = ""
    at: datetime | None = None
    who: str = ""
    """The person, controller or part that did it; empty when nobody in particular."""


def told(event: e.Event) -> Telling:
    """The words for an event."""
    if isinstance(event, e.NodeEvent):
        return _node(event)
    if isinstance(event, e.ClusterEvent):
        return _cluster(event)
    return _job(event)


def _job(event: e.JobEvent) -> Telling:  # noqa: C901, PLR0911, PLR0912 - one case per event
    match event:
        case e.JobSeen():
            where = f"{event.name} of {event.user} in {event.partition}, {wordings.count(event.node_count, 'node')}"
            return Telling(title="Job seen for the first time", detail=where)
        case e.WishChanged():
            return Telling(title="The job's own settings changed", detail="; ".join(event.wish.notes))
        case e.JobSwitched():
            return _switched(event)
        case e.OwnerDisagreed():
            return Telling(title=f"{event.by} says that the verdict is wrong", detail=event.text, who=event.by)
        case e.AttemptStarted():
            title = f"Attempt {event.attempt.restart_count + 1} started"
            return Telling(title=title, detail=f"on {wordings.nodes(event.nodes)}", at=event.started_at)
        case e.AttemptEnded():
            return _ended_attempt(event)
        case e.AttemptMeasured():
            return _measured(event)
        case e.FindingReported():
            return _finding(event)
        case e.OutsideChangeSeen():
            is_ours = event.who is not None and event.who.endswith(BY_US)
            title = f"{'Shows as asked for' if is_ours else 'Somebody else did something'}: {event.change}"
            return Telling(title=title, detail=event.detail, at=event.at, who=event.who or "")
        case e.AttachmentKept():
            detail = f"{event.size_bytes} bytes of {event.file} from byte {event.start_offset}, as {event.digest}"
            detail += f"; `relance tail {event.attempt.job.raw_id}` prints it"
            return Telling(title="A piece of a log was kept", detail=detail)
        case e.IncidentOpened() | e.FindingAttached() | e.VerdictReached() | e.IncidentClosed():
            return _incident(event)
        case e.OpinionGiven():
            return _opinion(event.opinion)
        case e.AttemptRestarted() | e.ProgressResumed():
            return _proof(event)
        case e.EvidencePrepared() | e.EvidenceStarted() | e.EvidenceCollected() | e.EvidenceFailed():
            return _evidence(event)
        case e.AdviceIssued() | e.AdviceApproved() | e.AdviceDenied() | e.ActionPrepared():
            return _advice(event)
        case e.ActionRequested() | e.RequestStarted() | e.RequestEnded():
            return _request(event)
        case e.WatchdogActed():
            return _watchdog(event.deed)
        case _:
            return _action(event)


def _switched(event: e.JobSwitched) -> Telling:
    until = f" until {event.until:%Y-%m-%d %H:%M UTC}" if event.until else ""
    title = f"{event.by} lifted the job's switch"
    if event.stage is not None:
        title = f"{event.by} switched the job to {event.stage.value}{until}"
    return Telling(title=title, detail=event.reason, who=event.by)


def _ended_attempt(event: e.AttemptEnded) -> Telling:
    code = ""
    if event.exit_code is not None:
        code = f"exit code {event.exit_code}:{event.exit_signal or 0}"
    facts = [code, f"cancelled by uid {event.cancelled_by}" if event.cancelled_by is not None else ""]
    if event.highest_step is not None:
        facts.append(f"highest step {wordings.steps(event.highest_step)}")
    if event.durable_step is not None:
        facts.append(f"last checkpoint {wordings.steps(event.durable_step)}")
    title = f"Attempt {event.attempt.restart_count + 1} ended: {wordings.name(event.outcome.value)}"
    return Telling(title=title, detail=", ".join(fact for fact in facts if fact), at=event.ended_at)


def _measured(event: e.AttemptMeasured) -> Telling:
    steps = "no step recognised"
    if event.last_step is not None:
        steps = f"last step {wordings.steps(event.last_step)}"
    facts = [f"its log: {event.log.value}", f"kernel logs: {event.kernel.value}", steps]
    if event.unread_bytes:
        facts.append(f"{event.unread_bytes} bytes were lost unread")
    title = f"Attempt {event.attempt.restart_count + 1} was read to its end"
    return Telling(title=title, detail="; ".join(facts), at=event.at)


_FINDINGS = {
    FindingKind.CRASH: "Crash",
    FindingKind.EXIT: "The attempt ended badly",
    FindingKind.HANG: "Hang",
    FindingKind.SLOWDOWN: "Slowdown",
    FindingKind.DIVERGENCE: "Divergence",
    FindingKind.NODE_HEALTH: "A node shows a sign of failing",
    FindingKind.DID_NOT_RESUME: "The new attempt did not resume from the last checkpoint",
}


def _finding(event: e.FindingReported) -> Telling:
    finding = event.finding
    suspected = " (suspected)" if finding.certainty is Certainty.SUSPECTED else ""
    return Telling(
        title=f"{_FINDINGS[finding.kind]}{suspected}: {wordings.name(finding.symptom)}",
        detail=finding.summary,
        at=finding.first_evidence_at,
        who=finding.detector,
    )


def _incident(event: e.IncidentOpened | e.FindingAttached | e.VerdictReached | e.IncidentClosed) -> Telling:
    match event:
        case e.IncidentOpened():
            title = f"Incident opened on attempt {event.attempt.restart_count + 1}"
            return Telling(title=title, at=event.opened_at)
        case e.FindingAttached():
            return Telling(title="A further finding joined the incident")
        case e.VerdictReached():
            verdict = event.verdict
            sure = wordings.confidence(verdict.confidence)
            detail = f"{verdict.summary}; {faults_sentence(verdict).rstrip('.')}; confidence {sure}"
            return Telling(
                title=f"Verdict: {verdict.domain.value}, {wordings.name(verdict.cause)}", detail=detail, at=event.at.at
            )
        case e.IncidentClosed():
            title = f"Incident closed: {wordings.name(event.end.value)}"
            return Telling(title=title, detail=event.reason, at=event.at)


def _opinion(opinion: Opinion) -> Telling:
    title = f"{opinion.provider} was asked, and answered{' late' if opinion.late else ''}"
    return Telling(title=title, detail=wordings.opinion(opinion), at=opinion.at, who=opinion.provider)


def _proof(event: e.AttemptRestarted | e.ProgressResumed) -> Telling:
    match event:
        case e.AttemptRestarted():
            by = "by us" if event.by_us else "not by us"
            title = f"Attempt {event.attempt.restart_count + 1} runs ({by})"
            return Telling(title=title, detail=f"on {wordings.nodes(event.nodes)}; not proven yet", at=event.at.at)
        case e.ProgressResumed():
            title = f"Step {wordings.steps(event.step)}: beyond the highest step before"
            if not event.beyond:
                title = f"First step of the new attempt: {wordings.steps(event.step)}"
            return Telling(title=title, at=event.at.at)


def _advice(event: e.AdviceIssued | e.AdviceApproved | e.AdviceDenied | e.ActionPrepared) -> Telling:
    match event:
        case e.AdviceIssued():
            advice = event.advice
            hold = "hold, then " if advice.hold else ""
            return Telling(
                title=f"Advice {advice.generation}: {hold}{wordings.action(advice)}",
                detail="; ".join(advice.reasons),
                at=event.at.at,
            )
        case e.AdviceApproved():
            until = f"advice {event.generation}, good until {event.until:%H:%M:%S UTC}"
            return Telling(title=f"{event.by} approved", detail=until, at=event.at, who=event.by)
        case e.AdviceDenied():
            detail = event.reason or f"advice {event.generation}"
            return Telling(title=f"{event.by} denied", detail=detail, at=event.at, who=event.by)
        case e.ActionPrepared():
            title = f"Action prepared at stage {event.stage.value}"
            return Telling(title=title, detail=event.effect.summary, at=event.at)


def _evidence(event: EvidenceEvent) -> Telling:
    match event:
        case e.EvidencePrepared():
            detail = event.effect.summary
            if not event.switched_on:
                detail += "; the site has not switched it on (evidence.collect)"
            return Telling(title=f"Evidence could be collected (stage {event.stage.value})", detail=detail, at=event.at)
        case e.EvidenceStarted():
            return Telling(
                title="Collecting evidence of the hang", detail=event.effect.summary, at=event.at, who=event.holder
            )
        case e.EvidenceCollected() | e.EvidenceFailed():
            title = "Evidence collected" if isinstance(event, e.EvidenceCollected) else "Collecting evidence failed"
            ran = f"{event.size_bytes} bytes in {event.took_s:.1f} s"
            parts = [event.reason, ran, *(event.notes or ("nothing was read of it",))]
            return Telling(title=title, detail="; ".join(part for part in parts if part), at=event.at)


def _action(
    event: e.ActionStarted | e.ActionStepped | e.ActionSucceeded | e.ActionFailed | e.ActionUnknown | e.ActionAbandoned,
) -> Telling:
    match event:
        case e.ActionStarted():
            title = f"Action begun: {wordings.kind_of_action(event.kind)}"
            return Telling(title=title, detail=event.effect.summary, at=event.at, who=event.holder)
        case e.ActionStepped():
            return Telling(title=f"Step: {event.step}", detail=event.detail, at=event.at)
        case e.ActionSucceeded():
            return Telling(title="Action succeeded", detail=event.reason, at=event.at)
        case e.ActionFailed():
            return Telling(title="Action failed: the scheduler refused", detail=event.reason, at=event.at)
        case e.ActionUnknown():
            title = "It cannot be told whether the action was carried out"
            return Telling(title=title, detail=event.reason, at=event.at)
        case e.ActionAbandoned():
            return Telling(title="Action abandoned", detail=event.reason, at=event.at)


def _watchdog(deed: WatchdogDeed) -> Telling:
    told = [shlex.join(deed.argv), deed.reason, deed.text]
    return Telling(
        title=wordings.deed(deed), detail="; ".join(part for part in told if part), at=deed.at, who="watchdog"
    )


def _request(event: e.RequestEvent) -> Telling:
    match event:
        case e.ActionRequested():
            request = event.request
            until = f" until {request.until:%Y-%m-%d %H:%M UTC}" if request.until else ""
            title = f"{request.by} asked: {request.verb.value} {request.subject}{until}"
            return Telling(title=title, detail=request.reason, at=request.at, who=request.by)
        case e.RequestStarted():
            title = f"Begun for {event.by}: {event.verb.value}"
            return Telling(title=title, detail=event.effect.summary, at=event.at, who=event.holder)
        case e.RequestEnded():
            title = f"{event.verb.value.capitalize()} for {event.by}: {wordings.request_end(event.end)}"
            return Telling(title=title, detail=event.reason, at=event.at)


def _node(event: e.NodeEvent) -> Telling:
    match event:
        case e.ActionRequested() | e.RequestStarted() | e.RequestEnded():
            return _request(event)
        case e.NodeChanged():
            title = f"Node {event.node} is {event.state.value}"
            detail = "; ".join(part for part in (event.reason, event.ours) if part)
            return Telling(title=title, detail=detail, at=event.at, who=event.set_by or "")
        case e.NodeSuspected():
            title = f"Node {event.node} is suspected ({event.suspect.strength.value})"
            return Telling(title=title, detail=event.suspect.reason, at=event.at)
        case e.NodeExcluded():
            item = event.exclusion
            until = f" until {item.until:%Y-%m-%d %H:%M UTC}" if item.until else ""
            whose = f"for job {item.job}" if item.job else "for all jobs"
            title = f"Node {item.node} is kept out {whose}{until}"
            return Telling(title=title, detail=item.reason, at=item.since, who=item.owner)
        case e.ExclusionEnded():
            whose = f"for job {event.job}" if event.job else "for all jobs"
            title = f"Node {event.node} may be used again {whose}"
            return Telling(title=title, detail=event.reason, at=event.at, who=event.by)


def _cluster(event: e.ClusterEvent) -> Telling:
    match event:
        case e.StageSet():
            return _stage_set(event)
        case e.HealthCapped():
            cap = event.cap
            where = f"partition {cap.partition}" if cap.partition else f"cluster {event.cluster}"
            title = f"Capped on {where}: {cap.effect} while it lasts: {cap.name}"
            return Telling(title=title, detail=cap.reason, at=cap.since)
        case e.HealthRestored():
            return Telling(title=f"Cap lifted: {event.name}", at=event.at)
        case e.StormOpened():
            place = place_words(event.partition, event.file_system)
            title = f"Storm on {event.cluster} {place}: restarts there wait for a shared cause"
            detail = f"{event.reason}; {wordings.count(len(event.incidents), 'incident')}"
            return Telling(title=title, detail=detail, at=event.at)
        case e.StormCleared():
            title = f"Storm on {event.cluster} cleared by {event.by}"
            return Telling(title=title, detail=event.reason, at=event.at, who=event.by)
        case e.SourceLost():
            return Telling(title=f"Source {event.source} is lost", detail=event.reason, at=event.at)
        case e.SourceBack():
            return Telling(title=f"Source {event.source} is back", at=event.at)
        case e.ControllerStarted():
            title = f"Controller {event.holder} started on {event.cluster}"
            return Telling(title=title, detail=event.release, at=event.at, who=event.holder)
        case _:
            assert_never(event)


def _stage_set(event: e.StageSet) -> Telling:
    setting = event.setting
    where = f"partition {setting.partition} of {event.cluster}" if setting.partition else f"cluster {event.cluster}"
    kinds = ", ".join(sorted(kind.value for kind in setting.end_running))
    detail = f"may end running attempts for: {kinds}" if kinds else ""
    title = f"{setting.set_by} set {where} to {setting.stage.value}"
    return Telling(title=title, detail=detail, at=setting.set_at, who=setting.set_by)
