"""What is remembered of jobs beyond their records: first submission, earlier attempts, steps, from accounting.

Accounting has a row for each attempt that started (or was cancelled while it waited). A requeue gives the job a new
submit time, which is that of the next attempt's row; releases before 25.11 do not number the rows, so they are counted
back from the current attempt. Pure but for the memory itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from relance.controllers.slurm.rows import Told, job_view, past_attempt, step_views, submitted_at
from relance.controllers.slurm.states import accounted_state, job_state
from relance.domain.keys import AttemptKey, JobKey, same_job
from relance.domain.views import JobState, PastAttempt, StepView, Wish
from relance.slurm.records import AccountedJob, SlurmJob

_AGAIN_S = (0.0, 0.3, 0.5, 0.5, 1.0, 1.0, 2.0, 5.0, 15.0, 60.0)
"""After how long accounting is asked again that did not have an end yet, by how often it was asked."""
_FRESH_TRIES = 4
_STEPS_LAG_TRIES = 8
"""So often (10 s and more) a step that runs on in accounting is taken for one whose end has not been told yet."""
_FIRST_WAIT_S = 20.0
"""For so long a job is not told of whose first attempt accounting answers without: slurmdbd may be behind."""
FIRST_NOT_KNOWN = (
    "when it was first submitted is not known: accounting lacks its first attempt, so what was decided about the job "
    "before may be missed; it is served again once sacct shows that attempt"
)
"""Why a job is only watched whose key rests on a submission that may not be its first."""
_LIVING_MISSING_S = 10.0
_LIVING_AGAIN_S = 20.0
_GONE_FOR_S = 600.0
"""How long the end of a job that left the list is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is remembered of one job.

    `steps` are those of the attempt `restart_count`; None: not read. `asked_s` and `tries` say when accounting was
    asked last (monotonic) and how often without an answer that settles the matter. `is_first_sure` False: the first
    submission stands for the oldest one that is known. `lacking_since_s`: since when accounting answers without it.
    """

    restart_count: int
    submitted_at: datetime
    first_submitted_at: datetime | None
    is_first_sure: bool = False
    lacking_since_s: float | None = None
    past: tuple[PastAttempt, ...] = ()
    ends: dict[int, PastAttempt] = field(default_factory=dict)
    steps: tuple[StepView, ...] | None = None
    cancelled_by: int | None = None
    is_settled: bool = False
    state: JobState = JobState.UNKNOWN
    asked_s: float = float("-inf")
    tries: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether every earlier attempt is accounted for, with an end."""
        return len(self.past) >= self.restart_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """Rows of accounting put beside a job: its current attempt's, and the earlier ones by restart count."""

    current: AccountedJob | None
    earlier: dict[int, AccountedJob]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A job that left the list without having been seen to end: what was known of it, and since when it is gone."""

    known: Known
    since_s: float


class Attempts:
    """The memory of one cluster's jobs, by raw id."""

    def __init__(self, cluster: str, *, living_again_s: float = 60.0) -> None:
        """Begin with nothing known; steps of a running job that somebody asks about are read anew after so long.

        More seldom than a dead rank is proven they are not: what is done then rests on whether a step still lives.
        """
        self.has_accounting = True
        self._living_again_s = min(living_again_s, _LIVING_AGAIN_S)
        self.past_of_gone: dict[str, tuple[PastAttempt, float]] = {}
        self._cluster = cluster
        self._known: dict[str, Known] = {}
        self._missed: dict[str, Missed] = {}
        self._wanted: dict[str, float] = {}

    def meet(self, job: SlurmJob) -> Known:
        """Take in a job's record; what is remembered of the same raw id is kept only if it is the same job.

        Raises ValueError when the record cannot be placed.
        """
        raw_id, count, at = str(job.job_id), job.restart_count or 0, submitted_at(job)
        state = job_state(job.states)
        known = self._known.get(raw_id)
        if known is not None and not self._is_same(raw_id, known, count, at):
            known = None
        if known is None:
            first = at if count == 0 else None
            known = Known(restart_count=count, submitted_at=at, first_submitted_at=first, is_first_sure=count == 0)
            if not self.has_accounting:
                # There is nobody to ask when it was first submitted.
                known = replace(known, first_submitted_at=at)
        elif known.restart_count != count:
            known = replace(
                known, restart_count=count, submitted_at=at, steps=None, cancelled_by=None, is_settled=False,
                asked_s=float("-inf"), tries=0,
            )  # fmt: skip
        if known.state is not state:
            known = replace(known, state=state, is_settled=False, asked_s=float("-inf"), tries=0)
            if state.is_over:
                # What accounting told while it ran does not tell who ended it.
                known = replace(known, steps=None, cancelled_by=None)
            if state.is_over and known.first_submitted_at is not None:
                known = replace(known, ends={**known.ends, count: _end_of(job, known.first_submitted_at)})
        self._known[raw_id] = known
        return known

    def want_steps(self, raw_id: str, now_s: float) -> None:
        """Somebody asks about a running job: its steps are read for the next while."""
        self._wanted[raw_id] = now_s + _GONE_FOR_S

    def owed(self, now_s: float) -> list[str]:
        """Raw ids about which accounting has to be asked now."""
        if not self.has_accounting:
            return []
        return [raw_id for raw_id, known in self._known.items() if self._is_owed(raw_id, known, now_s)]

    def is_fresh_debt(self, raw_id: str, *, only_failures: bool = False) -> bool:
        """Whether accounting, asked a few times at most, has not told yet how the job's attempts ended.

        `only_failures`: of an end that no restart may mend nobody needs to know in a hurry.
        """
        known = self._known.get(raw_id)
        if known is None or self._is_done(known) or known.tries >= _FRESH_TRIES:
            return False
        return not only_failures or known.state.is_failure or not known.is_whole

    def next_s(self, now_s: float) -> float:
        """In how many seconds accounting is worth asking again about something that it owed; infinite: not soon."""
        waits = [
            known.asked_s + _pause_s(known.tries) - now_s
            for known in self._known.values()
            if known.tries and known.state.is_failure and not self._is_done(known)
        ]  # fmt: skip
        return max(0.0, min(waits, default=float("inf")))

    def learn(self, job: SlurmJob, rows: Iterable[AccountedJob] | None, now_s: float) -> Known:
        """Take in what accounting said about a job that was met; None: nothing that could be read."""
        raw_id = str(job.job_id)
        known = self._known[raw_id]
        matched = match(job, rows or ())
        if rows is not None:
            known = _with_first(known, matched, now_s)
        first = known.first_submitted_at
        if rows is None or first is None:
            self._known[raw_id] = replace(known, asked_s=now_s, tries=known.tries + 1)
            return self._known[raw_id]
        # What was told under a submission that turned out not to be the first is told anew.
        past = {attempt.restart_count: replace(attempt, first_submitted_at=first) for attempt in known.past} | {
            count: _best(past_attempt(row, count, first), known.ends.get(count))
            for count, row in matched.earlier.items()
            if row.ended_at is not None
        }
        found = replace(
            known,
            past=tuple(past[count] for count in sorted(past)),
            asked_s=now_s,
            tries=known.tries + 1,
        )
        row = matched.current
        if row is not None and (not known.state.is_over or _is_settled(row, known.tries)):
            found = replace(found, steps=step_views(row.steps), cancelled_by=row.cancelled_by)
            found = replace(found, is_settled=known.state.is_over)
        if self._is_done(found):
            found = replace(found, tries=0)
        self._known[raw_id] = found
        return found

    def known(self, raw_id: str) -> Known | None:
        """What is remembered of a job."""
        return self._known.get(raw_id)

    def missed(self, listed: Iterable[str], now_s: float) -> list[str]:
        """Raw ids that left the list without having been seen to end, and whose end is worth asking for now.

        All that left is forgotten otherwise; these are kept until they are buried, or their end is no news any more.
        """
        there = set(listed)
        gone = {raw_id: known for raw_id, known in self._known.items() if raw_id not in there}
        for raw_id, known in gone.items():
            del self._known[raw_id]
            self._wanted.pop(raw_id, None)
            if not known.state.is_over and known.first_submitted_at is not None:
                fresh = replace(known, asked_s=float("-inf"), tries=0)
                self._missed[raw_id] = Missed(known=fresh, since_s=now_s)
        self._missed = {
            raw_id: each for raw_id, each in self._missed.items()
            if now_s - each.since_s < _GONE_FOR_S and not (raw_id in there and self._is_back(raw_id, each.known))
        }  # fmt: skip
        return [
            raw_id for raw_id, each in self._missed.items()
            if now_s - each.known.asked_s >= _pause_s(each.known.tries)
        ]  # fmt: skip

    def bury(self, raw_id: str, rows: Iterable[AccountedJob], now_s: float) -> None:
        """Take in how a job ended that is not listed any more; without a row of its end it is asked for again."""
        missed = self._missed.pop(raw_id, None)
        if missed is None:
            return
        known, first = missed.known, missed.known.first_submitted_at
        own = [row for row in rows if str(row.job_id) == raw_id and _is_at(row, known.submitted_at)]
        if first is not None and own and own[-1].ended_at is not None:
            ended = past_attempt(own[-1], known.restart_count, first)
            self.past_of_gone[raw_id] = (ended, now_s)
        else:
            again = replace(known, asked_s=now_s, tries=known.tries + 1)
            self._missed[raw_id] = replace(missed, known=again)

    def past(self, now_s: float) -> tuple[PastAttempt, ...]:
        """All earlier attempts of the jobs that are listed, and the ends of those that left the list lately."""
        self.past_of_gone = {
            raw_id: item for raw_id, item in self.past_of_gone.items() if now_s - item[1] < _GONE_FOR_S
        }
        listed = [attempt for known in self._known.values() for attempt in known.past]
        return (*listed, *(attempt for attempt, _ in self.past_of_gone.values()))

    def _is_back(self, raw_id: str, known: Known) -> bool:
        """Whether a job that was missed is listed again: its records had been left out of one answer."""
        listed = self._known.get(raw_id)
        return listed is not None and listed.first_submitted_at == known.first_submitted_at

    def _is_same(self, raw_id: str, known: Known, count: int, at: datetime) -> bool:
        first = known.first_submitted_at or known.submitted_at
        job = JobKey(cluster=self._cluster, raw_id=raw_id, submitted_at=first)
        return same_job(AttemptKey(job=job, restart_count=known.restart_count), known.submitted_at, count, at)

    def _is_owed(self, raw_id: str, known: Known, now_s: float) -> bool:
        if not self._is_done(known):
            return now_s - known.asked_s >= _pause_s(known.tries)
        wanted_until_s = self._wanted.get(raw_id, float("-inf"))
        if known.state is not JobState.RUNNING or now_s > wanted_until_s:
            return False
        return now_s - known.asked_s >= (self._living_again_s if known.steps is not None else _LIVING_MISSING_S)

    def _is_done(self, known: Known) -> bool:
        """Whether accounting has told all that it has to tell of a job in this state."""
        if not self.has_accounting:
            return True
        return known.is_first_sure and known.is_whole and (known.is_settled or not known.state.is_over)


