"""What each command does to a job, or why it is refused: Slurm's rules as observed, as values in and values out.

The functions know nothing of processes. Where a running job must be ended first, they say what to do afterwards
(`after_completing`), and the daemon does both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from relance.simulation.records import DEFAULT_PRIORITY, Job, JobState, Settings

FINISHED = "Job has already finished"
NOT_PENDING = "Job is no longer pending execution"
PENDING = "Job is pending execution"
DISABLED = "Requested operation is presently disabled"
ENDING = "Job/step already completing or completed"
BAD_NODE = "Invalid node name specified"
BAD_TIME = "Invalid time specified"
BAD_DEPENDENCY = "Job dependency problem"
HELD_BY_REQUEUE = "job requeued in held state"

_DEPENDENCY = re.compile(r"singleton|after(?:any|ok):[0-9]+")
_RELATIVE = re.compile(r"now\+([0-9]+(?:\.[0-9]+)?)(seconds?|minutes?|hours?|days?|)")
_UNIT_S = {"": 1.0, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
_PENDING_ONLY = frozenset({"exclude", "start_time", "dependency", "std_out", "nodelist"})
_UPDATES = _PENDING_ONLY | {"time_limit_s", "comment", "requeue", "priority"}


class Refused(Exception):
    """The scheduler does not do it; the message is its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the rules need to know beside the job."""

    now: float
    settings: Settings
    node_names: Collection[str]


def will_be_pending(job: Job) -> bool:
    """Whether the job waits, or will when its old attempt is gone: Slurm's base state PENDING."""
    return job.state is JobState.PENDING or (job.state is JobState.COMPLETING and bool(job.after_completing))


def requeue(job: Job, *, hold: bool, around: Surroundings) -> tuple[Job, bool]:
    """The job after `requeue` (or `requeuehold`), and whether its running attempt must now be ended.

    An ended job is pending at once, a cancelled or completed one too: Slurm does not ask why it ended.

    Raises:
        Refused: The job is pending, or was submitted with requeue=false.
    """
    if not job.requeue:
        raise Refused(DISABLED)
    if will_be_pending(job):
        raise Refused(PENDING)
    if job.state.is_over:
        return made_pending(job, hold=hold, around=around), False
    return replace(job, after_completing="requeuehold" if hold else "requeue"), job.state is JobState.RUNNING


def made_pending(job: Job, *, hold: bool, around: Surroundings) -> Job:
    """The job when its old attempt is gone and a new one waits.

    Whatever start time was asked for before is overwritten: a requeued job may not start before the old credential has
    expired.
    """
    begin = around.now + around.settings.requeue_delay_s
    return replace(
        job,
        state=JobState.PENDING,
        reason="JobHeldUser" if hold else "BeginTime",
        description=HELD_BY_REQUEUE if hold else "",
        hold="user" if hold else "none",
        priority=0 if hold else job.priority or DEFAULT_PRIORITY,
        restart_count=job.restart_count + 1,
        submit_time=around.now,
        begin_time=begin,
        eligible_time=begin,
        start_time=begin,
        end_time=None,
        preempt_time=None,
        pending_since=around.now,
        revoked=False,
        after_completing="",
        node_list=(),
        exit_code="0:0",
        cancelled_by=None,
    )


def hold(job: Job, *, uid: int) -> Job:
    """The job after `hold`; root's holds are an administrator's.

    Raises:
        Refused: The job is not pending.
    """
    _require_pending(job)
    kind = "admin" if uid == 0 else "user"
    return replace(job, hold=kind, priority=0, reason="JobHeldAdmin" if kind == "admin" else "JobHeldUser")


def release(job: Job) -> Job:
    """The job after `release`: it still waits for its begin time.

    Raises:
        Refused: The job is not pending.
    """
    _require_pending(job)
    return replace(job, hold="none", description="", priority=job.priority or DEFAULT_PRIORITY, reason="None")


def cancel(job: Job, *, uid: int, now: float) -> tuple[Job, bool]:
    """The job after `cancel`, and whether its running attempt must now be ended.

    Raises:
        Refused: The job has ended, or is ending for good.
    """
    if job.state is JobState.PENDING:
        ended = replace(job, state=JobState.CANCELLED, reason="None", cancelled_by=uid, end_time=now, start_time=now)
        return ended, False
    if job.state is JobState.RUNNING:
        return replace(job, cancelled_by=uid), True
    if will_be_pending(job):
        return replace(job, cancelled_by=uid, after_completing="cancel"), False
    raise Refused(ENDING)


