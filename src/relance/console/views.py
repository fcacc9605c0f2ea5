"""Pages and their fragments. A page includes the very templates that its fragments are made of."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from relance.console import pages
from relance.console.doors import parts_of, person
from relance.console.rendering import render
from relance.serving.identities import Identity, Right


async def overview(request: Request) -> Response:
    """The first page."""
    return await _overview(request, "overview.html")


async def overview_part(request: Request) -> Response:
    """The live part of the first page."""
    return await _overview(request, "parts/overview.html")


async def incident(request: Request) -> Response:
    """The page of one incident."""
    return await _incident(request, "incident.html")


async def incident_summary(request: Request) -> Response:
    """What an incident is and where it stands."""
    return await _incident(request, "parts/incident_summary.html")


async def incident_decision(request: Request) -> Response:
    """What is advised, what holds it back, and the forms to decide."""
    return await _incident(request, "parts/incident_decision.html")


async def incident_story(request: Request) -> Response:
    """Everything that happened, in order."""
    return await _incident(request, "parts/incident_story.html")


async def job(request: Request) -> Response:
    """The page of one job."""
    return await _job(request, "job.html")


async def job_part(request: Request) -> Response:
    """The live part of a job's page."""
    return await _job(request, "parts/job.html")


async def incidents(request: Request) -> Response:
    """All incidents, newest first."""
    who = await person(request)
    items = await parts_of(request).queries().incidents(limit=500)
    past = [pages.PastIncident(item=item, durations=pages.durations(item)) for item in items]
    return render("incidents.html", frame=await frame_of(request, who), past=past)


async def storm(request: Request) -> Response:
    """A shared incident and the jobs that share it."""
    who = await person(request)
    row = await parts_of(request).queries().storm(request.path_params["storm"])
    return render("storm.html", frame=await frame_of(request, who), storm=row)


async def jobs(request: Request) -> Response:
    """All jobs, most recently changed first."""
    who = await person(request)
    return render(
        "jobs.html", frame=await frame_of(request, who), jobs=await parts_of(request).queries().jobs(limit=1000)
    )


async def _overview(request: Request, template: str) -> Response:
    who, parts = await person(request), parts_of(request)
    page = await pages.overview(parts.queries(), parts.clock.now(), may_decide=who.may(Right.DECIDE))
    return render(template, frame=await frame_of(request, who), page=page)


async def _incident(request: Request, template: str) -> Response:
    who = await person(request)
    story = await parts_of(request).queries().incident_story(request.path_params["incident"])
    page = pages.incident_page(story, may_decide=who.may(Right.DECIDE))
    return render(template, frame=await frame_of(request, who), page=page, story=story)


async def _job(request: Request, template: str) -> Response:
    who = await person(request)
    story = await parts_of(request).queries().job_story(request.path_params["job"])
    return render(template, frame=await frame_of(request, who), story=story)


async def frame_of(request: Request, who: Identity) -> pages.Frame:
    """What stands around a page."""
    parts = parts_of(request)
    mark = parts.identities().form_mark(who)
    return pages.frame(who, mark, parts.clock.now(), await parts.history.head())
