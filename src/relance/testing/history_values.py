"""Small, complete values for tests of histories: a job, a finding, an incident from its opening to its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from relance.domain import events as e
from relance.domain.advice import ActionKind, Advice, Command, Effect, Exclusion
from relance.domain.clocks import Milestones, Stamp
from relance.domain.faults import FaultDomain, Remedy, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import Certainty, Finding, FindingKind, RuleHit, Sign
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.progress import Phase, Progress
from relance.domain.stages import Stage, StageSetting
from relance.domain.streams import Stream
from relance.domain.verdicts import Strength, Suspect, Verdict
from relance.domain.views import ClusterReport, JobState, JobView, NodeState, NodeView, SchedulerFacts

NOON: Final = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


def after(seconds: float) -> datetime:
    """The time so many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def job_key(raw_id: str = "17", cluster: str = "alpha") -> JobKey:
    """A job."""
    return JobKey(cluster=cluster, raw_id=raw_id, submitted_at=NOON)


def attempt_key(raw_id: str = "17", restart_count: int = 0, cluster: str = "alpha") -> AttemptKey:
    """An attempt of that job."""
    return AttemptKey(job=job_key(raw_id, cluster), restart_count=restart_count)


def job_stream(raw_id: str = "17", cluster: str = "alpha") -> Stream:
    """The stream of that job."""
    return Stream.of_job(job_key(raw_id, cluster))


def job_seen(raw_id: str = "17", cluster: str = "alpha", name: str = "train") -> e.JobSeen:
    """The first event of that job."""
    return e.JobSeen(
        job=job_key(raw_id, cluster),
        name=name,
        user="ada",
        owner_uid=1000,
        partition="gpu",
        workflow="wf",
        node_count=4,
    )


def change_seen(detail: str, raw_id: str = "17", cluster: str = "alpha") -> e.OutsideChangeSeen:
    """An event that may come as often as one likes."""
    return e.OutsideChangeSeen(job=job_key(raw_id, cluster), change="note", detail=detail)


def rule_hit(rank: int, excerpt: str = "RuntimeError: CUDA error") -> RuleHit:
    """A line that a rule matched."""
    return RuleHit(
        rule="cuda.error",
        symptom="cuda_error",
        domain=FaultDomain.HARDWARE,
        role=Role.ROOT,
        suspect=SuspectKind.RANK,
        restart=RestartHint.EXCLUDE,
        weight=0.8,
        scope=Scope.APPLICATION,
        seen_at=after(1),
        rank=rank,
        node=f"n{rank // 8}",
        file="/logs/out.txt",
        offset=rank * 100,
        excerpt=excerpt,
        captures={"device": "3"},
    )


def finding(number: int = 1, raw_id: str = "17", hits: int = 1, excerpt: str = "RuntimeError: CUDA error") -> Finding:
    """A crash with its evidence."""
    return Finding(
        id=f"fnd-{raw_id}-{number}",
        attempt=attempt_key(raw_id),
        detector="crash",
        kind=FindingKind.CRASH,
        certainty=Certainty.CONFIRMED,
        symptom="cuda_error",
        summary="CUDA error on rank 0",
        first_evidence_at=after(1),
        symptom_at=after(1),
        hits=tuple(rule_hit(rank, excerpt) for rank in range(hits)),
        counts={"cuda.error": hits},
        signs=frozenset({Sign.PROCESS_DEATH}),
    )


def opening(incident_id: str = "inc-1", raw_id: str = "17", opened_s: float = 2) -> tuple[e.Event, ...]:
    """A finding and the incident that it opens."""
    found = finding(raw_id=raw_id)
    opened = e.IncidentOpened(
        incident_id=incident_id,
        attempt=found.attempt,
        finding_id=found.id,
        opened_at=after(opened_s),
        times=Milestones(symptom=Stamp(at=after(1), clock="log")),
    )
    return (e.FindingReported(finding=found), opened)


def verdict_reached(incident_id: str = "inc-1") -> e.VerdictReached:
    """Attribution's answer."""
    verdict = Verdict(
        domain=FaultDomain.HARDWARE,
        cause="gpu_fell_off_the_bus",
        summary="Xid 79 on n1",
        remedy=Remedy.RESTART_EXCLUDING,
        remedy_reason="hard evidence",
        confidence=0.9,
        fingerprint="f" * 16,
        suspects=(Suspect(node="n1", strength=Strength.HARD, reason="Xid 79"),),
        evidence=(rule_hit(0),),
    )
    return e.VerdictReached(incident_id=incident_id, verdict=verdict, findings=1, at=Stamp(at=after(3), clock="server"))