def update(job: Job, changes: Mapping[str, Any], *, around: Surroundings) -> Job:
    """The job after `update`: all changes or, when one is refused, none.

    Raises:
        Refused: The job has finished; a change is for pending jobs only; a value makes no sense.
    """
    if unknown := sorted(set(changes) - _UPDATES):
        raise Refused(f"Update of this parameter is not supported: {', '.join(unknown)}")
    if job.state.is_over or (job.state is JobState.COMPLETING and not will_be_pending(job)):
        raise Refused(FINISHED)
    if not will_be_pending(job) and any(name in _PENDING_ONLY for name in changes):
        raise Refused(NOT_PENDING)
    for name, value in changes.items():
        job = _UPDATE[name](job, value, around)
    return job


def named_nodes(value: Any, known: Collection[str]) -> tuple[str, ...]:  # noqa: ANN401 -- JSON is any value
    """A list of nodes, given as a list or as one text with commas.

    Raises:
        Refused: A name is not known; then none is taken.
    """
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise Refused(BAD_NODE)
    names = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    if any(name not in known for name in names):
        raise Refused(BAD_NODE)
    return names


def checked_dependency(value: Any) -> str:  # noqa: ANN401 -- JSON is any value
    """A dependency in the form that the scheduler knows.

    Raises:
        Refused: It is another form.
    """
    if value and not (isinstance(value, str) and _DEPENDENCY.fullmatch(value)):
        raise Refused(BAD_DEPENDENCY)
    return str(value or "")


def point_in_time(value: Any, now: float) -> float:  # noqa: ANN401 -- JSON is any value
    """Seconds since the epoch of "now", "now+30minutes", "now+90", an ISO time or a number.

    Raises:
        Refused: It is none of these.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if value == "now":
        return now
    if not isinstance(value, str):
        raise Refused(BAD_TIME)
    if found := _RELATIVE.fullmatch(value):
        return now + float(found[1]) * _UNIT_S[found[2].rstrip("s")]
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise Refused(BAD_TIME) from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _require_pending(job: Job) -> None:
    if job.state.is_over or (job.state is JobState.COMPLETING and not will_be_pending(job)):
        raise Refused(FINISHED)
    if not will_be_pending(job):
        raise Refused(NOT_PENDING)


def _with_start_time(job: Job, value: Any, around: Surroundings) -> Job:  # noqa: ANN401
    begin = point_in_time(value, around.now)
    fresh = job.pending_since is not None and around.now - job.pending_since < around.settings.launch_race_window_s
    revoked = around.settings.launch_race and fresh and begin <= around.now and job.state is JobState.PENDING
    return replace(job, begin_time=begin, eligible_time=begin, start_time=begin, revoked=revoked)


def _with_time_limit(job: Job, value: Any, _around: Surroundings) -> Job:  # noqa: ANN401
    if value is not None and (not isinstance(value, int | float) or isinstance(value, bool) or value <= 0):
        raise Refused("Invalid time limit specified")
    return replace(job, time_limit_s=None if value is None else float(value))


def _with_priority(job: Job, value: Any, _around: Surroundings) -> Job:  # noqa: ANN401
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Refused("Invalid priority specified")
    return replace(job, priority=value)


_UPDATE = {
    "exclude": lambda job, value, around: replace(job, exclude=named_nodes(value, around.node_names)),
    "nodelist": lambda job, value, around: replace(job, nodelist=named_nodes(value, around.node_names)),
    "start_time": _with_start_time,
    "dependency": lambda job, value, _: replace(
        job, dependency=checked_dependency(value), dependency_failed=False, reason="None"
    ),
    "std_out": lambda job, value, _: replace(job, output=str(value)),
    "time_limit_s": _with_time_limit,
    "comment": lambda job, value, _: replace(job, comment=str(value)),
    "requeue": lambda job, value, _: replace(job, requeue=bool(value)),
    "priority": _with_priority,
}
