"""Verification: whether a next attempt runs, steps, and gets beyond the old highest step; and when an incident ends.

Pure. Success is a step beyond the highest ever seen; until then the words are "running, not yet proven".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain import events as e
from relance.domain.advice import ActionKind
from relance.domain.clocks import Stamp
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.findings import FindingKind
from relance.domain.incidents import Incident, IncidentState
from relance.domain.keys import AttemptKey
from relance.domain.limits import Limits
from relance.domain.progress import Progress
from relance.domain.records import JobRecord
from relance.domain.requests import RequestVerb, asker_of
from relance.domain.views import JobState, JobView

S = IncidentState
_LASTING = frozenset({FindingKind.SLOWDOWN, FindingKind.DIVERGENCE})
"""What steps that go on do not heal."""
_GOES_ON = _LASTING | {FindingKind.NODE_HEALTH}
_HEALED_STEPS = 3
"""An attempt that makes this many steps after a suspicion has healed by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What verification looks at: the incident, its job, the newest look and the progress of each attempt."""

    record: JobRecord
    incident: Incident
    view: JobView | None
    """None: the scheduler answered, and does not know the job; see `looked`."""
    looked: bool
    """Whether there is a whole look that is new enough to tell that the job is not there."""
    as_of: datetime
    """When the scheduler showed `view`: what it shows as running is known to have run until then, and no longer."""
    progress: dict[AttemptKey, Progress]
    kinds: frozenset[FindingKind]
    limits: Limits
    now: datetime
    over: frozenset[FindingKind] = frozenset()
    """Of which of the kinds the newest word is that it is over."""

    @property
    def next_attempt(self) -> AttemptKey:
        """The newest attempt after the incident's, or the one that a restart would give."""
        newest = self.view.restart_count if self.view else 0
        count = max(self.incident.attempt.restart_count + 1, newest)
        return AttemptKey(job=self.incident.attempt.job, restart_count=count)

    @property
    def next_is_seen(self) -> bool:
        """Whether the scheduler shows a later attempt than the incident's."""
        return self.view is not None and self.view.restart_count > self.incident.attempt.restart_count


def verification(evidence: Evidence) -> tuple[e.JobEvent, ...]:
    """The next proof or ending that the evidence allows: one step of the incident's life, or nothing."""
    incident = evidence.incident
    if not incident.is_open:
        return ()
    if evidence.next_is_seen:
        return _of_next_attempt(evidence)
    return _of_this_attempt(evidence)


def wake_at(evidence: Evidence) -> datetime | None:
    """When time alone may change what `verification` says."""
    incident, view, limits = evidence.incident, evidence.view, evidence.limits
    if not incident.is_open or view is None or not evidence.next_is_seen or view.started_at is None:
        return None
    if view.state is not JobState.RUNNING:
        return None
    if incident.state is not S.RUNNING:
        return view.started_at + timedelta(seconds=limits.settled_running_s)
    return view.started_at + timedelta(seconds=limits.unproven_s)


def _of_next_attempt(evidence: Evidence) -> tuple[e.JobEvent, ...]:
    incident, view, now = evidence.incident, evidence.view, evidence.now
    assert view is not None  # noqa: S101 - next_is_seen says so
    key = evidence.next_attempt
    ran_s = _ran_s(view, evidence.as_of)
    if incident.state is not S.RUNNING:
        if ran_s is not None and ran_s >= evidence.limits.settled_running_s:
            return (_restarted(evidence, key, view),)
        if view.state is JobState.COMPLETED:
            return (_close(incident, e.IncidentEnd.JOB_ENDED, "the next attempt completed", now),)
    proof = _proof(evidence, key)
    if incident.state is S.RUNNING and proof:
        return proof
    return _end_of_next(evidence, view, ran_s)


