"""Jobs as a scheduler's answer shows them: the JSON of `sacct`, `squeue` and `scontrol`, and shorter forms of it.

Somebody else ran the command, perhaps of another release, perhaps cut down by hand. So every field may be missing: what
is not shown is not known, and hides no job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from relance.domain.views import JobState, JobView, PastAttempt, StepView
from relance.watching.evidence import values
from relance.watching.evidence.contexts import Context

Expand = Callable[[str], tuple[str, ...]]
"""A scheduler's short list of nodes to names; none for what is no such list."""

MOST_JOBS = 10_000
_MOST_STEPS = 1_000
_CANCELLED_BY = re.compile(r"CANCELLED\s+by\s+(\d{1,10})", re.IGNORECASE)
_EXIT = re.compile(r"(\d{1,3})(?::(\d{1,3}))?")
_LIMIT = re.compile(r"(?:(\d{1,5})-)?(\d{1,6})(?::(\d\d))?(?::(\d\d))?")
_SHORT = {
    "BF": JobState.BOOT_FAIL, "CA": JobState.CANCELLED, "CD": JobState.COMPLETED, "CF": JobState.CONFIGURING,
    "CG": JobState.COMPLETING, "DL": JobState.DEADLINE, "F": JobState.FAILED, "NF": JobState.NODE_FAIL,
    "OOM": JobState.OUT_OF_MEMORY, "PD": JobState.PENDING, "PR": JobState.PREEMPTED, "R": JobState.RUNNING,
    "RQ": JobState.REQUEUED, "S": JobState.SUSPENDED, "TO": JobState.TIMEOUT,
}  # fmt: skip
_LONG = {state.value.upper(): state for state in JobState}
_SETS = ("jobs", "job", "job_array")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJob:
    """A job as one record shows it; None and empty: not shown."""

    raw_id: str
    state: JobState
    restart_count: int = 0
    name: str = ""
    user: str = ""
    uid: int | None = None
    partition: str = ""
    reason: str = ""
    nodes: tuple[str, ...] = ()
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    preempted_at: datetime | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    cancelled_by: int | None = None
    time_limit_s: float | None = None
    requeue: bool | None = None
    steps: tuple[StepView, ...] | None = None


def jobs_of(document: object, expand: Expand) -> tuple[SeenJob, ...]:
    """The jobs of a JSON document; none if it is not about jobs."""
    records: Iterable[Mapping[str, object]] = ()
    if isinstance(document, list):
        records = values.mappings(document)
    elif isinstance(document, Mapping):
        held = next((document[key] for key in _SETS if isinstance(document.get(key), list)), None)
        records = values.mappings(held) if held is not None else (values.mapping(document),)
    found: list[SeenJob] = []
    for record in records:
        if len(found) >= MOST_JOBS:
            break
        job = _job(record, expand)
        if job is not None:
            found.append(job)
    return tuple(found)


def chosen(jobs: Sequence[SeenJob], context: Context) -> SeenJob | None:
    """The job that the evidence is about: the one that the context names, else of those on its nodes the last one."""
    named = [job for job in jobs if context.job_id is not None and job.raw_id == context.job_id]
    nodes = set(context.nodes)

    def order(job: SeenJob) -> tuple[int, bool, int, str, str]:
        began = job.started_at or job.submitted_at
        return (
            len(nodes & set(job.nodes)),
            job.state is not JobState.COMPLETED,
            job.restart_count,
            began.isoformat() if began else "",
            job.raw_id,
        )

    return max(named or jobs, key=order, default=None)


