"""What the watchdog wants to do, from values alone: the ledger, the queue, and what it did before. Pure.

Two things, and no third (design 11): release what the controller held and has not gone on with; requeue an attempt that
was taken, on which nothing was decided, and that Slurm is about to forget. Every other answer is a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain.advice import ActionEnd, ActionKind
from relance.domain.deeds import UNDER_WAY_S, DeedState, WatchdogDeed
from relance.domain.keys import AttemptKey
from relance.domain.ledgers import ActionRecord, Did, Intended, LedgerState, Outcome, Verb
from relance.domain.stages import Stage
from relance.domain.twins import twins
from relance.domain.views import Hold, JobState, JobView
from relance.watchdog.settings import Rules

SKEW = timedelta(seconds=60)
"""Clocks of the controller's machine and of slurmctld's may differ by so much."""
_SAME_S = 1.0
_HELD_TRIES = 3
"""So often a release is tried, each after a look that shows that nothing came of the one before."""
_CALLED_OFF = 5
"""So often a deed may be called off by its last look before an attempt is left for good."""
_TERM = 15
"""An exit code of 143 says nothing: srun gives it where one rank crashed and it ended the others (seen on 22.05)."""
_OURS = (Verb.REQUEUE, Verb.REQUEUE_HELD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """All that a decision rests on. `jobs` are those that the scheduler shows, by raw id.

    `alive_at` is the controller's newest sign of life, `min_job_age_s` how long Slurm remembers an ended job; None: not
    known.
    """

    now: datetime
    cluster: str
    rules: Rules
    ledger: LedgerState
    alive_at: datetime | None
    jobs: Mapping[str, JobView]
    deeds: tuple[WatchdogDeed, ...] = ()
    min_job_age_s: float | None = None

    @property
    def controller_lives(self) -> bool:
        """Whether the controller gave a sign of life lately."""
        return self.alive_at is not None and _age_s(self.alive_at, self.now) < self.rules.controller_silent_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """A deed that everything speaks for, as far as ledger and queue tell. `job` is as the scheduler showed it."""

    attempt: AttemptKey
    verb: Verb
    job: JobView
    restart_count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """An attempt that would be lost or stay held, and why it is left so all the same: somebody should know."""

    attempt: AttemptKey
    verb: Verb
    reason: str
    is_limit: bool = False
    """Whether one of the watchdog's own limits is the reason."""


def decide(ground: Ground) -> tuple[Want | Left, ...]:
    """What is wanted now, releases first; nothing of what has to wait."""
    return (*_releases(ground), *_requeues(ground))


def next_number(deeds: tuple[WatchdogDeed, ...], attempt: AttemptKey, verb: Verb) -> int:
    """The number of the next deed of that kind on that attempt, from 1."""
    return 1 + max((deed.number for deed in deeds if (deed.attempt, deed.verb) == (attempt, verb)), default=0)


# ------------------------------------------------------------------------------------------------------------- release


def _releases(ground: Ground) -> Iterator[Want | Left]:
    for record in ground.ledger.actions.values():
        attempt = record.began.advice.attempt
        job = ground.jobs.get(attempt.job.raw_id)
        if attempt.job.cluster != ground.cluster or job is None or not _is_our_hold(record, job):
            continue
        found = _release(ground, record, attempt, job)
        if found is not None:
            yield found


def _is_our_hold(record: ActionRecord, job: JobView) -> bool:
    """Whether the scheduler shows an attempt that we made and hold: by the command here, or by whoever began it."""
    intended = record.last(Verb.REQUEUE_HELD)
    if intended is not None:
        return _is_held_by(record, *intended, job)
    if not record.began.held or _is_released(record, 0):
        return False
    seen = record.began.expected  # as the job was when this controller took the action over, held
    is_same = (job.restart_count, job.submitted_at) == (seen.restart_count, seen.submitted_at)
    return is_same and job.state is JobState.PENDING and job.hold is Hold.USER


def _is_held_by(record: ActionRecord, intent: Intended, answer: Did | None, job: JobView) -> bool:
    """Whether the scheduler shows the attempt that this command of ours made, still held as it left it."""
    is_refused = answer is not None and answer.outcome is Outcome.REFUSED
    if is_refused or job.restart_count != intent.restart_count or job.state is not JobState.PENDING:
        return False
    if job.hold is not Hold.USER:
        return False  # an operator's hold, or Slurm's own, is not ours; nor is none
    if _is_released(record, intent.number):
        return False  # somebody has held it since
    if answer is not None and answer.outcome is Outcome.DONE:
        return True
    # Nobody noted what became of it: then the requeue must be of its time.
    latest = intent.at + timedelta(seconds=UNDER_WAY_S)
    return intent.at - SKEW <= job.submitted_at <= latest + SKEW