def advice_issued(incident_id: str = "inc-1", raw_id: str = "17", generation: int = 1) -> e.AdviceIssued:
    """A decision; its id is `adv-` and the job, generation and incident."""
    advice = Advice(
        id=f"adv-{raw_id}-{generation}-{incident_id}",
        incident_id=incident_id,
        attempt=attempt_key(raw_id),
        generation=generation,
        action=Remedy.RESTART_EXCLUDING,
        reasons=("hard evidence against n1",),
        guards=(),
        issued_at=after(4),
        expires_at=after(200),
        exclude=("n1",),
    )
    return e.AdviceIssued(incident_id=incident_id, advice=advice, at=Stamp(at=after(4), clock="server"))


def action_started(incident_id: str = "inc-1", raw_id: str = "17") -> e.ActionStarted:
    """The claim of that decision; its id is `act-` and job and incident."""
    effect = Effect(
        summary="requeue without n1", commands=(Command(argv=("scontrol", "requeue", raw_id)),), digest="d" * 16
    )
    return e.ActionStarted(
        incident_id=incident_id,
        action_id=f"act-{raw_id}-{incident_id}",
        advice_id=f"adv-{raw_id}-1-{incident_id}",
        generation=1,
        attempt=attempt_key(raw_id),
        kind=ActionKind.RESTART,
        effect=effect,
        holder="controller-1",
        lease_epoch=1,
        stage=Stage.ACT,
        at=after(5),
    )


def closing(incident_id: str = "inc-1", raw_id: str = "17") -> tuple[e.Event, ...]:
    """From the end of the action to the end of the incident."""
    succeeded = e.ActionSucceeded(
        incident_id=incident_id,
        action_id=f"act-{raw_id}-{incident_id}",
        step_id="step-9",
        reason="read back",
        at=after(6),
        accepted_at=after(5.5),
    )
    closed = e.IncidentClosed(
        incident_id=incident_id, end=e.IncidentEnd.RECOVERED, reason="past the highest step", at=after(60)
    )
    return (succeeded, closed)


def whole_story(raw_id: str = "17", incident_id: str = "inc-1") -> tuple[e.Event, ...]:
    """A job from its first sight to the end of its first incident."""
    started = e.AttemptStarted(attempt=attempt_key(raw_id), nodes=("n0", "n1"), started_at=after(0))
    ended = e.AttemptEnded(attempt=attempt_key(raw_id), outcome=JobState.FAILED, ended_at=after(2), exit_code=1)
    return (
        job_seen(raw_id),
        started,
        ended,
        *opening(incident_id, raw_id),
        verdict_reached(incident_id),
        advice_issued(incident_id, raw_id),
        action_started(incident_id, raw_id),
        *closing(incident_id, raw_id),
    )


def node_events(node: str = "n1", cluster: str = "alpha") -> tuple[e.Event, ...]:
    """A node that went down and is kept out."""
    down = e.NodeChanged(
        cluster=cluster, node=node, state=NodeState.DOWN, reason="not responding", set_by="slurmctld", at=after(1)
    )
    exclusion = Exclusion(cluster=cluster, node=node, reason="Xid 79", owner="relance", since=after(4))
    return (down, e.NodeExcluded(exclusion=exclusion))


def stage_set(cluster: str = "alpha", stage: Stage = Stage.ACT) -> e.StageSet:
    """A named person set a cluster's stage."""
    return e.StageSet(cluster=cluster, setting=StageSetting(stage=stage, set_by="root", set_at=after(0)))


def progress_at(seconds: float, step: int) -> Progress:
    """Progress as of a time."""
    return Progress(as_of=after(seconds), phase=Phase.TRAINING, step=step, highest_step=step, steps_seen=step)


def report_of(cluster: str = "alpha", session: str = "s1", sequence: int = 1, jobs: int = 1) -> ClusterReport:
    """A whole look at a cluster."""
    return ClusterReport(
        cluster=cluster,
        session=session,
        sequence=sequence,
        as_of=after(sequence),
        facts=SchedulerFacts(release="24.05", may_act=True),
        jobs=tuple(_job_view(str(number)) for number in range(jobs)),
        nodes=(NodeView(name="n0", state=NodeState.ALLOCATED, partitions=("gpu",)),),
    )


def _job_view(raw_id: str) -> JobView:
    return JobView(
        raw_id=raw_id,
        first_submitted_at=NOON,
        submitted_at=NOON,
        restart_count=0,
        name="train",
        user="ada",
        owner_uid=1000,
        partition="gpu",
        state=JobState.RUNNING,
        nodes=("n0",),
    )