def view_of(job: SeenJob, now: datetime) -> JobView:
    """The job as attribution is told of it.

    An attempt whose job waits again after it was put back into the queue ended by that. Times that are not shown are
    `now` where a time has to be.
    """
    began = job.submitted_at or job.started_at or now
    waits_again = job.state is JobState.PENDING and job.restart_count > 0
    return JobView(
        raw_id=job.raw_id,
        first_submitted_at=began,
        submitted_at=began,
        restart_count=job.restart_count,
        name=job.name,
        user=job.user,
        owner_uid=job.uid if job.uid is not None else -1,
        partition=job.partition,
        state=JobState.REQUEUED if waits_again else job.state,
        reason=job.reason,
        nodes=job.nodes,
        node_count=max(1, len(job.nodes)),
        started_at=job.started_at,
        ended_at=job.ended_at,
        exit_code=job.exit_code,
        exit_signal=job.exit_signal,
        cancelled_by=job.cancelled_by,
        preempted_at=job.preempted_at,
        requeue_allowed=job.requeue,
        time_limit_s=job.time_limit_s,
        steps=job.steps,
    )


def past_of(jobs: Sequence[SeenJob], current: SeenJob | None, now: datetime) -> tuple[PastAttempt, ...]:
    """The earlier attempts of the job that are shown beside it, earliest first."""
    if current is None:
        return ()
    earlier = {job for job in jobs if job.raw_id == current.raw_id and job != current and job.state.is_over}
    return tuple(
        PastAttempt(
            raw_id=job.raw_id,
            first_submitted_at=current.submitted_at or current.started_at or now,
            restart_count=job.restart_count,
            state=job.state,
            nodes=job.nodes,
            started_at=job.started_at,
            ended_at=job.ended_at,
            exit_code=job.exit_code,
            exit_signal=job.exit_signal,
            cancelled_by=job.cancelled_by,
        )
        for job in sorted(earlier, key=lambda job: (job.restart_count, str(job.started_at or job.ended_at), str(job)))
    )


def state_of(value: object) -> JobState | None:
    """The state that a word, a list of words or sacct's `{current, reason}` says; None if it is none."""
    if isinstance(value, Mapping):
        return state_of(value.get("current"))
    words = [values.text(each) for each in value[:16]] if isinstance(value, list) else [values.text(value)]
    found = [state for word in words if (state := _state_of_word(word)) is not None]
    # A flag such as COMPLETING stands behind the state that it goes with.
    return next((state for state in found if state is not JobState.COMPLETING), found[0] if found else None)


def exit_of(value: object) -> tuple[int | None, int | None]:
    """Exit code and signal: `1:9`, a wait status as a number, or an object with both."""
    if isinstance(value, Mapping):
        signal = value.get("signal")
        inner = values.first(values.mapping(signal), "id", "signal_id") if isinstance(signal, Mapping) else signal
        code = values.number(value.get("return_code"))
        return (code, values.number(inner) or 0) if code is not None or values.number(inner) else (None, None)
    if isinstance(value, int) and not isinstance(value, bool):
        return (value >> 8) & 0xFF, value & 0x7F
    told = _EXIT.fullmatch(values.text(value))
    return (int(told[1]), int(told[2] or 0)) if told else (None, None)


def nodes_of(value: object, expand: Expand) -> tuple[str, ...]:
    """The nodes that a list or a scheduler's short form names; none if it cannot be read."""
    if isinstance(value, list):
        names = (values.text(each) or values.text(values.mapping(each).get("name")) for each in value[:65_536])
        return tuple(dict.fromkeys(name for name in names if name))
    return tuple(dict.fromkeys(expand(values.text(value, 65_536)))) if values.text(value) else ()


def limit_s(value: object) -> float | None:
    """A time limit in seconds: minutes as a number, or `days-hours:minutes:seconds`."""
    if not isinstance(value, str):
        minutes = values.number(value)
        return None if minutes is None or minutes <= 0 else minutes * 60.0
    told = _LIMIT.fullmatch(value.strip())
    if told is None:
        return None
    days, one, two, three = (int(part or 0) for part in told.groups())
    if told[1]:
        return float(((days * 24 + one) * 60 + two) * 60 + three)
    if told[4]:
        return float((one * 60 + two) * 60 + three)
    return float(one * 60 + two)


