"""What the owner of a job is told by mail: five lines in the words of `relance why`, and when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, tzinfo

from relance.domain import events as e
from relance.domain.advice import NEEDS_A_PERSON, ActionEnd, Advice, Answer
from relance.domain.findings import Certainty, FindingKind
from relance.domain.keys import stable_id
from relance.domain.records import AttemptRecord, JobRecord, Record
from relance.domain.requests import RequestVerb
from relance.domain.streams import Recorded
from relance.ports.notifiers import Notice, NoticeKind
from relance.recovery import wordings
from relance.recovery.answers import quoted
from relance.recovery.notices import choice_of, notices_for
from relance.recovery.owning import own_part
from relance.recovery.queries import Queries
from relance.recovery.sites import Site
from relance.recovery.stories import JobStory

Telling = Callable[[Recorded, Record], Awaitable[tuple[Notice, ...]]]
"""What an event asks to tell, given its stream's record."""

_WITH_THEIR_TEXT = frozenset({
    NoticeKind.PARKED, NoticeKind.SETTINGS, NoticeKind.OTHER_ENGINE, NoticeKind.DID_NOT_RESUME, NoticeKind.SLOW,
    NoticeKind.DIVERGED, NoticeKind.ASKED,
})  # fmt: skip
"""What is told with what the notice itself says: the verdict, which a letter tells else, may not be there yet."""
_DONE_TO_A_JOB = {
    RequestVerb.CANCEL: "cancelled",
    RequestVerb.HOLD: "held",
    RequestVerb.RELEASE: "released",
}
"""What a person had done to the job, as its owner is told."""
_GOES_ON = {
    FindingKind.SLOWDOWN: (NoticeKind.SLOW, "has become slower"),
    FindingKind.DIVERGENCE: (NoticeKind.DIVERGED, "diverges"),
}
"""What is told once of an attempt, and goes on."""
_RESTARTED_EVERY = timedelta(hours=1)
_JOBS_REMEMBERED = 10_000


class OwnerLetters:
    """Makes the letters to owners. What is told of restarts is at most one an hour and job."""

    def __init__(self, queries: Queries, site: Site, kinds: frozenset[NoticeKind]) -> None:
        """Tell of these kinds."""
        self._queries = queries
        self._site = site
        self._kinds = kinds
        self._restarted: dict[str, datetime] = {}

    async def __call__(self, recorded: Recorded, record: Record) -> tuple[Notice, ...]:
        """The letters that an event asks for. Raises what the queries raise."""
        if not isinstance(record, JobRecord) or not record.user:
            return ()
        wanted = [
            notice
            for notice in (*notices_for(recorded, record), *_for_owners(recorded, record))
            if notice.kind in self._kinds and not self._is_too_soon(notice)
        ]
        if not wanted:
            return ()
        story = own_part(await self._queries.job_story(str(record.job)))
        return tuple(_with_letter(notice, story, self._site.zone) for notice in wanted)

    def _is_too_soon(self, notice: Notice) -> bool:
        if notice.kind is not NoticeKind.RESTARTED or notice.job is None:
            return False
        last = self._restarted.pop(notice.job, None)
        too_soon = last is not None and notice.at - last < _RESTARTED_EVERY
        self._restarted[notice.job] = last if last is not None and too_soon else notice.at
        if len(self._restarted) > _JOBS_REMEMBERED:
            del self._restarted[next(iter(self._restarted))]
        return too_soon


def letter(story: JobStory, first: str, zone: tzinfo | None, now: datetime) -> str:
    """The text of a mail: what happened, whose fault, the line that shows it, what next, how to stop or disagree."""
    job = story.job.job.raw_id
    happened = f"{first}. {story.happened}" if story.happened else f"{first}."
    lines = (
        story.alarm,
        f"What happened: {happened}{_ended(story.attempts, zone, now)}",
        f"Whose fault: {story.answers.fault}",
        f"Seen in: {quoted(story.quote)}" if story.quote is not None else "Seen in: no line of a log shows it",
        f"What next: {story.answers.next}",
        f'Not wanted: relance off {job} · not right: relance wrong {job} "WHY" · all of it: relance why {job}',
    )
    return "".join(f"{wordings.one_line(line)}\n" for line in lines if line)