def match(job: SlurmJob, rows: Iterable[AccountedJob]) -> Matched:
    """Put rows of accounting beside the attempts of a job.

    Rows of a job that had the same id before are left out: they are of another user, or lie before the first attempt.
    """
    at, count = submitted_at(job), job.restart_count or 0
    own = sorted(
        (row for row in rows if row.job_id == job.job_id and row.submitted_at is not None and _of_same_user(row, job)),
        key=lambda row: (row.submitted_at or 0, row.started_at or 0),
    )
    current = next((row for row in reversed(own) if _is_at(row, at)), None)
    before = [row for row in own if not _is_at(row, at) and (row.submitted_at or 0) < at.timestamp()]
    numbered = _numbered(before, count)
    if numbered is not None:
        return Matched(current=current, earlier=numbered)
    # A job that was resized has several rows of one submit time: the last one tells its end.
    single = list({row.submitted_at: row for row in before}.values())
    newest = single[-count:] if count else []
    return Matched(current=current, earlier=dict(enumerate(newest, start=count - len(newest))))


def _numbered(before: Sequence[AccountedJob], count: int) -> dict[int, AccountedJob] | None:
    """Rows by their own number, from the newest back for as long as the numbers fall: older ones are another job's.

    None: they are not numbered, or so that two attempts have one number, which is not to be relied on.
    """
    if not before or any(row.restart_count is None for row in before):
        return None
    found: dict[int, AccountedJob] = {}
    least = count
    for row in reversed(before):
        number = row.restart_count
        if number is None or number > least or (number == least and number not in found):
            break
        # A job that was resized has several rows of one submit time: the last one tells its end.
        if found.setdefault(number, row).submitted_at != row.submitted_at:
            return None
        least = number
    return found