def _end_of_next(evidence: Evidence, view: JobView, ran_s: float | None) -> tuple[e.JobEvent, ...]:
    incident, now = evidence.incident, evidence.now
    if incident.beyond:
        return (_close(incident, e.IncidentEnd.RECOVERED, "a step beyond the highest before was seen", now),)
    if view.state is JobState.COMPLETED:
        return (_close(incident, e.IncidentEnd.JOB_ENDED, "the next attempt completed", now),)
    if view.state.is_over and not view.state.is_failure:
        return (_close(incident, e.IncidentEnd.LEFT, f"the next attempt is {view.state.value}", now),)
    if view.state.is_failure and incident.state is S.RUNNING:
        return (_close(incident, e.IncidentEnd.RELAPSED, "the next attempt failed", now),)
    steps = evidence.progress.get(evidence.next_attempt)
    blind = steps is None or steps.steps_seen == 0
    if incident.state is S.RUNNING and blind and ran_s is not None and ran_s >= evidence.limits.unproven_s:
        reason = f"no step line in {evidence.limits.unproven_s:.0f} s; the attempt runs"
        return (_close(incident, e.IncidentEnd.RUNNING_UNPROVEN, reason, now),)
    return ()


def _proof(evidence: Evidence, key: AttemptKey) -> tuple[e.JobEvent, ...]:
    incident, progress = evidence.incident, evidence.progress.get(key)
    if progress is None or progress.first_step is None or progress.step is None:
        return ()
    found: list[e.JobEvent] = []
    if incident.resumed_step is None:
        at = Stamp(at=progress.first_step_at or progress.as_of, clock="log")
        found.append(_resumed(incident, key, progress.first_step, at, beyond=False))
    highest = _highest_before(evidence)
    if not incident.beyond and (progress.highest_step or progress.step) > highest:
        at = Stamp(at=progress.step_at or progress.as_of, clock="log")
        found.append(_resumed(incident, key, progress.step, at, beyond=True))
    return tuple(found)


def _highest_before(evidence: Evidence) -> int:
    job = evidence.incident.attempt.job
    upto = evidence.incident.attempt.restart_count
    steps = [
        progress.highest_step
        for key, progress in evidence.progress.items()
        if key.job == job and key.restart_count <= upto and progress.highest_step is not None
    ]
    return max(steps, default=0)


def _canceller(record: JobRecord, view: JobView) -> str:
    """Who cancelled the job: the person who asked Relance for it, else whom the scheduler names."""
    asker = asker_of(record.requests, RequestVerb.CANCEL, view.restart_count)
    if asker is not None:
        return f"{asker}, by Relance,"
    if view.cancelled_by is None:
        return "somebody"
    return f"its owner {view.user}" if view.cancelled_by == view.owner_uid else f"uid {view.cancelled_by}"


def _of_this_attempt(evidence: Evidence) -> tuple[e.JobEvent, ...]:
    incident, view, now = evidence.incident, evidence.view, evidence.now
    if view is None:
        if evidence.looked and incident.state is not S.ACTING:
            reason = "the scheduler no longer knows the job, and no later attempt was seen"
            return (_close(incident, e.IncidentEnd.JOB_ENDED, reason, now),)
        return ()
    if view.state is JobState.COMPLETED:
        return (_close(incident, e.IncidentEnd.JOB_ENDED, "the job completed", now),)
    if view.state is JobState.CANCELLED and _we_cancel(incident):
        return (_close(incident, e.IncidentEnd.STOPPED, "cancelled: another try is no use", now),)
    if view.state is JobState.CANCELLED:
        return (_close(incident, e.IncidentEnd.LEFT, f"{_canceller(evidence.record, view)} cancelled the job", now),)
    settled = _settled(incident)
    if settled:
        return (_close(incident, e.IncidentEnd.LEFT, settled, now),)
    if view.state is JobState.RUNNING and not incident.restart_begun and _healed(evidence):
        return (_close(incident, e.IncidentEnd.RECOVERED, "the attempt went on by itself", now),)
    return _by_advice(evidence, view)


def _settled(incident: Incident) -> str:
    """Why nothing more is to come after our own action; empty while the next attempt is awaited."""
    action, advice = incident.action, incident.advice
    if incident.state is not S.SETTLED or action is None:
        return ""
    if action.end != "ActionSucceeded":
        return f"{action.end}: {action.reason}"
    if advice is not None and advice.successor:
        return f"job {advice.successor} goes on in its place, by its dependency"
    return ""


