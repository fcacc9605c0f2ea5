"""What people may read."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import JSONResponse, Response

from relance.api.access import Asking, Parts, Reader, ReaderOrOwner
from relance.api.answering import answer
from relance.api.owned import meant
from relance.api.schemas import WhoIsAsking
from relance.recovery.banners import Banner
from relance.recovery.figures import Figures
from relance.recovery.job_checks import JobCheck
from relance.recovery.owning import own_part
from relance.recovery.proving.values import Proofs
from relance.recovery.queries import MOST_ROWS
from relance.recovery.rows import AdviceRow, HistoryRow, IncidentItem, JobRow, JobStage, NodeRow, StageRow, StormRow
from relance.recovery.stories import IncidentStory, JobStory
from relance.serving.feeds import Feeds
from relance.serving.owners import Owner
from relance.serving.problems import Problem, ProblemError

router = APIRouter(tags=["reading"])

Limit = Annotated[int, Query(ge=1, le=MOST_ROWS)]
Cluster = Annotated[str | None, Query(max_length=80)]
_OUT_OF_RANGE = Problem(
    status=HTTPStatus.UNPROCESSABLE_ENTITY, code="bad_input", message="query.since: not a time that UTC can express"
)
_BYTES = "application/octet-stream"
MOST_RESTARTS = 2**31
MOST_POSITION = 2**63 - 1
"""What the database can count to."""
Position = Annotated[int | None, Query(ge=0, le=MOST_POSITION)]


@router.get("/me", response_model=WhoIsAsking)
async def me(who: Reader) -> WhoIsAsking:
    """Whose token this is, and its role."""
    return WhoIsAsking(name=who.name, role=who.role)


@router.get("/jobs", response_model=list[JobRow])
async def jobs(
    _: Reader, ask: Asking, cluster: Cluster = None, user: Cluster = None, limit: Limit = 200
) -> JSONResponse:
    """Jobs, most recently changed first."""
    return answer(await ask.jobs(cluster, user, limit))


@router.get("/jobs/{job:path}/story", response_model=JobStory)
async def job_story(who: ReaderOrOwner, parts: Parts, ask: Asking, job: str) -> JSONResponse:
    """The story of one job (key, id or name), with the five answers. An owner's holds the job's own log lines only."""
    story = await ask.job_story(await meant(who, parts, job))
    if isinstance(who, Owner):
        story = own_part(story)
    return answer(story)


@router.get("/jobs/{job:path}/check", response_model=JobCheck)
async def job_check(who: ReaderOrOwner, parts: Parts, ask: Asking, job: str) -> JSONResponse:
    """What Relance sees of one job: settings, logs, stage, and what it would do."""
    return answer(await ask.job_check(await meant(who, parts, job)))


@router.get("/jobs/{job:path}/banner", response_model=Banner)
async def banner(
    who: ReaderOrOwner,
    parts: Parts,
    ask: Asking,
    job: str,
    restart_count: Annotated[int, Query(ge=1, le=MOST_RESTARTS)],
    cluster: Cluster = None,
) -> JSONResponse:
    """What a restarted attempt is told about the one before it, a line each; none where nothing went wrong."""
    return answer(await ask.banner(await meant(who, parts, job, cluster), restart_count))


@router.get("/jobs/{job:path}/kept/{digest}", response_class=Response, responses={200: {"content": {_BYTES: {}}}})
async def kept_log(
    who: ReaderOrOwner, parts: Parts, ask: Asking, job: str, digest: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
) -> Response:
    """The end of one of a job's logs, as it was kept before a restart could empty it; for an owner the own logs."""
    data = await ask.kept_log(await meant(who, parts, job), digest, of_owner=isinstance(who, Owner))
    headers = {"Content-Disposition": f'attachment; filename="{digest[:16]}.txt"'}
    return Response(data, media_type=_BYTES, headers=headers)


@router.get("/jobs/{job:path}/stage", response_model=JobStage)
async def job_stage(who: ReaderOrOwner, parts: Parts, ask: Asking, job: str) -> JSONResponse:
    """The effective stage of one job and why."""
    return answer(await ask.job_stage(await meant(who, parts, job)))


@router.get("/jobs/{job:path}/history", response_model=list[HistoryRow])
async def job_history(_: Reader, ask: Asking, job: str) -> JSONResponse:
    """All events of one job, in order."""
    return answer(await ask.job_history(job))


