"""Made-up histories for the report: a job is the fold of its events, times are hours after noon of the first day."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from relance.domain import events as e
from relance.domain.advice import Advice
from relance.domain.clocks import Milestones, Stamp
from relance.domain.faults import Remedy
from relance.domain.findings import Sight
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.records import JobRecord, fold
from relance.domain.stages import EndRunning, Stage
from relance.domain.streams import Stream
from relance.domain.views import JobState
from relance.recovery.proving.reports import Evidence, proofs
from relance.recovery.proving.values import Proofs
from relance.testing import history_values as values

NOON = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
NODES = ("n1", "n2")


def hour(hours: float) -> datetime:
    """The time so many hours after noon of the first day."""
    return NOON + timedelta(hours=hours)


def key(raw_id: str = "17", submitted_h: float = 0, restart_count: int = 0) -> AttemptKey:
    """An attempt of a job."""
    job = JobKey(cluster="alpha", raw_id=raw_id, submitted_at=hour(submitted_h))
    return AttemptKey(job=job, restart_count=restart_count)


def job(attempt: AttemptKey, *events: e.JobEvent, partition: str = "gpu", work_dir: str = "/home/ada/x",
        name: str = "train") -> JobRecord:  # fmt: skip
    """A job of ada's on two nodes, and what happened to it."""
    seen = e.JobSeen(
        job=attempt.job,
        name=name,
        user="ada",
        owner_uid=1000,
        partition=partition,
        workflow="ada/train",
        node_count=2,
        work_dir=work_dir,
    )
    record = fold(Stream.of_job(attempt.job).name, (seen, *events))
    assert isinstance(record, JobRecord)
    return record


def ran(attempt: AttemptKey, began_h: float, ended_h: float | None = None, outcome: JobState = JobState.FAILED, *,
        nodes: tuple[str, ...] = NODES, gpus: int | None = 16, by_us: bool = False, cancelled_by: int | None = None,
        highest_step: int | None = None, is_measured: bool = True) -> tuple[e.JobEvent, ...]:  # fmt: skip
    """An attempt that began, and unless `ended_h` is None ended."""
    started = e.AttemptStarted(attempt=attempt, nodes=nodes, started_at=hour(began_h), by_us=by_us, gpu_count=gpus)
    if ended_h is None:
        return (started,)
    ended = e.AttemptEnded(
        attempt=attempt,
        outcome=outcome,
        ended_at=hour(ended_h),
        cancelled_by=cancelled_by,
        highest_step=highest_step,
        is_measured=is_measured,
    )
    return (started, ended)


def measured(attempt: AttemptKey, *, log: Sight = Sight.SEEN, kernel: Sight = Sight.UNKNOWN, last_step: int | None = 90,
             last_step_h: float | None = 1, steps_seen: int = 90) -> e.AttemptMeasured:  # fmt: skip
    """What was seen of an attempt."""
    return e.AttemptMeasured(
        attempt=attempt,
        log=log,
        kernel=kernel,
        at=hour(2),
        steps_seen=steps_seen,
        last_step=last_step,
        last_step_at=None if last_step_h is None else hour(last_step_h),
    )


def opened(attempt: AttemptKey, at_h: float) -> tuple[e.JobEvent, ...]:
    """An incident of an attempt; its id is `inc-` and the attempt."""
    found = replace(values.finding(), id=f"fnd-{attempt}", attempt=attempt)
    incident = e.IncidentOpened(
        incident_id=f"inc-{attempt}",
        attempt=attempt,
        finding_id=found.id,
        opened_at=hour(at_h),
        times=Milestones(symptom=Stamp(at=hour(at_h), clock="log")),
    )
    return (e.FindingReported(finding=found), incident, values.verdict_reached(f"inc-{attempt}"))


def advised(attempt: AttemptKey, at_h: float, action: Remedy = Remedy.RESTART, *, generation: int = 1,
            ends: EndRunning | None = None, hold: bool = False,
            exclude: tuple[str, ...] = ()) -> e.AdviceIssued:  # fmt: skip
    """An advice in that incident."""
    advice = Advice(
        id=f"adv-{attempt}-{generation}",
        incident_id=f"inc-{attempt}",
        attempt=attempt,
        generation=generation,
        action=action,
        reasons=("because",),
        guards=(),
        issued_at=hour(at_h),
        expires_at=hour(at_h + 1),
        ends_running=ends,
        hold=hold,
        exclude=exclude,
    )
    return e.AdviceIssued(incident_id=f"inc-{attempt}", advice=advice, at=Stamp(at=hour(at_h), clock="server"))


def acted(attempt: AttemptKey, at_h: float) -> tuple[e.JobEvent, ...]:
    """We restarted it."""
    incident_id = f"inc-{attempt}"
    started = replace(
        values.action_started(),
        incident_id=incident_id,
        action_id=f"act-{attempt}",
        advice_id=f"adv-{attempt}-1",
        attempt=attempt,
        stage=Stage.ACT,
        at=hour(at_h),
    )
    succeeded = e.ActionSucceeded(
        incident_id=incident_id,
        action_id=f"act-{attempt}",
        step_id="s",
        reason="",
        at=hour(at_h),
        accepted_at=hour(at_h),
    )
    return (started, succeeded)


def requeued(attempt: AttemptKey, at_h: float, who: str | None = None) -> e.OutsideChangeSeen:
    """Somebody put the job back into the queue."""
    detail = f"restart count is {attempt.restart_count + 1}"
    return e.OutsideChangeSeen(job=attempt.job, change="requeue", detail=detail, who=who, at=hour(at_h))


def report(*records: JobRecord, until_h: float = 24 * 20, partition: str | None = None) -> Proofs:
    """The report from noon of the first day."""
    return proofs(Evidence(records=records, since=NOON, now=hour(until_h), partition=partition))