def _with_letter(notice: Notice, story: JobStory, zone: tzinfo | None) -> Notice:
    first = notice.title[:1].upper() + notice.title[1:]
    if notice.kind in _WITH_THEIR_TEXT:
        first = f"{first}: {notice.text}"
    return Notice(
        id=notice.id,
        kind=notice.kind,
        cluster=notice.cluster,
        title=notice.title,
        text=letter(story, first, zone, notice.at),
        at=notice.at,
        job=notice.job,
        incident_id=notice.incident_id,
        owner=notice.owner,
    )


def _for_owners(recorded: Recorded, record: JobRecord) -> tuple[Notice, ...]:
    """The notices that go to the owner alone."""
    event, name = recorded.event, f"job {record.job.raw_id} {record.name}".strip()
    match event:
        case e.ActionSucceeded():
            incident = record.incident(event.incident_id)
            if (
                incident is None
                or not incident.is_parked
                or (incident.action is not None and incident.action.after_park)
            ):
                return ()
            until = incident.advice.park_until if incident.advice is not None else None
            by_itself = f"by itself at {wordings.moment(until, recorded.recorded_at)}" if until else "by itself later"
            choice = "".join(f"; {guard.reason}" for guard in choice_of(incident.advice)) if incident.advice else ""
            said = f"{_why_parked(incident.advice)}it waits in the queue and starts {by_itself} at the latest{choice}"
            return (_notice(NoticeKind.PARKED, event.incident_id, f"{name} is parked", said, recorded, record),)
        case e.AttemptRestarted() if event.by_us:
            return (_notice(NoticeKind.RESTARTED, str(event.attempt), f"{name} runs again", "", recorded, record),)
        case e.FindingReported() if (
            event.finding.kind is FindingKind.HANG and event.finding.certainty is Certainty.CONFIRMED
        ):
            about = str(event.finding.attempt)
            said = event.finding.summary
            return (_notice(NoticeKind.HANG, about, f"{name} makes no progress", said, recorded, record),)
        case e.FindingReported() if event.finding.kind in _GOES_ON and not event.finding.over:
            kind, what = _GOES_ON[event.finding.kind]
            about, said = str(event.finding.attempt), f"{event.finding.summary}; nothing is done about it"
            return (_notice(kind, about, f"{name} {what}", said, recorded, record),)
        case e.RequestEnded() if event.end is ActionEnd.SUCCEEDED and event.verb in _DONE_TO_A_JOB:
            why = next((item.request.reason for item in record.requests if item.request.id == event.request_id), "")
            title, said = f"{name} was {_DONE_TO_A_JOB[event.verb]}", f"{event.by} asked for it: {why}"
            return (_notice(NoticeKind.ASKED, event.request_id, title, said, recorded, record),)
        case e.JobSeen() | e.WishChanged() if event.wish.notes:
            said = "; ".join(event.wish.notes)
            title = f"the settings of {name} were changed or ignored"
            return (_notice(NoticeKind.SETTINGS, f"{event.job}/{said}", title, said, recorded, record),)
        case _:
            return ()


def _why_parked(advice: Advice | None) -> str:
    """What keeps a parked job from starting, and until when, where that is known."""
    held = [guard for guard in advice.guards if guard.answer is Answer.NO] if advice is not None else []
    first = next((guard for guard in held if NEEDS_A_PERSON not in guard.reason), None)
    return f"{wordings.opening(first)}; " if first is not None else ""


def _notice(kind: NoticeKind, about: str, title: str, text: str, recorded: Recorded, record: JobRecord) -> Notice:
    return Notice(
        id=stable_id("ntc", kind.value, about),
        kind=kind,
        cluster=record.job.cluster,
        title=title,
        text=text,
        at=recorded.recorded_at,
        job=str(record.job),
        owner=record.user,
    )


def _ended(attempts: tuple[AttemptRecord, ...], zone: tzinfo | None, now: datetime) -> str:
    """When the newest attempt that is over ended, and at which step."""
    over = [item for item in attempts if item.ended_at is not None]
    if not over:
        return ""
    last = over[-1]
    step = f" at step {wordings.steps(last.highest_step)}" if last.highest_step is not None else ""
    at = wordings.moment_at_site(last.ended_at, now, zone)
    return f" (attempt {last.attempt.restart_count + 1} ended {at}{step})"