def _is_released(record: ActionRecord, after: int) -> bool:
    """Whether a release by the controller after its entry of that number is known to have been done."""
    release = record.last(Verb.RELEASE)
    if release is None or release[0].number <= after:
        return False
    return release[1] is not None and release[1].outcome is Outcome.DONE


def _release(ground: Ground, record: ActionRecord, attempt: AttemptKey, job: JobView) -> Want | Left | None:
    rules = ground.rules
    waited_s = _age_s(_newest(record), ground.now)
    if waited_s < rules.release_after_s or not _is_served(rules, job):
        return None
    before = [
        deed
        for deed in ground.deeds
        if (deed.attempt, deed.verb, deed.restart_count) == (attempt, Verb.RELEASE, job.restart_count)
    ]
    if any(deed.state is DeedState.DONE or not deed.state.is_final for deed in before):
        return None
    if against := _against_release(ground, record, job):
        return Left(attempt=attempt, verb=Verb.RELEASE, reason=against)
    failed = [deed for deed in before if deed.state in (DeedState.REFUSED, DeedState.LOST)]
    if len(failed) >= _HELD_TRIES:
        return Left(attempt=attempt, verb=Verb.RELEASE, reason=f"{len(failed)} releases came to nothing")
    if _is_said(ground, before) or len(before) >= _HELD_TRIES + _CALLED_OFF:
        return None
    return Want(
        attempt=attempt,
        verb=Verb.RELEASE,
        job=job,
        restart_count=job.restart_count,
        reason=f"the controller held it and has not gone on with it for {waited_s:.0f} s",
    )


def _against_release(ground: Ground, record: ActionRecord, job: JobView) -> str:
    """Why a job that we hold stays held until a person has looked; empty when nothing speaks against its release."""
    if not record.is_open:
        return "its action has ended and left it held: ask a person"
    if record.last(Verb.CANCEL) is not None:
        return "the controller was about to cancel it, as a copy of it goes on: ask a person"
    copies = twins(job, ground.jobs.values(), record.began.expected.started_at)
    certain = next((copy for copy in copies if copy.is_certain), None)
    return f"it would run twice: {certain.reason}" if certain is not None else ""


# ------------------------------------------------------------------------------------------------------------- requeue


def _requeues(ground: Ground) -> Iterator[Want | Left]:
    wanted = 0
    alike, done = _Alike(ground.jobs.values()), _by_attempt(ground.deeds)
    for text in sorted(ground.ledger.left_to_the_watchdog):
        try:
            attempt = AttemptKey.parse(text)
        except ValueError:
            continue
        job = ground.jobs.get(attempt.job.raw_id)
        taken_at = ground.ledger.taken[text]
        if job is None or not _is_meant(ground, attempt, job, taken_at) or not _is_due(ground, job):
            continue
        if not _is_served(ground.rules, job) or _is_carried_out(ground, attempt):
            continue
        before = done.get(str(attempt), [])
        if _is_settled(ground, before):
            continue
        against = _against(ground, attempt, job)
        limit = "" if against else _limit(ground, attempt, wanted)
        if not (against or limit):
            against = _twice(job, alike.to(job))  # last: it takes the longest
        if against or limit:
            reason = against or limit
            yield Left(attempt=attempt, verb=Verb.REQUEUE, reason=reason, is_limit=bool(limit))
            continue
        wanted += 1
        yield Want(
            attempt=attempt,
            verb=Verb.REQUEUE,
            job=job,
            restart_count=attempt.restart_count + 1,
            reason=f"it is {job.state.value}, was taken, nothing was decided, and Slurm is about to forget it",
        )


def _is_meant(ground: Ground, attempt: AttemptKey, job: JobView, taken_at: datetime) -> bool:
    """Whether the scheduler shows that very attempt, failed; a reused id is another job."""
    if attempt.job.cluster != ground.cluster or job.restart_count != attempt.restart_count:
        return False
    if job.state not in (JobState.FAILED, JobState.NODE_FAIL) or job.ended_at is None:
        return False
    first = attempt.job.submitted_at
    if attempt.restart_count == 0:
        return abs((job.submitted_at - first).total_seconds()) < _SAME_S
    return first < job.submitted_at <= taken_at + SKEW


def _is_due(ground: Ground, job: JobView) -> bool:
    """Whether Slurm forgets the job soon. Where it never forgets, or nobody knows when, nothing is."""
    age_s = ground.min_job_age_s
    if not age_s or job.ended_at is None:
        return False
    wait_s = age_s - min(ground.rules.margin_s, age_s / 2)
    return _age_s(job.ended_at, ground.now) >= wait_s


def _is_carried_out(ground: Ground, attempt: AttemptKey) -> bool:
    """Whether an action of the controller is under way, or was carried out, on that attempt."""
    for record in ground.ledger.actions.values():
        if record.began.advice.attempt != attempt:
            continue
        ended = record.ended
        if ended is not None and ended.end is ActionEnd.SUCCEEDED:
            return True  # such as one that let a successor go on in its place
        if ground.controller_lives or record.began.kind not in (ActionKind.RESTART, ActionKind.PARK):
            return True
        newest = max((intent.at for intent in record.intents), default=None)
        if newest is not None and _age_s(newest, ground.now) < UNDER_WAY_S:
            return True  # what a dead process sent may still reach the scheduler
    return False


