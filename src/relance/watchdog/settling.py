"""What looking says: of a deed that nobody answered for, of a want in its last second, of who decided. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from relance.domain.deeds import DeedState, WatchdogDeed
from relance.domain.ledgers import Verb
from relance.domain.views import Hold, JobView
from relance.slurm.records import AccountedJob
from relance.watchdog.decisions import Ground, Want, decide

_DECIDED = ("CANCELLED", "PREEMPTED", "COMPLETED", "TIMEOUT", "DEADLINE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What accounting says against a restart. `is_final`: it will say nothing else later."""

    reason: str = ""
    is_final: bool = False


def settled(deed: WatchdogDeed, job: JobView | None, now: datetime) -> WatchdogDeed:
    """The deed after a look at its job (None: the scheduler answered, and does not show it); it may be the same.

    What was not done by now is not done again: who looks decides anew.
    """
    if deed.state.is_final:
        return deed
    is_done = job is not None and _shows(deed, job)
    if is_done:
        return replace(deed, state=DeedState.DONE, answered_at=now, text="no answer, and the scheduler shows it done")
    if deed.is_under_way(now):
        return deed
    said = "the scheduler does not know the job any more" if job is None else "the scheduler does not show it done"
    return replace(deed, state=DeedState.LOST, answered_at=now, text=f"no answer, and {said}")


def _shows(deed: WatchdogDeed, job: JobView) -> bool:
    if deed.verb is Verb.RELEASE:
        return job.restart_count > deed.restart_count or (
            job.restart_count == deed.restart_count and job.hold is Hold.NONE
        )
    return job.restart_count >= deed.restart_count


def why_not_now(want: Want, ground: Ground, job: JobView | None) -> str:
    """Why a deed is not done after all, from a fresh ledger and a fresh read of its job; empty: everything stands."""
    if job is None:
        return "the scheduler does not show the job any more"
    was = want.job
    if (job.raw_id, job.restart_count, job.submitted_at) != (was.raw_id, was.restart_count, was.submitted_at):
        return "it is another attempt now"
    if job.state is not was.state:
        return f"it was {was.state.value} and is {job.state.value} now"
    key = str(want.attempt)
    ledger = ground.ledger
    taken = {key: ledger.taken[key]} if key in ledger.taken else {}
    fresh = replace(ground, jobs={**ground.jobs, job.raw_id: job}, ledger=replace(ledger, taken=taken))
    for item in decide(fresh):
        if (item.attempt, item.verb) == (want.attempt, want.verb):
            return "" if isinstance(item, Want) else item.reason
    return "ledger and scheduler do not ask for it any more"


def who_decided(job: JobView, rows: Iterable[AccountedJob]) -> Told:
    """What accounting says against the restart of an attempt that failed: that somebody ended it, or nothing yet.

    That nobody cancelled a step is known only from accounting that has the attempt's end (operators.md V4).
    """
    at = int(job.submitted_at.timestamp())
    row = next((row for row in rows if str(row.job_id) == job.raw_id and row.submitted_at == at), None)
    if row is None or row.ended_at is None:
        return Told(reason="accounting does not tell its end: that nobody cancelled a step is not known")
    if row.cancelled_by is not None or row.state in _DECIDED:
        by = "" if row.cancelled_by is None else f" by uid {row.cancelled_by}"
        return Told(reason=f"accounting says {row.state}{by}", is_final=True)
    for step in row.steps:
        if step.cancelled_by is not None:
            return Told(reason=f"its step {step.name} was cancelled by uid {step.cancelled_by}", is_final=True)
    return Told()