def _by_advice(evidence: Evidence, view: JobView) -> tuple[e.JobEvent, ...]:
    """Endings that the advice in force brings: nothing to do, no use, or a person's no."""
    incident, now = evidence.incident, evidence.now
    advice, verdict = incident.advice, incident.verdict
    if incident.approval is not None and not incident.approval.yes:
        return (_close(incident, e.IncidentEnd.LEFT, f"{incident.approval.by} denied the advice", now),)
    if advice is None or verdict is None or advice.hold or incident.state is not S.ADVISED or not view.state.is_over:
        return ()
    if not _knows_the_end(evidence):
        return ()
    if advice.action is Remedy.STOP:
        return (_close(incident, e.IncidentEnd.STOPPED, advice.reasons[0] if advice.reasons else "stop", now),)
    if advice.action is Remedy.NONE:
        reason = advice.reasons[0] if advice.reasons else verdict.summary
        end = e.IncidentEnd.JOB_ENDED if verdict.domain is FaultDomain.NONE else e.IncidentEnd.LEFT
        return (_close(incident, end, reason, now),)
    return ()


def _knows_the_end(evidence: Evidence) -> bool:
    """Whether the advice in force rests on how the attempt ended.

    What was said of a running attempt, such as that nothing is wrong, does not hold for one that has failed since: its
    end is a finding of its own, which is judged first. A look may show the end a moment before the history has it.
    """
    incident = evidence.incident
    attempt = evidence.record.attempt(incident.attempt)
    ended = attempt is None or attempt.outcome is not None
    return ended and incident.judged_findings == len(incident.findings)


def _we_cancel(incident: Incident) -> bool:
    """Whether it was our own action that ended the job for good."""
    action = incident.action
    return action is not None and action.kind is ActionKind.CANCEL and action.end in (None, "ActionSucceeded")


def _healed(evidence: Evidence) -> bool:
    """Whether steps went on after what raised the suspicion, and nothing proves a death."""
    incident = evidence.incident
    progress = evidence.progress.get(incident.attempt)
    began = incident.times.detect
    if progress is None or progress.step_at is None or began is None or FindingKind.DID_NOT_RESUME in evidence.kinds:
        return False
    if incident.verdict is not None and incident.verdict.proven_death:
        return False
    lasting = evidence.kinds & _LASTING
    if lasting and evidence.kinds <= _GOES_ON:
        return lasting <= evidence.over
    step_s = progress.median_step_s or 1.0
    return (progress.step_at - began.at).total_seconds() > _HEALED_STEPS * step_s


def _ran_s(view: JobView, as_of: datetime) -> float | None:
    """How long an attempt is known to have run: unknown is not "still running"."""
    if view.started_at is None:
        return None
    if view.state is JobState.RUNNING:
        return (as_of - view.started_at).total_seconds()
    if view.state.is_over and view.ended_at is not None:
        return (view.ended_at - view.started_at).total_seconds()
    return None


def _restarted(evidence: Evidence, key: AttemptKey, view: JobView) -> e.AttemptRestarted:
    incident = evidence.incident
    started = view.started_at or evidence.now
    at = started + timedelta(seconds=evidence.limits.settled_running_s)
    by_us = incident.restarted_by_us and key.restart_count == incident.attempt.restart_count + 1
    return e.AttemptRestarted(
        incident_id=incident.id,
        attempt=key,
        nodes=view.nodes,
        by_us=by_us,
        at=Stamp(at=at, clock="scheduler", resolution_s=1.0),
    )


def _resumed(incident: Incident, key: AttemptKey, step: int, at: Stamp, *, beyond: bool) -> e.ProgressResumed:
    return e.ProgressResumed(incident_id=incident.id, attempt=key, step=step, beyond=beyond, at=at)


def _close(incident: Incident, end: e.IncidentEnd, reason: str, now: datetime) -> e.IncidentClosed:
    return e.IncidentClosed(incident_id=incident.id, end=end, reason=reason, at=now)