def _with_first(known: Known, matched: Matched, now_s: float) -> Known:
    """When the job was first submitted, as far as accounting tells.

    Where it lacks that attempt, the oldest submission known stands in after a while. That gives the job another key,
    under which nothing decided on it is found: so nothing is done with it until the first attempt shows.
    """
    if known.is_first_sure:
        return known
    if (row := matched.earlier.get(0)) is not None and row.submitted_at is not None:
        first = _moment(row.submitted_at, known.submitted_at)
        return replace(known, first_submitted_at=first, is_first_sure=True, lacking_since_s=None)
    if known.first_submitted_at is not None:
        return known
    since_s = now_s if known.lacking_since_s is None else known.lacking_since_s
    if now_s - since_s < _FIRST_WAIT_S:
        return replace(known, lacking_since_s=since_s)
    rows = [row for _, row in sorted(matched.earlier.items())]
    seconds = next((row.submitted_at for row in rows if row.submitted_at is not None), None)
    oldest = known.submitted_at if seconds is None else _moment(seconds, known.submitted_at)
    return replace(known, first_submitted_at=oldest, lacking_since_s=since_s)


def _moment(seconds: int, like: datetime) -> datetime:
    return datetime.fromtimestamp(seconds, like.tzinfo)


def _is_at(row: AccountedJob, at: datetime) -> bool:
    return row.submitted_at is not None and abs(row.submitted_at - at.timestamp()) < 1.0