def _is_settled(ground: Ground, before: list[WatchdogDeed]) -> bool:
    """Whether the one deed on this attempt was done, tried, or said."""
    if any(deed.state not in (DeedState.WOULD, DeedState.NOT_SENT) for deed in before):
        return True
    called_off = sum(deed.state is DeedState.NOT_SENT for deed in before)
    return _is_said(ground, before) or called_off >= _CALLED_OFF


def _against(ground: Ground, attempt: AttemptKey, job: JobView) -> str:
    """Why a failed attempt that is about to be forgotten is left so; empty when nothing speaks against its restart."""
    if job.requeue_allowed is False:
        return "it was submitted with --no-requeue: Slurm refuses to requeue it"
    if job.preempted_at is not None:
        return "it was preempted: the scheduler decided"
    if job.exit_signal == _TERM:
        return "its batch script was ended by TERM, as by a person"
    if any(record.last(Verb.CANCEL) is not None for record in _actions_on(ground, attempt)):
        return "the controller was about to end it for good"
    if any(_requeue_refused(record) for record in _actions_on(ground, attempt)):
        return "Slurm refused to requeue it when the controller asked"
    return ""


def _twice(job: JobView, alike: Iterable[JobView]) -> str:
    """Why it would run twice; empty when it would not."""
    found = next((twin for other in alike for twin in twins(job, (other,), job.started_at, job.ended_at)), None)
    return f"it would run twice: {found.reason}" if found is not None else ""


class _Alike:
    """The jobs among which the twins of one are: thousands may have failed at once, and each asks for its own."""

    def __init__(self, jobs: Iterable[JobView]) -> None:
        self._named: dict[tuple[str, str], list[JobView]] = {}
        self._dependent: dict[str, list[JobView]] = {}
        for job in jobs:
            self._named.setdefault((job.user, job.name), []).append(job)
            if job.dependency:
                self._dependent.setdefault(job.user, []).append(job)

    def to(self, job: JobView) -> Iterator[JobView]:
        """Those of its owner that have its name, the newest first, or that depend on some job."""
        yield from reversed(self._named.get((job.user, job.name), ()))
        yield from (other for other in self._dependent.get(job.user, ()) if other.name != job.name)


def _by_attempt(deeds: Iterable[WatchdogDeed]) -> dict[str, list[WatchdogDeed]]:
    """The requeues that were done or said, by their attempts' keys as text."""
    found: dict[str, list[WatchdogDeed]] = {}
    for deed in deeds:
        if deed.verb is Verb.REQUEUE:
            found.setdefault(str(deed.attempt), []).append(deed)
    return found


def _limit(ground: Ground, attempt: AttemptKey, wanted: int) -> str:
    rules = ground.rules
    done = [deed for deed in ground.deeds if deed.verb is Verb.REQUEUE and _counts(deed)]
    of_job = sum(deed.attempt.job == attempt.job for deed in done)
    if of_job >= rules.per_job:
        return f"the watchdog has requeued this job {of_job} times, its limit"
    in_hour = wanted + sum(_age_s(deed.at, ground.now) < timedelta(hours=1).total_seconds() for deed in done)
    if in_hour >= rules.per_hour:
        return f"the watchdog has requeued {in_hour} jobs within an hour, its limit"
    return ""


def _counts(deed: WatchdogDeed) -> bool:
    return deed.state.may_have_acted or deed.state in (DeedState.LOST, DeedState.REFUSED)


def _actions_on(ground: Ground, attempt: AttemptKey) -> Iterator[ActionRecord]:
    return (record for record in ground.ledger.actions.values() if record.began.advice.attempt == attempt)


def _requeue_refused(record: ActionRecord) -> bool:
    return any(
        isinstance(item, Did) and item.verb in _OURS and item.outcome is Outcome.REFUSED for item in record.story
    )


# ---------------------------------------------------------------------------------------------------------------- both


def _is_said(ground: Ground, before: list[WatchdogDeed]) -> bool:
    """Whether, at a stage that only says what it would do, that was said."""
    return ground.rules.stage is not Stage.ACT and any(deed.state is DeedState.WOULD for deed in before)


def _is_served(rules: Rules, job: JobView) -> bool:
    """Whether the allowlist has every partition in which the job may run."""
    return not rules.partitions or set(job.partition.split(",")) <= set(rules.partitions)


def _newest(record: ActionRecord) -> datetime:
    return max(entry.at for entry in (record.began, *record.intents, *record.story))


def _age_s(at: datetime, now: datetime) -> float:
    return (now - at).total_seconds()
