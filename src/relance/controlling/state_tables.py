"""The state table of design 10: what the state that was just read allows an advice to do. Pure, and data first.

The rows say what happens in which state; their conditions are named functions that give a reason against it. Whatever
no row names, nothing is done about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from relance.domain.advice import Advice
from relance.domain.ledgers import Expected, Parked
from relance.domain.stages import EndRunning
from relance.domain.views import Hold, JobState, JobView, PastAttempt

_SAME_TIME = timedelta(seconds=1)
"""Schedulers give submit times in whole seconds or finer, depending on release and query."""


class Course(Enum):
    """What is done."""

    TRANSACTION = "transaction"
    """Requeue, then one update."""
    CONSTRAIN = "constrain"
    """No requeue: one update of the pending job."""
    CANCEL = "cancel"
    """End the job for good."""
    NOTHING = "nothing"
    """Nothing; an action that had begun is abandoned."""


class Wants(Enum):
    """What an advice wants."""

    RESTART = "restart"
    """Restart, or park."""
    FOLLOW = "constrain a successor"
    """Keep the next job of a chain off nodes while it waits."""
    STOP = "stop"
    """Stop a running job."""


class Count(Enum):
    """The restart count that was read, beside the one that the advice was made for."""

    SAME = "the same"
    """The attempt that the advice was made for."""
    ONE_HIGHER = "one higher"
    """Slurm or a person was first."""
    OTHER = "another"
    """Something else has happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An advice and the job as it was just read.

    `base_count` is the restart count of the attempt that is to be replaced. `expected` is what was shown when the
    action was prepared, None while it is being prepared. `consent` is None where it is not asked: a preparation shows
    what would be done whether or not the site consents. `parked` is set when we gave the job its start time. `past` are
    the job's earlier attempts from accounting.
    """

    cluster: str
    advice: Advice
    job: JobView
    base_count: int
    expected: Expected | None = None
    consent: frozenset[EndRunning] | None = None
    parked: Parked | None = None
    past: tuple[PastAttempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What may be done, and the sentence that says why."""

    course: Course
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table: in these states, if no condition speaks against it, this course."""

    wants: Wants
    count: Count
    states: tuple[JobState, ...]
    course: Course
    unless: tuple[str, ...]
    """Names of conditions, asked in this order."""


def ruling(case: Case) -> Ruling:
    """What may be done about this case."""
    changed = _changed(case)
    if changed:
        return Ruling(course=Course.NOTHING, reason=changed)
    wants, count = _wants(case.advice), _count(case)
    for row in TABLE:
        if row.wants is wants and row.count is count and case.job.state in row.states:
            against = next((found for name in row.unless if (found := CONDITIONS[name](case))), "")
            if against:
                return Ruling(course=Course.NOTHING, reason=against)
            return Ruling(course=row.course, reason=f"the job is {_shown(case.job)}")
    return Ruling(course=Course.NOTHING, reason=f"the job is {_shown(case.job)}: {_LEFT[case.job.state]}")


def parked_by_us(job: JobView, parked: Parked | None) -> bool:
    """Whether the time that the job waits for is the one that we gave it."""
    if parked is None or job.eligible_at is None:
        return False
    return abs(job.eligible_at - parked.until) < 2 * _SAME_TIME


def is_meant(job: JobView, advice: Advice, cluster: str) -> bool:
    """Whether this is the job that the advice wants something done to: its own, or the successor that it names."""
    if advice.successor:
        return job.raw_id == advice.successor
    return job.job_key(cluster) == advice.attempt.job


def held(job: JobView) -> str:
    """The sentence that says that somebody holds the job, or that it cannot be ruled out; empty when nobody does."""
    match job.hold:
        case Hold.NONE:
            return ""
        case Hold.UNKNOWN:
            return "whether somebody holds it cannot be read"
        case Hold.SCHEDULER:
            return f"the scheduler gave up starting it and holds it ({job.reason})"
        case Hold.USER | Hold.ADMIN:
            return f"it is held ({job.hold.value}), and not by us"


def who_decided(job: JobView, past: tuple[PastAttempt, ...], base_count: int) -> str:
    """The sentence that says who decided about this attempt; empty when nobody is known to have."""
    if job.cancelled_by is not None:
        return f"it was cancelled by uid {job.cancelled_by}"
    if job.preempted_at is not None:
        return "it was preempted"
    for step in job.steps or ():
        if step.cancelled_by is not None:
            return f"its step {step.name} was cancelled by uid {step.cancelled_by}"
    before = attempt_before(job, past, base_count)
    if before is not None and before.cancelled_by is not None:
        return f"accounting says that the attempt before was cancelled by uid {before.cancelled_by}"
    if before is not None and before.state in (JobState.PREEMPTED, JobState.CANCELLED):
        return f"accounting says that the attempt before was {before.state.value}"
    return ""


def attempt_before(job: JobView, past: tuple[PastAttempt, ...], base_count: int) -> PastAttempt | None:
    """What accounting says of the attempt that is replaced; None while it says nothing."""
    return next((item for item in past if item.raw_id == job.raw_id and item.restart_count == base_count), None)


def _changed(case: Case) -> str:
    """Why the job is not the one, or not in the state, that the advice was made for; empty when it is."""
    job, expected = case.job, case.expected
    if not is_meant(job, case.advice, case.cluster):
        return f"the id {job.raw_id} belongs to another job now"
    count = _count(case)
    if count is Count.OTHER:
        return f"the restart count is {job.restart_count}, not {case.base_count}: it was restarted by somebody else"
    if expected is None or job.restart_count != expected.restart_count:
        return ""
    if abs(job.submitted_at - expected.submitted_at) >= _SAME_TIME:
        return "the submit time has changed: it was requeued or the id was used again"
    if job.state is not expected.state:
        return f"it was {expected.state.value} and is {job.state.value} now"
    return ""


def _wants(advice: Advice) -> Wants:
    if advice.successor:
        return Wants.FOLLOW
    return Wants.RESTART if advice.action.restarts or advice.park else Wants.STOP


def _count(case: Case) -> Count:
    if case.advice.successor:
        # Its restart count is its own; that it is still the one that was prepared for is compared below.
        same = case.expected is None or case.expected.restart_count == case.job.restart_count
        return Count.SAME if same else Count.OTHER
    difference = case.job.restart_count - case.base_count
    return {0: Count.SAME, 1: Count.ONE_HIGHER}.get(difference, Count.OTHER)


def _shown(job: JobView) -> str:
    return f"{job.state.value} (restart count {job.restart_count})"


def _decided(case: Case) -> str:
    return who_decided(case.job, case.past, case.base_count)


def _steps_unread(case: Case) -> str:
    return "accounting cannot be read: that nobody cancelled a step is not known" if case.job.steps is None else ""


def _untold(case: Case) -> str:
    """A preemption may show in accounting alone, a little later, behind a job that waits (operators.md V5).

    Asked while an action is prepared: what accounting has told by then stays so.
    """
    told = attempt_before(case.job, case.past, case.base_count) is not None
    if told or case.expected is not None or parked_by_us(case.job, case.parked):
        return ""
    return "accounting does not tell yet how the attempt before ended: the scheduler may have preempted it"


def _only_watched(case: Case) -> str:
    why = case.job.only_watched
    return f"jobs of this kind are only watched: {why}" if why else ""


def _no_requeue(case: Case) -> str:
    return "the job was submitted with --no-requeue" if case.job.requeue_allowed is False else ""


def _made_for_running(case: Case) -> str:
    return "the advice was made for a running attempt, and it has ended" if case.advice.ends_running else ""


def _no_consent(case: Case) -> str:
    kind = case.advice.ends_running
    if kind is None:
        return "the attempt runs, and the advice was made for one that has ended"
    if case.consent is not None and kind not in case.consent:
        return f"the site does not consent to ending a running attempt for {kind.value}"
    return ""


def _at_work(case: Case) -> str:
    who = case.job.somebody_at_work
    return f"somebody is at work in it: {who}" if who else ""


def _other_start(case: Case) -> str:
    expected = case.expected
    if expected is None or expected.started_at == case.job.started_at:
        return ""
    return f"it started at {case.job.started_at}, not at {expected.started_at}"


def _held(case: Case) -> str:
    return held(case.job)


def _not_parked(case: Case) -> str:
    return "" if parked_by_us(case.job, case.parked) else "it waits, and we did not park it"


def _no_cancel(case: Case) -> str:
    return "" if case.advice.cancels_running else "the site does not let a stop cancel a running job"


CONDITIONS: Mapping[str, Callable[[Case], str]] = {
    "somebody decided": _decided,
    "step rows unread": _steps_unread,
    "attempt before untold": _untold,
    "only watched": _only_watched,
    "no requeue allowed": _no_requeue,
    "made for a running attempt": _made_for_running,
    "no consent": _no_consent,
    "another start": _other_start,
    "somebody at work": _at_work,
    "held": _held,
    "not parked by us": _not_parked,
    "no right to cancel": _no_cancel,
}
"""What may speak against a row, by name; each gives a reason, or nothing."""

TABLE: tuple[Row, ...] = (
    Row(
        wants=Wants.RESTART,
        count=Count.SAME,
        states=(JobState.FAILED, JobState.NODE_FAIL, JobState.OUT_OF_MEMORY, JobState.BOOT_FAIL),
        course=Course.TRANSACTION,
        unless=(
            "made for a running attempt",
            "somebody decided",
            "step rows unread",
            "no requeue allowed",
            "only watched",
        ),
    ),
    Row(
        wants=Wants.RESTART,
        count=Count.SAME,
        states=(JobState.RUNNING,),
        course=Course.TRANSACTION,
        unless=(
            "no consent",
            "another start",
            "somebody decided",
            "step rows unread",
            "somebody at work",
            "no requeue allowed",
            "only watched",
        ),
    ),
    Row(
        wants=Wants.RESTART,
        count=Count.SAME,
        states=(JobState.PENDING,),
        course=Course.CONSTRAIN,
        unless=("held", "not parked by us"),
    ),
    Row(
        wants=Wants.RESTART,
        count=Count.ONE_HIGHER,
        states=(JobState.PENDING,),
        course=Course.CONSTRAIN,
        unless=("held", "somebody decided", "attempt before untold", "only watched"),
    ),
    Row(
        wants=Wants.FOLLOW,
        count=Count.SAME,
        states=(JobState.PENDING,),
        course=Course.CONSTRAIN,
        unless=("held", "only watched"),
    ),
    Row(
        wants=Wants.STOP,
        count=Count.SAME,
        states=(JobState.RUNNING,),
        course=Course.CANCEL,
        unless=(
            "no right to cancel",
            "another start",
            "somebody decided",
            "step rows unread",
            "somebody at work",
            "only watched",
        ),
    ),
)
"""Design 10. A state that is in no row for what is wanted and the count that was read: nothing is done."""

_LEFT: Mapping[JobState, str] = {
    JobState.PENDING: "it waits already",
    JobState.CONFIGURING: "it is starting",
    JobState.RUNNING: "it runs",
    JobState.COMPLETING: "it is ending",
    JobState.SUSPENDED: "somebody suspended it",
    JobState.COMPLETED: "it is done",
    JobState.FAILED: "the next attempt has failed as well",
    JobState.CANCELLED: "somebody cancelled it",
    JobState.TIMEOUT: "its time is over",
    JobState.DEADLINE: "its deadline has passed",
    JobState.NODE_FAIL: "the next attempt has failed as well",
    JobState.OUT_OF_MEMORY: "the next attempt has failed as well",
    JobState.BOOT_FAIL: "the next attempt has failed as well",
    JobState.PREEMPTED: "the scheduler decided",
    JobState.REQUEUED: "this is a row of accounting, not a job",
    JobState.UNKNOWN: "its state cannot be read",
}