def _of_same_user(row: AccountedJob, job: SlurmJob) -> bool:
    if row.uid is not None:
        return row.uid == job.uid
    return row.user is None or job.user is None or row.user == job.user


def _is_settled(row: AccountedJob, tries: int) -> bool:
    """Whether accounting has the attempt's end, and that of its steps."""
    if row.ended_at is None or not accounted_state(row.state).is_over:
        return False
    running = any(not accounted_state(step.state).is_over for step in row.steps)
    return not running or tries >= _STEPS_LAG_TRIES


def _end_of(job: SlurmJob, first: datetime) -> PastAttempt:
    view = job_view(job, Told(first_submitted_at=first, wish=Wish()))
    return PastAttempt(
        raw_id=view.raw_id,
        first_submitted_at=first,
        restart_count=view.restart_count,
        state=view.state,
        nodes=view.nodes,
        started_at=view.started_at,
        ended_at=view.ended_at,
        exit_code=view.exit_code,
        exit_signal=view.exit_signal,
    )


def _best(row: PastAttempt, seen: PastAttempt | None) -> PastAttempt:
    """22.05 overwrites the state and end of a failed attempt by those of its requeue; what we saw ourselves stays."""
    if seen is None or row.state is not JobState.REQUEUED:
        return row
    return replace(
        row, state=seen.state, ended_at=seen.ended_at, exit_code=seen.exit_code, exit_signal=seen.exit_signal
    )


def _pause_s(tries: int) -> float:
    return _AGAIN_S[min(tries, len(_AGAIN_S) - 1)]