def _job(record: Mapping[str, object], expand: Expand) -> SeenJob | None:
    shown = values.first(record, "job_state", "state", "State", "JobState", "status")
    state = state_of(shown)
    raw_id = values.text(values.first(record, "job_id", "jobid", "JobID", "JobId", "JobIDRaw", "id"), 40)
    if state is None or not raw_id:
        return None
    code, signal = exit_of(values.first(record, "exit_code", "ExitCode"))
    derived_code, derived_signal = exit_of(values.first(record, "derived_exit_code", "DerivedExitCode"))
    if not code and not signal and (derived_code or derived_signal) and state.is_failure:
        code, signal = derived_code, derived_signal
    user = values.first(record, "user_name", "user", "User") or values.dug(record, "association", "user")
    return SeenJob(
        raw_id=raw_id,
        state=state,
        restart_count=max(0, values.number(values.first(record, "restart_cnt", "restarts", "Restarts")) or 0),
        name=values.text(values.first(record, "name", "job_name", "JobName")),
        user=values.text(user, 64),
        uid=values.number(values.first(record, "user_id", "uid", "UID")),
        partition=values.text(values.first(record, "partition", "Partition"), 64),
        reason=values.text(_reason(record, shown)),
        nodes=nodes_of(values.first(record, "nodes", "node_list", "nodelist", "NodeList"), expand),
        submitted_at=_time(record, ("submit_time", "submit", "Submit", "SubmitTime"), "submission"),
        started_at=_time(record, ("start_time", "start", "Start", "StartTime"), "start"),
        ended_at=_time(record, ("end_time", "end", "End", "EndTime"), "end"),
        preempted_at=_time(record, ("preempt_time", "PreemptTime"), "preempted"),
        exit_code=code,
        exit_signal=signal,
        cancelled_by=_canceller(record, shown),
        time_limit_s=limit_s(values.first(record, "time_limit", "Timelimit", "TimeLimit")),
        requeue=_yes(values.first(record, "requeue", "Requeue")),
        steps=_steps(record.get("steps")),
    )


def _state_of_word(word: str) -> JobState | None:
    said = word.upper().partition(" ")[0].rstrip("+")
    return _LONG.get(said) or _SHORT.get(said)


def _reason(record: Mapping[str, object], shown: object) -> object:
    return values.first(record, "state_reason", "reason", "Reason") or values.dug(shown, "reason")


def _time(record: Mapping[str, object], keys: tuple[str, ...], within: str) -> datetime | None:
    return values.moment(values.first(record, *keys)) or values.moment(values.dug(record, "time", within))


def _canceller(record: Mapping[str, object], shown: object) -> int | None:
    """The uid that cancelled it, from the state's words or accounting's own field; a name tells no uid but root's."""
    told = _CANCELLED_BY.search(values.text(shown))
    if told:
        return int(told[1])
    asker = values.first(record, "kill_request_user", "kill_requid", "cancelled_by")
    if values.text(asker) == "root":
        return 0
    uid = values.number(asker)
    return uid if uid is not None and 0 <= uid < 1 << 32 and state_of(shown) is JobState.CANCELLED else None


def _steps(value: object) -> tuple[StepView, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(step for each in value[:_MOST_STEPS] if (step := _step(values.mapping(each))) is not None)


def _step(record: Mapping[str, object]) -> StepView | None:
    shown = values.first(record, "state", "State")
    state = state_of(shown)
    if state is None:
        return None
    called = values.dug(record, "step", "name") or values.dug(record, "step", "id") or record.get("step")
    code, signal = exit_of(values.first(record, "exit_code", "ExitCode"))
    return StepView(
        name=values.text(called, 80) or values.text(values.first(record, "name", "id", "JobID"), 80),
        state=state,
        exit_code=code,
        exit_signal=signal,
        cancelled_by=_canceller(record, shown),
    )


def _yes(value: object) -> bool | None:
    return (
        value
        if isinstance(value, bool)
        else {0: False, 1: True}.get(values.number(value) or 0)
        if value is not None
        else None
    )
