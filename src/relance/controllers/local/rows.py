"""Rows of the simulated scheduler as views. A row that cannot be read raises SchedulerSilentError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from relance.domain.limits import Limits
from relance.domain.requests import RequestKind
from relance.domain.views import (
    Hold,
    JobState,
    JobView,
    NodeState,
    NodeView,
    PastAttempt,
    SchedulerFacts,
    StepView,
    Wish,
)
from relance.domain.wishes import parse_wish
from relance.ports.schedulers import SchedulerSilentError

Row = Mapping[str, Any]

_NODE_STATES = {
    "idle": NodeState.IDLE,
    "allocated": NodeState.ALLOCATED,
    "draining": NodeState.DRAINED,
    "drained": NodeState.DRAINED,
    "down": NodeState.DOWN,
    "reserved": NodeState.MAINTENANCE,
    "maint": NodeState.MAINTENANCE,
}
_JOB_STATES = {state.name: state for state in JobState}
_LAST_SIGNAL = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """What accounting has of one job: the steps of its current attempt, its earlier attempts, its first submission."""

    steps: tuple[StepView, ...]
    past: tuple[PastAttempt, ...]
    first_submitted_at: datetime


def job_view(row: Row, accounting: Accounting, limits: Limits, forms: tuple[str, ...] = ()) -> JobView:
    """A job's row as a view; its own wishes are clipped by the site's limits. Raises SchedulerSilentError.

    `forms` are those of other engines' comments that are taken for wishes.
    """
    try:
        return _job_view(row, accounting, limits, forms)
    except (KeyError, TypeError, ValueError) as error:
        raise SchedulerSilentError(f"a job's row cannot be read: {error!r}") from error


def accounting_of(row: Row, attempts: Sequence[Row]) -> Accounting:
    """What accounting has of the job in this row, from its attempts there. Raises SchedulerSilentError."""
    try:
        count = int(row["restart_count"])
        submitted_at = _required_time(row["submit_time"])
        # The id may have been used before: only attempts that lead up to this one are the same job's.
        rows = sorted((each for each in attempts if int(each["restart_count"]) <= count), key=_attempt_order)
        first = min((_required_time(each["submit_time"]) for each in rows), default=submitted_at)
        past = [each for each in rows if int(each["restart_count"]) < count]
        steps = [step for each in rows if int(each["restart_count"]) == count for step in each["steps"]]
        return Accounting(
            steps=tuple(_step_view(step) for step in steps),
            past=tuple(_past_attempt(each, min(first, submitted_at)) for each in past),
            first_submitted_at=min(first, submitted_at),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SchedulerSilentError(f"accounting of a job cannot be read: {error!r}") from error


def node_view(row: Row) -> NodeView:
    """A node's row as a view. Raises SchedulerSilentError."""
    try:
        uid = row["reason_uid"]
        return NodeView(
            name=str(row["name"]),
            state=_NODE_STATES.get(row["state"], NodeState.UNKNOWN),
            reason=str(row["reason"]),
            set_by=f"uid {int(uid)}" if uid is not None else None,
            since=_time(row["reason_time"]),
            partitions=tuple(row["partitions"]),
            features=tuple(row["features"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SchedulerSilentError(f"a node's row cannot be read: {error!r}") from error


_REFUSED = {
    RequestKind.HOLD_JOBS: "the simulated scheduler takes no hold of a waiting job",
    RequestKind.RESERVE_NODES: "the simulated scheduler keeps no node out",
    RequestKind.DRAIN_NODES: "the simulated scheduler keeps no node out",
}


def facts(info: Row, *, may_act: bool) -> SchedulerFacts:
    """What the scheduler says of itself. Raises SchedulerSilentError."""
    try:
        return SchedulerFacts(
            release=str(info["release"]),
            booted_at=_time(info["boot_time"]),
            min_job_age_s=float(info["min_job_age_s"]),
            requeue_delay_s=float(info["requeue_delay_s"]),
            may_act=may_act,
            refuses=tuple((kind.value, why) for kind, why in _REFUSED.items()),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SchedulerSilentError(f"the scheduler's facts cannot be read: {error!r}") from error


def time_of(seconds: object) -> datetime:
    """The time that an answer was true. Raises SchedulerSilentError."""
    try:
        return _required_time(seconds)
    except (TypeError, ValueError) as error:
        raise SchedulerSilentError(f"a time cannot be read: {seconds!r}") from error


def _job_view(row: Row, accounting: Accounting, limits: Limits, forms: tuple[str, ...]) -> JobView:
    state = _JOB_STATES.get(row["state"], JobState.UNKNOWN)
    wish = parse_wish(str(row["comment"]), limits, forms)
    is_over = state.is_over
    code, signal = _exit(row["exit_code"])
    return JobView(
        raw_id=str(int(row["job_id"])),
        first_submitted_at=accounting.first_submitted_at,
        submitted_at=_required_time(row["submit_time"]),
        restart_count=int(row["restart_count"]),
        name=str(row["name"]),
        user=str(row["user"]),
        owner_uid=int(row["uid"]),
        partition=str(row["partition"]),
        state=state,
        reason="" if row["reason"] == "None" else str(row["reason"]),
        nodes=tuple(row["node_list"]),
        node_count=int(row["node_count"]),
        ranks_per_node=int(row["ranks_per_node"]),
        eligible_at=_time(row["eligible_time"]),
        # A pending job shows the start that is planned.
        started_at=None if state is JobState.PENDING else _time(row["start_time"]),
        ended_at=_time(row["end_time"]) if is_over else None,
        exit_code=code if is_over else None,
        exit_signal=(signal or _exit(row["derived_exit_code"])[1]) if is_over else None,
        cancelled_by=row["cancelled_by"],
        preempted_at=_time(row["preempt_time"]),
        hold=Hold(row["hold"]),
        excluded=tuple(row["exclude"]),
        required=tuple(row["nodelist"]),
        features=tuple(row["features"]),
        requeue_allowed=bool(row["requeue"]),
        time_limit_s=row["time_limit_s"],
        work_dir=str(row["work_dir"]),
        script_id=str(row["script_hash"]),
        log_paths=_log_paths(row, wish),
        dependency=str(row["dependency"]),
        wish=wish,
        steps=accounting.steps,
    )


def _attempt_order(row: Row) -> int:
    return int(row["restart_count"])


def _past_attempt(row: Row, first_submitted_at: datetime) -> PastAttempt:
    state, uid = _state(row["state"])
    code, signal = _exit(row["exit_code"])
    return PastAttempt(
        raw_id=str(int(row["job_id"])),
        first_submitted_at=first_submitted_at,
        restart_count=int(row["restart_count"]),
        state=state,
        nodes=tuple(row["nodes"]),
        started_at=_time(row["start_time"]),
        ended_at=_time(row["end_time"]),
        exit_code=code,
        exit_signal=signal or _exit(row["derived_exit_code"])[1],
        cancelled_by=uid,
    )


def _step_view(row: Row) -> StepView:
    state, uid = _state(row["state"])
    code, signal = _exit(row["exit_code"])
    return StepView(name=str(row["step"]), state=state, exit_code=code, exit_signal=signal, cancelled_by=uid)


def _state(text: object) -> tuple[JobState, int | None]:
    """A word of accounting: `CANCELLED by 1001` carries who it was."""
    word, _, uid = str(text).partition(" by ")
    return _JOB_STATES.get(word, JobState.UNKNOWN), int(uid) if uid else None


def _exit(text: object) -> tuple[int | None, int | None]:
    """`code:signal`; a signal of 0 is none."""
    code, _, signal = str(text).partition(":")
    number = int(signal or 0)
    return int(code), number if 0 < number <= _LAST_SIGNAL else None


def _log_paths(row: Row, wish: Wish) -> tuple[str, ...]:
    """The job's output, its ranks' files and what it asks to be followed, without paths that are not resolved yet."""
    work_dir = PurePosixPath(str(row["work_dir"]))
    asked = [str(work_dir / path) for path in wish.logs]
    written = [str(path) for path in (row["std_out"], *row["ranks_files"]) if "%" not in str(path)]
    return tuple(dict.fromkeys([*written, *asked]))


def _time(seconds: object) -> datetime | None:
    return None if seconds is None else _required_time(seconds)


def _required_time(seconds: object) -> datetime:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        message = f"not a time: {seconds!r}"
        raise TypeError(message)
    return datetime.fromtimestamp(seconds, UTC)
