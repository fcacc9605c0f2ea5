"""Values from which the watchdog's decisions are tested: a job that failed, its ledger, and what was done before."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from relance.domain.advice import ActionEnd, ActionKind, Advice, Command, Effect
from relance.domain.deeds import DeedState, WatchdogDeed, deed_id
from relance.domain.faults import Remedy
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.ledgers import (
    VERSION,
    Began,
    Did,
    Ended,
    Entry,
    Expected,
    Intended,
    Opened,
    Outcome,
    Taken,
    Verb,
    fold,
)
from relance.domain.stages import Stage
from relance.domain.views import Hold, JobState, JobView
from relance.watchdog.decisions import Ground
from relance.watchdog.settings import Rules

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLUSTER = "alpha"
MIN_JOB_AGE_S = 300.0


def after(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


SUBMITTED, STARTED, ENDED, DUE = after(0), after(10), after(1000), after(1000 + 240)
"""Of the job 17; `DUE` is MinJobAge less the margin after its end."""


def key(raw_id: str = "17", count: int = 0, submitted_at: datetime = SUBMITTED) -> AttemptKey:
    return AttemptKey(job=JobKey(cluster=CLUSTER, raw_id=raw_id, submitted_at=submitted_at), restart_count=count)


def failed(raw_id: str = "17", /, **changes: object) -> JobView:
    job = JobView(
        raw_id=raw_id,
        first_submitted_at=SUBMITTED,
        submitted_at=SUBMITTED,
        restart_count=0,
        name=f"train-{raw_id}",
        user="owner1",
        owner_uid=1001,
        partition="gpu",
        state=JobState.FAILED,
        started_at=STARTED,
        ended_at=ENDED,
        exit_code=1,
        exit_signal=0,
        requeue_allowed=True,
        work_dir="/work",
        script_id="/work/train.sh",
    )
    return replace(job, **changes)  # type: ignore[arg-type]  # a view's own fields


def held(raw_id: str = "17", /, **changes: object) -> JobView:
    """The same job as our `requeuehold` leaves it."""
    waiting = failed(
        raw_id,
        state=JobState.PENDING,
        restart_count=1,
        submitted_at=after(1011),
        started_at=None,
        ended_at=None,
        exit_code=None,
        exit_signal=None,
        hold=Hold.USER,
        reason="job requeued in held state",
    )
    return replace(waiting, **changes)  # type: ignore[arg-type]  # a view's own fields


def taken(*attempts: AttemptKey, at: datetime = STARTED) -> Taken:
    return Taken(attempts=tuple(map(str, attempts or (key(),))), at=at)


def began(kind: ActionKind = ActionKind.RESTART, attempt: AttemptKey | None = None, successor: str = "") -> Began:
    found = attempt or key()
    advice = Advice(
        id="adv-1",
        incident_id="inc-1",
        attempt=found,
        generation=1,
        action=Remedy.RESTART,
        reasons=("a rank died",),
        guards=(),
        issued_at=after(1009),
        expires_at=after(1200),
        successor=successor,
    )
    return Began(
        action_id="act-1",
        advice=advice,
        kind=kind,
        effect=Effect(summary="requeue", commands=(Command(argv=("scontrol", "requeue", "17")),), digest="d"),
        expected=Expected(
            raw_id=found.job.raw_id, restart_count=found.restart_count, submitted_at=SUBMITTED, state=JobState.FAILED
        ),
        holder="controller-1",
        at=after(1009),
    )


def intended(verb: Verb, number: int = 1, at: datetime | None = None, attempt: AttemptKey | None = None) -> Intended:
    found = attempt or key()
    return Intended(
        action_id="act-1",
        number=number,
        attempt=str(found),
        advice_id="adv-1",
        generation=1,
        verb=verb,
        argv=("scontrol", verb.value, found.job.raw_id),
        restart_count=found.restart_count + 1,
        at=at or after(1010),
    )


def did(verb: Verb, number: int = 1, outcome: Outcome = Outcome.DONE, at: datetime | None = None) -> Did:
    return Did(action_id="act-1", number=number, verb=verb, outcome=outcome, text="", at=at or after(1011))


def ended(end: ActionEnd, number: int = 9) -> Ended:
    return Ended(action_id="act-1", number=number, end=end, reason="so", at=after(1012))


def deed(state: DeedState, verb: Verb = Verb.REQUEUE, **changes: object) -> WatchdogDeed:
    made = WatchdogDeed(
        id=deed_id(key(), verb, 1),
        attempt=key(),
        verb=verb,
        number=1,
        state=state,
        stage=Stage.ACT,
        argv=("scontrol", verb.value, "17"),
        restart_count=1,
        reason="so",
        at=after(1240),
        answered_at=after(1241),
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # a deed's own fields


def ground(*entries: Entry, jobs: tuple[JobView, ...] = (), at: datetime = DUE, **changes: object) -> Ground:
    made = Ground(
        now=at,
        cluster=CLUSTER,
        rules=Rules(stage=Stage.ACT),
        ledger=fold((Opened(version=VERSION, cluster=CLUSTER, at=T0), *entries)),
        alive_at=None,
        jobs={job.raw_id: job for job in jobs or (failed(),)},
        min_job_age_s=MIN_JOB_AGE_S,
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # a ground's own fields