@router.get("/incidents", response_model=list[IncidentItem])
async def incidents(
    _: Reader,
    ask: Asking,
    open_only: Annotated[bool, Query()] = False,  # noqa: FBT002 - a query parameter
    cluster: Cluster = None,
    since: datetime | None = None,
    limit: Limit = 200,
) -> JSONResponse:
    """Incidents, newest first."""
    return answer(await ask.incidents(open_only=open_only, cluster=cluster, since=_with_zone(since), limit=limit))


@router.get("/incidents/{incident}", response_model=IncidentStory)
async def incident_story(_: Reader, ask: Asking, incident: str) -> JSONResponse:
    """The story of one incident: its id, a unique beginning of it, or an advice or action of it."""
    return answer(await ask.incident_story(incident))


@router.get("/attachments/{digest}", response_class=Response, responses={200: {"content": {_BYTES: {}}}})
async def attachment(_: Reader, ask: Asking, digest: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]) -> Response:
    """What was kept beside an incident, such as the end of a log or collected stacks: the bytes, to be saved."""
    headers = {"Content-Disposition": f'attachment; filename="{digest[:16]}.txt"'}
    return Response(await ask.attachment(digest), media_type=_BYTES, headers=headers)


@router.get("/advice", response_model=list[AdviceRow])
async def advice(_: Reader, ask: Asking, cluster: Cluster = None) -> JSONResponse:
    """The advice in force."""
    return answer(await ask.advice(cluster))


@router.get("/nodes", response_model=list[NodeRow])
async def nodes(_: Reader, ask: Asking, cluster: Cluster = None) -> JSONResponse:
    """Nodes with their state, exclusions and suspicions."""
    return answer(await ask.nodes(cluster))


@router.get("/history", response_model=list[HistoryRow])
async def history(_: Reader, ask: Asking, after: Position = None, limit: Limit = 100) -> JSONResponse:
    """Events in commit order: those beyond a position, or the newest."""
    return answer(await ask.history(after, limit))


@router.get("/stages", response_model=list[StageRow])
async def stages(_: Reader, ask: Asking, cluster: Cluster = None) -> JSONResponse:
    """What the stages of each cluster are set to, and what caps them."""
    return answer(await ask.stages(cluster))


@router.get("/storms", response_model=list[StormRow])
async def storms(
    _: Reader,
    ask: Asking,
    cluster: Cluster = None,
    open_only: Annotated[bool, Query()] = False,  # noqa: FBT002 - a query parameter
) -> JSONResponse:
    """Incidents that many jobs share, with those of their jobs, newest first."""
    return answer(await ask.storms(cluster, open_only=open_only))


@router.get("/storms/{storm}", response_model=StormRow)
async def one_storm(_: Reader, ask: Asking, storm: str) -> JSONResponse:
    """One incident that many jobs share: its id, or a unique beginning of it."""
    return answer(await ask.storm(storm))


@router.get("/figures", response_model=Figures)
async def figures(_: Reader, ask: Asking, since: datetime | None = None, cluster: Cluster = None) -> JSONResponse:
    """Times to detect, act and recover, and counts."""
    return answer(await ask.figures(_with_zone(since), cluster))


@router.get("/report", response_model=Proofs)
async def report(
    _: Reader, ask: Asking, since: datetime, cluster: Cluster = None, partition: Cluster = None
) -> JSONResponse:
    """What observing proved since then, without labelling."""
    return answer(await ask.proofs(_with_zone(since) or since, cluster, partition))


@router.get("/events", response_class=Response, responses={200: {"content": {"text/event-stream": {}}}})
async def events(
    request: Request,
    _: Reader,
    after: Position = None,
    last_event_id: Annotated[int | None, Header(ge=0, le=MOST_POSITION)] = None,
) -> Response:
    """Server-sent events: one `recorded` message per event of the history, its id the position.

    `Last-Event-ID` (or `after`) resumes without loss.
    """
    feeds: Feeds = request.app.state.feeds
    return await feeds.stream(last_event_id if last_event_id is not None else after)


def _with_zone(at: datetime | None) -> datetime | None:
    """The time in UTC; one without a zone is taken as that. Raises ProblemError for one that UTC cannot express."""
    if at is None or at.tzinfo is None:
        return at.replace(tzinfo=UTC) if at is not None else None
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ProblemError(_OUT_OF_RANGE) from None
